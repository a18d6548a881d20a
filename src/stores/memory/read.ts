/** Reads, lists and the check. */

import { HoldfastError } from "../../model/errors.ts";
import { streamKind } from "../../model/names.ts";
import type * as port from "../../store.ts";
import { headProblems, writeProblems } from "../kit/index.ts";
import type { Lease, MemoryData, Space, Stream } from "./data.ts";
import { copyPayload, leaseRow, streamOf, streamRow } from "./data.ts";

/** A stream's own writes. The past that a fork shares is read from its parent, up to the fork's `base`. */
export function read(
  space: Space,
  request: port.ReadRequest,
  snapshotOf: (asked: SnapshotRequest) => port.Blob | null = (asked) => getSnapshot(space, asked),
): port.ReadPage {
  const { after, upTo = Number.MAX_SAFE_INTEGER, limit = Number.POSITIVE_INFINITY, fold } = request;
  const stream = streamOf(space, request.stream);
  const snapshot = fold === undefined ? null : snapshotOf({ ...request, of: "snapshot", fold, upTo });
  const from = Math.max(after, snapshot?.seq ?? 0);
  const inRange = stream.writes.filter(({ first, last }) => last > from && first <= upTo);
  const writes = inRange.slice(0, limit).map((write) => ({ ...write, payload: copyPayload(write.payload) }));
  return { stream: streamRow(stream), snapshot, writes, more: inRange.length > writes.length };
}

type SnapshotRequest = Extract<port.GetRequest, { of: "snapshot" }>;

export function getSnapshot(space: Space, request: SnapshotRequest): port.Blob | null {
  const { snapshots, head } = streamOf(space, request.stream);
  const usable = snapshots.filter(({ seq, fold }) => fold === request.fold && seq <= request.upTo);
  const latest = usable.sort((a, b) => a.seq - b.seq).at(-1);
  if (!latest) return null;
  const { codec, seq } = latest;
  return { payload: copyPayload(latest.payload), codec, seq, generation: head.generation };
}

type Request<Of extends port.ListRequest["of"]> = Extract<port.ListRequest, { of: Of }>;

/** The sort key of a row, and the cursor: the next page begins after it, whatever was added or removed. */
type Position = readonly (string | number)[];

export function list(
  space: Space,
  request: Exclude<port.ListRequest, { of: "namespaces" }>,
  now: number,
): port.Page<port.ListRows[keyof port.ListRows]> {
  switch (request.of) {
    case "streams":
      return listStreams(space, request);
    case "items":
      return listItems(space, request);
    case "leases":
      return listLeases(space, request, now);
    case "keys":
      return listKeys(space, request);
    case "snapshots":
      return listSnapshots(space, request);
  }
}

/** Namespaces with a stream, removed ones included. A space is also made by a mere read. */
export function listNamespaces({ spaces }: MemoryData): port.Page<port.NamespaceRow> {
  const used = [...spaces].filter(([, { streams }]) => streams.size > 0).map(([namespace]) => namespace);
  return { rows: used.sort(compareNames).map((namespace) => ({ namespace })), cursor: null };
}

