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

/** The latest entries of a set, each a list of names. */
class RecentSet {
  private readonly entries = new Set<string>();

  add(...names: string[]): void {
    this.delete(...names);
    this.entries.add(JSON.stringify(names));
    for (const oldest of this.entries) {
      if (this.entries.size <= HISTORY_LIMIT) break;
      this.entries.delete(oldest);
    }
  }

  has(...names: string[]): boolean {
    return this.entries.size > 0 && this.entries.has(JSON.stringify(names));
  }

  delete(...names: string[]): void {
    this.entries.delete(JSON.stringify(names));
  }

  deleteUnder(name: string): void {
    const prefix = `${JSON.stringify([name]).slice(0, -1)},`;
    for (const entry of this.entries) if (entry.startsWith(prefix)) this.entries.delete(entry);
  }
}

/** The reads and removals of this process that matter for `put`. The oldest entries are dropped. */
export class ReadHistory {
  /** Checkpoints: thread, namespace, id. */
  readonly byId = new RecentSet();
  /** Threads and namespaces that were read while they had no checkpoint. */
  readonly empty = new RecentSet();
  /** Threads that were removed and not begun again, as far as this process knows. */
  readonly removed = new RecentSet();
  /** Threads and namespaces of subgraphs whose node a retry policy has started again. */
  readonly retried = new RecentSet();
}

interface PutIntent {
  readonly wantsBranch: boolean;
  readonly expectsEmpty: boolean;
  readonly isCopy: boolean;
}

/**
 * Refuses the second of two runs that follow the same checkpoint: the work of one would disappear silently. A
 * caller that read the older checkpoint by its id gets a branch.
 */
export function checkFollows(
  state: ThreadState,
  request: PutRequest,
  { wantsBranch, expectsEmpty, isCopy }: PutIntent,
): void {
  const { thread, ns, parent, checkpoint } = request;
  const latest = latestId(state, ns);
  if (findCheckpoint(state, ns, checkpoint.id)) return;
  if (parent === null) {
    // A copy of a first checkpoint has no parent either.
    if (isCopy) return;
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
 * LangGraph saves a `Command` as an input too, and marks every version as seen by the interrupts. A real
 * input has a new version that is not marked.
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
