/**
 * The programs of the SQLite crash tests, bundled to open a folder of this store instead of an SQLite file.
 * The work, the acknowledgements and the verifier are the same.
 */

import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Program } from "../../crash/programs.ts";
import { programFile } from "../../program.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

const PROGRAMS = {
  writer: "test/crash/programs/writer.ts",
  workload: "test/crash/programs/workload.ts",
  counter: "test/crash/programs/counter.ts",
  "lock-holder": "test/stores/sqlite/programs/lock-holder.ts",
  "io-error": "test/stores/sqlite/programs/io-error.ts",
} as const;

/** A folder for the files and processes of the tests. `dispose` deletes and ends all of it. */
export class FilesWorkshop {
  readonly folder: string;
  readonly #started = new Set<Program>();
  #count = 0;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async make(home = tmpdir()): Promise<FilesWorkshop> {
    const folder = await realpath(await mkdtemp(join(home, "holdfast-files-crash-")));
    return new FilesWorkshop(folder);
  }

  /** A new empty folder. */
  async place(): Promise<string> {
    const place = join(this.folder, `place-${++this.#count}`);
    await mkdir(place);
    return place;
  }

  command(name: keyof typeof PROGRAMS, ...args: string[]): [string, ...string[]] {
    return [process.execPath, programFile(join(ROOT, PROGRAMS[name]), "files"), ...args];
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