function compareNames(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function listStreams(space: Space, request: Request<"streams">): port.Page<port.StreamRow> {
  const streams = [...space.streams.values()].filter((stream) => isMatch(stream, request));
  return pageOf(streams, request, (stream) => [-stream.updatedAt, stream.name], streamRow);
}

function isMatch({ name, state, facets, updatedAt, parent }: Stream, request: Request<"streams">): boolean {
  if (state !== "live" && !(state === "hidden" && request.hidden)) return false;
  if (request.kind !== undefined && streamKind(name) !== request.kind) return false;
  if (request.status !== undefined && facets.status !== request.status) return false;
  if (request.goal !== undefined && facets.goal !== request.goal) return false;
  if (request.openCalls && facets.openCalls === 0) return false;
  const { expiresAt } = facets;
  if (request.expiredAt !== undefined && (expiresAt === null || expiresAt > request.expiredAt)) return false;
  if (request.updatedBefore !== undefined && updatedAt >= request.updatedBefore) return false;
  return request.parent === undefined || parent?.stream === request.parent;
}

function listItems(space: Space, request: Request<"items">): port.Page<port.ItemRow> {
  const streams = request.stream === undefined ? space.streams.values() : [streamOf(space, request.stream)];
  const items = [...streams].flatMap((stream) => [...stream.items.values()]);
  const matching = items.filter(
    (item) =>
      item.kind === request.kind &&
      (request.id === undefined || item.id === request.id) &&
      (!request.open || item.doneAt === null),
  );
  const positionOf = (item: port.ItemRow) => {
    const within = [item.seq ?? 0, item.id];
    return request.stream === undefined ? [item.at ?? 0, item.stream, ...within] : within;
  };
  return pageOf(matching, request, positionOf, (item) => ({ ...item }));
}

function listLeases(space: Space, request: Request<"leases">, now: number): port.Page<port.LeaseRow> {
  const { names, prefix = "" } = request;
  const leases = [...(names ? named(space, names) : space.leases)].filter(([name]) =>
    name.startsWith(prefix),
  );
  return pageOf(
    leases,
    request,
    ([name]) => [name],
    ([name, lease]) => leaseRow(name, lease, now),
  );
}

function* named({ leases }: Space, names: readonly string[]): Generator<[string, Lease]> {
  for (const name of new Set(names)) {
    const lease = leases.get(name);
    if (lease) yield [name, lease];
  }
}

function listKeys(space: Space, request: Request<"keys">): port.Page<port.KeyRow> {
  const rows = [...new Set(request.keys)].flatMap((key) => {
    const holder = space.keys.get(key);
    return holder ? [{ key, ...holder }] : [];
  });
  return { rows, cursor: null };
}

function listSnapshots(space: Space, request: Request<"snapshots">): port.Page<port.SnapshotRow> {
  const { snapshots } = streamOf(space, request.stream);
  const rows = snapshots.map(({ seq, fold, payload }) => ({ seq, fold, bytes: Buffer.byteLength(payload) }));
  return { rows: rows.sort((a, b) => comparePositions([a.seq, a.fold], [b.seq, b.fold])), cursor: null };
}

function pageOf<Stored, Row>(
  stored: readonly Stored[],
  { limit, cursor }: { limit: number; cursor?: string },
  positionOf: (stored: Stored) => Position,
  toRow: (stored: Stored) => Row,
): port.Page<Row> {
  const after = cursor === undefined ? null : decodePosition(cursor);
  const rest = stored
    .filter((each) => after === null || comparePositions(positionOf(each), after) > 0)
    .sort((a, b) => comparePositions(positionOf(a), positionOf(b)));
  const page = rest.slice(0, limit);
  const last = page.at(-1);
  const next = last && rest.length > page.length ? JSON.stringify(positionOf(last)) : null;
  return { rows: page.map(toRow), cursor: next };
}

function decodePosition(cursor: string): Position {
  try {
    return JSON.parse(cursor) as Position;
  } catch (cause) {
    throw new HoldfastError("INPUT_INVALID", "this cursor is not from a list of this kind", {
      hint: "Pass a cursor exactly as the page before gave it, with the same request.",
      cause,
    });
  }
}

/** Compares by code units, as `<` does, so that the order is the same in every locale. */
function comparePositions(a: Position, b: Position): number {
  for (const [index, value] of a.entries()) {
    const other = b[index];
    if (other === undefined || value > other) return 1;
    if (value < other) return -1;
  }
  return 0;
}

/** Shows mistakes in the code of a store: nothing else can damage one in memory. */
export function check(data: MemoryData): port.Problem[] {
  return [...data.spaces].flatMap(([namespace, { streams }]) =>
    [...streams.values()].flatMap((stream) => [...streamProblems(stream, `${namespace} ${stream.name}`)]),
  );
}

function* streamProblems({ base, head, writes }: Stream, where: string): Generator<port.Problem> {
  let seq = base;
  for (const write of writes) {
    yield* writeProblems(where, seq, write);
    seq = write.last;
  }
  yield* headProblems(where, seq, head.seq);
}
