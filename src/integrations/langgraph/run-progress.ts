/**
 * What a run is known to be doing, told from what it saves, so that it hears of a refused `put` where it waits:
 *
 *     put(A) ──▶ the tasks of A are at work ──▶ each ends with putWrites(A) ──▶ put(B), once put(A) is done ──▶ …
 *
 * LangGraph starts the tasks of a checkpoint without waiting for its `put`, and looks at what became of that when the run
 * is at its end (with durability "sync": before the next step). Until then nobody looks, and Node ends a process in which a
 * rejection is left so. The rejection is therefore held back while tasks are at work. The next one to end is refused its
 * writes at once; that ends the run, and the run looks. Where no task is at work, the run is looking or about to.
 *
 * Which tasks there are follows from what triggers them: the channels of a checkpoint, then those that its tasks write to.
 * Where that says too much (a run that stops before a node), the run hears of the refusal late; where too little, as soon
 * as it would have without all this.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import { ERROR, INTERRUPT, type PendingWrite, TASKS } from "@langchain/langgraph-checkpoint";

/** How long a run may be kept from hearing of a refusal while a task of it seems to be at work. */
const HOLD_MS = 60_000;
/** From the end of a task to looking at the promises takes LangGraph a few turns of the event loop. */
const LOOK_MS = 100;
const TRIGGERS = /^(branch:to:|join:|__start__$)/;
/** What LangGraph itself writes between the tasks: a resume, an input. */
export const NO_TASK = "00000000-0000-0000-0000-000000000000";

export class RunProgress {
  private readonly signal: AbortSignal;
  /** LangGraph's: "exit" saves nothing before the run is at its end, "sync" looks before it goes on. */
  private readonly durability: unknown;
  private refusal: { readonly error: unknown } | null = null;
  private readonly seen = new Set<string>();
  private checkpoint = "";
  /** Of the current checkpoint: how many tasks it has, those that have ended, and what they have triggered. */
  private tasks = 0;
  private ended = new Set<string>();
  private triggered = new Set<string>();
  /** An interrupt lets the other tasks end, an error does not. */
  private stop: "interrupt" | "error" | null = null;
  private release: (() => void) | null = null;

  constructor(signal: AbortSignal, durability: unknown) {
    this.signal = signal;
    this.durability = durability;
  }

  /** `put` was called. Its tasks may have begun, and even ended, long before; or wait for it, with "sync" after the input. */
  saves(checkpoint: string, source: string, values: Readonly<Record<string, unknown>>): void {
    // After a refusal LangGraph saves nothing more: whoever does has begun anew.
    this.refusal = null;
    if (this.seen.has(checkpoint)) return;
    if (this.durability === "sync" && source !== "input") {
      this.enter(checkpoint, 0);
      return;
    }
    const sends: unknown = values[TASKS];
    const triggers = Object.keys(values).filter((channel) => TRIGGERS.test(channel));
    this.enter(checkpoint, triggers.length + (Array.isArray(sends) ? sends.length : 0));
  }

  /** `putWrites` was called: a task has ended. Throws if the run was refused: this is where it hears of it. */
  ends(checkpoint: string, task: string, writes: readonly PendingWrite[]): void {
    if (this.refusal) {
      this.release?.();
      throw this.refusal.error;
    }
    if (task === NO_TASK) return;
    if (checkpoint !== this.checkpoint) this.enter(checkpoint, this.triggered.size);
    this.ended.add(task);
    writes.forEach(([channel], index) => {
      if (channel === TASKS) this.triggered.add(`${task}/${index}`);
      else if (TRIGGERS.test(channel)) this.triggered.add(channel);
      else if (channel === ERROR) this.stop = "error";
      else if (channel === INTERRUPT) this.stop ??= "interrupt";
    });
  }

  /** Resolves when the run has heard of the refusal, or there is no task left by which it could. */
  async heardOf(error: unknown): Promise<void> {
    this.refusal = { error };
    if (this.isAtWork && !this.signal.aborted) await this.nextEnd();
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }

  private get isAtWork(): boolean {
    if (this.durability === "exit" || this.stop === "error") return false;
    if (this.ended.size < this.tasks) return true;
    return this.triggered.size > 0 && this.stop === null && this.durability !== "sync";
  }

  private async nextEnd(): Promise<void> {
    const over = new AbortController();
    const timer = setTimeout(() => over.abort(), HOLD_MS);
    this.release = () => over.abort();
    const either = AbortSignal.any([this.signal, over.signal]);
    await new Promise<void>((resolve) => either.addEventListener("abort", () => resolve(), { once: true }));
    clearTimeout(timer);
    this.release = null;
  }

  private enter(checkpoint: string, tasks: number): void {
    this.seen.add(checkpoint);
    this.checkpoint = checkpoint;
    this.tasks = tasks;
    this.ended = new Set();
    this.triggered = new Set();
  }
}

/** Runs by their signal: LangGraph makes one for every run, and passes it with everything that the run saves. */
export class Runs {
  private readonly runs = new WeakMap<AbortSignal, RunProgress>();

  /** Undefined for a caller that is no run: it looks at what it gets. */
  of(config: RunnableConfig): RunProgress | undefined {
    const { signal, control, durability } = config as RunnableConfig &
      Record<"control" | "durability", unknown>;
    if (!signal || (control === undefined && durability === undefined)) return undefined;
    const known = this.runs.get(signal);
    if (known) return known;
    const run = new RunProgress(signal, durability);
    this.runs.set(signal, run);
    return run;
  }
}

/**
 * For promises that LangGraph hangs something on at once and looks at later: what hangs on it counts as looked after, so
 * that a rejection waits for the run to look. One that nobody hangs anything on is as unhandled as any other.
 */
export class PatientPromise<Value> extends Promise<Value> {
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  static of<Value>(work: Promise<Value>): Promise<Value> {
    return new PatientPromise((resolve, reject) => {
      work.then(resolve, reject);
    });
  }

  // biome-ignore lint/suspicious/noThenProperty: a promise has one; only what it returns is looked after.
  override then<One = Value, Other = never>(
    kept?: ((value: Value) => One | PromiseLike<One>) | null,
    broken?: ((reason: unknown) => Other | PromiseLike<Other>) | null,
  ): Promise<One | Other> {
    const next = super.then(kept, broken);
    next.catch(() => undefined);
    return next;
  }
}
