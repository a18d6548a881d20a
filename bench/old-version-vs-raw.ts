/**
 * Older versions of an append-only session and of a compacted one. A version from before the compaction
 * must not cost more because of it. One from after it must not cost what was compacted away. The raw
 * counterpart of a version holds that version's messages and nothing else. The value is the worst of all
 * versions of at least 200 KB. Smaller ones are only shown: they load in a fraction of a millisecond, most
 * of which is a fixed cost.
 */

import type { Message } from "../src/index.ts";
import type { Measure } from "./measure.ts";
import type { RawDatabase } from "./raw-database.ts";
import { alternate, cpuRatio } from "./rounds.ts";
import { median, rounded } from "./statistics.ts";
import { type ThousandTurns, thousandTurns } from "./thousand-turns.ts";
import { makeTurns } from "./turns.ts";

const SMALL_BYTES = 200_000;
/** Loaded per version and side: enough that the worst one is not merely the unluckiest. */
const LOADED_BYTES = 120_000_000;
const ROUND_BYTES = 4_000_000;
const BEFORE = 200;
const AFTER = 100;
const KEPT = 40;

interface Version {
  readonly name: string;
  readonly session: string;
  readonly version: number;
}

/**
 * In the compacted session, 150 is from before, 201 the compaction's own "before", 240 and 300 from after.
 */
const VERSIONS: readonly Version[] = [
  ...[10, 100, 500, 900].map((version) => ({ name: `at${version}`, session: "thousand", version })),
  ...[150, 201, 240, 300].map((version) => ({ name: `compacted${version}`, session: "compacted", version })),
];

export const oldVersionVsRaw: Measure = {
  name: "oldVersionVsRaw",
  what: "load an older version, the worst of several, against parsing its own raw rows (processor time)",
  bar: 1.5,
  direction: "at most",
  async run(scratch) {
    const made = await thousandTurns(scratch);
    await makeCompacted(made);
    const raw = await scratch.openRaw();
    const ratios: number[] = [];
    const numbers: Record<string, number> = {};
    for (const [index, version] of VERSIONS.entries()) {
      const compared = await compare(made, raw, index + 1, version);
      if (compared.bytes >= SMALL_BYTES) ratios.push(compared.ratio);
      for (const [name, number] of Object.entries(compared)) numbers[`${version.name}.${name}`] = number;
    }
    return { value: Math.max(...ratios), numbers };
  },
};

async function makeCompacted({ holdfast }: ThousandTurns): Promise<void> {
  const session = await holdfast.session("compacted");
  const turns = makeTurns(BEFORE + AFTER, 10_001);
  for (const { messages } of turns.slice(0, BEFORE)) await session.append(messages, { checkpoint: true });
  const summary = { id: "summary", role: "user", createdAt: "2026-01-01T00:00:00Z", blocks: [] };
  await session.compact([summary, ...session.messages.slice(-KEPT)], "context is full");
  for (const { messages } of turns.slice(BEFORE)) await session.append(messages, { checkpoint: true });
  await session.close();
}

async function compare(
  { holdfast }: ThousandTurns,
  raw: RawDatabase,
  rawSession: number,
  { session, version }: Version,
): Promise<{
  readonly ratio: number;
  readonly rawMs: number;
  readonly oursMs: number;
  readonly bytes: number;
}> {
  const { messages } = await holdfast.sessions.at(session, version);
  const rows = inTurns(messages).map((turn, index) => [rawSession, index + 1, JSON.stringify(turn)] as const);
  raw.writeTogether(rows);
  const bytes = rows.reduce((sum, [, , json]) => sum + json.length, 0);
  // Many loads per round, so that each side collects its own garbage, and a clock tick does not decide.
  const loads = Math.max(1, Math.round(ROUND_BYTES / bytes));
  const count = Math.round(LOADED_BYTES / bytes / loads);
  const rounds = await alternate(
    count,
    () => {
      for (let load = 0; load < loads; load++) raw.read(rawSession, rows.length);
    },
    async () => {
      for (let load = 0; load < loads; load++) await holdfast.sessions.at(session, version);
    },
  );
  return {
    ratio: cpuRatio(rounds),
    rawMs: rounded(median(rounds.rawCpuMs) / loads, 4),
    oursMs: rounded(median(rounds.oursCpuMs) / loads, 4),
    bytes,
  };
}

/** A question and its answer in one row, as the raw floor stores turns. */
function inTurns(messages: readonly Message[]): Message[][] {
  const turns: Message[][] = [];
  for (const message of messages) {
    const last = turns.at(-1);
    if (last && message.role === "tool") last.push(message);
    else turns.push([message]);
  }
  return turns;
}
