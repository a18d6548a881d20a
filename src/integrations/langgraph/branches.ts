/**
 * Branches of a thread: when a `put` may start one, and when a run repeats what an earlier one did.
 *
 *     input ──▶ A ──▶ B ──▶ C          invoked again from A: B and C are made a second time, as B′ and C′
 *               └───▶ B′ ─▶ C′
 *
 * `put` alone does not say whether its caller wants a branch. The reads before it do: a caller that read A by
 * its id wants to branch there; a caller that read "the latest" wants to follow it.
 */

import { type CheckpointMetadata, INTERRUPT } from "@langchain/langgraph-checkpoint";
import { checkpointNotFound, threadMovedOn } from "./errors.ts";
import type { PutRequest } from "./saving.ts";
import { findCheckpoint, latestId, type SavedCheckpoint, type ThreadState } from "./thread-state.ts";
import type { ValueCodec } from "./values.ts";

const HISTORY_LIMIT = 10_000;

/** The reads and removals of this process that matter for `put`. The oldest entries are dropped. */
export class ReadHistory {
  private readonly readById = new Set<string>();
  /** Threads and namespaces that were read while they had no checkpoint. */
  private readonly readEmpty = new Set<string>();
  /** Threads that were removed and not begun again, as far as this process knows. */
  private readonly removed = new Set<string>();
  /** Subgraphs whose node a retry policy has started again. */
  private readonly retried = new Set<string>();

  noteReadById(thread: string, ns: string, id: string): void {
    remember(this.readById, key(thread, ns, id));
  }

  noteReadEmpty(thread: string, ns: string): void {
    remember(this.readEmpty, key(thread, ns));
  }

  /** A caller that lists checkpoints before another one may also want to branch before the first. */
  noteListedBefore(thread: string, ns: string): void {
    this.readEmpty.delete(key(thread, ns));
  }

  intentOf(thread: string, ns: string, parent: string | null): PutIntent {
    return {
      wantsBranch: parent !== null && this.readById.size > 0 && this.readById.has(key(thread, ns, parent)),
      expectsEmpty: this.readEmpty.size > 0 && this.readEmpty.has(key(thread, ns)),
    };
  }

  /** LangGraph reads a subgraph's checkpoint when it starts the subgraph, with the node's attempt. */
  noteSubgraphStart(thread: string, ns: string, attempt: number): void {
    if (attempt > 1) remember(this.retried, key(thread, ns));
    else this.retried.delete(key(thread, ns));
  }

  isRetried(thread: string, ns: string): boolean {
    return this.retried.has(key(thread, ns));
  }

  noteRemoved(thread: string): void {
    remember(this.removed, thread);
  }

  noteBegun(thread: string): void {
    this.removed.delete(thread);
  }

  isRemoved(thread: string): boolean {
    return this.removed.size > 0 && this.removed.has(thread);
  }

  /** A deleted thread is empty again for everyone: earlier reads of an empty thread no longer count. */
  forgetEmptyReads(thread: string): void {
    const prefix = `${JSON.stringify([thread]).slice(0, -1)},`;
    for (const entry of this.readEmpty) if (entry.startsWith(prefix)) this.readEmpty.delete(entry);
  }
}

export interface PutIntent {
  readonly wantsBranch: boolean;
  readonly expectsEmpty: boolean;
}

function key(...parts: string[]): string {
  return JSON.stringify(parts);
}

function remember(entries: Set<string>, entry: string): void {
  entries.delete(entry);
  entries.add(entry);
  for (const oldest of entries) {
    if (entries.size <= HISTORY_LIMIT) break;
    entries.delete(oldest);
  }
}

/**
 * Refuses the second of two runs that follow the same checkpoint: otherwise the work of one would disappear
 * silently. A caller that read the older checkpoint by its id gets a branch. A run on another branch
 * continues there.
 */
export function checkFollows(
  state: ThreadState,
  request: PutRequest,
  { wantsBranch, expectsEmpty, isCopy }: PutIntent & { readonly isCopy: boolean },
): void {
  const { thread, ns, parent, checkpoint } = request;
  const latest = latestId(state, ns);
  if (findCheckpoint(state, ns, checkpoint.id)) return;
  if (parent === null) {
    if (latest !== undefined && expectsEmpty) throw threadMovedOn(thread, "an empty thread", latest);
    return;
  }
  if (!findCheckpoint(state, ns, parent)) throw checkpointNotFound(thread, ns, parent);
  const child = latestChild(state, ns, parent);
  if (child === undefined || wantsBranch || (isCopy && child === latest)) return;
  throw threadMovedOn(thread, `checkpoint ${parent}`, child);
}

/** Searches backwards and stops at the parent: nearly always that is the first one. */
function latestChild(state: ThreadState, ns: string, parent: string): string | undefined {
  const order = state.spaces.get(ns)?.order ?? [];
  for (let index = order.length - 1; index >= 0; index--) {
    const id = order[index] as string;
    if (id === parent) return undefined;
    if (findCheckpoint(state, ns, id)?.parent === parent) return id;
  }
  return undefined;
}

/**
 * The checkpoint whose nodes run again on checkpoint `id`, or null. A node on B′ repeats a node on B, and the
 * ledger cannot tell, because B′ is another checkpoint. The same holds after an update of a checkpoint on
 * which an interrupted node had effects: by `updateState`, or by a `Command` with `update` or `goto` but
 * without `resume`. A new input is a new order: LangGraph discards pending work, so nothing is repeated.
 */
export async function repeatedCheckpoint(
  codec: ValueCodec,
  state: ThreadState,
  id: string,
  hasEffects: (id: string) => boolean,
): Promise<string | null> {
  const first = firstChildren(state);
  for (let at = id; ; ) {
    const saved = findCheckpoint(state, "", at);
    if (!saved) return null;
    const { source } = (await codec.decode(saved.metadata)) as CheckpointMetadata;
    const isCommand = source === "input" && isFromCommand(state, saved);
    if (source === "input" && !isCommand) return null;
    const older = first.get(saved.parent);
    if (older !== undefined && older !== at) return older;
    if (saved.parent === null) return null;
    const isUpdate = isCommand || source === "update" || source === "fork";
    if (isUpdate && hasEffects(saved.parent)) return saved.parent;
    at = saved.parent;
  }
}

/**
 * LangGraph saves the update or goto of a `Command` as an input too, and marks every version as seen by the
 * interrupts. A real input has a new version that is not marked.
 */
function isFromCommand(state: ThreadState, { parent, versions, seen }: SavedCheckpoint): boolean {
  const before = parent === null ? undefined : findCheckpoint(state, "", parent)?.versions;
  const marked = seen.get(INTERRUPT) ?? {};
  return [...versions].every(
    ([channel, version]) => before?.get(channel) === version || marked[channel] === version,
  );
}

function firstChildren(state: ThreadState): Map<string | null, string> {
  const first = new Map<string | null, string>();
  for (const id of state.spaces.get("")?.order ?? []) {
    const parent = findCheckpoint(state, "", id)?.parent ?? null;
    if (!first.has(parent)) first.set(parent, id);
  }
  return first;
}
