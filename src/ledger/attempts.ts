/**
 * The attempts of this process, per store: which ones run, when those without an answer ended, and outcomes that could not be
 * written down yet. While an attempt runs here, nobody in this process declares it lost or starts another beside it, whichever
 * handle asks; and once it has ended, its effects settle from then on.
 */

import type { Store } from "../store.ts";
import type { Outcome } from "./attempt.ts";

interface Known {
  readonly attempt: number;
  readonly outcome: Outcome;
}

export class Attempts {
  private readonly running = new Map<string, Promise<unknown>>();
  private readonly known = new Map<string, Known>();
  private readonly ends = new Map<string, { readonly attempt: number; readonly at: number }>();

  /** Registers work on a call until it ends. */
  track(callId: string, work: Promise<unknown>): void {
    this.running.set(callId, work);
    const done = (): void => {
      if (this.running.get(callId) === work) this.running.delete(callId);
    };
    work.then(done, done);
  }

  isRunning(callId: string): boolean {
    return this.running.has(callId);
  }

  /** Resolves when the work on the call has ended, however it did. */
  async ended(callId: string): Promise<void> {
    await this.running.get(callId)?.catch(() => undefined);
  }

  /** It ended without an answer, at this time of the steady clock. */
  end(run: { id: string; attempt: number }, at: number): void {
    this.ends.set(run.id, { attempt: run.attempt, at });
  }

  /** When it ended here without an answer; long ago, if that is not known. */
  endedAt(callId: string, attempt: number): number {
    const end = this.ends.get(callId);
    return end?.attempt === attempt ? end.at : Number.NEGATIVE_INFINITY;
  }

  /** Keeps an outcome until it is durable, so that a failing store does not make it unknown. */
  remember(run: { id: string; attempt: number }, outcome: Outcome): { forget(): void } {
    const known = { attempt: run.attempt, outcome };
    this.known.set(run.id, known);
    return {
      forget: () => {
        if (this.known.get(run.id) === known) this.known.delete(run.id);
      },
    };
  }

  recall(callId: string, attempt: number): Outcome | null {
    const known = this.known.get(callId);
    return known?.attempt === attempt ? known.outcome : null;
  }
}

const byStore = new WeakMap<Store, Map<string, Attempts>>();

/** Those of one session, in one of its lives, on one store handle. */
export function attemptsOf(store: Store, life: string): Attempts {
  let sessions = byStore.get(store);
  if (!sessions) {
    sessions = new Map();
    byStore.set(store, sessions);
  }
  let attempts = sessions.get(life);
  if (!attempts) {
    attempts = new Attempts();
    sessions.set(life, attempts);
  }
  return attempts;
}
