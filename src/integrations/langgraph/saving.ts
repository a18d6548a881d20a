/** What `put` and `putWrites` say, against the state that they meet. Pure: `saver.ts` has the protocol around it. */

import {
  type ChannelVersions,
  type Checkpoint,
  type CheckpointMetadata,
  WRITES_IDX_MAP,
} from "@langchain/langgraph-checkpoint";
import { checkedDraft, type Draft, HoldfastError, sameJson } from "../../model/index.ts";
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
  readonly values: ReadonlyMap<string, ValueParts>;
  readonly metadata: Part;
  readonly delta: readonly string[];
}

/** At once where the serializer is: everything is asked for now, and what the graph does next is not in it. */
export function putRequest(
  parts: Parts,
  place: Pick<PutRequest, "thread" | "ns" | "parent">,
  given: Checkpoint,
  metadata: CheckpointMetadata,
  newVersions: ChannelVersions,
): PutRequest | Promise<PutRequest> {
  const { channel_values, id, v, ts } = given;
  const channels = Object.keys(channel_values);
  const values = new Map<string, ValueParts>();
  const later: Promise<unknown>[] = [];
  for (const channel of channels) {
    if (!Object.hasOwn(newVersions, channel)) continue;
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
    delta: Object.keys(metadata.counters_since_delta_snapshot ?? {}),
  };
  if (later.length === 0 && !(told instanceof Promise)) return { ...request, metadata: told };
  return Promise.all([told, ...later]).then(([told]) => ({ ...request, metadata: told }));
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
    const before = base?.values.get(channel);
    const given = request.values.get(channel);
    if (given) {
      const change = compareValue(given, before && { value: before, of: request.parent as string });
      kept.add(channel);
      if (change) changes.push([channel, change]);
      continue;
    }
    const version = request.checkpoint.channel_versions[channel];
    if (before && base?.versions.get(channel) === version) kept.add(channel);
    else {
      const as = elsewhere(state, request, channel);
      if (as !== undefined) {
        kept.add(channel);
        changes.push([channel, { as }]);
      }
    }
  }
  return { changes, without: [...(base?.values.keys() ?? [])].filter((channel) => !kept.has(channel)) };
}

/**
 * A copy of a checkpoint is saved beside it, so its values are not those of its parent: they are where the same versions
 * are. Branches count their versions alike, so one with all versions the same goes before one with this version only.
 */
function elsewhere(state: ThreadState, request: PutRequest, channel: string): string | undefined {
  const { ns, checkpoint } = request;
  const version = checkpoint.channel_versions[channel];
  let found: string | undefined;
  for (const id of (state.spaces.get(ns)?.order ?? []).toReversed()) {
    const candidate = findCheckpoint(state, ns, id);
    if (!candidate?.values.has(channel) || candidate.versions.get(channel) !== version) continue;
    if (compareEntries(checkpoint.channel_versions, candidate.versions).set.length === 0) return id;
    found ??= id;
  }
  return found;
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
 * Two runs that began with the same checkpoint: the first to save goes on, the other is told. Saving both would show only
 * the later of the two, and what the other did would be gone without a word. Who asked for an older checkpoint by its
 * id wants a branch and gets one.
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
  const copiesLatest =
    reads.isCopy && latest !== undefined && findCheckpoint(state, ns, latest)?.parent === parent;
  if (parent !== latest && !reads.wantsBranch && !copiesLatest)
    throw movedOn(thread, `checkpoint ${parent}`, latest);
}

export function noCheckpoint(thread: string, ns: string, parent: string): HoldfastError {
  return new HoldfastError("VERSION_NOT_FOUND", `thread ${thread} has no checkpoint ${parent} to continue`, {
    hint: "It was deleted, pruned, or never saved here. Begin a new thread, or continue with one that getStateHistory() lists.",
    data: { thread, ns, parent },
  });
}

function movedOn(thread: string, from: string, latest: string | undefined): HoldfastError {
  return new HoldfastError(
    "STREAM_BUSY",
    `thread ${thread}: this run began with ${from}, but another has saved ${latest} since`,
    {
      hint: "Two runs were at work on one thread. Nothing of the other is lost: invoke again to continue after it, or pass a checkpoint_id to branch.",
      data: { thread, from, latest },
    },
  );
}
