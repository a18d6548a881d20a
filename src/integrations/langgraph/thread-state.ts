import type { Value } from "./change.ts";
import type { Part } from "./stored-part.ts";

export type Version = number | string;

/** What `put` said, with its values as parts. Whatever did not change is shared with the checkpoint before. */
export interface SavedCheckpoint {
  readonly parent: string | null;
  readonly v: number;
  readonly ts: string;
  readonly metadata: Part;
  readonly versions: ReadonlyMap<string, Version>;
  readonly seen: ReadonlyMap<string, Readonly<Record<string, Version>>>;
  readonly values: ReadonlyMap<string, Value>;
  /** Channels whose value is not here but in the writes of the checkpoints before. */
  readonly delta: readonly string[];
}

export interface SavedWrite {
  readonly task: string;
  /** Its place among the writes of its task; negative for LangGraph's own. */
  readonly index: number;
  readonly channel: string;
  readonly part: Part;
}

/** Writes may come before the checkpoint that they belong to, and also after it was dropped. */
export interface Slot {
  checkpoint: SavedCheckpoint | null;
  readonly writes: Map<string, SavedWrite>;
}

/** One checkpoint namespace: the graph itself, or one of its subgraphs. */
export interface Space {
  readonly slots: Map<string, Slot>;
  /** Checkpoints in the order in which they were first saved; the last one is the latest. */
  readonly order: string[];
}

export interface ThreadState {
  thread: string | null;
  ttlMs: number | null;
  readonly spaces: Map<string, Space>;
  /** The text in all parts, at least: how long a snapshot would be without making one. */
  leastLength: number;
}

export function emptyThread(): ThreadState {
  return { thread: null, ttlMs: null, spaces: new Map(), leastLength: 0 };
}

export function writeKey(task: string, index: number): string {
  return `${index}/${task}`;
}

export function findCheckpoint(state: ThreadState, ns: string, id: string): SavedCheckpoint | undefined {
  return state.spaces.get(ns)?.slots.get(id)?.checkpoint ?? undefined;
}

export function latestId(state: ThreadState, ns: string): string | undefined {
  return state.spaces.get(ns)?.order.at(-1);
}

/** Makes what is not there yet. */
export function slotOf(state: ThreadState, ns: string, id: string): { space: Space; slot: Slot } {
  let space = state.spaces.get(ns);
  if (!space) {
    space = { slots: new Map(), order: [] };
    state.spaces.set(ns, space);
  }
  let slot = space.slots.get(id);
  if (!slot) {
    slot = { checkpoint: null, writes: new Map() };
    space.slots.set(id, slot);
  }
  return { space, slot };
}
