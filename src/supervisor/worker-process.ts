import type { ChildProcess } from "node:child_process";
import type { WorkerCommand } from "./options.ts";
import type { Work } from "./work.ts";

const STDERR = 2;

/** How a process ended: null when it ended well, else what a person should read. */
export interface Ended {
  readonly failure: string | null;
}

/** A started worker: a process group of its own, so that what it has started stops with it. */
export class WorkerProcess {
  readonly pid: number | null;
  readonly ended: Promise<Ended>;
  #isOver = false;

  constructor(work: Work, { command, cwd, env, output = "inherit" }: WorkerCommand) {
    const [program = "", ...args] = command;
    const { spawn } = process.getBuiltinModule("node:child_process");
    let child: ChildProcess;
    try {
      child = spawn(program, args, {
        stdio: output === "stderr" ? ["ignore", STDERR, STDERR] : ["ignore", output, output],
        detached: process.platform !== "win32",
        env: { ...process.env, ...environment(work), ...env },
        ...(cwd !== undefined && { cwd }),
      });
    } catch (error) {
      // No program, or a text that no system takes: Node says that at once, and everything else later.
      this.pid = null;
      this.ended = Promise.resolve({ failure: notStarted(error as Error) });
      return;
    }
    this.pid = child.pid ?? null;
    this.ended = new Promise((resolve) => {
      const end = (failure: string | null): void => {
        this.#isOver = true;
        resolve({ failure });
      };
      child.on("error", (error) => end(notStarted(error)));
      child.on("exit", (code, signal) =>
        end(code === 0 ? null : `it ended with ${signal ?? `exit code ${code}`}`),
      );
    });
  }

  signal(signal: NodeJS.Signals): void {
    if (this.#isOver || this.pid === null) return;
    try {
      process.kill(process.platform === "win32" ? this.pid : -this.pid, signal);
    } catch (error) {
      // It has just ended.
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
}

function notStarted(error: Error): string {
  return `it could not be started: ${error.message}`;
}

function environment(work: Work): Record<string, string> {
  if (work.kind === "session") return { HOLDFAST_SESSION: work.session };
  return { HOLDFAST_GOAL: work.goal, HOLDFAST_TASK: work.task };
}
