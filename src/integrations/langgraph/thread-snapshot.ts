/**
 * A thread's state as JSON and back. Checkpoints share most of what they hold, so values, lists and maps are written once
 * and referred to by number; loading makes the same sharing again, or memory would grow with every version.
 */

import type { Json } from "../../model/json.ts";
import type { Value } from "./change.ts";
import type { Part } from "./stored-part.ts";
import type { SavedCheckpoint, SavedWrite, Space, ThreadState } from "./thread-state.ts";

type StoredValue =
  | { readonly list: number; readonly length: number }
  | { readonly members: readonly (readonly [string, Part])[] }
  | { readonly part: Part };

interface StoredCheckpoint extends Pick<SavedCheckpoint, "parent" | "v" | "ts" | "metadata" | "delta"> {
  readonly versions: number;
  readonly seen: number;
  readonly values: readonly (readonly [string, number])[];
}

interface StoredThread {
  readonly thread: string | null;
  readonly ttlMs: number | null;
  readonly leastLength: number;
  readonly lists: readonly (readonly Part[])[];
  readonly values: readonly StoredValue[];
  readonly maps: readonly (readonly (readonly [string, unknown])[])[];
  readonly spaces: readonly {
    readonly ns: string;
    readonly order: readonly string[];
    readonly slots: readonly {
      readonly id: string;
      readonly checkpoint: StoredCheckpoint | null;
      readonly writes: readonly (readonly [string, SavedWrite])[];
    }[];
  }[];
}

/** Things in the order in which they were first met, each with its number. */
class Numbers<Thing> {
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

export function encodeThread(state: ThreadState): Json {
  const lists = new Numbers<readonly Part[]>();
  const values = new Numbers<Value>();
  const maps = new Numbers<ReadonlyMap<string, unknown>>();
  const checkpoint = (saved: SavedCheckpoint): StoredCheckpoint => ({
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
      checkpoint: slot.checkpoint && checkpoint(slot.checkpoint),
      writes: [...slot.writes],
    })),
  }));
  // What a dropped version had added to a shared list is nobody's any more.
  const lengths = new Map<readonly Part[], number>();
  const storedValues = values.all.map((value): StoredValue => {
    if (value.kind === "list") {
      lengths.set(value.list, Math.max(lengths.get(value.list) ?? 0, value.length));
      return { list: lists.of(value.list), length: value.length };
    }
    return value.kind === "members" ? { members: [...value.members] } : { part: value.part };
  });
  const { thread, ttlMs, leastLength } = state;
  const stored: StoredThread = {
    thread,
    ttlMs,
    leastLength,
    lists: lists.all.map((list) => list.slice(0, lengths.get(list))),
    values: storedValues,
    maps: maps.all.map((map) => [...map]),
    spaces,
  };
  return stored as unknown as Json;
}

export function decodeThread(json: Json): ThreadState {
  const stored = json as unknown as StoredThread;
  const lists = stored.lists.map((list) => [...list]);
  const maps = stored.maps.map((entries) => new Map(entries));
  const values = stored.values.map((value): Value => {
    if ("list" in value) return { kind: "list", list: lists[value.list] as Part[], length: value.length };
    if ("members" in value) return { kind: "members", members: new Map(value.members) };
    return { kind: "whole", part: value.part };
  });
  const checkpoint = (saved: StoredCheckpoint): SavedCheckpoint => ({
    ...saved,
    versions: maps[saved.versions] as SavedCheckpoint["versions"],
    seen: maps[saved.seen] as SavedCheckpoint["seen"],
    values: new Map(saved.values.map(([channel, value]) => [channel, values[value] as Value])),
  });
  const spaces = stored.spaces.map(({ ns, order, slots }): [string, Space] => {
    const entries = slots.map(
      ({ id, checkpoint: saved, writes }) =>
        [id, { checkpoint: saved && checkpoint(saved), writes: new Map(writes) }] as const,
    );
    return [ns, { order: [...order], slots: new Map(entries) }];
  });
  const { thread, ttlMs, leastLength } = stored;
  return { thread, ttlMs, leastLength, spaces: new Map(spaces) };
}
