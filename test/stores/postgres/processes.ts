import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { programFile } from "../../program.ts";

/** A program of this folder, and its processes. */
export class Program {
  readonly #file: string;
  readonly #children: ChildProcessByStdio<Writable, Readable, null>[] = [];

  constructor(name: string) {
    this.#file = programFile(new URL(`programs/${name}`, import.meta.url));
  }

  start(...args: string[]): Running {
    const child = spawn(process.execPath, [this.#file, ...args], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#children.push(child);
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    return {
      hear: async () => (await lines.next()).value,
      nudge: () => void child.stdin.write("\n"),
    };
  }

  async dispose(): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill("SIGKILL");
      await once(child, "exit");
    }
  }
}

interface Running {
  /** The next line of its output; undefined after the last. */
  hear(): Promise<string | undefined>;
  /** Lets it continue. */
  nudge(): void;
}
