/**
 * The supervisor's loop: sweep, start workers, wait for a change or for the next sweep.
 *
 *     sweep ──▶ start workers ──▶ wait: a change in the store, a worker's end, a backoff's end, `everyMs`
 *       ▲─────────────────────────────┘
 *     signal ──▶ no more starts ──▶ ask workers to stop, then kill ──▶ record their ends, release leases
 *
 * An error in one round is reported, and the next round tries again. Only a closed store ends the loop.
 */

import type { Journal, Lease } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { LeaseRow } from "../store.ts";
import { recordCrash } from "./crashed-sessions.ts";
import { DEFAULTS, type SuperviseOptions, type SweepOptions } from "./options.ts";
import { Sweeper, type SweepReport } from "./sweep.ts";
import { wantWorker } from "./wanted-sessions.ts";
import { Workers } from "./workers.ts";

/** The least pause between rounds, however many changes there are. `everyMs` if that is less. */
const LEAST_PAUSE_MS = 1_000;

export async function superviseOnce(journal: Journal, options: SweepOptions = {}): Promise<SweepReport> {
  const sweeper = new Sweeper(journal, options, (session) => wantWorker(journal, session));
  const report = await sweeper.sweep();
  await sweeper.notices.settled(DEFAULTS.noticesMs);
  return report;
}

export async function noteCrash(
  journal: Journal,
  lease: Lease,
  name: string,
  found: LeaseRow | null,
): Promise<void> {
  const sweeper = new Sweeper(journal, { name });
  const context = {
    journal,
    by: sweeper.by,
    goal: (id: string) => sweeper.goal(id),
    want: (session: string) => wantWorker(journal, session),
    emit: () => undefined,
    unmarked: new Map(),
  };
  await recordCrash(context, lease, found ?? undefined);
}

export async function supervise(journal: Journal, options: SuperviseOptions): Promise<void> {
  mustBeParallel(options.parallel ?? DEFAULTS.parallel);
  const sweeper = new Sweeper(journal, options, (session) => wantWorker(journal, session));
  const workers = new Workers(sweeper, options);
  const { everyMs = DEFAULTS.everyMs } = options;
  const leastMs = Math.min(LEAST_PAUSE_MS, everyMs);
  const wakeUp = new WakeUp(options.signal, leastMs);
  workers.onChange = () => wakeUp.trigger();
  sweeper.settleInBackground(() => wakeUp.trigger());
  const unwatch = journal.watch(null, () => wakeUp.trigger());
  try {
    while (!options.signal.aborted) {
      const until = await round(sweeper, workers, options);
      if (until === "closed") return;
      const leftMs = until === null ? everyMs : until - journal.now();
      await wakeUp.wait(Math.min(everyMs, leftMs));
    }
  } finally {
    unwatch();
    await Promise.all([workers.stop(), sweeper.end()]);
    await sweeper.notices.settled(options.graceMs ?? DEFAULTS.noticesMs);
  }
}

function mustBeParallel(parallel: number): void {
  if (Number.isSafeInteger(parallel) && parallel > 0) return;
  const problem = `supervise: parallel is ${parallel} (expected a whole number of 1 or more)`;
  const hint = "Pass the number of workers. To start none, leave out `start`.";
  throw new HoldfastError("INPUT_INVALID", problem, { hint, data: { parallel } });
}

async function round(
  sweeper: Sweeper,
  workers: Workers,
  options: SuperviseOptions,
): Promise<number | null | "closed"> {
  try {
    const { ready } = await sweeper.sweep();
    const isDone = !options.start || options.signal.aborted;
    const until = isDone ? null : await workers.start([...(await workers.wanted()), ...ready]);
    sweeper.clearError("supervising");
    return until;
  } catch (error) {
    if (isHoldfastError(error, "STORE_CLOSED")) return "closed";
    if (!options.signal.aborted) sweeper.emitError("supervising", error);
    return null;
  }
}

/** Wakes the loop up. A trigger that comes before `wait` is remembered. */
class WakeUp {
  readonly #stop: AbortSignal;
  readonly #leastMs: number;
  #isTriggered = false;
  #wake: (() => void) | null = null;

  constructor(stop: AbortSignal, leastMs: number) {
    this.#stop = stop;
    this.#leastMs = leastMs;
    stop.addEventListener("abort", () => this.trigger(), { once: true });
  }

  trigger(): void {
    this.#isTriggered = true;
    this.#wake?.();
  }

  /** Waits for a trigger or `ms`, but at least the least pause, unless the loop has to stop. */
  async wait(ms: number): Promise<void> {
    await this.#pause(this.#leastMs, () => this.#stop.aborted);
    await this.#pause(ms - this.#leastMs, () => this.#isTriggered);
    this.#isTriggered = false;
  }

  #pause(ms: number, isOver: () => boolean): Promise<void> {
    if (isOver() || ms <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#wake = null;
        resolve();
      };
      const timer = setTimeout(end, ms);
      this.#wake = () => {
        if (isOver()) end();
      };
    });
  }
}
