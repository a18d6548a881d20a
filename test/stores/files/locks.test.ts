// One process writes at a time. The lock of a dead holder is free at once, that of a stopped one is not.
// Waiting never blocks the event loop.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { Program } from "../../crash/programs.ts";
import { append, headSeq, holder, NAMESPACE, write } from "../sqlite/acts.ts";
import { TurningLoop } from "../sqlite/event-loop-watch.ts";
import { TestFolder } from "./folder.ts";
import { FilesWorkshop } from "./workshop.ts";

const STAND_MS = 150;
const ROUNDS = 10;

let workshop: FilesWorkshop;
let folder: TestFolder;

beforeAll(async () => {
  workshop = await FilesWorkshop.make();
});

afterAll(() => workshop.dispose());

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(() => folder.dispose());

async function holdLock(): Promise<Program> {
  const other = workshop.start("lock-holder", folder.file("lock.db"));
  await other.line("{");
  return other;
}

test("while another process holds the lock, reads are answered; then the append succeeds", async () => {
  const store = await folder.open();
  const ask = { act: "take", namespace: NAMESPACE, name: "session/a", ttlMs: 1_000 } as const;
  await append(store, write("session/a", 0, [1]));
  // SQLite waits a few milliseconds at a time; the rest allows for a busy machine. A wait inside SQLite would
  // show in every attempt, a pause of the machine does not.
  let longestMs = Number.POSITIVE_INFINITY;
  for (let round = 1; round <= ROUNDS && longestMs > STAND_MS; round++) {
    const other = await holdLock();
    const loop = new TurningLoop();
    const waiting = Promise.all([
      append(store, write("session/a", round, [2])),
      store.lease({ ...ask, holder: holder("o") }),
    ]);
    expect(await headSeq(store, "session/a")).toBe(round);
    await loop.turns(200);
    other.say("let go");
    expect(await waiting).toMatchObject([{ outcome: "ok" }, { outcome: "granted" }]);
    longestMs = loop.longestStandMs();
    await other.ended;
  }
  expect(longestMs).toBeLessThan(STAND_MS);
});

test("a stopped holder keeps the lock, which is STORE_BUSY; a dead one frees it", async () => {
  const store = await folder.open({ busyMs: 150 });
  const other = await holdLock();
  other.signal("SIGSTOP");
  await expect(append(store, write("session/a", 0, [1]))).rejects.toMatchObject({
    code: "STORE_BUSY",
    unknown: false,
    retryable: true,
    message: expect.stringContaining(folder.file()),
  });
  expect(await headSeq(store, "session/a")).toBe(0);
  other.signal("SIGKILL");
  await other.ended;
  expect(await append(store, write("session/a", 0, [1]))).toMatchObject({ outcome: "ok" });
});

test("closing waits for appends in flight; later ones are rejected", async () => {
  const store = await folder.open();
  const pending = append(store, write("session/a", 0, [1]));
  const closing = store.close();
  await expect(append(store, write("session/a", 1, [2]))).rejects.toMatchObject({ code: "STORE_CLOSED" });
  expect(await pending).toMatchObject({ outcome: "ok" });
  await closing;
  expect(await headSeq(await folder.open(), "session/a")).toBe(1);
});

test("appends of one turn share one sync and one write; rejected ones leave no line", async () => {
  const store = await folder.open();
  const before = folder.lines().length;
  const outcomes = await Promise.all([
    append(store, write("session/a", 0, [1])),
    append(store, write("session/a", 0, ["late"])),
    append(store, write("session/b", 0, [1])),
    append(store, write("session/a", 1, [2])),
  ]);
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(["ok", "conflict", "ok", "ok"]);
  const added = folder
    .lines()
    .slice(before)
    .map((line) => JSON.parse(line) as { n: number; from: number });
  expect(added.map(({ n, from }) => [n, from])).toEqual([
    [2, 2],
    [3, 2],
    [4, 2],
  ]);
});

test("one handle immediately reads what another wrote", async () => {
  const one = await folder.open();
  const two = await folder.open();
  for (let seq = 0; seq < 20; seq++) {
    const [writer, reader] = seq % 2 === 0 ? [one, two] : [two, one];
    expect(await append(writer, write("session/a", seq, [seq]))).toMatchObject({ outcome: "ok" });
    expect(await headSeq(reader, "session/a")).toBe(seq + 1);
  }
});
