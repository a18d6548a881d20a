/**
 * Two ways of doing the same, measured so that other load on the machine affects both: short rounds by
 * turns, each pair in the opposite order of the last. The value is a ratio of medians. Rounds are as short
 * as possible: the median of the faster side would otherwise miss interruptions that the slower side has.
 *
 * Work that waits for the disk is compared by the clock. Pure processor work, such as reading from a warm
 * page cache, is compared by processor time, which other programs cannot affect.
 */

import type { Numbers } from "./measure.ts";
import { mean, median, rounded } from "./statistics.ts";

type Round = (round: number) => unknown;

/** Milliseconds of each round: by the clock, and of the processor. */
export interface Rounds {
  readonly rawMs: number[];
  readonly oursMs: number[];
  readonly rawCpuMs: number[];
  readonly oursCpuMs: number[];
}

/** `prepare` runs before each pair of rounds and is not timed. */
export async function alternate(
  count: number,
  raw: Round,
  ours: Round,
  prepare: Round = () => undefined,
): Promise<Rounds> {
  const rounds: Rounds = { rawMs: [], oursMs: [], rawCpuMs: [], oursCpuMs: [] };
  for (let round = 0; round < count; round++) {
    await prepare(round);
    const takeRaw = () => timed(raw, round, rounds.rawMs, rounds.rawCpuMs);
    const takeOurs = () => timed(ours, round, rounds.oursMs, rounds.oursCpuMs);
    for (const take of round % 2 === 0 ? [takeRaw, takeOurs] : [takeOurs, takeRaw]) await take();
  }
  return rounds;
}

/** The last `count` rounds. */
export function lastOf({ rawMs, oursMs, rawCpuMs, oursCpuMs }: Rounds, count: number): Rounds {
  return {
    rawMs: rawMs.slice(-count),
    oursMs: oursMs.slice(-count),
    rawCpuMs: rawCpuMs.slice(-count),
    oursCpuMs: oursCpuMs.slice(-count),
  };
}

async function timed(work: Round, round: number, clockMs: number[], cpuMs: number[]): Promise<void> {
  const cpuBefore = process.cpuUsage();
  const before = performance.now();
  const answer = work(round);
  // Synchronous work must not wait a turn of the event loop before its clock stops.
  if (answer instanceof Promise) await answer;
  clockMs.push(performance.now() - before);
  const { user, system } = process.cpuUsage(cpuBefore);
  cpuMs.push((user + system) / 1000);
}

export function ratio({ rawMs, oursMs }: Rounds): number {
  return rounded(median(oursMs) / median(rawMs));
}

export function cpuRatio({ rawCpuMs, oursCpuMs }: Rounds): number {
  return rounded(median(oursCpuMs) / median(rawCpuMs));
}

/** Medians and means per item, for rounds of `items` items. */
export function perItem({ rawMs, oursMs, rawCpuMs, oursCpuMs }: Rounds, items: number): Numbers {
  return {
    rawMs: rounded(median(rawMs) / items, 4),
    oursMs: rounded(median(oursMs) / items, 4),
    rawMeanMs: rounded(mean(rawMs) / items, 4),
    oursMeanMs: rounded(mean(oursMs) / items, 4),
    rawCpuMs: rounded(median(rawCpuMs) / items, 4),
    oursCpuMs: rounded(median(oursCpuMs) / items, 4),
    rounds: rawMs.length,
  };
}
