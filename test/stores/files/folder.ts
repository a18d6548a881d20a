import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Store } from "../../../src/store.ts";
import { type FilesOptions, openFiles } from "../../../src/stores/files/index.ts";
import { quickFolder } from "../../quick-folder.ts";

/** A place on the disk with every store that was opened through it; all of it goes at the end. */
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

  /** In memory where that can be had: for tests of what is read, not of what lasts. */
  static async makeQuick(): Promise<TestFolder> {
    return new TestFolder(await mkdtemp(join(quickFolder(), "holdfast-files-")));
  }

  /** The store's folder, or something in it. */
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
