/**
 * Tells those who wait for a checkpoint whether it was saved. A refusal is kept for whoever asks a little later.
 *
 * LangGraph does not look at the outcome of `put` before its running nodes are done, and Node takes a rejection that nobody
 * has looked at for one that nobody will, and ends the process. So the rejection is held back until the run has heard of
 * the refusal another way and is about to look: when one of its tasks saves its writes, which is refused at once.
 */

import { setTimeout as delay } from "node:timers/promises";

const REFUSALS_KEPT = 100;
const WRITTEN_KEPT = 1_000;
/** From hearing of a refusal to looking at the promises takes LangGraph a few turns of the event loop. */
const LOOK_MS = 100;

interface Waiting {
  saved(): void;
  refused(error: unknown): void;
}

export class SaveSignals {
  private readonly waiting = new Map<string, Set<Waiting>>();
  private readonly refusals = new Map<string, unknown>();
  private readonly held = new Map<string, () => void>();
  /** Checkpoints with writes, the latest of them: their runs may be looking already, so nothing is held back. */
  private readonly written = new Set<string>();

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

  /** Throws if the checkpoint was refused: what belongs to it cannot be saved either. */
  mustNotBeRefused(checkpoint: string): void {
    this.written.add(checkpoint);
    for (const oldest of this.written) {
      if (this.written.size <= WRITTEN_KEPT) break;
      this.written.delete(oldest);
    }
    if (!this.refusals.has(checkpoint)) return;
    this.held.get(checkpoint)?.();
    throw this.refusals.get(checkpoint);
  }

  /** Until the run has heard of the refusal, was aborted, or `holdMs` have passed. */
  async hold(checkpoint: string, holdMs: number, signal: AbortSignal | undefined): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    let release: (() => void) | undefined;
    await new Promise<void>((resolve) => {
      release = resolve;
      this.held.set(checkpoint, resolve);
      timer = setTimeout(resolve, this.written.has(checkpoint) ? 0 : holdMs);
      signal?.addEventListener("abort", release, { once: true });
      if (signal?.aborted) resolve();
    });
    clearTimeout(timer);
    if (release) signal?.removeEventListener("abort", release);
    this.held.delete(checkpoint);
    await delay(LOOK_MS);
  }
}
