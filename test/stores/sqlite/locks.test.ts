import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { append, headSeq, holder, NAMESPACE, write } from "./acts.ts";
import { TurningLoop } from "./event-loop-watch.ts";
import { TestFolder } from "./folder.ts";
import { Companion } from "./processes.ts";

const STAND_MS = 150;
const ROUNDS = 10;

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(() => folder.dispose());

test("while another process holds the lock the event loop runs; then the append succeeds", async () => {
  const store = await folder.open();
  const ask = { act: "take", namespace: NAMESPACE, name: "session/a", ttlMs: 1_000 } as const;
  // SQLite waits a few milliseconds at a time; the rest allows for a busy machine. A wait inside SQLite would
  // show in every attempt, a pause of the machine does not.
  let longestMs = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS && longestMs > STAND_MS; round++) {
    const other = new Companion("./programs/lock-holder.ts", [folder.file()]);
    await other.hear();
    const loop = new TurningLoop();
    const waiting = Promise.all([
      append(store, write("session/a", round, [1])),
      store.lease({ ...ask, holder: holder("o") }),
    ]);
    await loop.turns(200);
    other.nudge();
    const [appended, beat] = await waiting;
    longestMs = loop.longestStandMs();
    expect(appended).toMatchObject({ outcome: "ok" });
    expect(beat).toMatchObject({ outcome: "granted" });
    await other.ended();
  }
  expect(longestMs).toBeLessThan(STAND_MS);
});

test("a lock that is never released is STORE_BUSY, and nothing is written", async () => {
  const store = await folder.open({ busyMs: 100 });
  const other = new Companion("./programs/lock-holder.ts", [folder.file()]);
  await other.hear();
  await expect(append(store, write("session/a", 0, [1]))).rejects.toMatchObject({
    code: "STORE_BUSY",
    unknown: false,
    retryable: true,
    message: expect.stringContaining(folder.file()),
  });
  expect(await headSeq(store, "session/a")).toBe(0);
  other.nudge();
  await other.ended();
  expect(await append(store, write("session/a", 0, [1]))).toMatchObject({ outcome: "ok" });
});

test.each([{}, { readOnly: true }])(
  "opening (%j) a file that another process holds exclusively waits for its release",
  async (how) => {
    await (await folder.open()).close();
    const other = new Companion("./programs/file-holder.ts", [folder.file()]);
    await other.hear();
    await expect(folder.open({ ...how, busyMs: 50 })).rejects.toMatchObject({ code: "STORE_BUSY" });
    const opening = folder.open(how);
    other.nudge();
    await other.ended();
    expect(await headSeq(await opening, "session/a")).toBe(0);
  },
);

const isLinux = process.platform === "linux";

test.skipIf(!isLinux)(
  "closing one handle does not drop the locks of another in the same process",
  async () => {
    const first = await folder.open();
    await append(first, write("session/a", 0, [1]));
    const { ino } = statSync(folder.file());
    // Our file only: another disk may have a file with the same inode number.
    const locks = () =>
      readFileSync("/proc/locks", "utf8")
        .split("\n")
        .filter((line) => line.includes(` ${process.pid} `) && line.includes(`:${ino} `));
    expect(locks()).toHaveLength(1);
    const second = await folder.open();
    await append(second, write("session/a", 1, [2]));
    await second.close();
    const reader = await folder.open({ readOnly: true });
    await reader.close();
    expect(locks()).toHaveLength(1);
    await first.close();
    expect(locks()).toHaveLength(0);
  },
);

// Every open waits for the disk.
const SLOW = { timeout: 300_000 };

test.skipIf(!isLinux)("repeated opening and closing leaks no descriptor", SLOW, async () => {
  const open = () =>
    readdirSync("/proc/self/fd").filter((name) => {
      try {
        return readlinkSync(`/proc/self/fd/${name}`).startsWith(folder.path);
      } catch {
        return false;
      }
    });
  for (let seq = 0; seq < 12; seq++) {
    const store = await folder.open();
    await append(store, write("session/a", seq, [seq]));
    await store.read({ namespace: NAMESPACE, stream: "session/a", after: 0 });
    await store.close();
  }
  expect(open()).toEqual([]);
});

test("the last handle to close leaves one file with everything in it, and the record of the last writes", async () => {
  const store = await folder.open();
  await append(store, write("session/a", 0, [1]));
  await store.close();
  expect(readdirSync(folder.path)).toEqual(["store.db", "store.db-record"]);
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
