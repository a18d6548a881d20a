/** Tells those who wait for a checkpoint whether it was saved. A refusal is kept for whoever asks a little later. */

const REFUSALS_KEPT = 100;

interface Waiting {
  saved(): void;
  refused(error: unknown): void;
}

export class SaveSignals {
  private readonly waiting = new Map<string, Set<Waiting>>();
  private readonly refusals = new Map<string, unknown>();

  /** Whether nobody waits and nothing was refused: then there is nothing to tell anybody. */
  get isIdle(): boolean {
    return this.waiting.size === 0 && this.refusals.size === 0;
  }

  /** True once it is saved, false when `waitMs` have passed; rejects when saving it was refused. */
  async wait(checkpoint: string, isSaved: () => Promise<boolean>, waitMs: number): Promise<boolean> {
    const waiting = this.waiting.get(checkpoint) ?? new Set();
    this.waiting.set(checkpoint, waiting);
    let timer: NodeJS.Timeout | undefined;
    let mine: Waiting | undefined;
    const told = new Promise<boolean>((resolve, reject) => {
      mine = { saved: () => resolve(true), refused: reject };
      waiting.add(mine);
      timer = setTimeout(() => resolve(false), waitMs);
    });
    // It may be refused while we still look whether it is there; then this is where it is heard of.
    told.catch(() => undefined);
    try {
      if (await isSaved()) return true;
      if (this.refusals.has(checkpoint)) throw this.refusals.get(checkpoint);
      return await told;
    } finally {
      clearTimeout(timer);
      if (mine) waiting.delete(mine);
      if (waiting.size === 0) this.waiting.delete(checkpoint);
    }
  }

  saved(checkpoint: string): void {
    this.refusals.delete(checkpoint);
    for (const each of this.waiting.get(checkpoint) ?? []) each.saved();
  }

  refused(checkpoint: string, error: unknown): void {
    this.refusals.set(checkpoint, error);
    for (const [oldest] of this.refusals) {
      if (this.refusals.size <= REFUSALS_KEPT) break;
      this.refusals.delete(oldest);
    }
    for (const each of this.waiting.get(checkpoint) ?? []) each.refused(error);
  }
}
