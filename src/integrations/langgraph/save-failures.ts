/**
 * How a run and its effects learn that a save was refused.
 *
 *     put(A) ──▶ the tasks of A run ──▶ each finishes with putWrites(A) ──▶ put(B), once put(A) is done ──▶ …
 *
 * LangGraph starts the tasks of a checkpoint without waiting for its `put`, and checks that promise at the
 * end of the run (with durability "sync": before the next step). A rejection that is not checked by then ends
 * a Node process as unhandled. So `put` holds its rejection back while tasks run. The next task to finish
 * gets the error from `putWrites` at once; that ends the run, and LangGraph checks the promises.
 *
 * Which tasks run follows from their triggers: the channels of a checkpoint, then the channels that its tasks
 * write. If this counts too many tasks, the run learns of the refusal late; too few, as early as without
 * this.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import { ERROR, INTERRUPT, type PendingWrite, TASKS } from "@langchain/langgraph-checkpoint";
import type { CheckpointPlace } from "./loading.ts";

/** How long a rejection is held back while a task seems to run. */
const HOLD_MS = 60_000;
/** LangGraph needs a few turns of the event loop from the end of a task to checking its promises. */
const CHECK_MS = 100;
const TRIGGERS = /^(branch:to:|join:|__start__$)/;
/** The task id under which LangGraph itself writes between tasks: a resume, an input. */
export const NO_TASK = "00000000-0000-0000-0000-000000000000";

class RunProgress {
  private readonly signal: AbortSignal;
  /** LangGraph's option: "exit" saves nothing before the end, "sync" checks a save before it continues. */
  private readonly durability: unknown;
  private refusal: { readonly error: unknown } | null = null;
  private readonly seen = new Set<string>();
  private checkpoint = "";
  /** The number of tasks of the current checkpoint; then the finished ones, and the triggers they wrote. */
  private tasks = 0;
  private finished = new Set<string>();
  private triggered = new Set<string>();
  /** After an interrupt the other tasks still finish; after an error they do not. */
  private stop: "interrupt" | "error" | null = null;
  private release: (() => void) | null = null;

  constructor(signal: AbortSignal, durability: unknown) {
    this.signal = signal;
    this.durability = durability;
  }

  /** `put` was called. With "sync" its tasks wait for it; otherwise they may have finished long before. */
  noteCheckpoint(checkpoint: string, source: string, values: Readonly<Record<string, unknown>>): void {
    // LangGraph saves nothing more after a refusal, so this is a new start.
    this.refusal = null;
    if (this.seen.has(checkpoint)) return;
    const isAwaited = this.durability === "sync" && source !== "input";
    const sends: unknown = values[TASKS];
    const triggers = Object.keys(values).filter((channel) => TRIGGERS.test(channel));
    const tasks = triggers.length + (Array.isArray(sends) ? sends.length : 0);
    this.startStep(checkpoint, isAwaited ? 0 : tasks);
  }

  /** `putWrites` was called: a task has finished. Throws the error of a refused `put`. */
  noteTaskFinished(checkpoint: string, task: string, writes: readonly PendingWrite[]): void {
    if (this.refusal) {
      this.release?.();
      throw this.refusal.error;
    }
    if (task === NO_TASK) return;
    if (checkpoint !== this.checkpoint) this.startStep(checkpoint, this.triggered.size);
    this.finished.add(task);
    writes.forEach(([channel], index) => {
      if (channel === TASKS) this.triggered.add(`${task}/${index}`);
      else if (TRIGGERS.test(channel)) this.triggered.add(channel);
      else if (channel === ERROR) this.stop = "error";
      else if (channel === INTERRUPT) this.stop ??= "interrupt";
    });
  }

  /** `put` was refused. Resolves when a task has got the error, or none is left that could get it. */
  async reportRefusal(error: unknown): Promise<void> {
    this.refusal = { error };
    if (this.hasRunningTask && !this.signal.aborted) await this.nextTaskFinished();
    await new Promise((resolve) => setTimeout(resolve, CHECK_MS));
  }

