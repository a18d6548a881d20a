// The cost of a turn must not depend on the number of turns before it. Time is too noisy, so the tests
// compare what is written: payloads, pages in the write-ahead log, and growth of the file.

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sizeOnDisk } from "../../bench/raw-database.ts";
import { makeTurn } from "../../bench/turns.ts";
import { type Holdfast, open, type Session } from "../../src/index.ts";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import { type Counts, counting } from "./counting-store.ts";

/** Few enough that SQLite does not checkpoint its log meanwhile, which would hide part of it. */
const WINDOW = 100;

interface Cost {
  readonly payloadBytes: number;
  readonly items: number;
  readonly walBytes: number;
  readonly fileBytes: number;
}

const costs = new Map<number, Cost>();
let folder: string;
let file: string;
let holdfast: Holdfast;
let session: Session;
let counts: Counts;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-scale-"));
  file = join(folder, "store.db");
  const counted = counting(await openSqlite({ path: file }));
  counts = counted.counts;
  holdfast = await open(undefined, { store: counted.store });
  session = await holdfast.session("flat");
  for (let turn = 0; turn < 2_000; turn += WINDOW) costs.set(turn, await appendWindow(turn));
}, 300_000);

afterAll(async () => {
  await holdfast.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Every window has the same messages under other ids, so that sizes are comparable exactly. */
async function appendWindow(from: number): Promise<Cost> {
  const sizeBefore = await sizeOnDisk(file);
  const before = { ...counts };
  for (let turn = 1; turn <= WINDOW; turn++) {
    await session.append(makeTurn(turn, from + turn).messages, { checkpoint: true });
  }
  const walBytes = statSync(`${file}-wal`).size;
  return {
    payloadBytes: counts.appendedBytes - before.appendedBytes,
    items: counts.appendedItems - before.appendedItems,
    walBytes,
    fileBytes: (await sizeOnDisk(file)) - sizeBefore,
  };
}

const early = (): Cost => costs.get(100) as Cost;
const late = (): Cost => costs.get(1_900) as Cost;

test("a turn hands the store the same bytes and rows after 2,000 turns as after 100", () => {
  // Only the version number may have a digit or two more.
  expect(late().payloadBytes - early().payloadBytes).toBeLessThanOrEqual(2 * WINDOW);
  expect(late().items).toBe(early().items);
});

test("the pages per turn stay the same over 2,000 turns", () => {
  expect(late().walBytes / early().walBytes).toBeLessThan(1.15);
});

test("the file grows evenly over 2,000 turns", () => {
  expect(late().fileBytes / early().fileBytes).toBeLessThan(1.1);
});
