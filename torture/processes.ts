/** Child processes of the torture: started, listened to, and always ended. */

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

const running = new Set<ChildProcess>();

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stderr: string;
  /** True if the process was killed because it did not end in time. */
  readonly hung: boolean;
}

export interface Said {
  readonly at: string;
  readonly [fact: string]: unknown;
}

export interface StartOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly limitMs?: number;
}

const LIMIT_MS = 60_000;

export class Child {
  readonly ended: Promise<Ended>;
  private readonly child: ChildProcess;
  private readonly heard: Said[] = [];
  private readonly listeners = new Set<() => void>();
  private isOver = false;

  constructor(command: string, args: readonly string[], options: StartOptions = {}) {
    const { HOLDFAST_FAILPOINT: _point, HOLDFAST_FAILPOINT_LOG: _log, ...inherited } = process.env;
    const env = { ...inherited, ...options.env };
    // A process group of its own: killing a tracer would otherwise leave its program running.
    const child = spawn(command, args, { env, stdio: ["pipe", "pipe", "pipe"], detached: true });
    this.child = child;
    running.add(child);
    let stderr = "";
    child.stderr.on("data", (chunk: Buffer) => {
      stderr = `${stderr}${chunk}`.slice(-4_000);
    });
    // Writing to an ended process fails; `ended` reports its end.
    child.stdin.on("error", () => undefined);
    createInterface({ input: child.stdout }).on("line", (line) => this.hear(line));
    let hung = false;
    const limit = setTimeout(() => {
      hung = true;
      endGroup(child);
    }, options.limitMs ?? LIMIT_MS);
    this.ended = new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code, signal) => {
        clearTimeout(limit);
        running.delete(child);
        this.isOver = true;
        this.tell();
        resolve({ code, signal, stderr, hung });
      });
    });
    // Callers that wait for an event see the failure there.
    this.ended.catch(() => undefined);
  }

  get pid(): number {
    return this.child.pid as number;
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  send(line: string): void {
    this.child.stdin?.write(`${line}\n`);
  }

  /** Takes the first event that fits. Rejects if the process ends without it. */
  async event(fits: string | ((said: Said) => boolean)): Promise<Said> {
    const isIt = typeof fits === "string" ? (said: Said) => said.at === fits : fits;
    for (;;) {
      const index = this.heard.findIndex(isIt);
      if (index >= 0) return this.heard.splice(index, 1)[0] as Said;
      if (this.isOver) {
        const { code, signal, stderr } = await this.ended;
        throw new Error(`the process ended (${code ?? signal}) before it said ${String(fits)}: ${stderr}`);
      }
      await new Promise<void>((resolve) => {
        this.listeners.add(resolve);
      });
    }
  }

  private hear(line: string): void {
    if (!line.startsWith("{")) this.heard.push({ at: line });
    else this.heard.push(JSON.parse(line) as Said);
    this.tell();
  }

  private tell(): void {
    for (const each of [...this.listeners]) each();
    this.listeners.clear();
  }
}

export function startNode(script: string, args: readonly string[], options: StartOptions = {}): Child {
  return new Child(process.execPath, [script, ...args], options);
}

function endGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** For the end of a run, however it comes. */
export function killAll(): void {
  for (const child of running) endGroup(child);
}

// `exit` handlers end the children and remove the folders.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, () => {
    console.error(`stopped by ${signal}`);
    process.exit(1);
  });
}
