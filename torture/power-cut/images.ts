/** Chooses the images to try at one point of the trace. */

import { type Kept, type Pending, sectorsOf } from "./disk.ts";

/** A seeded generator: the same seed gives the same images. */
export class Dice {
  private state: number;

  constructor(seed: number) {
    this.state = seed >>> 0 || 1;
  }

  /** 0 up to, not including, `limit`. */
  below(limit: number): number {
    this.state ^= this.state << 13;
    this.state ^= this.state >>> 17;
    this.state ^= this.state << 5;
    this.state >>>= 0;
    return this.state % limit;
  }

  coin(): boolean {
    return this.below(2) === 1;
  }
}

/** Nothing, everything, each alone, all but each, everything up to each, random subsets, torn writes. */
export function* choices(pending: readonly Pending[], dice: Dice, randoms: number): Generator<Kept> {
  const count = pending.length;
  const each = (keep: (index: number) => boolean): boolean[] => pending.map((_, index) => keep(index));
  yield each(() => false);
  if (count === 0) return;
  yield each(() => true);
  for (let at = 0; at < count; at++) {
    yield each((index) => index === at);
    yield each((index) => index !== at);
    yield each((index) => index <= at);
    yield torn(pending, at, dice, (index) => index < at);
    yield torn(pending, at, dice, () => true);
  }
  for (let number = 0; number < randoms; number++) {
    yield each(() => dice.coin());
    yield torn(pending, dice.below(count), dice, () => dice.coin());
  }
}

/** One write arrived only in part. */
function torn(pending: readonly Pending[], at: number, dice: Dice, keep: (index: number) => boolean): Kept {
  return pending.map((each, index) => {
    if (index !== at) return keep(index);
    if (each.of !== "data" || each.op.act !== "write") return dice.coin();
    const sectors = new Set<number>();
    for (let sector = 0; sector < sectorsOf(each.op); sector++) if (dice.coin()) sectors.add(sector);
    return { sectors };
  });
}
