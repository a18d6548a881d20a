/**
 * Programs that are made to die. They are bundled once, because a thousand starts through a TypeScript loader would
 * cost minutes; a bundle starts about as fast as Node itself.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "tsdown";

const SOURCES = [
  new URL("./programs/writer.ts", import.meta.url),
  new URL("./programs/workload.ts", import.meta.url),
  new URL("./programs/counter.ts", import.meta.url),
  new URL("./programs/idler.ts", import.meta.url),
  new URL("./programs/holder.ts", import.meta.url),
].map((url) => fileURLToPath(url));

export type ProgramName = "writer" | "workload" | "counter" | "idler" | "holder";

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
    // A killed reader is what these tests are about; whoever waits for its answer sees that it ended.
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

  signal(signal: NodeJS.Signals): void {
    if (!this.#isOver) this.#child.kill(signal);
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

/** The bundle, a folder for everything the tests leave, and the processes they started; all of it goes at the end. */
export class Workshop {
  readonly folder: string;
  readonly #started = new Set<Program>();
  #count = 0;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async make(): Promise<Workshop> {
    const folder = await realpath(await mkdtemp(join(tmpdir(), "holdfast-crash-")));
    const workshop = new Workshop(folder);
    try {
      await bundle(join(folder, "programs"));
      return workshop;
    } catch (error) {
      await workshop.dispose();
      throw error;
    }
  }

  /** A new empty folder. */
  async place(): Promise<string> {
    const place = join(this.folder, `place-${++this.#count}`);
    await mkdir(place);
    return place;
  }

  command(name: ProgramName, ...args: string[]): [string, ...string[]] {
    return [process.execPath, join(this.folder, "programs", `${name}.mjs`), ...args];
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

const require = createRequire(import.meta.url);

async function bundle(outDir: string): Promise<void> {
  const entry = Object.fromEntries(SOURCES.map((source) => [basename(source, ".ts"), source]));
  await build({
    entry,
    outDir,
    format: "esm",
    platform: "node",
    config: false,
    clean: false,
    dts: false,
    report: false,
    logLevel: "error",
    noExternal: [/^(zod|uuid)/],
    plugins: [
      {
        name: "native modules stay where they are",
        resolveId: {
          order: "pre",
          handler(id) {
            if (id !== "@photostructure/sqlite") return null;
            return { id: pathToFileURL(require.resolve(id)).href, external: true };
          },
        },
      },
    ],
  });
}
