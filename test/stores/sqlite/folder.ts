import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Store } from "../../../src/store.ts";
import { openSqlite, type SqliteOptions } from "../../../src/stores/sqlite/index.ts";

/** A folder on the disk, and every store opened through it. `dispose` closes and deletes all of it. */
export class TestFolder {
  readonly path: string;
  readonly #opened: Store[] = [];

  private constructor(path: string) {
    this.path = path;
  }

  static async make(): Promise<TestFolder> {
    return new TestFolder(await mkdtemp(join(tmpdir(), "holdfast-sqlite-")));
  }

  file(name = "store.db"): string {
    return join(this.path, name);
  }

  async open(options: Partial<SqliteOptions> = {}): Promise<Store> {
    const store = await openSqlite({ path: this.file(), ...options });
    this.#opened.push(store);
    return store;
  }

  async dispose(): Promise<void> {
    await Promise.all(this.#opened.map((store) => store.close()));
    await rm(this.path, { recursive: true, force: true });
  }
}
