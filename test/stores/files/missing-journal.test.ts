// A used folder without its journal is not a new store: its contents were acknowledged.

import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { sha256 } from "../../../src/model/digest.ts";
import { append, headSeq, NAMESPACE, write } from "../sqlite/acts.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.makeQuick();
});

afterEach(() => folder.dispose());

async function fill(): Promise<void> {
  const store = await folder.open();
  const bytes = Buffer.from("kept");
  await store.put({ of: "artifact", namespace: NAMESPACE, hash: sha256(bytes), bytes, at: 1 });
  await append(store, write("session/a", 0, ["acknowledged"]));
  const snapshot = { stream: "session/a", generation: 1, seq: 1, fold: "f", payload: "{}", codec: null };
  await store.put({ of: "snapshot", namespace: NAMESPACE, ...snapshot });
  await store.close();
}

function everything(): unknown[] {
  return readdirSync(folder.file(), { recursive: true, encoding: "utf8" }).map((name) => {
    const path = folder.file(name);
    return [name, statSync(path).isFile() && readFileSync(path, "hex")];
  });
}

describe.each(["live.jsonl", "artifacts", "snapshots"])("the journal is gone and %s exists", (kept) => {
  test("is rejected and not changed", async () => {
    await fill();
    for (const name of readdirSync(folder.file())) {
      if (name !== kept && name !== "lock.db" && name !== "open.db")
        rmSync(folder.file(name), { recursive: true });
    }
    const before = everything();
    await expect(folder.open()).rejects.toMatchObject({
      code: "STORE_CORRUPT",
      message: expect.stringContaining(kept),
      hint: expect.stringContaining("backup"),
    });
    expect(everything()).toEqual(before);
  });
});

test("the folder opens with all its writes once its journal is back", async () => {
  await fill();
  const journal = readFileSync(folder.journal);
  rmSync(folder.journal);
  await expect(folder.open()).rejects.toMatchObject({ code: "STORE_CORRUPT" });
  writeFileSync(folder.journal, journal);
  expect(await headSeq(await folder.open(), "session/a")).toBe(1);
});

test("the folder does not become a store of another kind, whatever its name", async () => {
  await fill();
  rmSync(folder.journal);
  for (const address of [folder.file(), `${folder.file()}/`]) {
    await expect(open(address)).rejects.toMatchObject({ code: "STORE_CORRUPT" });
  }
  expect(existsSync(join(folder.file(), "store.db"))).toBe(false);
});

test("a foreign folder with such a name in it is still foreign", async () => {
  await fill();
  rmSync(folder.journal);
  writeFileSync(folder.file("thesis.doc"), "chapter one");
  await expect(folder.open()).rejects.toMatchObject({ code: "STORE_FOREIGN" });
});
