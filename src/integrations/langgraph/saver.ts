/**
 * A LangGraph checkpointer on any Holdfast store.
 *
 * A thread is one stream, `langgraph/<thread>`. Each save is one conditional append:
 *
 *     put        encode the values ──▶ diff with the checkpoint it follows ──▶ append `checkpoint.saved`
 *     putWrites  encode the values ──▶ leave out writes that are saved     ──▶ append `writes.saved`
 *                                       ▲                                       │
 *                                       └── conflict: reread, decide again ◀────┘
 *
 *  - Values are encoded before `put` and `putWrites` return. Later changes by a node are not saved.
 *  - After a conflict the decision is made again on the new state, so writes are added to those of another
 *    process, never over them.
 *  - A `put` is refused if another run has saved a checkpoint after the same parent (`checkFollows`). The
 *    second of two runs fails when it saves its input, before its effects start.
 *  - Repeating a `put` or `putWrites` changes nothing.
 *  - Writes may be saved before their checkpoint. They wait for it.
 *
 * | a crash           | leaves                                                                           |
 * |-------------------|----------------------------------------------------------------------------------|
 * | before the append | the checkpoint before, with its saved writes: LangGraph runs only the tasks      |
 * |                   | without writes again. `effects.ts` keeps their effects from happening twice      |
 * | after the append  | the new checkpoint                                                               |
 *
 * `put` and `putWrites` resolve when the bytes are durable. See `save-failures.ts` for rejections.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import type {
  ChannelVersions,
  Checkpoint,
  CheckpointListOptions,
  CheckpointMetadata,
  CheckpointTuple,
  DeltaChannelHistory,
  PendingWrite,
  SerializerProtocol,
} from "@langchain/langgraph-checkpoint";
import { BaseCheckpointSaver, getCheckpointId } from "@langchain/langgraph-checkpoint";
import { HoldfastError } from "../../model/errors.ts";
import { quoteValue } from "../../model/names.ts";
import type { Holdfast } from "../../open.ts";
import type { Problem } from "../../store.ts";
import { checkFollows, ReadHistory } from "./branches.ts";
import { checkpointNotFound } from "./errors.ts";
import { type CheckpointPlace, configOf, listTuples, loadHistory, loadTuple } from "./loading.ts";
import { pruneCheckpoints, removeExpired, removeThread } from "./removal.ts";
import { QuietPromise, Runs, SaveSignals } from "./save-failures.ts";
import { draftCheckpoint, draftWrites, encodePut, type WritesPlace } from "./saving.ts";
import { ExactSerializer } from "./serializer.ts";
import { findCheckpoint, latestId, type ThreadState, threadKind } from "./thread-state.ts";
import { checkThread, listThreads } from "./thread-streams.ts";
import { Threads } from "./threads.ts";
import { type Part, ValueCodec } from "./values.ts";

/** How a `HoldfastSaver` saves values, and how long it keeps threads. */
export interface HoldfastSaverOptions {
  /** Turns values into bytes. Default: `ExactSerializer`. */
  readonly serde?: SerializerProtocol;
  /** How long a thread lives after its last write, until `removeExpired()` removes it. Default: for ever. */
  readonly ttlMs?: number | null;
  /** How many threads stay in memory. Default: 100. */
  readonly threadsInMemory?: number;
}

export interface SaverInternals {
  readonly threads: Threads;
  readonly codec: ValueCodec;
  readonly reads: ReadHistory;
  readonly signals: SaveSignals;
}

/**
 * LangGraph's checkpointer on a Holdfast store. A checkpoint is durable when `put` resolves, saving one costs
 * what changed, and values come back exactly as they were.
 * @example
 * const graph = builder.compile({ checkpointer: new HoldfastSaver(await open("state.db")) });
 * await graph.invoke(input, { configurable: { thread_id: "order-4711" } });
 */
export class HoldfastSaver extends BaseCheckpointSaver {
  /** The store that this saver uses. */
  readonly holdfast: Holdfast;
  private readonly internals: SaverInternals;
  private readonly runs = new Runs();
  /** Checkpoints that are being saved, by id. LangGraph does not always wait for one before its child. */
  private readonly saving = new Map<string, Promise<unknown>>();

  constructor(holdfast: Holdfast, options: HoldfastSaverOptions = {}) {
    super(options.serde ?? new ExactSerializer());
    this.holdfast = holdfast;
    this.internals = {
      threads: new Threads(holdfast.journal, options.threadsInMemory ?? 100, options.ttlMs ?? null),
      codec: new ValueCodec(this.serde),
      reads: new ReadHistory(),
      signals: new SaveSignals(),
    };
  }

