/**
 * A thread: its events, the state they fold into, and the snapshot of that state.
 *
 * An event stores a checkpoint as its difference from the one it follows. In memory, checkpoints share
 * everything they have in common. Dropping checkpoints removes them from the state, and the next snapshot
 * makes later loads short. Their bytes stay until the thread is deleted.
 */

import * as z from "zod";
import { type Json, minJsonLength } from "../../model/json.ts";
import { type Event, event, type FacetChange, type StreamKind } from "../../model/stream/index.ts";
import { applyChange, type Change, type Part, type StoredValue } from "./values.ts";

// State.

export type Version = number | string;

/** The arguments of `put`, with values as parts. Unchanged maps and values are shared between checkpoints. */
export interface SavedCheckpoint {
  readonly parent: string | null;
  readonly v: number;
  readonly ts: string;
  readonly metadata: Part;
  readonly versions: ReadonlyMap<string, Version>;
  readonly seen: ReadonlyMap<string, Readonly<Record<string, Version>>>;
  readonly values: ReadonlyMap<string, StoredValue>;
  /** Delta channels: their value is not here, it follows from the writes of earlier checkpoints. */
  readonly delta: readonly string[];
}

export interface SavedWrite {
  readonly task: string;
  /** Index among the writes of its task; negative for LangGraph's own, such as an error or an interrupt. */
  readonly index: number;
  readonly channel: string;
  readonly part: Part;
}

/** A checkpoint with its writes. Writes may arrive before their checkpoint does, or after it was dropped. */
export interface Slot {
  checkpoint: SavedCheckpoint | null;
  readonly writes: Map<string, SavedWrite>;
}

/** One checkpoint namespace: the graph itself, or one of its subgraphs. */
export interface Space {
  readonly slots: Map<string, Slot>;
  /** Checkpoints in the order in which they were first saved. The last one is the latest. */
  readonly order: string[];
}

export interface ThreadState {
  thread: string | null;
  ttlMs: number | null;
  readonly spaces: Map<string, Space>;
  /** A lower bound for the length of a snapshot: the text in all parts. */
  leastLength: number;
}

/** The namespace for notes on failed effects (`effects.ts`). LangGraph never asks for it. */
export const FAILURE_NOTES = "holdfast:failures";

export function writeKey(task: string, index: number): string {
  return `${index}/${task}`;
}

export function findCheckpoint(state: ThreadState, ns: string, id: string): SavedCheckpoint | undefined {
  return state.spaces.get(ns)?.slots.get(id)?.checkpoint ?? undefined;
}

export function latestId(state: ThreadState, ns: string): string | undefined {
  return state.spaces.get(ns)?.order.at(-1);
}

function getOrCreateSlot(state: ThreadState, ns: string, id: string): { space: Space; slot: Slot } {
  const space = state.spaces.get(ns) ?? { slots: new Map(), order: [] };
  state.spaces.set(ns, space);
  const slot = space.slots.get(id) ?? { checkpoint: null, writes: new Map() };
  space.slots.set(id, slot);
  return { space, slot };
}

// Events.

export const storedPart = z.union([
  z.strictObject({ j: z.json(), l: z.optional(z.literal(1)) }),
  z.strictObject({ t: z.string(), u: z.string() }),
  z.strictObject({ t: z.string(), b: z.string() }),
]) as unknown as z.ZodType<Part>;

const version = z.union([z.number(), z.string()]);
const listIndex = z.int().check(z.nonnegative());

