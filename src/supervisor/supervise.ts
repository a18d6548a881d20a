/**
 * The loop: look, start workers, wait for a sign or for the next time to look.
 *
 *     sweep ──▶ start what is ready ──▶ wait: a change in the store, a worker's end, a back-off that is over, the clock
 *       ▲───────────────────────────────────┘
 *     signal ──▶ no more starts ──▶ workers are asked to stop, then killed ──▶ their ends recorded, leases released
 *
 * Whatever goes wrong in one round is told and the next round tries again. Only a closed store ends the loop.
 */

import type { Journal, Lease } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { LeaseRow } from "../store.ts";
import { recordCrash } from "./crashed-sessions.ts";
import { DEFAULTS, type SuperviseOptions, type SweepOptions } from "./options.ts";
import { Sweeper, type SweepReport } from "./sweep.ts";
import { wantWorker } from "./wanted-sessions.ts";
import { Workers } from "./workers.ts";

/** However many changes there are, rounds keep this distance, or `everyMs` if that is less. */
const LEAST_PAUSE_MS = 1_000;

/** One look, without starting anything. */
export async function superviseOnce(journal: Journal, options: SweepOptions = {}): Promise<SweepReport> {
  const sweeper = new Sweeper(journal, options, (session) => wantWorker(journal, session));
  const report = await sweeper.sweep();
  await sweeper.notices.settled(DEFAULTS.graceMs);
  return report;
}

/** For whoever holds a session that somebody left who died, and only says something there: its crash is not forgotten by that. */
export async function noteCrash(
  journal: Journal,
  lease: Lease,
  name: string,
  found: LeaseRow | null,
): Promise<void> {
  const sweeper = new Sweeper(journal, { name });
  const place = {
    journal,
    by: sweeper.by,
    goal: (id: string) => sweeper.goal(id),
    want: (session: string) => wantWorker(journal, session),
    tell: () => undefined,
    unmarked: new Map(),
  };
  await recordCrash(place, lease, found ?? undefined);
}

/** Resolves after `signal` aborts and everything is in order. */
export async function supervise(journal: Journal, options: SuperviseOptions): Promise<void> {
  mustBeParallel(options.parallel ?? DEFAULTS.parallel);
  const sweeper = new Sweeper(journal, options, (session) => wantWorker(journal, session));
  const workers = new Workers(sweeper, options);
  const { everyMs = DEFAULTS.everyMs } = options;
  const leastMs = Math.min(LEAST_PAUSE_MS, everyMs);
  const signs = new Signs(options.signal, leastMs);
  workers.onChange = () => signs.give();
  sweeper.settleBeside(() => signs.give());
  const unwatch = journal.watch(null, () => signs.give());
  try {
    while (!options.signal.aborted) {
      const until = await round(sweeper, workers, options);
      if (until === "closed") return;
      const leftMs = until === null ? everyMs : until - journal.now();
      await signs.wait(Math.min(everyMs, leftMs));
    }
  } finally {
    unwatch();
    await Promise.all([workers.stop(), sweeper.end()]);
    await sweeper.notices.settled(options.graceMs ?? DEFAULTS.graceMs);
  }
}

function mustBeParallel(parallel: number): void {
  if (Number.isSafeInteger(parallel) && parallel > 0) return;
  throw new HoldfastError("INPUT_INVALID", `supervise: ${parallel} is no number of workers at once`, {
    hint: "Say how many, at least 1. To start none, say no command.",
    data: { parallel },
  });
}

/** Returns when something that has to wait may be started, if anything has to. */
async function round(
  sweeper: Sweeper,
  workers: Workers,
  options: SuperviseOptions,
): Promise<number | null | "closed"> {
  try {
    const { ready } = await sweeper.sweep();
    const isDone = !options.start || options.signal.aborted;
    const until = isDone ? null : await workers.start([...(await workers.wanted()), ...ready]);
    sweeper.worksAgain("supervising");
    return until;
  } catch (error) {
    if (isHoldfastError(error, "STORE_CLOSED")) return "closed";
    if (!options.signal.aborted) sweeper.tellError("supervising", error);
    return null;
  }
}

/** Signs that something changed. One that comes while nobody waits is kept. */
class Signs {
  readonly #stop: AbortSignal;
  readonly #leastMs: number;
  #isGiven = false;
  #wake: (() => void) | null = null;

  constructor(stop: AbortSignal, leastMs: number) {
    this.#stop = stop;
    this.#leastMs = leastMs;
    stop.addEventListener("abort", () => this.give(), { once: true });
  }

  give(): void {
    this.#isGiven = true;
    this.#wake?.();
  }

  /** Until a sign is given, but no shorter than the least pause, unless all is to stop. */
  async wait(ms: number): Promise<void> {
    await this.#pause(this.#leastMs, () => this.#stop.aborted);
    await this.#pause(ms - this.#leastMs, () => this.#isGiven);
    this.#isGiven = false;
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
