/**
 * The same few acts, killed right before each single system call that changes the store's folder or anything
 * in it. First an undisturbed run lists the calls with their files. Then every call gets its own run, its own
 * kill and its own verification. A kill that did not fire fails the test.
 */

import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Journal } from "../../../src/journal/index.ts";
import { openFiles } from "../../../src/stores/files/index.ts";
import { readAcknowledgements } from "../../crash/acknowledgements.ts";
import { tallyKind } from "../../crash/tally.ts";
import { verify } from "../../crash/verifier.ts";
import { quickFolder } from "../../quick-folder.ts";
import { hasStrace, needs } from "../sqlite/processes.ts";
import { FilesWorkshop } from "./workshop.ts";

/** Calls that can change a file or a folder. With `?` strace skips a call that the machine does not have. */
const CHANGING = [
  "openat",
  "write",
  "pwrite64",
  "writev",
  "pwritev",
  "fsync",
  "fdatasync",
  "ftruncate",
  "?rename",
  "?renameat",
  "renameat2",
  "?unlink",
  "unlinkat",
  "?rmdir",
  "?mkdir",
  "mkdirat",
  "?link",
  "linkat",
  "fchmod",
];

const isFull = Boolean(process.env["HOLDFAST_FULL"]);
/** Kills per system call. HOLDFAST_FULL=1 tries all points. */
const MOST_PER_CALL = isFull ? Number.POSITIVE_INFINITY : 12;
const LANES = 2;
const TRIES = 3;
/** Names of Node's threads that make the calls. */
const POOL_THREADS = 4;

interface Point {
  readonly call: string;
  readonly count: number;
}

describe.skipIf(!hasStrace)(needs("kills at system calls", "strace", hasStrace), () => {
  let workshop: FilesWorkshop;
  /** Every path below the store's folder that an undisturbed run touches, relative to it. */
  let touched: string[];

  beforeAll(async () => {
    // A kill loses nothing that the kernel has. Power cuts have a test of their own.
    workshop = await FilesWorkshop.make(quickFolder());
    touched = await everyPath();
  });

  afterAll(() => workshop.dispose());

  async function runTraced(options: (folder: string) => readonly string[]) {
    const place = await workshop.place();
    const folder = join(place, "state", "store");
    const trace = join(place, "trace");
    const acknowledgements = join(place, "acknowledgements");
    const program = workshop.command("workload", folder, acknowledgements);
    const strace = ["-f", "-qq", "-y", "-s", "0", "-o", trace, ...options(folder)];
    const ended = await workshop.run(["strace", ...strace, ...program]).ended;
    const lines = (await readFile(trace, "utf8")).split("\n");
    return { place, folder, acknowledgements, ended, lines };
  }

  async function everyPath(): Promise<string[]> {
    const { place, folder, ended, lines } = await runTraced(() => ["-e", `trace=${CHANGING.join(",")}`]);
    expect(ended, ended.errors).toMatchObject({ code: 0, signal: null });
    const found = new Set<string>();
    for (const line of lines) {
      for (const [path] of line.matchAll(/(?<=[<"])\/[^>"]+(?=[>"])/g)) {
        if (path.startsWith(folder)) found.add(path.slice(folder.length));
      }
    }
    await rm(place, { recursive: true });
    return [...found];
  }

  function only(folder: string): string[] {
    return [join(folder, ".."), ...touched.map((path) => `${folder}${path}`)].flatMap((path) => ["-P", path]);
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
    const { place, lines } = await runTraced((folder) => [
      ...only(folder),
      "-e",
      `trace=${CHANGING.join(",")}`,
    ]);
    await rm(place, { recursive: true });
    return [...countCalls(lines)].flatMap(([call, total]) =>
      Array.from({ length: total }, (_, index) => ({ call, count: index + 1 })),
    );
  }

  /**
   * Returns how many acknowledgements the writer had by then. Acts may share a flush, so one run may make
   * fewer calls than another. If it ended before the point, its last call is the point of the next try.
   */
  async function killAt({ call, count }: Point, tries = 1): Promise<number> {
    const { place, folder, acknowledgements, ended, lines } = await runTraced((path) => {
      return [...only(path), "-e", `trace=${call}`, "-e", `inject=${call}:signal=SIGKILL:when=${count}`];
    });
    const name = `${call} ${count}`;
    const made = countCalls(lines).get(call) ?? 0;
    if (ended.signal === null && made < count && tries < TRIES) {
      await rm(place, { recursive: true });
      return killAt({ call, count: made }, tries + 1);
    }
    expect(ended.signal, `${name} did not kill: ${ended.errors}`).toBe("SIGKILL");
    // The signal ends the process at that call. A call that another thread had begun may still be listed.
    expect(made, `${name} fired elsewhere`).toBeGreaterThanOrEqual(count);
    expect(made, `${name} fired elsewhere`).toBeLessThan(count + POOL_THREADS);
    expect(
      lines.some((line) => line.endsWith("+++ killed by SIGKILL +++")),
      name,
    ).toBe(true);
    const said = readAcknowledgements(acknowledgements);
    const store = await openFiles({ path: folder });
    try {
      expect(await verify(store, said), `after ${name}`).toEqual([]);
      await goOn(new Journal({ store }));
      expect(await verify(store, said), `after ${name} and continuing`).toEqual([]);
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

  /** All points of a call, or the allowed number of them, evenly spread and the same in every run. */
  function spread(points: readonly Point[], call: string): Point[] {
    const all = points.filter((point) => point.call === call);
    const taken = Math.min(all.length, MOST_PER_CALL);
    return Array.from(
      { length: taken },
      (_, index) => all[Math.floor((index * all.length) / taken)] as Point,
    );
  }

  test("a kill right before each call loses no acknowledged write", {
    timeout: 900_000,
  }, async () => {
    const points = await everyPoint();
    const calls = [...new Set(points.map(({ call }) => call))];
    const chosen = calls.flatMap((call) => spread(points, call));
    const said = new Set<number>();
    const queue = [...chosen];
    const lane = async (): Promise<void> => {
      for (let point = queue.shift(); point; point = queue.shift()) said.add(await killAt(point));
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    const totals = calls.map((call) => `${call} ${points.filter((point) => point.call === call).length}`);
    console.info(`killed at ${chosen.length} of ${points.length} points: ${totals.join(", ")}`);
    expect(calls).toEqual(
      expect.arrayContaining(["openat", "pwrite64", "fsync", "fdatasync", "rename", "unlink", "mkdir"]),
    );
    // From before the first acknowledgement to after the last one before closing.
    expect(said.size).toBeGreaterThanOrEqual(10);
  });
});