  private get hasRunningTask(): boolean {
    if (this.durability === "exit" || this.stop === "error") return false;
    if (this.finished.size < this.tasks) return true;
    return this.triggered.size > 0 && this.stop === null && this.durability !== "sync";
  }

  private async nextTaskFinished(): Promise<void> {
    const over = new AbortController();
    const timer = setTimeout(() => over.abort(), HOLD_MS);
    this.release = () => over.abort();
    const either = AbortSignal.any([this.signal, over.signal]);
    await new Promise<void>((resolve) => either.addEventListener("abort", () => resolve(), { once: true }));
    clearTimeout(timer);
    this.release = null;
  }

  private startStep(checkpoint: string, tasks: number): void {
    this.seen.add(checkpoint);
    this.checkpoint = checkpoint;
    this.tasks = tasks;
    this.finished = new Set();
    this.triggered = new Set();
  }
}

/** Runs by their abort signal: LangGraph makes one per run and passes it with every save. */
export class Runs {
  private readonly runs = new WeakMap<AbortSignal, RunProgress>();

  /** Undefined for a caller that is not a run: it awaits `put` itself. */
  find(config: RunnableConfig): RunProgress | undefined {
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
 * LangGraph calls `then` on the promise of a save at once, and checks the result only at the end of the run.
 * Until then derived promises count as handled.
 */
export class QuietPromise<Value> extends Promise<Value> {
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  static of<Value>(work: Promise<Value>): Promise<Value> {
    return new QuietPromise((resolve, reject) => {
      work.then(resolve, reject);
    });
  }

  // biome-ignore lint/suspicious/noThenProperty: overrides the `then` of a promise.
  override then<One = Value, Other = never>(
    onResolved?: ((value: Value) => One | PromiseLike<One>) | null,
    onRejected?: ((reason: unknown) => Other | PromiseLike<Other>) | null,
  ): Promise<One | Other> {
    const next = super.then(onResolved, onRejected);
    next.catch(() => undefined);
    return next;
  }
}

const REFUSALS_LIMIT = 100;

interface Waiter {
  saved(): void;
  refused(error: unknown): void;
}

/** Wakes effects that wait for a checkpoint. Remembers refusals for effects that ask a little later. */
export class SaveSignals {
  private readonly waiters = new Map<string, Set<Waiter>>();
  private readonly refusals = new Map<string, unknown>();

  /** True once the checkpoint is saved, false after `waitMs`. Rejects when saving it was refused. */
  async wait(place: CheckpointPlace, isSaved: () => Promise<boolean>, waitMs: number): Promise<boolean> {
    const key = keyOf(place);
    const waiters = this.waiters.get(key) ?? new Set();
    this.waiters.set(key, waiters);
    let timer: NodeJS.Timeout | undefined;
    let waiter: Waiter | undefined;
    const signal = new Promise<boolean>((resolve, reject) => {
      waiter = { saved: () => resolve(true), refused: reject };
      waiters.add(waiter);
      timer = setTimeout(() => resolve(false), waitMs);
    });
    // A refusal while `isSaved` runs must not be reported as unhandled.
    signal.catch(() => undefined);
    try {
      if (await isSaved()) return true;
      if (this.refusals.has(key)) throw this.refusals.get(key);
      return await signal;
    } finally {
      clearTimeout(timer);
      if (waiter) waiters.delete(waiter);
      if (waiters.size === 0) this.waiters.delete(key);
    }
  }

  noteSaved(place: CheckpointPlace): void {
    if (this.waiters.size === 0 && this.refusals.size === 0) return;
    const key = keyOf(place);
    this.refusals.delete(key);
    for (const waiter of this.waiters.get(key) ?? []) waiter.saved();
  }

  noteRefused(place: CheckpointPlace, error: unknown): void {
    const key = keyOf(place);
    this.refusals.set(key, error);
    for (const [oldest] of this.refusals) {
      if (this.refusals.size <= REFUSALS_LIMIT) break;
      this.refusals.delete(oldest);
    }
    for (const waiter of this.waiters.get(key) ?? []) waiter.refused(error);
  }
}

function keyOf({ thread, ns, id }: CheckpointPlace): string {
  return JSON.stringify([thread, ns, id]);
}
