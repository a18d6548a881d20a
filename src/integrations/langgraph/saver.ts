/**
 * A LangGraph checkpointer on any Holdfast store.
 *
 * A thread is one stream, `langgraph/<thread>`, with these steps, each one conditional append of one event:
 *
 *     put        take the values down ──▶ compare with the checkpoint it follows ──▶ append `checkpoint.saved`
 *     putWrites  take the values down ──▶ leave out what is saved already        ──▶ append `writes.saved`
 *                                          ▲                                          │
 *                                          └── conflict: reread, decide again ◀───────┘
 *
 *  - Taken down means: what is saved is what the values were when LangGraph called, not what a node made of them since.
 *  - A conflict is another writer of the same thread. Deciding again compares with what that one wrote, so a write is
 *    added to it and never over it. A `put` that follows a checkpoint which another one follows already is
 *    refused (`mustFollow`): the second of two runs hears of it when it saves its input, and its effects never start.
 *  - The same `put` or `putWrites` again changes nothing: a checkpoint is replaced by itself, writes keep their first value.
 *  - A crash before the append leaves the checkpoint before, with the writes that were saved for it: LangGraph runs only
 *    the tasks without writes again. A crash after it leaves the new one. There is nothing in between, and nothing to
 *    repair. Effects of a node that runs again are the business of `effects.ts`.
 *  - Writes may be saved before their checkpoint is; they wait for it.
 *  - When `put` and `putWrites` resolve, the bytes are durable, as every append is. When they reject, the run hears of it where
 *    it waits (`run-progress.ts`).
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type DeltaChannelHistory,
  getCheckpointId,
  INTERRUPT,
  type PendingWrite,
  RESUME,
  type SerializerProtocol,
  WRITES_IDX_MAP,
} from "@langchain/langgraph-checkpoint";
import { HoldfastError } from "../../model/errors.ts";
import { quoteValue } from "../../model/names.ts";
import type { Draft } from "../../model/stream/index.ts";
import type { Holdfast } from "../../open.ts";
import type { Problem } from "../../store.ts";
import { ExactSerializer } from "./exact-serializer.ts";
import { draftHeard, type Heard, type HeardFailure, howHeard } from "./failed-effects.ts";
import { listTuples } from "./listing.ts";
import { type CheckpointPlace, configOf, loadHistory, loadTuple } from "./loading.ts";
import { type Comparison, Parts } from "./part.ts";
import { dropOld, threadStreams } from "./pruning.ts";
import { ReadMemory } from "./read-memory.ts";
import { removeExpired, removeLeft, removeThread } from "./removal.ts";
import { NO_TASK, PatientPromise, Runs } from "./run-progress.ts";
import { SaveSignals } from "./save-signals.ts";
import {
  draftCheckpoint,
  draftWrites,
  mustFollow,
  noCheckpoint,
  putRequest,
  type WritesPlace,
} from "./saving.ts";
import type { Part } from "./stored-part.ts";
import { repeatedBy } from "./superseded.ts";
import { threadKind } from "./thread-kind.ts";
import { checkThread } from "./thread-name.ts";
import { findCheckpoint, latestId, type ThreadState, writeKey } from "./thread-state.ts";
import { Threads } from "./threads.ts";

/** What a `HoldfastSaver` may be told: how values are saved, and how long threads are kept. */
export interface HoldfastSaverOptions {
  /** How values become bytes. Unless set, exactly: what would not come back as it was is refused. */
  readonly serde?: SerializerProtocol;
  /** After this long without a write a thread may be removed by `removeExpired`. Never, unless set. */
  readonly ttlMs?: number | null;
  /** How many threads stay in memory; others are read again when they are used. 100 unless set. */
  readonly threadsInMemory?: number;
  /**
   * Whether messages that were changed in place are looked for among all at every save (`full`), or among the latest and in
   * turn some of the others (`recent`, the default): fields that were replaced in lists of up to 256 messages at once, changes
   * deeper inside in lists of up to 48, and in longer ones within a few saves. A message that is another object than before is
   * noticed in any case.
   */
  readonly compare?: Comparison;
}

