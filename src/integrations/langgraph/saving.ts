/** What `put` and `putWrites` say, against the state that they meet. Pure: `saver.ts` has the protocol around it. */

import {
  type ChannelVersions,
  type Checkpoint,
  type CheckpointMetadata,
  WRITES_IDX_MAP,
} from "@langchain/langgraph-checkpoint";
import { HoldfastError } from "../../model/errors.ts";
import { sameJson } from "../../model/json.ts";
import { checkedDraft, type Draft } from "../../model/stream/index.ts";
import { type Change, compareValue } from "./change.ts";
import { setMember } from "./exact-records.ts";
import type { Parts, ValueParts } from "./part.ts";
import type { Part } from "./stored-part.ts";
import { type CheckpointSaved, checkpointSaved, type WritesSaved, writesSaved } from "./thread-kind.ts";
import {
  findCheckpoint,
  latestId,
  type SavedCheckpoint,
  type ThreadState,
  type Version,
  writeKey,
} from "./thread-state.ts";

/** A checkpoint as it was when `put` was called. */
export interface PutRequest {
  readonly thread: string;
  readonly ns: string;
  readonly parent: string | null;
  readonly checkpoint: Pick<Checkpoint, "id" | "v" | "ts" | "channel_versions" | "versions_seen">;
  /** Channels that have a value, whether it is new or not. */
  readonly channels: readonly string[];
  /** Of those channels whose value is not the one that the parent has. */
  readonly values: ReadonlyMap<string, ValueParts>;
  /** Those among them that LangGraph did not name as new: the values of a checkpoint that this is a copy of. */
  readonly copied: ReadonlySet<string>;
  readonly metadata: Part;
  readonly delta: readonly string[];
}

/**
 * At once where the serializer is: everything is asked for now, and what the graph does next is not in it.
 *
 * LangGraph names as new what has changed since it loaded the checkpoint. A copy, which is saved beside its original, has
 * nothing new in it and yet not the values of its parent. So whatever the parent, `base`, does not have in this very version
 * is taken down as well; of a copy all of it, if the parent is not in memory, or there is none. Versions alone would not say
 * whose values they are: branches number them alike.
 */
export function putRequest(
  parts: Parts,
  place: Pick<PutRequest, "thread" | "ns" | "parent">,
  given: Checkpoint,
  metadata: CheckpointMetadata,
  {
    newVersions,
    base,
  }: { readonly newVersions: ChannelVersions; readonly base: SavedCheckpoint | undefined },
): PutRequest | Promise<PutRequest> {
  const { channel_values, id, v, ts } = given;
  const channels = Object.keys(channel_values);
  const values = new Map<string, ValueParts>();
  const copied = new Set<string>();
  const later: Promise<unknown>[] = [];
  for (const channel of channels) {
    const isNew = Object.hasOwn(newVersions, channel);
    const isElsewhere = base
      ? !hasVersion(base, channel, given.channel_versions[channel])
      : metadata.source === "fork";
    if (!isNew && !isElsewhere) continue;
    if (!isNew) copied.add(channel);
    const list = JSON.stringify([place.thread, place.ns, channel]);
    const taken = parts.takeDown(channel_values[channel], `channel ${channel}`, list);
    if (taken instanceof Promise) later.push(taken.then((value) => values.set(channel, value)));
    else values.set(channel, taken);
  }
  const told = parts.part(metadata, "metadata");
  const versions_seen: Checkpoint["versions_seen"] = {};
  for (const node of Object.keys(given.versions_seen))
    setMember(versions_seen, node, { ...given.versions_seen[node] });
  const request = {
    ...place,
    checkpoint: { id, v, ts, channel_versions: { ...given.channel_versions }, versions_seen },
    channels,
    values,
    copied,
    delta: Object.keys(metadata.counters_since_delta_snapshot ?? {}),
  };
  if (later.length === 0 && !(told instanceof Promise)) return { ...request, metadata: told };
  return Promise.all([told, ...later]).then(([told]) => ({ ...request, metadata: told }));
}

function hasVersion({ values, versions }: SavedCheckpoint, channel: string, version?: Version): boolean {
  return values.has(channel) && versions.get(channel) === version;
}

export function draftCheckpoint(state: ThreadState, request: PutRequest): Draft {
  const { ns, checkpoint, metadata, delta } = request;
  const { id, v, ts } = checkpoint;
  const isOnItself = request.parent === id;
  const parent = isOnItself ? (findCheckpoint(state, ns, id)?.parent ?? null) : request.parent;
  const base = request.parent === null ? undefined : findCheckpoint(state, ns, request.parent);
  const versions = compareEntries(checkpoint.channel_versions, base?.versions);
  const seen = compareEntries(checkpoint.versions_seen, base?.seen);
  const values = changedValues(state, request, base);
  const data: CheckpointSaved = {
    ns,
    id,
    parent,
    v,
    ts,
    metadata,
    base: base ? request.parent : null,
    versions: versions.set,
    ...(versions.drop.length > 0 && { unversioned: versions.drop }),
    seen: seen.set,
    ...(seen.drop.length > 0 && { unseen: seen.drop }),
    values: values.changes,
    ...(values.without.length > 0 && { valueless: values.without }),
    ...(delta.length > 0 && { delta: [...delta] }),
  };
  return checkedDraft("checkpoint.saved", data, checkpointSaved);
}

