import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

/** A program of this folder in one file, so that ten of it start at once in little time. */
export class Program {
  readonly #folder: string;
  readonly #children: ChildProcessByStdio<Writable, Readable, null>[] = [];

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async make(name: string): Promise<Program> {
    const folder = await mkdtemp(join(tmpdir(), "holdfast-program-"));
    await build({
      entryPoints: [fileURLToPath(new URL(`programs/${name}`, import.meta.url))],
      outfile: join(folder, "program.cjs"),
      bundle: true,
      platform: "node",
      format: "cjs",
      external: ["pg-native"],
      logLevel: "error",
    });
    return new Program(folder);
  }

  start(...args: string[]): Running {
    const child = spawn(process.execPath, [join(this.#folder, "program.cjs"), ...args], {
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
    await rm(this.#folder, { recursive: true });
  }
}

interface Running {
  /** The next line that it prints; undefined after its last. */
  hear(): Promise<string | undefined>;
  /** Lets it go on. */
  nudge(): void;
}
