/**
 * Two ways of doing the same, measured so that whatever else the machine does hits both alike: short rounds in
 * turn, each pair in the other order than the one before. The value is a ratio of medians. A round is as short as can be, since
 * a machine that is taken away once in some milliseconds would be missed by the median of the shorter one alone.
 *
 * What waits for the disk is compared by the clock. What is processor work only, as reading from a warm page cache
 * is, is compared by processor time, which other programs cannot take a share of.
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

/** `prepare` comes before each pair of rounds and is not timed. */
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
  // What is synchronous is not made to wait a turn of the event loop for its clock to stop.
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

/** Medians and means per item, when each round did `items` of them. */
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
