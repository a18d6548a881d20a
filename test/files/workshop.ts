/**
 * The programs that are made to die for SQLite, bundled so that where they open an SQLite file they open a folder of
 * this store: the same work, the same acknowledgements, the same verifier.
 */

import { symlinkSync } from "node:fs";
import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";
import { Program } from "../crash/programs.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

const PROGRAMS = {
  writer: "test/crash/programs/writer.ts",
  workload: "test/crash/programs/workload.ts",
  counter: "test/crash/programs/counter.ts",
  idler: "test/crash/programs/idler.ts",
  "lock-holder": "test/sqlite/programs/lock-holder.ts",
  "io-error": "test/sqlite/programs/io-error.ts",
} as const;

/** Only what the programs themselves import: the store below still needs SQLite for its lock. */
const files: Plugin = {
  name: "files instead of sqlite",
  setup({ onResolve }) {
    onResolve({ filter: /\/stores\/sqlite\/index\.ts$/ }, ({ importer }) => {
      if (!/\/test\/(crash|sqlite)\/programs\//.test(importer)) return null;
      return { path: join(ROOT, "test/files/programs/as-sqlite.ts") };
    });
  },
};

/** The bundles, a folder for everything the tests leave, and the processes they started; all of it goes at the end. */
export class FilesWorkshop {
  readonly folder: string;
  readonly #started = new Set<Program>();
  #count = 0;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async make(home = tmpdir()): Promise<FilesWorkshop> {
    const folder = await realpath(await mkdtemp(join(home, "holdfast-files-crash-")));
    await build({
      entryPoints: Object.fromEntries(
        Object.entries(PROGRAMS).map(([name, file]) => [name, join(ROOT, file)]),
      ),
      outdir: join(folder, "programs"),
      outExtension: { ".js": ".mjs" },
      bundle: true,
      // What is imported when needed stays in files of its own, and is not run at each start.
      splitting: true,
      platform: "node",
      format: "esm",
      target: "node20",
      external: ["@photostructure/sqlite"],
      logLevel: "warning",
      plugins: [files],
    });
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"), "dir");
    return new FilesWorkshop(folder);
  }

  /** A new empty folder. */
  async place(): Promise<string> {
    const place = join(this.folder, `place-${++this.#count}`);
    await mkdir(place);
    return place;
  }

  command(name: keyof typeof PROGRAMS, ...args: string[]): [string, ...string[]] {
    return [process.execPath, join(this.folder, "programs", `${name}.mjs`), ...args];
  }

  start(name: keyof typeof PROGRAMS, ...args: string[]): Program {
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