  /** Loads the checkpoint named in `config`, or the latest one of its thread and namespace. */
  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    if (config.configurable?.["thread_id"] === undefined) return undefined;
    const thread = threadOf(config);
    const ns = namespaceOf(config);
    const { threads, reads } = this.internals;
    const { executionInfo } = config as { executionInfo?: { nodeAttempt?: number } };
    // LangGraph reads a subgraph's checkpoint when it starts the subgraph, with the node's attempt.
    const { nodeAttempt = 0 } = executionInfo ?? {};
    if (nodeAttempt > 1) reads.retried.add(thread, ns);
    else if (nodeAttempt === 1) reads.retried.delete(thread, ns);
    const state = await threads.read(thread);
    const requested = getCheckpointId(config);
    if (requested) {
      reads.byId.add(thread, ns, requested);
      // A copy of this checkpoint follows the same parent.
      const parent = findCheckpoint(state, ns, requested)?.parent;
      if (parent) reads.byId.add(thread, ns, parent);
    }
    const id = requested || latestId(state, ns);
    if (id !== undefined) return this.load(state, { thread, ns, id });
    reads.empty.add(thread, ns);
    return undefined;
  }

  /** Lists checkpoints, latest first: of one thread, or of all threads if `config` names none. */
  override async *list(
    config: RunnableConfig,
    options: CheckpointListOptions = {},
  ): AsyncGenerator<CheckpointTuple> {
    const { thread_id, checkpoint_ns: ns, checkpoint_id: id } = config.configurable ?? {};
    const { threads, reads } = this.internals;
    // A replayed graph lists what was before a checkpoint, for each of its subgraphs, in order to branch
    // there.
    const isBranching = options.before !== undefined && typeof ns === "string";
    let remaining = options.limit ?? Number.POSITIVE_INFINITY;
    for await (const thread of thread_id === undefined ? this.allThreads() : [checkThread(thread_id)]) {
      if (remaining <= 0) return;
      const state = await threads.read(thread);
      if (isBranching) reads.empty.delete(thread, ns);
      const load = (place: CheckpointPlace) => this.load(state, place);
      for await (const tuple of listTuples(state, thread, { ...options, ns, id }, load)) {
        if (remaining <= 0) return;
        remaining -= 1;
        if (isBranching) reads.byId.add(thread, ns, tuple.checkpoint.id);
        yield tuple;
      }
    }
  }

  /**
   * Saves a checkpoint after the one that `config` names. Durable when it resolves. Without `newVersions`,
   * every channel counts as new.
   */
  put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions?: ChannelVersions,
  ): Promise<RunnableConfig> {
    const { id } = checkpoint;
    const saved = this.saveCheckpoint(config, checkpoint, metadata, newVersions);
    const forget = (): void => {
      if (this.saving.get(id) === settled) this.saving.delete(id);
    };
    const settled = saved.then(forget, forget);
    this.saving.set(id, settled);
    return QuietPromise.of(saved);
  }

  /** Saves the writes of a finished task. An invalid call throws: the run notices that as the task ends. */
  putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string): Promise<void> {
    const thread = threadOf(config);
    const checkpoint = getCheckpointId(config);
    if (!checkpoint) {
      throw new HoldfastError("INPUT_INVALID", `writes of thread ${thread}: no checkpoint_id in the config`, {
        hint: "Pass the config that put() returned.",
      });
    }
    this.runs.find(config)?.noteTaskFinished(checkpoint, taskId, writes);
    const { codec } = this.internals;
    const parts = writes.map(([channel, value]) => codec.encode(value, `write to ${channel}`));
    const place = { ns: namespaceOf(config), checkpoint, task: taskId };
    return QuietPromise.of(this.saveWrites(thread, place, writes, parts));
  }

  /** Removes a thread with its writes and the record of its effects. Refused while a call is open. */
  async deleteThread(threadId: string): Promise<void> {
    const thread = checkThread(threadId);
    const { threads, reads } = this.internals;
    await removeThread(this.holdfast.journal, thread);
    threads.forget(thread);
    // A deleted thread is empty again for everyone: earlier reads of an empty thread no longer count.
    reads.empty.deleteUnder(thread);
    reads.removed.add(thread);
  }

  /** The writes to delta channels on the way to a checkpoint, for LangGraph. */
  override async getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    const { config, channels } = options;
    if (channels.length === 0) return {};
    const state = await this.internals.threads.read(threadOf(config));
    const ns = namespaceOf(config);
    const id = getCheckpointId(config) || latestId(state, ns) || "";
    return loadHistory(this.internals.codec, state, { ns, id }, channels);
  }

  /**
   * Drops all but the latest checkpoints of a thread, in each of its namespaces, and returns how many.
   * Checkpoints that a remaining one needs to rebuild a delta channel stay too. It frees no disk space,
   * because checkpoints share their values; deleting the thread does.
   * @example await saver.pruneThread("order-4711", { keepLast: 20 });
   */
  async pruneThread(threadId: string, options: { readonly keepLast: number }): Promise<number> {
    const keepLast = Math.max(1, Math.floor(options.keepLast));
    const log = await this.internals.threads.log(checkThread(threadId));
    await log.refresh();
    const outcome = await log.commit((state) => pruneCheckpoints(state, keepLast));
    return outcome.outcome === "ok" ? outcome.result : 0;
  }

  /**
   * Removes threads without a write for longer than their `ttlMs`, and returns their ids.
   * @example setInterval(() => saver.removeExpired(), 3_600_000);
   */
  async removeExpired(): Promise<string[]> {
    const removed = await removeExpired(this.holdfast.journal);
    for (const thread of removed) this.internals.threads.forget(thread);
    return removed;
  }

  /** Verifies that every snapshot of a thread equals the fold of its events. An empty list: all is well. */
  async check(): Promise<Problem[]> {
    const problems: Problem[] = [];
    for await (const row of listThreads(this.holdfast.journal)) {
      problems.push(...(await this.holdfast.journal.check(threadKind, row.stream)));
    }
    return problems;
  }

  private async saveCheckpoint(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions | undefined,
  ): Promise<RunnableConfig> {
    const thread = threadOf(config);
    const ns = namespaceOf(config);
    const parent = getCheckpointId(config) || null;
    const parentSaved = parent === null ? undefined : this.saving.get(parent);
    const place: CheckpointPlace = { thread, ns, id: checkpoint.id };
    const { threads, codec, reads, signals } = this.internals;
    const run = this.runs.find(config);
    run?.noteCheckpoint(checkpoint.id, metadata.source, checkpoint.channel_values);
    if (parent === null) reads.removed.delete(thread);
    try {
      const cached = threads.peek(thread);
      const base = cached && parent !== null ? findCheckpoint(cached, ns, parent) : undefined;
      const versions = { newVersions, base };
      const encoding = encodePut(codec, { thread, ns, parent }, checkpoint, metadata, versions);
      const request = encoding instanceof Promise ? await encoding : encoding;
      // With delta channels and durability "exit", a parent is made up and saved together with its child.
      if (parentSaved) await parentSaved;
      const intent = {
        wantsBranch: parent !== null && reads.byId.has(thread, ns, parent),
        expectsEmpty: reads.empty.has(thread, ns),
        isCopy: metadata.source === "fork",
      };
      await threads.commit(thread, (state) => {
        checkFollows(state, request, intent);
        return [draftCheckpoint(state, request)];
      });
    } catch (error) {
      signals.noteRefused(place, error);
      await run?.reportRefusal(error);
      throw error;
    }
    signals.noteSaved(place);
    return configOf(place);
  }

  private async saveWrites(
    thread: string,
    place: WritesPlace,
    writes: readonly PendingWrite[],
    encoding: readonly (Part | Promise<Part>)[],
  ): Promise<void> {
    const { threads, reads } = this.internals;
    const parts = await Promise.all(encoding);
    const encoded = writes.map(([channel], index) => [channel, parts[index] as Part] as const);
    await threads.commit(thread, (state, wasRemoved) => {
      if (wasRemoved) reads.removed.add(thread);
      // Writes may come before their checkpoint, but those of a deleted thread must not bring it back.
      if (reads.removed.has(thread) && !findCheckpoint(state, place.ns, place.checkpoint))
        throw checkpointNotFound(thread, place.ns, place.checkpoint);
      return draftWrites(state, place, encoded);
    });
  }

  private load(state: ThreadState, place: CheckpointPlace): Promise<CheckpointTuple | undefined> {
    return loadTuple(this.internals.codec, state, place, () => this.getNextVersion(undefined));
  }

  private async *allThreads(): AsyncGenerator<string> {
    for await (const row of listThreads(this.holdfast.journal)) {
      if (row.facets.title !== null) yield row.facets.title;
    }
  }
}

export function saverInternals(saver: HoldfastSaver): SaverInternals {
  return saver["internals"];
}

function threadOf(config: RunnableConfig): string {
  return checkThread(config.configurable?.["thread_id"]);
}

function namespaceOf(config: RunnableConfig): string {
  const ns: unknown = config.configurable?.["checkpoint_ns"] ?? "";
  if (typeof ns === "string") return ns;
  throw new HoldfastError("INPUT_INVALID", `configurable.checkpoint_ns is ${quoteValue(ns)}`, {
    hint: "Leave it out, or pass it as text.",
  });
}
