// A folder does not grow forever: compaction deletes dead bytes and nothing else.

import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { sha256 } from "../../../src/model/digest.ts";
import type { Store } from "../../../src/store.ts";
import { append, headSeq, holder, NAMESPACE, write } from "../sqlite/acts.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.makeQuick();
});

afterEach(() => folder.dispose());

function remove(store: Store, stream: string, seq: number, erase?: true) {
  const expected = { generation: 1, seq };
  return store.remove({
    of: "stream",
    namespace: NAMESPACE,
    stream,
    expect: expected,
    ...(erase && { erase }),
  });
}

function journalNumber(): number {
  return (JSON.parse(folder.lines()[0] as string) as { act: { journal: number } }).act.journal;
}

const BYTES = new TextEncoder().encode("an artifact");

/** A store with a few records of every kind that compaction has to keep. */
async function furnish(store: Store): Promise<void> {
  const hash = sha256(BYTES);
  await store.put({ of: "artifact", namespace: NAMESPACE, hash, bytes: BYTES, at: 1 });
  const lease = { name: "session/a", holder: holder("one"), ttlMs: 60_000 };
  await store.lease({ act: "take", namespace: NAMESPACE, ...lease });
  const items = [{ kind: "call", id: "c", seq: 1, at: 5, doneAt: 6 }];
  const facets = { status: "open", title: "Títle", goal: null };
  const claims = [{ key: "k", event: 0 }];
  await append(store, write("session/a", 0, ["one"], { items, facets, claims, artifacts: [hash] }));
  const fork = { stream: "session/a", generation: 1, seq: 1 };
  await append(store, write("session/fork", 1, ["two"], { fork }));
  await append(store, write("session/parent", 0, ["hidden"]));
  const other = { stream: "session/parent", generation: 1, seq: 1 };
  await append(store, write("session/child", 1, ["x"], { fork: other }));
  await remove(store, "session/parent", 1);
  await append(store, write("session/text", 0, [1], { payload: "no JSON\n\ud800", sum: 0, codec: "own" }));
  await append(store, write("session/bytes", 0, [1], { payload: new Uint8Array([0, 255, 10]), sum: 0 }));
  await append(store, write("session/gone", 0, [1], { claims: [{ key: "kept", event: 0 }] }));
  await remove(store, "session/gone", 1);
}

const KINDS = ["a", "fork", "parent", "child", "text", "bytes", "gone"].map((id) => `session/${id}`);

async function inventory(store: Store): Promise<unknown> {
  const pages = KINDS.map((stream) => store.read({ namespace: NAMESPACE, stream, after: 0 }));
  const { rows: leases } = await store.list({ of: "leases", namespace: NAMESPACE, limit: 99 });
  return {
    pages: await Promise.all(pages),
    streams: await store.list({ of: "streams", namespace: NAMESPACE, hidden: true, limit: 99 }),
    items: await store.list({ of: "items", namespace: NAMESPACE, kind: "call", limit: 99 }),
    leases: leases.map(({ name, token }) => [name, token]),
    keys: await store.list({ of: "keys", namespace: NAMESPACE, keys: ["k", "kept"] }),
    artifact: await store.get({ of: "artifact", namespace: NAMESPACE, hash: sha256(BYTES) }),
  };
}

test("removed streams leave the disk, everything else stays, and open handles follow", async () => {
  const store = await folder.open({ wasteBytes: 20_000 });
  await furnish(store);
  const other = await folder.open();
  const before = await inventory(store);
  const { size } = statSync(folder.journal);
  for (let round = 0; round < 20; round++) {
    await append(store, write(`session/brief-${round}`, 0, ["x".repeat(5_000)]));
    await remove(store, `session/brief-${round}`, 1);
    expect(statSync(folder.journal).size).toBeLessThan(size + 60_000);
  }
  expect(journalNumber()).toBeGreaterThan(1);
  expect(await inventory(store)).toEqual(before);
  expect(await inventory(other)).toEqual(before);
  expect(await append(other, write("session/a", 1, [2]))).toMatchObject({ outcome: "ok" });
  expect(await headSeq(store, "session/a")).toBe(2);
  const problems = await store.check();
  // Two writes were given a wrong checksum.
  expect(problems.map(({ where }) => where).sort()).toEqual([
    "default session/bytes",
    "default session/text",
  ]);
  expect(readdirSync(folder.file()).filter((name) => name.endsWith(".new"))).toEqual([]);
  const again = await folder.open();
  expect(await headSeq(again, "session/a")).toBe(2);
});

test("without a compaction, a handle that follows and one that opens later have everything, too", async () => {
  const store = await folder.open();
  const other = await folder.open();
  await furnish(store);
  const before = await inventory(store);
  expect(await inventory(other)).toEqual(before);
  await store.close();
  const again = await folder.open();
  expect(await inventory(again)).toEqual(before);
  expect(journalNumber()).toBe(1);
});

test("an artifact that was collected cannot be referred to, by no handle and after no restart", async () => {
  const store = await folder.open();
  const other = await folder.open();
  const [kept, collected] = ["kept", "collected"].map((text) => new TextEncoder().encode(text)) as [
    Uint8Array,
    Uint8Array,
  ];
  for (const [index, bytes] of [kept, collected].entries())
    await store.put({ of: "artifact", namespace: NAMESPACE, hash: sha256(bytes), bytes, at: index });
  await append(store, write("session/a", 0, [1], { artifacts: [sha256(kept)] }));
  const request = { of: "artifacts", namespace: NAMESPACE, putBefore: 10 } as const;
  expect(await store.remove(request)).toEqual({ outcome: "removed", count: 1 });
  const again = await folder.open();
  for (const [index, handle] of [store, other, again].entries()) {
    const refers = (bytes: Uint8Array) => write(`session/${index}`, 0, [1], { artifacts: [sha256(bytes)] });
    expect(await append(handle, refers(collected))).toEqual({
      outcome: "missing",
      artifact: sha256(collected),
    });
    expect(await append(handle, refers(kept))).toMatchObject({ outcome: "ok" });
  }
});

