/**
 * Two ways of doing the same, measured so that whatever else the machine does hits both alike: short rounds in
 * turn, each pair in the other order than the one before. The value is a ratio of medians.
 */

import type { Numbers } from "./measure.ts";
import { mean, median, rounded } from "./statistics.ts";

type Round = (round: number) => unknown;

export interface Rounds {
  readonly rawMs: number[];
  readonly oursMs: number[];
}

/** `prepare` comes before each pair of rounds and is not timed. */
export async function alternate(
  count: number,
  raw: Round,
  ours: Round,
  prepare: Round = () => undefined,
): Promise<Rounds> {
  const rounds: Rounds = { rawMs: [], oursMs: [] };
  for (let round = 0; round < count; round++) {
    await prepare(round);
    const takeRaw = async (): Promise<number> => rounds.rawMs.push(await timed(raw, round));
    const takeOurs = async (): Promise<number> => rounds.oursMs.push(await timed(ours, round));
    for (const take of round % 2 === 0 ? [takeRaw, takeOurs] : [takeOurs, takeRaw]) await take();
  }
  return rounds;
}

async function timed(work: Round, round: number): Promise<number> {
  const before = performance.now();
  const answer = work(round);
  // What is synchronous is not made to wait a turn of the event loop for its clock to stop.
  if (answer instanceof Promise) await answer;
  return performance.now() - before;
}

export function ratio({ rawMs, oursMs }: Rounds): number {
  return rounded(median(oursMs) / median(rawMs));
}

/** Medians and means per item, when each round did `items` of them. */
export function perItem({ rawMs, oursMs }: Rounds, items: number): Numbers {
  return {
    rawMs: rounded(median(rawMs) / items, 4),
    oursMs: rounded(median(oursMs) / items, 4),
    rawMeanMs: rounded(mean(rawMs) / items, 4),
    oursMeanMs: rounded(mean(oursMs) / items, 4),
    rounds: rawMs.length,
  };
}
