/** Decodes a thread's state into the tuples that LangGraph reads. Every load makes new objects. */

import type {
  Checkpoint,
  CheckpointListOptions,
  CheckpointMetadata,
  CheckpointPendingWrite,
  CheckpointTuple,
  DeltaChannelHistory,
} from "@langchain/langgraph-checkpoint";
import { maxChannelVersion, TASKS } from "@langchain/langgraph-checkpoint";
import { sameJson } from "../../model/json.ts";
import type { SavedCheckpoint, SavedWrite, Space, ThreadState } from "./thread-state.ts";
import { findCheckpoint } from "./thread-state.ts";
import type { StoredValue, ValueCodec } from "./values.ts";

export interface CheckpointPlace {
  readonly thread: string;
  readonly ns: string;
  readonly id: string;
}

export function configOf({ thread, ns, id }: CheckpointPlace): CheckpointTuple["config"] {
  return { configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } };
}

export async function loadTuple(
  codec: ValueCodec,
  state: ThreadState,
  place: CheckpointPlace,
  firstVersion: () => number | string,
): Promise<CheckpointTuple | undefined> {
  const { ns, id, thread } = place;
  const slot = state.spaces.get(ns)?.slots.get(id);
  const saved = slot?.checkpoint;
  if (!saved) return undefined;
  // Read before the first `await`: later saves change the state.
  const writes = [...slot.writes.values()];
  const sends = saved.v < 4 && saved.parent !== null ? writesTo(state, ns, saved.parent, TASKS) : null;
  const checkpoint = await loadCheckpoint(codec, id, saved);
  if (sends) {
    checkpoint.channel_values[TASKS] = await Promise.all(sends.map((write) => codec.decode(write.part)));
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_versions[TASKS] =
      versions.length > 0 ? maxChannelVersion(...versions) : firstVersion();
  }
  const tuple: CheckpointTuple = {
    config: configOf(place),
    checkpoint,
    metadata: (await codec.decode(saved.metadata)) as CheckpointMetadata,
    pendingWrites: await loadWrites(codec, writes),
  };
  if (saved.parent !== null) tuple.parentConfig = configOf({ thread, ns, id: saved.parent });
  return tuple;
}

async function loadCheckpoint(codec: ValueCodec, id: string, saved: SavedCheckpoint): Promise<Checkpoint> {
  const { v, ts, versions, seen } = saved;
  const values = [...saved.values].map(([channel, value]) => [channel, codec.decodeValue(value)] as const);
  const loaded: [string, unknown][] = [];
  for (const [channel, value] of values) loaded.push([channel, await value]);
  return {
    v,
    id,
    ts,
    channel_values: Object.fromEntries(loaded),
    channel_versions: Object.fromEntries(versions),
    versions_seen: Object.fromEntries([...seen].map(([node, channels]) => [node, { ...channels }])),
  };
}

function loadWrites(codec: ValueCodec, writes: readonly SavedWrite[]): Promise<CheckpointPendingWrite[]> {
  const load = async ({ task, channel, part }: SavedWrite): Promise<CheckpointPendingWrite> => {
    return [task, channel, await codec.decode(part)];
  };
  return Promise.all(writes.map(load));
}

function writesTo(state: ThreadState, ns: string, id: string, channel: string): SavedWrite[] {
  const writes = state.spaces.get(ns)?.slots.get(id)?.writes.values() ?? [];
  return [...writes].filter((write) => write.channel === channel);
}

/** A thread's checkpoints, latest first, one namespace after another. Each is loaded when it is asked for. */
export async function* listTuples(
  state: ThreadState,
  thread: string,
  filter: CheckpointListOptions & { readonly ns: unknown; readonly id: unknown },
  load: (place: CheckpointPlace) => Promise<CheckpointTuple | undefined>,
): AsyncGenerator<CheckpointTuple> {
  const wanted = Object.entries(filter.filter ?? {});
  for (const [name, space] of [...state.spaces]) {
    if (filter.ns !== undefined && filter.ns !== name) continue;
    for (const id of idsBefore(space, filter.before?.configurable?.["checkpoint_id"])) {
      if (filter.id !== undefined && filter.id !== id) continue;
      const tuple = await load({ thread, ns: name, id });
      if (tuple && wanted.every(([key, value]) => sameJson(tuple.metadata?.[key as never], value)))
        yield tuple;
    }
  }
}

/** In the order of saving, not of ids: a clock that runs behind must not hide later checkpoints. */
function idsBefore({ order }: Space, before: unknown): string[] {
  if (typeof before !== "string" || before === "") return order.toReversed();
  const place = order.indexOf(before);
  const earlier = place >= 0 ? order.slice(0, place) : order.filter((id) => id < before);
  return earlier.toReversed();
}

/** The writes to each delta channel on the way to a checkpoint, oldest first, and the value before them. */
export async function loadHistory(
  codec: ValueCodec,
  state: ThreadState,
  { ns, id }: Pick<CheckpointPlace, "ns" | "id">,
  channels: readonly string[],
): Promise<Record<string, DeltaChannelHistory>> {
  const histories = channels.map((channel) => [channel, historyOf(state, ns, id, channel)] as const);
  const loaded = histories.map(async ([channel, { seed, writes }]) => {
    const history: DeltaChannelHistory = { writes: await loadWrites(codec, writes) };
    if (seed) history.seed = await codec.decodeValue(seed);
    return [channel, history] as const;
  });
  return Object.fromEntries(await Promise.all(loaded));
}

function historyOf(
  state: ThreadState,
  ns: string,
  id: string,
  channel: string,
): { seed: StoredValue | undefined; writes: SavedWrite[] } {
  const steps: SavedWrite[][] = [];
  let seed: StoredValue | undefined;
  let at = findCheckpoint(state, ns, id)?.parent ?? null;
  while (at !== null && !seed) {
    const ancestor = findCheckpoint(state, ns, at);
    if (!ancestor) break;
    steps.push(writesTo(state, ns, at, channel).sort(byTask));
    seed = ancestor.values.get(channel);
    at = ancestor.parent;
  }
  return { seed, writes: steps.reverse().flat() };
}

function byTask(one: SavedWrite, other: SavedWrite): number {
  if (one.task !== other.task) return one.task < other.task ? -1 : 1;
  return one.index - other.index;
}
