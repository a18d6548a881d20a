/** The events that `put` and `putWrites` append, given the state they meet. Pure. */

import type { ChannelVersions, Checkpoint, CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import { WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import { sameJson } from "../../model/json.ts";
import { checkedDraft, type Draft } from "../../model/stream/index.ts";
import { setMember } from "./serializer.ts";
import type { CheckpointSaved, SavedCheckpoint, ThreadState, Version, WritesSaved } from "./thread-state.ts";
import { checkpointSaved, findCheckpoint, writeKey, writesSaved } from "./thread-state.ts";
import { type Change, diffValue, type Part, type StoredValue, type ValueCodec, whenAll } from "./values.ts";

export interface PutRequest {
  readonly thread: string;
  readonly ns: string;
  readonly parent: string | null;
  readonly checkpoint: Pick<Checkpoint, "id" | "v" | "ts" | "channel_versions" | "versions_seen">;
  /** All channels that have a value, new or not. */
  readonly channels: readonly string[];
  /** Values of channels that differ, or may differ, from the parent's. */
  readonly values: ReadonlyMap<string, StoredValue>;
  /** Channels in `values` that LangGraph did not name as new: copied from another checkpoint. */
  readonly copied: ReadonlySet<string>;
  readonly metadata: Part;
  readonly delta: readonly string[];
}

/**
 * Encodes the arguments of `put` before the graph can change them. Synchronous if the serializer is.
 *
 * LangGraph names as new what has changed since it loaded the checkpoint. A copy (`source: "fork"`) is saved
 * beside its original, names nothing as new, and yet does not have the values of its parent. So every value
 * of which the parent, `base`, does not have this very version is encoded too. If the parent is not in
 * memory, a copy encodes all its values: two branches number versions alike.
 */
export function encodePut(
  codec: ValueCodec,
  place: Pick<PutRequest, "thread" | "ns" | "parent">,
  source: Checkpoint,
  metadata: CheckpointMetadata,
  {
    newVersions,
    base,
  }: { readonly newVersions: ChannelVersions | undefined; readonly base: SavedCheckpoint | undefined },
): PutRequest | Promise<PutRequest> {
  const { channel_values, id, v, ts } = source;
  const channels = Object.keys(channel_values);
  const copied = new Set<string>();
  const changed = channels.filter((channel) => {
    if (!newVersions || Object.hasOwn(newVersions, channel)) return true;
    const isFromElsewhere = base
      ? !hasVersion(base, channel, source.channel_versions[channel])
      : metadata.source === "fork";
    if (isFromElsewhere) copied.add(channel);
    return isFromElsewhere;
  });
  const encoded = changed.map((channel) =>
    codec.encodeValue(channel_values[channel], `channel ${channel}`, base?.values.get(channel)),
  );
  const encodedMetadata = codec.encode(metadata, "metadata");
  const versions_seen: Checkpoint["versions_seen"] = {};
  for (const node of Object.keys(source.versions_seen))
    setMember(versions_seen, node, { ...source.versions_seen[node] });
  const checkpoint = { id, v, ts, channel_versions: { ...source.channel_versions }, versions_seen };
  const delta = Object.keys(metadata.counters_since_delta_snapshot ?? {});
  return whenAll<Part | StoredValue, PutRequest>([encodedMetadata, ...encoded], ([part, ...parts]) => ({
    ...place,
    checkpoint,
    channels,
    values: new Map(changed.map((channel, index) => [channel, parts[index] as StoredValue])),
    copied,
    metadata: part as Part,
    delta,
  }));
}

function hasVersion({ values, versions }: SavedCheckpoint, channel: string, version?: Version): boolean {
  return values.has(channel) && versions.get(channel) === version;
}

export function draftCheckpoint(state: ThreadState, request: PutRequest): Draft {
  const { ns, checkpoint, metadata, delta } = request;
  const { id, v, ts } = checkpoint;
  const isItsOwnParent = request.parent === id;
  const parent = isItsOwnParent ? (findCheckpoint(state, ns, id)?.parent ?? null) : request.parent;
  const base = request.parent === null ? undefined : findCheckpoint(state, ns, request.parent);
  const versions = diffEntries(checkpoint.channel_versions, base?.versions);
  const seen = diffEntries(checkpoint.versions_seen, base?.seen);
  const values = diffValues(state, request, base);
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

function diffEntries<Member>(
  next: Readonly<Record<string, Member>>,
  base: ReadonlyMap<string, Member> | undefined,
): { set: [string, Member][]; drop: string[] } {
  const set = Object.entries(next).filter(
    ([name, member]) => !base?.has(name) || !sameJson(base.get(name), member),
  );
  const drop = [...(base?.keys() ?? [])].filter((name) => !Object.hasOwn(next, name));
  return { set, drop };
}

function diffValues(
  state: ThreadState,
  request: PutRequest,
  base: SavedCheckpoint | undefined,
): { changes: [string, Change][]; without: string[] } {
  const changes: [string, Change][] = [];
  const present = new Set<string>();
  for (const channel of request.channels) {
    const value = request.values.get(channel);
    if (value || (base && hasVersion(base, channel, request.checkpoint.channel_versions[channel])))
      present.add(channel);
    if (!value) continue;
    const before = base?.values.get(channel);
    const change = diffValue(value, before && { value: before, of: request.parent as string });
    if (!change) continue;
    const as = request.copied.has(channel) ? siblingWith(state, request, channel, value) : undefined;
    changes.push([channel, as === undefined ? change : { as }]);
  }
  return { changes, without: [...(base?.values.keys() ?? [])].filter((channel) => !present.has(channel)) };
}

/** The checkpoint beside this one with the same value, so that a copy stores only a reference. */
function siblingWith(
  state: ThreadState,
  request: PutRequest,
  channel: string,
  value: StoredValue,
): string | undefined {
  const { ns, parent, checkpoint } = request;
  const version = checkpoint.channel_versions[channel];
  return state.spaces.get(ns)?.order.findLast((id) => {
    const sibling = findCheckpoint(state, ns, id);
    if (sibling?.parent !== parent || sibling.versions.get(channel) !== version) return false;
    const stored = sibling.values.get(channel);
    return stored !== undefined && diffValue(value, { value: stored, of: id }) === null;
  });
}

export type WritesPlace = Omit<WritesSaved, "writes">;

/** Ordinary writes keep their first value; LangGraph's own (an error, an interrupt) are replaced. */
export function draftWrites(
  state: ThreadState,
  place: WritesPlace,
  writes: readonly (readonly [channel: string, part: Part])[],
): Draft[] {
  const { ns, checkpoint, task } = place;
  const saved = state.spaces.get(ns)?.slots.get(checkpoint)?.writes;
  const fresh = writes
    .map(([channel, part], index) => [WRITES_IDX_MAP[channel] ?? index, channel, part] as const)
    .filter(([index, , part]) => {
      const before = saved?.get(writeKey(task, index));
      return !before || (index < 0 && !sameJson(before.part, part));
    });
  if (fresh.length === 0) return [];
  const data: WritesSaved = { ns, checkpoint, task, writes: fresh.map((write) => [...write]) };
  return [checkedDraft("writes.saved", data, writesSaved)];
}