function compareEntries<Member>(
  next: Readonly<Record<string, Member>>,
  base: ReadonlyMap<string, Member> | undefined,
): { set: [string, Member][]; drop: string[] } {
  const set = Object.entries(next).filter(
    ([name, member]) => !base?.has(name) || !sameJson(base.get(name), member),
  );
  const drop = [...(base?.keys() ?? [])].filter((name) => !Object.hasOwn(next, name));
  return { set, drop };
}

function changedValues(
  state: ThreadState,
  request: PutRequest,
  base: SavedCheckpoint | undefined,
): { changes: [string, Change][]; without: string[] } {
  const changes: [string, Change][] = [];
  const kept = new Set<string>();
  for (const channel of request.channels) {
    const given = request.values.get(channel);
    if (given || (base && hasVersion(base, channel, request.checkpoint.channel_versions[channel])))
      kept.add(channel);
    if (!given) continue;
    const before = base?.values.get(channel);
    const change = compareValue(given, before && { value: before, of: request.parent as string });
    if (!change) continue;
    const as = request.copied.has(channel) ? elsewhere(state, request, channel, given) : undefined;
    changes.push([channel, as === undefined ? change : { as }]);
  }
  return { changes, without: [...(base?.values.keys() ?? [])].filter((channel) => !kept.has(channel)) };
}

/** A copy is saved beside its original: what that has is not written out a second time, as far as it is the same. */
function elsewhere(
  state: ThreadState,
  request: PutRequest,
  channel: string,
  given: ValueParts,
): string | undefined {
  const { ns, parent, checkpoint } = request;
  const version = checkpoint.channel_versions[channel];
  return state.spaces.get(ns)?.order.findLast((id) => {
    const sibling = findCheckpoint(state, ns, id);
    if (sibling?.parent !== parent || sibling.versions.get(channel) !== version) return false;
    const value = sibling.values.get(channel);
    return value !== undefined && compareValue(given, { value, of: id }) === null;
  });
}

export interface WritesPlace {
  readonly ns: string;
  readonly checkpoint: string;
  readonly task: string;
}

/** A task's ordinary writes stay as they were first saved; LangGraph's own (an error, an interrupt) are replaced. */
export function draftWrites(
  state: ThreadState,
  place: WritesPlace,
  writes: readonly (readonly [channel: string, part: Part])[],
): Draft | null {
  const { ns, checkpoint, task } = place;
  const saved = state.spaces.get(ns)?.slots.get(checkpoint)?.writes;
  const fresh = writes
    .map(([channel, part], index) => [WRITES_IDX_MAP[channel] ?? index, channel, part] as const)
    .filter(([index, , part]) => {
      const before = saved?.get(writeKey(task, index));
      return !before || (index < 0 && !sameJson(before.part, part));
    });
  if (fresh.length === 0) return null;
  const data: WritesSaved = { ns, checkpoint, task, writes: fresh.map((write) => [...write]) };
  return checkedDraft("writes.saved", data, writesSaved);
}

/**
 * Two runs that follow the same checkpoint: the first to save goes on, the other is told. Saving both would show only the
 * later of the two, and what the other did would be gone without a word. Who asked for an older checkpoint by its id wants
 * a branch and gets one; and whoever is at work on another branch goes on with that, whichever was saved last.
 */
export function mustFollow(
  state: ThreadState,
  request: PutRequest,
  reads: { readonly wantsBranch: boolean; readonly sawNothing: boolean; readonly isCopy: boolean },
): void {
  const { thread, ns, parent, checkpoint } = request;
  const latest = latestId(state, ns);
  if (findCheckpoint(state, ns, checkpoint.id)) return;
  if (parent === null) {
    if (latest !== undefined && reads.sawNothing) throw movedOn(thread, "an empty thread", latest);
    return;
  }
  if (!findCheckpoint(state, ns, parent)) throw noCheckpoint(thread, ns, parent);
  const child = latestChild(state, ns, parent);
  if (child === undefined || reads.wantsBranch || (reads.isCopy && child === latest)) return;
  throw movedOn(thread, `checkpoint ${parent}`, child);
}

/** What follows a checkpoint was saved after it: nearly always there is nothing to look through. */
function latestChild(state: ThreadState, ns: string, parent: string): string | undefined {
  const order = state.spaces.get(ns)?.order ?? [];
  for (let index = order.length - 1; index >= 0; index--) {
    const id = order[index] as string;
    if (id === parent) return undefined;
    if (findCheckpoint(state, ns, id)?.parent === parent) return id;
  }
  return undefined;
}

export function noCheckpoint(thread: string, ns: string, parent: string): HoldfastError {
  return new HoldfastError("VERSION_NOT_FOUND", `thread ${thread} has no checkpoint ${parent} to continue`, {
    hint: "It was deleted, pruned, or never saved here. Begin a new thread, or continue with one that getStateHistory() lists.",
    data: { thread, ns, parent },
  });
}

function movedOn(thread: string, from: string, other: string): HoldfastError {
  return new HoldfastError(
    "STREAM_BUSY",
    `thread ${thread}: this run follows ${from}, but another has saved ${other} after it`,
    {
      hint: "Two runs were at work on one thread. Nothing of the other is lost: invoke again to continue after it, or pass a checkpoint_id to branch.",
      data: { thread, from, latest: other },
    },
  );
}