const change = z.union([
  z.strictObject({ as: z.string() }),
  z.strictObject({ value: storedPart }),
  z.strictObject({
    of: z.optional(z.string()),
    list: z.array(z.union([z.tuple([listIndex, listIndex]), z.strictObject({ add: z.array(storedPart) })])),
  }),
  z.strictObject({
    of: z.optional(z.string()),
    set: z.array(z.tuple([z.string(), storedPart])),
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
  metadata: storedPart,
  /** The checkpoint from which `versions`, `seen` and `values` differ; null for an empty one. */
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
  writes: z.array(z.tuple([z.int(), z.string(), storedPart])),
});

const checkpointsDropped = z.strictObject({ ns: z.string(), ids: z.array(z.string()) });

export type CheckpointSaved = z.infer<typeof checkpointSaved>;
export type WritesSaved = z.infer<typeof writesSaved>;

export const threadKind: StreamKind<ThreadState> = {
  kind: "langgraph",
  foldVersion: 1,
  events: {
    "thread.described": event(1, described, (state, data) => void Object.assign(state, data)),
    "checkpoint.saved": event(1, checkpointSaved, applySaved),
    "writes.saved": event(1, writesSaved, applyWrites),
    "checkpoints.dropped": event(1, checkpointsDropped, applyDropped),
  },
  initial: () => ({ thread: null, ttlMs: null, spaces: new Map(), leastLength: 0 }),
  encode: encodeThread,
  decode: decodeThread,
  leastLength: (state) => state.leastLength,
  shrinking: ["checkpoints.dropped"],
  facets,
};

function applySaved(state: ThreadState, data: CheckpointSaved): void {
  const { ns, id, parent, v, ts, metadata, delta = [] } = data;
  const base = data.base === null ? undefined : findCheckpoint(state, ns, data.base);
  const versions = applyEntries<Version>(base?.versions, data.versions, data.unversioned);
  const seen = applyEntries<Readonly<Record<string, Version>>>(base?.seen, data.seen, data.unseen);
  const values = new Map(base?.values);
  for (const channel of data.valueless ?? []) values.delete(channel);
  for (const [channel, change] of data.values) {
    const from = "as" in change ? change.as : "of" in change ? change.of : undefined;
    const before = from === undefined ? undefined : findCheckpoint(state, ns, from)?.values.get(channel);
    const value = applyChange(change, before);
    if (value) values.set(channel, value);
    state.leastLength += lengthOfChange(change);
  }
  const { space, slot } = getOrCreateSlot(state, ns, id);
  if (slot.checkpoint === null) space.order.push(id);
  slot.checkpoint = { parent, v, ts, metadata, versions, seen, values, delta };
}

function applyEntries<Member>(
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
  const { slot } = getOrCreateSlot(state, ns, checkpoint);
  for (const [index, channel, part] of writes) {
    slot.writes.set(writeKey(task, index), { task, index, channel, part });
    state.leastLength += minJsonLength(part);
  }
}

function applyDropped(state: ThreadState, { ns, ids }: z.infer<typeof checkpointsDropped>): void {
  const space = state.spaces.get(ns);
  if (!space) return;
  const dropped = new Set(ids);
  for (const id of dropped) space.slots.delete(id);
  space.order.splice(0, space.order.length, ...space.order.filter((id) => !dropped.has(id)));
  // The length of the dropped parts is unknown. The next snapshot measures the rest.
  state.leastLength = 0;
}

function lengthOfChange(change: Change): number {
  if ("as" in change) return 0;
  if ("value" in change) return minJsonLength(change.value);
  if (!("list" in change)) return 0;
  const added = change.list.flatMap((segment) => ("add" in segment ? segment.add : []));
  return added.reduce((sum, each) => sum + minJsonLength(each), 0);
}

function facets(state: ThreadState, events: readonly Event[]): FacetChange {
  const description = events.find((each) => each.type === "thread.described")?.data as
    | z.infer<typeof described>
    | undefined;
  const ttlMs = description ? description.ttlMs : state.ttlMs;
  const at = events.at(-1)?.at ?? 0;
  const expiry = description || ttlMs !== null ? { expiresAt: ttlMs === null ? null : at + ttlMs } : {};
  return { facets: { ...(description && { title: description.thread, status: "active" }), ...expiry } };
}

// Snapshot. Values, lists and maps that checkpoints share are written once and referred to by number.
// Decoding restores the sharing; otherwise memory would grow with every version.

type SnapshotValue =
  | { readonly list: number; readonly length: number }
  | { readonly members: readonly (readonly [string, Part])[] }
  | { readonly part: Part };

interface SnapshotCheckpoint extends Pick<SavedCheckpoint, "parent" | "v" | "ts" | "metadata" | "delta"> {
  readonly versions: number;
  readonly seen: number;
  readonly values: readonly (readonly [string, number])[];
}

interface ThreadSnapshot {
  readonly thread: string | null;
  readonly ttlMs: number | null;
  readonly leastLength: number;
  readonly lists: readonly (readonly Part[])[];
  readonly values: readonly SnapshotValue[];
  readonly maps: readonly (readonly (readonly [string, unknown])[])[];
  readonly spaces: readonly {
    readonly ns: string;
    readonly order: readonly string[];
    readonly slots: readonly {
      readonly id: string;
      readonly checkpoint: SnapshotCheckpoint | null;
      readonly writes: readonly (readonly [string, SavedWrite])[];
    }[];
  }[];
}

class Numbering<Thing> {
  private readonly numbers = new Map<Thing, number>();

  of(thing: Thing): number {
    const known = this.numbers.get(thing);
    if (known !== undefined) return known;
    this.numbers.set(thing, this.numbers.size);
    return this.numbers.size - 1;
  }

  get all(): readonly Thing[] {
    return [...this.numbers.keys()];
  }
}

function encodeThread(state: ThreadState): Json {
  const lists = new Numbering<readonly Part[]>();
  const values = new Numbering<StoredValue>();
  const maps = new Numbering<ReadonlyMap<string, unknown>>();
  const encodeCheckpoint = (saved: SavedCheckpoint): SnapshotCheckpoint => ({
    ...saved,
    versions: maps.of(saved.versions),
    seen: maps.of(saved.seen),
    values: [...saved.values].map(([channel, value]) => [channel, values.of(value)]),
  });
  const spaces = [...state.spaces].map(([ns, { order, slots }]) => ({
    ns,
    order: [...order],
    slots: [...slots].map(([id, slot]) => ({
      id,
      checkpoint: slot.checkpoint && encodeCheckpoint(slot.checkpoint),
      writes: [...slot.writes],
    })),
  }));
  // The longest version of each list: elements that only a dropped checkpoint had are left out.
  const lengths = new Map<readonly Part[], number>();
  const snapshotValues = values.all.map((value): SnapshotValue => {
    if (value.kind === "list") {
      lengths.set(value.list, Math.max(lengths.get(value.list) ?? 0, value.length));
      return { list: lists.of(value.list), length: value.length };
    }
    return value.kind === "members" ? { members: [...value.members] } : { part: value.part };
  });
  const { thread, ttlMs, leastLength } = state;
  const snapshot: ThreadSnapshot = {
    thread,
    ttlMs,
    leastLength,
    lists: lists.all.map((list) => list.slice(0, lengths.get(list))),
    values: snapshotValues,
    maps: maps.all.map((map) => [...map]),
    spaces,
  };
  return snapshot as unknown as Json;
}

function decodeThread(json: Json): ThreadState {
  const snapshot = json as unknown as ThreadSnapshot;
  const lists = snapshot.lists.map((list) => [...list]);
  const maps = snapshot.maps.map((entries) => new Map(entries));
  const values = snapshot.values.map((value): StoredValue => {
    if ("list" in value) return { kind: "list", list: lists[value.list] as Part[], length: value.length };
    if ("members" in value) return { kind: "members", members: new Map(value.members) };
    return { kind: "whole", part: value.part };
  });
  const decodeCheckpoint = (saved: SnapshotCheckpoint): SavedCheckpoint => ({
    ...saved,
    versions: maps[saved.versions] as SavedCheckpoint["versions"],
    seen: maps[saved.seen] as SavedCheckpoint["seen"],
    values: new Map(saved.values.map(([channel, value]) => [channel, values[value] as StoredValue])),
  });
  const spaces = snapshot.spaces.map(({ ns, order, slots }): [string, Space] => {
    const entries = slots.map(
      ({ id, checkpoint, writes }) =>
        [id, { checkpoint: checkpoint && decodeCheckpoint(checkpoint), writes: new Map(writes) }] as const,
    );
    return [ns, { order: [...order], slots: new Map(entries) }];
  });
  const { thread, ttlMs, leastLength } = snapshot;
  return { thread, ttlMs, leastLength, spaces: new Map(spaces) };
}
