import { HoldfastError } from "../../model/errors.ts";
import { streamKind } from "../../model/names.ts";
import type {
  ItemRow,
  KeyRow,
  LeaseRow,
  ListRequest,
  ListRows,
  Page,
  SnapshotRow,
  StreamRow,
} from "../../store.ts";
import { leaseRow, type Space, type Stream, streamOf, streamRow } from "./data.ts";

type Asked<Of extends ListRequest["of"]> = Extract<ListRequest, { of: Of }>;

/** What a row is sorted by. It is also the cursor: the next page begins behind it, whatever came or went. */
type Place = readonly (string | number)[];

export function list(space: Space, request: ListRequest, now: number): Page<ListRows[keyof ListRows]> {
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

function listStreams(space: Space, asked: Asked<"streams">): Page<StreamRow> {
  const streams = [...space.streams.values()].filter((stream) => isAsked(stream, asked));
  const placed = streams.map((stream) => ({
    place: [-stream.updatedAt, stream.name],
    row: () => streamRow(stream),
  }));
  return pageOf(placed, asked);
}

function isAsked({ name, state, facets, updatedAt, parent }: Stream, asked: Asked<"streams">): boolean {
  if (state !== "live" && !(state === "hidden" && asked.hidden)) return false;
  if (asked.kind !== undefined && streamKind(name) !== asked.kind) return false;
  if (asked.status !== undefined && facets.status !== asked.status) return false;
  if (asked.goal !== undefined && facets.goal !== asked.goal) return false;
  if (asked.openCalls && facets.openCalls === 0) return false;
  if (asked.expiredAt !== undefined && !(facets.expiresAt !== null && facets.expiresAt <= asked.expiredAt)) {
    return false;
  }
  if (asked.updatedBefore !== undefined && updatedAt >= asked.updatedBefore) return false;
  return asked.parent === undefined || parent?.stream === asked.parent;
}

function listItems(space: Space, asked: Asked<"items">): Page<ItemRow> {
  const streams = asked.stream === undefined ? space.streams.values() : [streamOf(space, asked.stream)];
  const items = [...streams].flatMap((stream) => [...stream.items.values()]);
  const matching = items.filter(
    (item) =>
      item.kind === asked.kind &&
      (asked.id === undefined || item.id === asked.id) &&
      (!asked.open || item.doneAt === null),
  );
  const placed = matching.map((item) => {
    const within = [item.seq ?? 0, item.id];
    const place = asked.stream === undefined ? [item.at ?? 0, item.stream, ...within] : within;
    return { place, row: () => ({ ...item }) };
  });
  return pageOf(placed, asked);
}

function listLeases(space: Space, asked: Asked<"leases">, now: number): Page<LeaseRow> {
  const leases = [...space.leases].filter(([name]) => name.startsWith(asked.prefix ?? ""));
  const placed = leases.map(([name, lease]) => ({ place: [name], row: () => leaseRow(name, lease, now) }));
  return pageOf(placed, asked);
}

function listKeys(space: Space, asked: Asked<"keys">): Page<KeyRow> {
  const rows = [...new Set(asked.keys)].flatMap((key) => {
    const holder = space.keys.get(key);
    return holder ? [{ key, ...holder }] : [];
  });
  return { rows, cursor: null };
}

function listSnapshots(space: Space, asked: Asked<"snapshots">): Page<SnapshotRow> {
  const rows = streamOf(space, asked.stream).snapshots.map(({ seq, fold, payload }) => ({
    seq,
    fold,
    bytes: Buffer.byteLength(payload),
  }));
  return { rows: rows.sort((a, b) => comparePlaces([a.seq, a.fold], [b.seq, b.fold])), cursor: null };
}

function pageOf<Row>(
  placed: readonly { place: Place; row(): Row }[],
  { limit, cursor }: { limit: number; cursor?: string },
): Page<Row> {
  const after = cursor === undefined ? null : placeIn(cursor);
  const rest = placed
    .filter(({ place }) => after === null || comparePlaces(place, after) > 0)
    .sort((a, b) => comparePlaces(a.place, b.place));
  const page = rest.slice(0, limit);
  const last = page.at(-1);
  return {
    rows: page.map(({ row }) => row()),
    cursor: last && rest.length > page.length ? JSON.stringify(last.place) : null,
  };
}

function placeIn(cursor: string): Place {
  try {
    return JSON.parse(cursor) as Place;
  } catch (cause) {
    throw new HoldfastError("INPUT_INVALID", "this cursor is not from a list of this kind", {
      hint: "Pass a cursor exactly as the page before gave it, with the same request.",
      cause,
    });
  }
}

/** By code units, as `<` does, so that the order is the same in every locale. */
function comparePlaces(a: Place, b: Place): number {
  for (const [index, value] of a.entries()) {
    const other = b[index];
    if (other === undefined || value > other) return 1;
    if (value < other) return -1;
  }
  return 0;
}