/** LangGraph's checkpointer: `new HoldfastSaver(await open(…))`, passed to `compile()`. */
export class HoldfastSaver extends BaseCheckpointSaver {
  /** The store it saves in, for what else there is to do with it. */
  readonly holdfast: Holdfast;
  private readonly ttlMs: number | null;
  private readonly threads: Threads;
  private readonly parts: Parts;
  private readonly reads = new ReadMemory();
  private readonly signals = new SaveSignals();
  private readonly runs = new Runs();

  constructor(holdfast: Holdfast, options: HoldfastSaverOptions = {}) {
    super(options.serde ?? new ExactSerializer());
    this.holdfast = holdfast;
    this.ttlMs = options.ttlMs ?? null;
    const inMemory = options.threadsInMemory ?? 100;
    this.threads = new Threads(holdfast.journal, inMemory);
    this.parts = new Parts(this.serde, options.compare ?? "recent", inMemory, (what) =>
      holdfast.journal.warn(changedInPlace(what)),
    );
  }

  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const thread: unknown = config.configurable?.["thread_id"];
    if (thread === undefined) return undefined;
    const ns = namespaceOf(config);
    const asked = getCheckpointId(config);
    const { executionInfo } = config as { executionInfo?: { nodeAttempt?: number } };
    if (executionInfo?.nodeAttempt) this.reads.beganAt(checkThread(thread), ns, executionInfo.nodeAttempt);
    const state = await this.threads.read(checkThread(thread));
    const id = asked || latestId(state, ns);
    if (asked) {
      this.reads.askedFor(thread as string, ns, asked);
      // A copy of it follows what it follows itself.
      const parent = findCheckpoint(state, ns, asked)?.parent;
      if (parent) this.reads.askedFor(thread as string, ns, parent);
    } else if (id === undefined) this.reads.sawNothing(thread as string, ns);
    if (id === undefined) return undefined;
    return this.load(state, { thread: thread as string, ns, id });
  }

  override async *list(
    config: RunnableConfig,
    options: CheckpointListOptions = {},
  ): AsyncGenerator<CheckpointTuple> {
    const { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } = config.configurable ?? {};
    const threads = thread === undefined ? this.allThreads() : [checkThread(thread)];
    let left = options.limit ?? Number.POSITIVE_INFINITY;
    for await (const each of threads) {
      if (left <= 0) return;
      const state = await this.threads.read(each);
      const load = (place: CheckpointPlace) => this.load(state, place);
      // Who looks for what was before a checkpoint, as a replayed graph does for its subgraphs, wants to branch there.
      if (options.before && typeof ns === "string") this.reads.wantsToGoBack(each, ns);
      for await (const tuple of listTuples(state, each, { ...options, ns, id }, load)) {
        if (left <= 0) return;
        left -= 1;
        if (options.before && typeof ns === "string") this.reads.askedFor(each, ns, tuple.checkpoint.id);
        yield tuple;
      }
    }
  }

  put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    return PatientPromise.of(this.saveCheckpoint(config, checkpoint, metadata, newVersions));
  }

  /** What is refused at once is thrown, not rejected: a run notices that when its task ends, and not only at its own end. */
  putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string): Promise<void> {
    const thread = checkThread(config.configurable?.["thread_id"]);
    const checkpoint = getCheckpointId(config);
    if (!checkpoint) {
      throw new HoldfastError("INPUT_INVALID", `writes of thread ${thread} do not say their checkpoint`, {
        hint: "Pass the config that put() returned, with its checkpoint_id.",
      });
    }
    const place = { ns: namespaceOf(config), checkpoint, task: taskId };
    this.runs.of(config)?.ends(checkpoint, taskId, writes);
    const taken = writes.map(([channel, value]) => this.parts.part(value, `write to ${channel}`));
    return PatientPromise.of(this.saveWrites(thread, place, writes, taken));
  }

  /** Removes its checkpoints, its writes, and the record of its nodes' effects. Refused while one of them is open. */
  async deleteThread(threadId: string): Promise<void> {
    const thread = checkThread(threadId);
    await removeThread(this.holdfast.journal, thread);
    this.threads.forget(thread);
    this.reads.forget(thread);
    this.reads.wasRemoved(thread);
  }

  override async getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    const { config, channels } = options;
    if (channels.length === 0) return {};
    const state = await this.threads.read(checkThread(config.configurable?.["thread_id"]));
    const ns = namespaceOf(config);
    const id = getCheckpointId(config) || latestId(state, ns) || "";
    return loadHistory(this.parts, state, { ns, id }, channels);
  }

  /**
   * Drops all but the latest checkpoints of a thread, in each of its namespaces. Those that a kept one still needs to
   * rebuild a delta channel are kept with it. Returns how many were dropped. Checkpoints share what they have in common,
   * so this shortens lists and loads; disk space comes back when a thread is deleted.
   */
  async pruneThread(threadId: string, options: { readonly keepLast: number }): Promise<number> {
    const thread = checkThread(threadId);
    const keepLast = Math.max(1, Math.floor(options.keepLast));
    const log = await this.threads.get(thread);
    await log.refresh();
    const outcome = await log.commit((state) => dropOld(state, keepLast));
    return outcome.outcome === "ok" ? outcome.result : 0;
  }

  /** Removes threads that nobody wrote to for longer than their `ttlMs`. Returns their ids. Nothing expires by itself. */
  async removeExpired(): Promise<string[]> {
    const removed = await removeExpired(this.holdfast.journal);
    for (const thread of removed) this.threads.forget(thread);
    return removed;
  }

  /** Verifies that every snapshot of a thread is what its events come to. An empty list is good news. */
  async check(): Promise<Problem[]> {
    const problems: Problem[] = [];
    for await (const row of threadStreams(this.holdfast.journal)) {
      problems.push(...(await this.holdfast.journal.check(threadKind, row.stream)));
    }
    return problems;
  }

  /** For the effects layer: whether the checkpoint is durable, once it is or when `waitMs` have passed. */
  whenSaved({ thread, ns, id }: CheckpointPlace, waitMs: number): Promise<boolean> {
    const isSaved = async (): Promise<boolean> => {
      const log = await this.threads.get(thread);
      return Boolean(findCheckpoint(log.state, ns, id) ?? findCheckpoint(await log.refresh(), ns, id));
    };
    return this.signals.wait(placeKey(thread, ns, id), isSaved, waitMs);
  }

  /** For the effects layer: the checkpoint whose nodes, with their effects, run again on this one; null if none do. */
  async repeatedBy(
    { thread, id }: CheckpointPlace,
    hasEffects: (id: string) => boolean,
  ): Promise<string | null> {
    return repeatedBy(this.parts, (await this.threads.get(thread)).state, id, hasEffects);
  }

  /** For the effects layer: whether this is a subgraph that a retry policy lets its node begin anew. */
  isRetried({ thread, ns }: CheckpointPlace): boolean {
    return this.reads.isRetried(thread, ns);
  }

  /** For the effects layer: what a task was interrupted with when it ran last. */
  async lastInterrupt(places: readonly CheckpointPlace[], task: string): Promise<unknown> {
    for (const { thread, ns, id } of places) {
      const state = await this.threads.read(thread);
      const key = writeKey(task, WRITES_IDX_MAP[INTERRUPT] as number);
      const write = state.spaces.get(ns)?.slots.get(id)?.writes.get(key);
      if (write) return this.parts.load(write.part);
    }
    return undefined;
  }

  /** For the effects layer: a resume without a name was heard, and must not answer the next interrupt as well. */
  async forgetResume({ thread, ns, id }: CheckpointPlace): Promise<void> {
    const nothing = await this.parts.part(undefined, `write to ${RESUME}`);
    await this.commit(thread, (state) => {
      const draft = draftWrites(state, { ns, checkpoint: id, task: NO_TASK }, [[RESUME, nothing]]);
      return draft ? [draft] : [];
    });
  }

  /** For the effects layer: what the run of a node has made of a failure until now. */
  async howHeard(failure: HeardFailure): Promise<Heard> {
    return howHeard(await this.threads.read(failure.thread), failure);
  }

  /** For the effects layer: durable when it resolves. */
  async noteHeard(failure: HeardFailure, heard: "heard" | "ended"): Promise<void> {
    const yes = await this.parts.part(true, heard);
    await this.commit(failure.thread, (state) => {
      const draft = draftHeard(state, failure, heard, yes);
      return draft ? [draft] : [];
    });
  }

  private async saveCheckpoint(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const thread = checkThread(config.configurable?.["thread_id"]);
    const ns = namespaceOf(config);
    const parent = getCheckpointId(config) || null;
    const run = this.runs.of(config);
    if (parent === null) this.reads.beginsAnew(thread);
    run?.saves(checkpoint.id, metadata.source, checkpoint.channel_values);
    try {
      const seen = this.threads.lastSeen(thread);
      const base = seen && parent !== null ? findCheckpoint(seen, ns, parent) : undefined;
      const place = { thread, ns, parent };
      const taken = putRequest(this.parts, place, checkpoint, metadata, { newVersions, base });
      const request = taken instanceof Promise ? await taken : taken;
      const reads = { ...this.reads.of(thread, ns, parent), isCopy: metadata.source === "fork" };
      await this.commit(thread, (state) => {
        mustFollow(state, request, reads);
        return [draftCheckpoint(state, request)];
      });
    } catch (error) {
      this.signals.refused(placeKey(thread, ns, checkpoint.id), error);
      await run?.heardOf(error);
      throw error;
    }
    if (!this.signals.isIdle) this.signals.saved(placeKey(thread, ns, checkpoint.id));
    return configOf({ thread, ns, id: checkpoint.id });
  }

  private async saveWrites(
    thread: string,
    place: WritesPlace,
    writes: readonly PendingWrite[],
    taken: readonly (Part | Promise<Part>)[],
  ): Promise<void> {
    const parts = await Promise.all(taken);
    const said = writes.map(([channel], index) => [channel, parts[index] as Part] as const);
    await this.commit(thread, (state, isSameLife) => {
      if (!isSameLife) this.reads.wasRemoved(thread);
      // Writes wait for their checkpoint, but not for one that went with its thread: they would bring that back.
      if (this.reads.isRemoved(thread) && !findCheckpoint(state, place.ns, place.checkpoint))
        throw noCheckpoint(thread, place.ns, place.checkpoint);
      const draft = draftWrites(state, place, said);
      return draft ? [draft] : [];
    });
  }

  private load(state: ThreadState, place: CheckpointPlace): Promise<CheckpointTuple | undefined> {
    return loadTuple(this.parts, state, place, () => this.getNextVersion(undefined));
  }

  /** `isSameLife`: the thread was not removed since it was last seen here. */
  private async commit(
    thread: string,
    decide: (state: ThreadState, isSameLife: boolean) => readonly Draft[],
  ): Promise<void> {
    const log = await this.threads.get(thread);
    const { generation } = log.head;
    for (let isCleared = false; ; isCleared = true) {
      const outcome = await log.commit((state, head) => {
        const events = decide(state, head.generation === generation);
        const isDescribed = state.thread === thread && state.ttlMs === this.ttlMs;
        if (isDescribed || events.length === 0) return { events, result: "done" };
        if (state.thread === null && !isCleared) return { events: [], result: "begins" };
        const described = { type: "thread.described", data: { thread, ttlMs: this.ttlMs } };
        return { events: [described, ...events], result: "done" };
      });
      if (outcome.outcome !== "ok" || outcome.result === "done") return;
      await removeLeft(this.holdfast.journal, thread);
    }
  }

  private async *allThreads(): AsyncGenerator<string> {
    for await (const row of threadStreams(this.holdfast.journal)) {
      if (row.facets.title !== null) yield row.facets.title;
    }
  }
}

function changedInPlace(what: string): HoldfastError {
  return new HoldfastError("STATE_STALE", `${what} was changed in place some saves ago`, {
    hint: 'It is saved now, and this list is compared in full from here on. Checkpoints since the change hold what it was before: return new messages from nodes, or pass `compare: "full"`.',
    data: { what },
  });
}

function placeKey(thread: string, ns: string, id: string): string {
  return JSON.stringify([thread, ns, id]);
}

function namespaceOf(config: RunnableConfig): string {
  const ns: unknown = config.configurable?.["checkpoint_ns"] ?? "";
  if (typeof ns === "string") return ns;
  throw new HoldfastError("INPUT_INVALID", `configurable.checkpoint_ns is ${quoteValue(ns)}`, {
    hint: "Leave it out, or pass it as text.",
  });
}
