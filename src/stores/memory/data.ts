import { ERASED } from "../../model/names.ts";
import type * as port from "../../store.ts";
import { Watchers } from "../kit/index.ts";

/**
 * The data of a memory store, apart from any handle on it: a test can close one handle and open the next, or
 * have two at once. Everything in here is a copy, so callers can change what they passed in or got back.
 */
export interface MemoryData {
  readonly spaces: Map<string, Space>;
  seal?: port.Seal | null;
  /** How often a rewind was accepted; for a store on a disk. */
  epoch?: number;
}

/** One namespace. No act sees two of them, so nothing can cross. */
export interface Space {
  readonly streams: Map<string, Stream>;
  readonly keys: Map<string, KeyHolder>;
  readonly artifacts: Map<string, { readonly bytes: Uint8Array; putAt: number }>;
  readonly leases: Map<string, Lease>;
}

export type KeyHolder = Pick<port.KeyRow, "stream" | "seq">;

/** A stream that is gone stays as a tombstone, with the generation of its next life. */
export interface Stream {
  readonly name: string;
  state: port.StreamState;
  head: port.Head;
  base: number;
  parent: port.StreamRow["parent"];
  createdAt: number;
  updatedAt: number;
  facets: port.StreamRow["facets"];
  readonly writes: port.StoredWrite[];
  readonly items: Map<string, port.ItemRow>;
  snapshots: (Omit<port.Blob, "generation"> & { readonly fold: string })[];
  readonly artifacts: Set<string>;
}

export interface Lease {
  readonly token: number;
  readonly holder: port.Holder | null;
  readonly ttlMs: number;
  readonly deadline: number;
}

/**
 * Empty data for `openMemory({ data })`: keep it to close one handle and open the next on the same.
 *
 * @example
 * const data = memoryData();
 * const [one, other] = [openMemory({ data }), openMemory({ data })]; // two processes, as it were
 */
export function memoryData(): MemoryData {
  return { spaces: new Map() };
}

const watchers = new WeakMap<MemoryData, Watchers>();

/** Shared by all handles on the data, and kept beside it, so that the data itself can be cloned. */
export function watchersOf(data: MemoryData): Watchers {
  const known = watchers.get(data) ?? new Watchers();
  watchers.set(data, known);
  return known;
}

export function spaceOf(data: MemoryData, namespace: string): Space {
  const known = data.spaces.get(namespace);
  if (known) return known;
  const space = { streams: new Map(), keys: new Map(), artifacts: new Map(), leases: new Map() };
  data.spaces.set(namespace, space);
  return space;
}

const NO_FACETS = { status: null, title: null, goal: null, openCalls: 0, expiresAt: null, budget: null };

/** A stream that does not exist: the head is where its next life begins. */
export function goneStream(name: string, generation: number): Stream {
  return {
    name,
    state: "gone",
    head: { generation, seq: 0 },
    base: 0,
    parent: null,
    createdAt: 0,
    updatedAt: 0,
    facets: NO_FACETS,
    writes: [],
    items: new Map(),
    snapshots: [],
    artifacts: new Set(),
  };
}

/** An unused name begins after every erased stream. */
export function streamOf(space: Space, name: string): Stream {
  return space.streams.get(name) ?? goneStream(name, space.streams.get(ERASED)?.head.generation ?? 1);
}

export function streamRow(stream: Stream): port.StreamRow {
  const { name, state, base, createdAt, updatedAt } = stream;
  const [head, parent, facets] = [
    { ...stream.head },
    stream.parent && { ...stream.parent },
    { ...stream.facets },
  ];
  return { stream: name, state, head, base, parent, createdAt, updatedAt, facets };
}

export function sameHead(a: port.Head, b: port.Head): boolean {
  return a.generation === b.generation && a.seq === b.seq;
}

export function copyPayload(payload: port.Payload): port.Payload {
  return typeof payload === "string" ? payload : payload.slice();
}

export function leaseRow(name: string, lease: Lease, now: number): port.LeaseRow {
  const { token, holder, deadline } = lease;
  return { name, token, holder: holder && { ...holder }, remainingMs: holder ? deadline - now : 0 };
}

/** Whether this token may still act. An expired lease counts until another owner takes it. */
export function isHeldBy(lease: Lease | undefined, guard: port.Guard): lease is Lease {
  return lease !== undefined && lease.holder !== null && lease.token === guard.token;
}

export function findFenced(
  space: Space,
  guards: readonly port.Guard[],
  now: number,
): { outcome: "fenced"; lease: string; now: port.LeaseRow | null } | null {
  const lost = guards.find((guard) => !isHeldBy(space.leases.get(guard.lease), guard));
  if (!lost) return null;
  const lease = space.leases.get(lost.lease);
  return { outcome: "fenced", lease: lost.lease, now: lease ? leaseRow(lost.lease, lease, now) : null };
}
