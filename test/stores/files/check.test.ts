// `check` reads every bit of the journal from the disk.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { sha256 } from "../../../src/model/digest.ts";
import type { Store } from "../../../src/store.ts";
import { openFiles } from "../../../src/stores/files/index.ts";
import { append, batchOf, holder, NAMESPACE, write } from "../sqlite/acts.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(() => folder.dispose());

const BYTES = new TextEncoder().encode("an artifact");

/** A store with a few records of every kind. */
async function furnish(store: Store): Promise<void> {
  const name = "session/a";
  await store.put({ of: "artifact", namespace: NAMESPACE, hash: sha256(BYTES), bytes: BYTES, at: 1 });
  await store.lease({ act: "take", namespace: NAMESPACE, name, holder: holder("one"), ttlMs: 60_000 });
  const guards = [{ lease: name, token: 1 }];
  await append(store, write(name, 0, ["text"], { guards, artifacts: [sha256(BYTES)] }));
  await append(store, write(name, 1, ["more"], { claims: [{ key: "k", event: 0 }] }));
  const snapshot = { stream: name, generation: 1, seq: 2, fold: "f", payload: "{}", codec: null };
  await store.put({ of: "snapshot", namespace: NAMESPACE, ...snapshot });
  await append(store, write("session/b", 0, [1]));
}

function flip(path: string, at: number, bit: number): () => void {
  const bytes = readFileSync(path);
  const damaged = Buffer.from(bytes);
  damaged[at] = (damaged[at] as number) ^ (1 << bit);
  writeFileSync(path, damaged);
  return () => writeFileSync(path, bytes);
}

function below(name: string): string {
  const home = folder.file(name);
  const [inner = ""] = readdirSync(home);
  const [file = ""] = readdirSync(join(home, inner));
  return join(home, inner, file);
}

test("an intact store has no problems", async () => {
  const store = await folder.open();
  await furnish(store);
  expect(await store.check()).toEqual([]);
});

test("a flipped bit anywhere in the journal is found by check and stops the next opener", {
  timeout: 120_000,
}, async () => {
  const store = await folder.open();
  await furnish(store);
  const { length } = readFileSync(folder.journal);
  for (let at = 0; at < length; at += 5) {
    const restore = flip(folder.journal, at, at % 8);
    const problems = await store.check().catch((error: Error) => [error.message]);
    expect(problems, `bit ${at % 8} of byte ${at}`).not.toEqual([]);
    await expect(openFiles({ path: folder.file() }), `byte ${at}`).rejects.toMatchObject({
      code: expect.stringMatching(/STORE_(CORRUPT|FOREIGN|TOO_NEW)/),
    });
    restore();
  }
  expect(await (await folder.open()).check()).toEqual([]);
});

test("a changed artifact, a missing one, and a changed snapshot are found", async () => {
  const store = await folder.open();
  await furnish(store);
  const restore = flip(below("artifacts"), 3, 0);
  expect(await store.check()).toMatchObject([
    { invariant: "I2", where: expect.stringContaining("artifact") },
  ]);
  restore();
  const restoreSnapshot = flip(below("snapshots"), 80, 0);
  expect(await store.check()).toMatchObject([
    { invariant: "medium", what: expect.stringContaining("checksum") },
  ]);
  const ask = { of: "snapshot", namespace: NAMESPACE, stream: "session/a", fold: "f", upTo: 9 } as const;
  expect(await store.get(ask)).toBeNull();
  restoreSnapshot();
  expect(await store.get(ask)).toMatchObject({ payload: "{}", seq: 2 });
  expect(await store.check()).toEqual([]);
});

test("a write whose checksum never matched is found", async () => {
  const store = await folder.open();
  await append(store, { ...write("session/a", 0, [1]), sum: 7 });
  expect(await store.check()).toMatchObject([{ invariant: "I2", where: "default session/a" }]);
});

test("the journal is JSON lines: grep finds an event, and any JSON parser reads it", async () => {
  const store = await folder.open();
  await store.append(batchOf(write("session/a", 0, [{ type: "note", data: { text: "zażółć" } }])));
  const [line = ""] = folder.lines().filter((each) => each.includes("zażółć"));
  expect(JSON.parse(line)).toMatchObject({
    n: 2,
    act: { do: "append", namespace: "default", writes: [{ stream: "session/a", count: 1 }] },
    events: [[{ type: "note", data: { text: "zażółć" } }]],
  });
});
