/** From a thread's state to what LangGraph reads. Every load makes new objects. */

import {
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  type DeltaChannelHistory,
  maxChannelVersion,
  TASKS,
} from "@langchain/langgraph-checkpoint";
import type { Value } from "./change.ts";
import type { Parts } from "./part.ts";
import { findCheckpoint, type SavedCheckpoint, type SavedWrite, type ThreadState } from "./thread-state.ts";

export interface CheckpointPlace {
  readonly thread: string;
  readonly ns: string;
  readonly id: string;
}

export function configOf({ thread, ns, id }: CheckpointPlace): CheckpointTuple["config"] {
  return { configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } };
}

export async function loadTuple(
  parts: Parts,
  state: ThreadState,
  place: CheckpointPlace,
  firstVersion: () => number | string,
): Promise<CheckpointTuple | undefined> {
  const { ns, id, thread } = place;
  const slot = state.spaces.get(ns)?.slots.get(id);
  const saved = slot?.checkpoint;
  if (!saved) return undefined;
  // Taken before the first `await`: the state goes on changing with what is saved meanwhile.
  const writes = [...slot.writes.values()];
  const sends = saved.v < 4 && saved.parent !== null ? writesTo(state, ns, saved.parent, TASKS) : null;
  const checkpoint = await loadCheckpoint(parts, id, saved);
  if (sends) {
    checkpoint.channel_values[TASKS] = await Promise.all(sends.map((write) => parts.load(write.part)));
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_versions[TASKS] =
      versions.length > 0 ? maxChannelVersion(...versions) : firstVersion();
  }
  const tuple: CheckpointTuple = {
    config: configOf(place),
    checkpoint,
    metadata: (await parts.load(saved.metadata)) as CheckpointMetadata,
    pendingWrites: await loadWrites(parts, writes),
  };
  if (saved.parent !== null) tuple.parentConfig = configOf({ thread, ns, id: saved.parent });
  return tuple;
}

async function loadCheckpoint(parts: Parts, id: string, saved: SavedCheckpoint): Promise<Checkpoint> {
  const { v, ts, versions, seen } = saved;
  const values = [...saved.values].map(([channel, value]) => [channel, loadValue(parts, value)] as const);
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

/** At once where no loader has to be waited for: thousands of promises cost more than thousands of messages. */
function loadValue(parts: Parts, value: Value): unknown {
  switch (value.kind) {
    case "whole":
      return parts.load(value.part);
    case "members": {
      const members = [...value.members].map(([name, part]) => [name, parts.load(part)] as const);
      if (!members.some(([, member]) => member instanceof Promise)) return Object.fromEntries(members);
      return Promise.all(members.map(async ([name, member]) => [name, await member] as const)).then(
        (entries) => Object.fromEntries(entries),
      );
    }
    case "list": {
      const list = new Array<unknown>(value.length);
      let isLater = false;
      for (let index = 0; index < value.length; index++) {
        list[index] = parts.loadElement(value.list[index] as never);
        isLater ||= list[index] instanceof Promise;
      }
      return isLater ? Promise.all(list) : list;
    }
  }
}

function loadWrites(parts: Parts, writes: readonly SavedWrite[]): Promise<CheckpointPendingWrite[]> {
  return Promise.all(
    writes.map(
      async ({ task, channel, part }): Promise<CheckpointPendingWrite> => [
        task,
        channel,
        await parts.load(part),
      ],
    ),
  );
}

function writesTo(state: ThreadState, ns: string, id: string, channel: string): SavedWrite[] {
  const writes = state.spaces.get(ns)?.slots.get(id)?.writes.values() ?? [];
  return [...writes].filter((write) => write.channel === channel);
}

/**
 * What each channel was given on the way to a checkpoint, oldest first, and the value that this begins with. The whole
 * way is in memory once the thread is: one read, however many ancestors there are.
 */
export async function loadHistory(
  parts: Parts,
  state: ThreadState,
  { ns, id }: Pick<CheckpointPlace, "ns" | "id">,
  channels: readonly string[],
): Promise<Record<string, DeltaChannelHistory>> {
  const histories = channels.map((channel) => [channel, historyOf(state, ns, id, channel)] as const);
  const loaded = histories.map(async ([channel, { seed, writes }]) => {
    const history: DeltaChannelHistory = { writes: await loadWrites(parts, writes) };
    if (seed) history.seed = await loadValue(parts, seed);
    return [channel, history] as const;
  });
  return Object.fromEntries(await Promise.all(loaded));
}

function historyOf(
  state: ThreadState,
  ns: string,
  id: string,
  channel: string,
): { seed: Value | undefined; writes: SavedWrite[] } {
  const steps: SavedWrite[][] = [];
  let seed: Value | undefined;
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
