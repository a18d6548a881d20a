// A version is a position in the log. Loading one must read its own content, not what came later, nor what a
// compaction removed before it.

import { afterEach, beforeEach, expect, test } from "vitest";
import { makeTurns } from "../../bench/turns.ts";
import { type Holdfast, open, type Session } from "../../src/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { type Counts, counting } from "./counting-store.ts";

const TURNS = 200;

let holdfast: Holdfast;
let session: Session;
let counts: Counts;
/** Bytes in the log up to each version. */
let ownBytes: number[];

beforeEach(async () => {
  const counted = counting(openMemory());
  counts = counted.counts;
  holdfast = await open(undefined, { store: counted.store });
  session = await holdfast.session("versions");
  ownBytes = [0];
  await appendTurns(makeTurns(TURNS));
});

afterEach(() => holdfast.close());

async function appendTurns(turns: ReturnType<typeof makeTurns>): Promise<void> {
  for (const { messages } of turns) {
    await session.append(messages, { checkpoint: true });
    ownBytes[session.version] = counts.appendedBytes;
  }
}

async function bytesToLoad(version: number): Promise<number> {
  counts.readBytes = 0;
  await holdfast.sessions.at("versions", version);
  return counts.readBytes;
}

test.each([1, 2, 50, 199, 200])("version %i reads no more bytes than its own", async (version) => {
  expect(await bytesToLoad(version)).toBe(ownBytes[version]);
});

test("older versions cost the same after a compaction", async () => {
  const before = await bytesToLoad(100);
  await session.compact(session.messages.slice(-20));
  await appendTurns(makeTurns(50, 1_001));
  expect(await bytesToLoad(100)).toBe(before);
});

test("versions after a compaction do not cost what was compacted away", async () => {
  const compactedAt = counts.appendedBytes;
  await session.compact(session.messages.slice(-20));
  const [kept] = [JSON.stringify(session.messages).length];
  await appendTurns(makeTurns(50, 1_001));
  const { messages } = await holdfast.sessions.at("versions", session.version);
  const own = JSON.stringify(messages).length;
  expect(kept).toBeLessThan(compactedAt / 5);
  expect(await bytesToLoad(session.version)).toBeLessThan(1.5 * own);
});

test("a fork's versions read the shared history once and nothing of the parent's later events", async () => {
  await session.fork("forked", { version: 50 });
  const forked = await holdfast.session("forked");
  await forked.checkpoint();
  counts.readBytes = 0;
  await holdfast.sessions.at("forked", forked.version);
  expect(counts.readBytes).toBeGreaterThan(ownBytes[50] as number);
  expect(counts.readBytes).toBeLessThan((ownBytes[50] as number) + 2_000);
});
