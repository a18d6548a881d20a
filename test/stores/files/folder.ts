import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Store } from "../../../src/store.ts";
import { type FilesOptions, openFiles } from "../../../src/stores/files/index.ts";
import { quickFolder } from "../../quick-folder.ts";

/** A folder on the disk, and every store opened through it. `dispose` closes and deletes all of it. */
export class TestFolder {
  readonly path: string;
  readonly #opened: Store[] = [];
  #copies = 0;

  private constructor(path: string) {
    this.path = path;
  }

  static async make(): Promise<TestFolder> {
    return new TestFolder(await mkdtemp(join(tmpdir(), "holdfast-files-")));
  }

  /** In memory if possible: for tests of reading, not of durability. */
  static async makeQuick(): Promise<TestFolder> {
    return new TestFolder(await mkdtemp(join(quickFolder(), "holdfast-files-")));
  }

  /** The store's folder, or a path in it. */
  file(...names: string[]): string {
    return join(this.path, "store", ...names);
  }

  get journal(): string {
    return this.file("journal.jsonl");
  }

  lines(): string[] {
    return readFileSync(this.journal, "utf8").split("\n").slice(0, -1);
  }

  async open(options: Partial<FilesOptions> = {}): Promise<Store> {
    const store = await openFiles({ path: this.file(), ...options });
    this.#opened.push(store);
    return store;
  }

  /** A copy of the store whose journal is `bytes`; without the mark unless `hasMark`. */
  copy(bytes: Buffer, hasMark = false): string {
    const path = join(this.path, `copy-${++this.#copies}`);
    cpSync(this.file(), path, {
      recursive: true,
      filter: (source) => hasMark || !source.endsWith("live.jsonl"),
    });
    writeFileSync(join(path, "journal.jsonl"), bytes);
    return path;
  }

  async dispose(): Promise<void> {
    await Promise.all(this.#opened.map((store) => store.close()));
    await rm(this.path, { recursive: true, force: true });
  }
}
