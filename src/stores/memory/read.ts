import type { Blob, GetRequest, ReadPage, ReadRequest } from "../../store.ts";
import { copyPayload, type Space, streamOf, streamRow } from "./data.ts";

/** A stream's own writes. What a fork shares with its parent is read from the parent, up to the fork's `base`. */
export function read(
  space: Space,
  request: ReadRequest,
  snapshotOf: (asked: SnapshotRequest) => Blob | null = (asked) => getSnapshot(space, asked),
): ReadPage {
  const { after, upTo = Number.MAX_SAFE_INTEGER, limit = Number.POSITIVE_INFINITY, fold } = request;
  const stream = streamOf(space, request.stream);
  const snapshot = fold === undefined ? null : snapshotOf({ ...request, of: "snapshot", fold, upTo });
  const from = Math.max(after, snapshot?.seq ?? 0);
  const asked = stream.writes.filter(({ first, last }) => last > from && first <= upTo);
  const writes = asked.slice(0, limit).map((write) => ({ ...write, payload: copyPayload(write.payload) }));
  return { stream: streamRow(stream), snapshot, writes, more: asked.length > writes.length };
}

type SnapshotRequest = Extract<GetRequest, { of: "snapshot" }>;

export function getSnapshot(space: Space, request: SnapshotRequest): Blob | null {
  const { snapshots, head } = streamOf(space, request.stream);
  const usable = snapshots.filter(({ seq, fold }) => fold === request.fold && seq <= request.upTo);
  const latest = usable.sort((a, b) => a.seq - b.seq).at(-1);
  if (!latest) return null;
  const { codec, seq } = latest;
  return { payload: copyPayload(latest.payload), codec, seq, generation: head.generation };
}