test("a removed stream leaves no snapshot file", async () => {
  const store = await folder.open();
  for (const stream of ["session/a", "session/b"]) {
    await append(store, write(stream, 0, [1]));
    const snapshot = { stream, generation: 1, seq: 1, fold: "f", codec: null };
    await store.put({ of: "snapshot", namespace: NAMESPACE, ...snapshot, payload: `"STATE of ${stream}"` });
  }
  await remove(store, "session/a", 1);
  const files = readdirSync(folder.file(), { recursive: true, encoding: "utf8" });
  const texts = files
    .filter((name) => name !== "lock.db" && statSync(folder.file(name)).isFile())
    .map((name) => readFileSync(folder.file(name), "latin1"))
    .join("\n");
  expect(texts).toContain("STATE of session/b");
  expect(texts).not.toContain("STATE of session/a");
});

test("a removed stream's next life gets the next generation, also after a compaction", async () => {
  const store = await folder.open({ wasteBytes: 100 });
  await append(store, write("session/a", 0, ["x".repeat(1_000)]));
  await remove(store, "session/a", 1);
  await append(store, write("session/b", 0, [1]));
  expect(journalNumber()).toBeGreaterThan(1);
  const again = await folder.open();
  expect(await append(again, write("session/a", 0, [1]))).toMatchObject({ outcome: "conflict" });
  const next = write("session/a", 0, [1], { expect: { generation: 2, seq: 0 } });
  expect(await append(again, next)).toMatchObject({ outcome: "ok" });
});

test("erasing leaves nothing of the stream in any file", async () => {
  const store = await folder.open();
  await append(store, write("session/secret", 0, ["TOP-SECRET-WORDS"]));
  await append(store, write("session/a", 0, [1]));
  const snapshot = { stream: "session/secret", generation: 1, seq: 1, fold: "f", codec: null };
  await store.put({ of: "snapshot", namespace: NAMESPACE, ...snapshot, payload: '"TOP-SECRET-WORDS"' });
  expect(await remove(store, "session/secret", 1, true)).toMatchObject({ outcome: "removed", count: 1 });
  const files = readdirSync(folder.file(), { recursive: true }) as string[];
  for (const file of files.filter((name) => statSync(folder.file(name)).isFile())) {
    if (file !== "lock.db") expect(readFileSync(folder.file(file), "latin1")).not.toContain("TOP-SECRET");
  }
  expect(await headSeq(store, "session/a")).toBe(1);
  expect(await store.check()).toEqual([]);
});

test("damage stops a compaction instead of getting a new checksum", async () => {
  const store = await folder.open({ wasteBytes: 1_000 });
  await append(store, write("session/a", 0, ["precious"]));
  await append(store, write("session/brief", 0, ["x".repeat(5_000)]));
  const damaged = readFileSync(folder.journal, "latin1").replace("precious", "prexious");
  writeFileSync(folder.journal, damaged, "latin1");
  await expect(remove(store, "session/brief", 1)).rejects.toMatchObject({ code: "STORE_CORRUPT" });
  expect(journalNumber()).toBe(1);
  expect(readFileSync(folder.journal, "latin1")).toContain("prexious");
  await expect(folder.open()).rejects.toMatchObject({ code: "STORE_CORRUPT", data: { line: 2 } });
});

test("files that a crash left without a line are deleted", async () => {
  const store = await folder.open({ wasteBytes: 100 });
  await furnish(store);
  const [home = ""] = readdirSync(folder.file("artifacts"));
  const stray = folder.file("artifacts", home, "f".repeat(64));
  writeFileSync(stray, "stray");
  await append(store, write("session/brief", 0, ["x".repeat(50_000)]));
  await remove(store, "session/brief", 1);
  expect(readdirSync(folder.file("artifacts", home))).toEqual([sha256(BYTES)]);
});

test("a big journal is opened in a reasonable time", async () => {
  const store = await folder.open();
  const payload = JSON.stringify([{ type: "note", data: "x".repeat(4_000) }]);
  for (let round = 0; round < 50; round++) {
    const batches = Array.from({ length: 100 }, (_, index) =>
      write(`session/s${index}`, round, [1], { payload }),
    );
    await Promise.all(batches.map((each) => append(store, each)));
  }
  await store.close();
  const { size } = statSync(folder.journal);
  const openMs: number[] = [];
  const readMs: number[] = [];
  // One pause of the machine does not count.
  for (let round = 0; round < 3; round++) {
    const begun = performance.now();
    for (const line of folder.lines()) JSON.parse(line);
    const between = performance.now();
    const again = await folder.open();
    openMs.push(performance.now() - between);
    readMs.push(between - begun);
    expect(await headSeq(again, "session/s99")).toBe(50);
    await again.close();
  }
  const [opened, read] = [Math.min(...openMs), Math.min(...readMs)];
  const times = `opened in ${opened.toFixed(0)} ms, lines parsed in ${read.toFixed(0)} ms`;
  console.info(`${(size / 2 ** 20).toFixed(0)} MB, 5,000 writes: ${times}`);
  // A multiple of the time that this machine takes to read the file, rounded up generously.
  expect(opened).toBeLessThan(25 * read);
});
