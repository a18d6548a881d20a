/**
 * The events of a thread and what they come to.
 *
 * A checkpoint is stored as its difference from the one it follows: which channels changed and how, which versions are
 * new. Dropping checkpoints takes them out of the state, and a snapshot then keeps later loads short; the bytes go when
 * the thread goes.
 */

import * as z from "zod";
import { minJsonLength } from "../../model/json.ts";
import { type Event, event, type FacetChange, type StreamKind } from "../../model/stream/index.ts";
import { applyChange, type Change } from "./change.ts";
import type { Part } from "./stored-part.ts";
import { decodeThread, encodeThread } from "./thread-snapshot.ts";
import {
  emptyThread,
  findCheckpoint,
  slotOf,
  type ThreadState,
  type Version,
  writeKey,
} from "./thread-state.ts";

const part = z.union([
  z.strictObject({ j: z.json(), l: z.optional(z.literal(1)) }),
  z.strictObject({ t: z.string(), u: z.string() }),
  z.strictObject({ t: z.string(), b: z.string() }),
]) as unknown as z.ZodType<Part>;

const version = z.union([z.number(), z.string()]);
const place = z.int().check(z.nonnegative());

const change = z.union([
  z.strictObject({ as: z.string() }),
  z.strictObject({ value: part }),
  z.strictObject({
    of: z.optional(z.string()),
    list: z.array(z.union([z.tuple([place, place]), z.strictObject({ add: z.array(part) })])),
  }),
  z.strictObject({
    of: z.optional(z.string()),
    set: z.array(z.tuple([z.string(), part])),
    drop: z.optional(z.array(z.string())),
  }),
]) as unknown as z.ZodType<Change>;

const described = z.strictObject({ thread: z.string(), ttlMs: z.nullable(z.number()) });

export const checkpointSaved = z.strictObject({
  ns: z.string(),
  id: z.string(),
  parent: z.nullable(z.string()),
  v: z.number(),
  ts: z.string(),
  metadata: part,
  /** The checkpoint that versions, seen and values are told against; null for nothing. */
  base: z.nullable(z.string()),
  versions: z.array(z.tuple([z.string(), version])),
  unversioned: z.optional(z.array(z.string())),
  seen: z.array(z.tuple([z.string(), z.record(z.string(), version)])),
  unseen: z.optional(z.array(z.string())),
  values: z.array(z.tuple([z.string(), change])),
  valueless: z.optional(z.array(z.string())),
  delta: z.optional(z.array(z.string())),
});

export const writesSaved = z.strictObject({
  ns: z.string(),
  checkpoint: z.string(),
  task: z.string(),
  writes: z.array(z.tuple([z.int(), z.string(), part])),
});

const checkpointsDropped = z.strictObject({ ns: z.string(), ids: z.array(z.string()) });

export type CheckpointSaved = z.infer<typeof checkpointSaved>;
export type WritesSaved = z.infer<typeof writesSaved>;

function applyDescribed(state: ThreadState, data: z.infer<typeof described>): void {
  state.thread = data.thread;
  state.ttlMs = data.ttlMs;
}

function applySaved(state: ThreadState, data: CheckpointSaved): void {
  const { ns, id, parent, v, ts, metadata, delta = [] } = data;
  const base = data.base === null ? undefined : findCheckpoint(state, ns, data.base);
  const versions = changed<Version>(base?.versions, data.versions, data.unversioned);
  const seen = changed<Readonly<Record<string, Version>>>(base?.seen, data.seen, data.unseen);
  const values = new Map(base?.values);
  for (const channel of data.valueless ?? []) values.delete(channel);
  for (const [channel, told] of data.values) {
    const from = "as" in told ? told.as : "of" in told ? told.of : undefined;
    const before = from === undefined ? undefined : findCheckpoint(state, ns, from)?.values.get(channel);
    const value = applyChange(told, before);
    if (value) values.set(channel, value);
    state.leastLength += lengthOfChange(told);
  }
  const { space, slot } = slotOf(state, ns, id);
  if (slot.checkpoint === null) space.order.push(id);
  slot.checkpoint = { parent, v, ts, metadata, versions, seen, values, delta };
}

function changed<Member>(
  base: ReadonlyMap<string, Member> | undefined,
  set: readonly (readonly [string, Member])[],
  drop: readonly string[] | undefined,
): ReadonlyMap<string, Member> {
  if (base && set.length === 0 && drop === undefined) return base;
  const members = new Map(base);
  for (const name of drop ?? []) members.delete(name);
  for (const [name, member] of set) members.set(name, member);
  return members;
}

function applyWrites(state: ThreadState, { ns, checkpoint, task, writes }: WritesSaved): void {
  const { slot } = slotOf(state, ns, checkpoint);
  for (const [index, channel, written] of writes) {
    slot.writes.set(writeKey(task, index), { task, index, channel, part: written });
    state.leastLength += minJsonLength(written);
  }
}

function applyDropped(state: ThreadState, { ns, ids }: z.infer<typeof checkpointsDropped>): void {
  const space = state.spaces.get(ns);
  if (!space) return;
  const gone = new Set(ids);
  for (const id of gone) space.slots.delete(id);
  space.order.splice(0, space.order.length, ...space.order.filter((id) => !gone.has(id)));
  // Nobody counted what went with them; the next snapshot finds the true length.
  state.leastLength = 0;
}

function lengthOfChange(told: Change): number {
  if ("as" in told) return 0;
  if ("value" in told) return minJsonLength(told.value);
  if ("list" in told) {
    return told.list.reduce((sum, segment) => sum + ("add" in segment ? lengthOf(segment.add) : 0), 0);
  }
  return 0;
}

function lengthOf(parts: readonly Part[]): number {
  return parts.reduce((sum, each) => sum + minJsonLength(each), 0);
}

function facets(state: ThreadState, events: readonly Event[]): FacetChange {
  const said = events.find((each) => each.type === "thread.described")?.data as
    | z.infer<typeof described>
    | undefined;
  const ttlMs = said ? said.ttlMs : state.ttlMs;
  const at = events.at(-1)?.at ?? 0;
  const expiry = said || ttlMs !== null ? { expiresAt: ttlMs === null ? null : at + ttlMs } : {};
  return { facets: { ...(said && { title: said.thread, status: "active" }), ...expiry } };
}

export const threadKind: StreamKind<ThreadState> = {
  kind: "langgraph",
  foldVersion: 1,
  events: {
    "thread.described": event(1, described, applyDescribed),
    "checkpoint.saved": event(1, checkpointSaved, applySaved),
    "writes.saved": event(1, writesSaved, applyWrites),
    "checkpoints.dropped": event(1, checkpointsDropped, applyDropped),
  },
  initial: emptyThread,
  encode: encodeThread,
  decode: decodeThread,
  leastLength: (state) => state.leastLength,
  shrinking: ["checkpoints.dropped"],
  facets,
};
