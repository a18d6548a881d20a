/** Everything from `older` on, and `count` of what is before that, from `from` on and then from the beginning. */
export interface LookedAt {
  readonly older: number;
  readonly from: number;
  readonly count: number;
}

/**
 * Looks at the latest elements of a list and at some of the others, at other ones each time, until all had their turn. The
 * list may grow meanwhile: every look has the same number of turns to give, and goes on from the beginning after the end.
 */
export class LookInTurn {
  private readonly recent: number;
  private readonly inTurn: number;
  private next = 0;

  constructor({ recent, inTurn }: { readonly recent: number; readonly inTurn: number }) {
    this.recent = recent;
    this.inTurn = inTurn;
  }

  /** Those of the next look. */
  places(length: number): LookedAt {
    const older = Math.max(0, length - this.recent);
    return { older, from: this.next < older ? this.next : 0, count: Math.min(this.inTurn, older) };
  }

  looksAt(index: number, { older, from, count }: LookedAt): boolean {
    if (index >= older) return true;
    const turn = index >= from ? index - from : index - from + older;
    return turn < count;
  }

  /** `lazySchema`: a place that has changed, and might have so before the last look, because not all had their turn at that. */
  look(
    length: number,
    isAsItWas: (index: number) => boolean,
  ): { readonly changed: boolean; readonly late: number | null } {
    const { older, from, count } = this.places(length);
    let changed = false;
    for (let index = older; index < length; index++) if (!isAsItWas(index)) changed = true;
    let found: number | null = null;
    const end = Math.min(from + count, older);
    for (let index = from; index < end; index++) if (!isAsItWas(index)) found = index;
    const wrapped = from + count - end;
    for (let index = 0; index < wrapped; index++) if (!isAsItWas(index)) found = index;
    this.next = wrapped > 0 ? wrapped : end;
    return { changed: changed || found !== null, late: older > this.inTurn ? found : null };
  }
}
