/**
 * The same few acts, killed right before each system call that changes the store's files or its folder. The
 * calls of an undisturbed run are counted first; then each call gets a run, a kill and a verification of its
 * own. A kill that does not fire fails the test.
 */

import { execFileSync } from "node:child_process";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Journal } from "../../src/journal/index.ts";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import { quickFolder } from "../quick-folder.ts";
import { readAcknowledgements } from "./acknowledgements.ts";
import { Workshop } from "./programs.ts";
import { tallyKind } from "./tally.ts";
import { verify } from "./verifier.ts";

/**
 * All calls that can change a file or a folder. With a question mark, strace skips a call that the machine
 * lacks.
 */
const CHANGING = [
  "?open",
  "openat",
  "?creat",
  "write",
  "pwrite64",
  "writev",
  "pwritev",
  "fsync",
  "fdatasync",
  "ftruncate",
  "fallocate",
  "?rename",
  "?renameat",
  "renameat2",
  "?unlink",
  "unlinkat",
  "?mkdir",
  "mkdirat",
  "?link",
  "linkat",
  "fchmod",
  "fchown",
];

/** Locks and descriptors change no bytes, but a lock that outlives its holder would be found here. */
const LOCKING = ["close", "fcntl"];

const STRACE = "strace";
const isFull = Boolean(process.env["HOLDFAST_FULL"]);
/**
 * Kills per system call; only writes and syncs have more. HOLDFAST_FULL=1 runs all. Both Nodes contain
 * SQLite, which makes the calls.
 */
const MOST_PER_CALL = isFull ? Number.POSITIVE_INFINITY : 20;
const LANES = 2;
const TRIES = 3;

function whyNot(): string | null {
  try {
    execFileSync(STRACE, ["-qq", "-o", "/dev/null", "true"], { stdio: "ignore" });
    return null;
  } catch (error) {
    return `strace cannot be used here (${(error as Error).message.split("\n")[0]})`;
  }
}

const skipped = whyNot();
if (skipped) console.warn(`kills at system calls are skipped: ${skipped}`);

interface Point {
  readonly call: string;
  readonly count: number;
}

describe.skipIf(skipped !== null)(`kills at system calls${skipped ? `: ${skipped}` : ""}`, () => {
  let workshop: Workshop;

  beforeAll(async () => {
    // A kill loses nothing in the kernel; power loss is tested elsewhere.
    workshop = await Workshop.make(quickFolder());
  });

  afterAll(() => workshop.dispose());

  /** Runs the workload in a new folder under strace, which kills it at `inject`. */
  async function runTraced(inject: Point | null) {
    const place = await workshop.place();
    const folder = join(place, "state");
    const path = join(folder, "store.db");
    const files = [folder, path, `${path}-wal`, `${path}-shm`, `${path}-journal`];
    const trace = join(place, "trace");
    const calls = inject ? [inject.call] : [...CHANGING, ...(isFull ? LOCKING : [])];
    const injection = inject ? ["-e", `inject=${inject.call}:signal=SIGKILL:when=${inject.count}`] : [];
    const paths = files.flatMap((file) => ["-P", file]);
    const acknowledgements = join(place, "acknowledgements");
    const program = workshop.command("workload", path, acknowledgements);
    const strace = ["-f", "-qq", "-o", trace, ...paths, "-e", `trace=${calls.join(",")}`, ...injection];
    const ended = await workshop.run([STRACE, ...strace, ...program]).ended;
    const lines = (await readFile(trace, "utf8")).split("\n");
    return { place, path, acknowledgements, ended, seen: countCalls(lines), lines };
  }

  function countCalls(lines: readonly string[]): Map<string, number> {
    const seen = new Map<string, number>();
    for (const line of lines) {
      const name = /^\d+ +(\w+)\(/.exec(line)?.[1];
      if (name) seen.set(name, (seen.get(name) ?? 0) + 1);
    }
    return seen;
  }

  async function everyPoint(): Promise<Point[]> {
    const { place, ended, seen } = await runTraced(null);
    expect(ended, ended.errors).toMatchObject({ code: 0, signal: null });
    await rm(place, { recursive: true });
    return [...seen].flatMap(([call, total]) =>
      Array.from({ length: total }, (_, index) => ({ call, count: index + 1 })),
    );
  }

  /**
   * Returns the number of acknowledgements before the kill. Writers share commits by chance, so one run may
   * make a few calls fewer than another. If it ended before the point, the next try uses its last call.
   */
  async function killAt(point: Point, tries = 1): Promise<number> {
    const { place, path, acknowledgements, ended, seen, lines } = await runTraced(point);
    const name = `${point.call} ${point.count}`;
    const made = seen.get(point.call) ?? 0;
    if (ended.signal === null && made < point.count && tries < TRIES) {
      await rm(place, { recursive: true });
      return killAt({ call: point.call, count: made }, tries + 1);
    }
    expect(ended.signal, `${name} did not kill: ${ended.errors}`).toBe("SIGKILL");
    // The signal ends the process at that call; a call that another thread had just begun may still be
    // listed.
    expect([point.count, point.count + 1], `${name} fired elsewhere, at ${made}`).toContain(made);
    expect(
      lines.some((line) => line.endsWith("+++ killed by SIGKILL +++")),
      name,
    ).toBe(true);
    const said = readAcknowledgements(acknowledgements);
    const store = await openSqlite({ path });
    try {
      expect(await verify(store, said), `after ${name}`).toEqual([]);
      await goOn(new Journal({ store }));
      expect(await verify(store, said), `after ${name} and going on`).toEqual([]);
    } finally {
      await store.close();
    }
    await rm(place, { recursive: true });
    return said.length;
  }

  /** The next process can write. */
  async function goOn(journal: Journal): Promise<void> {
    const log = await journal.open(tallyKind, "alone");
    const data = { id: "next", batch: "next", size: 1, text: "" };
    const outcome = await log.commit(() => ({ events: [{ type: "note", data }], result: null }));
    expect(outcome.outcome).toBe("ok");
  }

  function callsOf(points: readonly Point[]): string[] {
    return [...new Set(points.map(({ call }) => call))];
  }

  /** All points of a call, or as many as allowed, evenly spread and the same every time. */
  function spread(points: readonly Point[]): Point[] {
    return callsOf(points).flatMap((name) => {
      const all = points.filter(({ call }) => call === name);
      const taken = Math.min(all.length, MOST_PER_CALL);
      return Array.from(
        { length: taken },
        (_, index) => all[Math.floor((index * all.length) / taken)] as Point,
      );
    });
  }

  test("a kill right before each of them loses nothing that was acknowledged", {
    timeout: 900_000,
  }, async () => {
    const points = await everyPoint();
    const chosen = spread(points);
    const said = new Set<number>();
    const queue = [...chosen];
    const lane = async (): Promise<void> => {
      for (let point = queue.shift(); point; point = queue.shift()) said.add(await killAt(point));
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    const calls = callsOf(points);
    const totals = calls.map((call) => `${call} ${points.filter((point) => point.call === call).length}`);
    console.info(`killed at ${chosen.length} of ${points.length} points: ${totals.join(", ")}`);
    expect(calls).toEqual(
      expect.arrayContaining(["openat", "pwrite64", "fsync", "ftruncate", "unlink", "mkdir"]),
    );
    // From before the first acknowledgement to after the last one before closing.
    expect(said.size).toBeGreaterThanOrEqual(10);
  });
});
