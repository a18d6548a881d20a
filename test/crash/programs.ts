/** Runs the programs that are killed. */

import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { programFile } from "../program.ts";

export type ProgramName = "writer" | "workload" | "counter" | "holder";

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly errors: string;
}

/** A process whose lines can be awaited. */
export class Program {
  readonly ended: Promise<Ended>;
  readonly lines: string[] = [];
  readonly #child: ChildProcess;
  readonly #waiting = new Set<() => void>();
  #errors = "";
  #isOver = false;

  constructor(command: string, args: readonly string[]) {
    this.#child = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"] });
    // The reader may have been killed; callers that wait for its answer see that it ended.
    this.#child.stdin?.on("error", () => undefined);
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#errors += text;
    });
    let rest = "";
    this.#child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      const parts = (rest + text).split("\n");
      rest = parts.pop() ?? "";
      this.lines.push(...parts);
      this.#wake();
    });
    this.ended = new Promise((resolve, reject) => {
      this.#child.on("error", reject);
      this.#child.on("close", (code, signal) => {
        this.#isOver = true;
        resolve({ code, signal, errors: this.#errors });
        this.#wake();
      });
    });
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  /** The first line that begins with `prefix`. */
  async line(prefix: string): Promise<string> {
    for (;;) {
      const found = this.lines.find((line) => line.startsWith(prefix));
      if (found !== undefined) return found;
      if (this.#isOver) throw new Error(`it ended without saying ${prefix}: ${this.#errors}`);
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  say(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  /** Closes its stdin. */
  leave(): void {
    this.#child.stdin?.end();
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.#isOver) this.#child.kill(signal);
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

/** A killed process writes no compile cache, so one process ends normally before the others start. */
export async function warmUp(
  workshop: { start(name: "writer", ...args: string[]): Program },
  path: string,
): Promise<void> {
  const writer = workshop.start("writer", path, `${path}-acknowledgements`, "none");
  await writer.line("ready");
  writer.leave();
  await writer.ended;
}

/** A folder for the files of the tests, and the processes they started; all of it is removed at the end. */
export class Workshop {
  readonly folder: string;
  readonly #started = new Set<Program>();
  #count = 0;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async make(home = tmpdir()): Promise<Workshop> {
    const folder = await realpath(await mkdtemp(join(home, "holdfast-crash-")));
    return new Workshop(folder);
  }

  /** A new empty folder. */
  async place(): Promise<string> {
    const place = join(this.folder, `place-${++this.#count}`);
    await mkdir(place);
    return place;
  }

  command(name: ProgramName, ...args: string[]): [string, ...string[]] {
    return [process.execPath, programFile(new URL(`./programs/${name}.ts`, import.meta.url)), ...args];
  }

  start(name: ProgramName, ...args: string[]): Program {
    return this.run(this.command(name, ...args));
  }

  run([command, ...args]: readonly [string, ...string[]]): Program {
    const program = new Program(command, args);
    this.#started.add(program);
    const forget = () => this.#started.delete(program);
    program.ended.then(forget, forget);
    return program;
  }

  async dispose(): Promise<void> {
    const left = [...this.#started];
    for (const program of left) program.signal("SIGKILL");
    await Promise.allSettled(left.map((program) => program.ended));
    await rm(this.folder, { recursive: true, force: true });
  }
}
