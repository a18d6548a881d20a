/** One end of a move: the seal, and the rows of every namespace. */

import { sealedStore } from "../../model/stream/index.ts";
import type { MovedRow, Moving } from "../../store.ts";
import { isSameSeal, requireEntering } from "../kit/index.ts";
import type { MemoryData, Space, Stream } from "./data.ts";
import { copyPayload, goneStream, leaseRow, spaceOf, streamOf, streamRow } from "./data.ts";

const PAGE_ROWS = 500;

/** Throws while the seal of a move forbids writes. */
export function refuseSealed({ seal }: MemoryData): void {
  if (!seal || seal.phase === "arrived") return;
  throw sealedStore("this memory store", "memory:", { phase: seal.phase, other: seal.other });
}

export function movingOf(data: MemoryData, clock: () => number): Moving {
  return {
    seal: async () => data.seal ?? null,
    reseal: async (expect, next) => {
      if (!isSameSeal(data.seal, expect)) return false;
      data.seal = next && { ...next };
      return true;
    },
    dump: async (cursor, only) => {
      const begin = Number(cursor ?? 0);
      const rows: MovedRow[] = [];
      let position = 0;
      for (const row of dumpRows(data, clock(), { only })) {
        if (position++ < begin) continue;
        if (rows.length === PAGE_ROWS) return { rows, cursor: String(begin + PAGE_ROWS) };
        rows.push(row);
      }
      return { rows, cursor: null };
    },
    restore: async (move, rows) => {
      requireEntering({ address: "memory" }, move, data.seal);
      for (const row of rows) put(spaceOf(data, row.namespace), row);
    },
  };
}

interface DumpOptions {
  /** Reads an artifact, for a store that has the bytes elsewhere. */
  readonly bytesOf?: (namespace: string, hash: string) => Uint8Array | null;
  readonly only?: readonly MovedRow["of"][] | undefined;
}

export function* dumpRows(
  data: MemoryData,
  now: number,
  { bytesOf = () => null, only }: DumpOptions = {},
): Generator<MovedRow> {
  const isWanted = (of: MovedRow["of"]): boolean => !only || only.includes(of);
  const spaces = [...data.spaces];
  for (const [namespace, { leases }] of isWanted("lease") ? spaces : []) {
    for (const [name, lease] of leases) {
      yield { of: "lease", namespace, ttlMs: lease.ttlMs, ...leaseRow(name, lease, now) };
    }
  }
  for (const [namespace, { artifacts }] of isWanted("artifact") ? spaces : []) {
    for (const [hash, { bytes, putAt }] of artifacts) {
      yield { of: "artifact", namespace, hash, bytes: bytesOf(namespace, hash) ?? bytes.slice(), putAt };
    }
  }
  for (const [namespace, { streams, keys }] of spaces) {
    for (const stream of streams.values()) yield* rowsOfStream(namespace, stream, isWanted);
    for (const [key, holder] of isWanted("key") ? keys : []) yield { of: "key", namespace, key, ...holder };
  }
}

function* rowsOfStream(
  namespace: string,
  stream: Stream,
  isWanted: (of: MovedRow["of"]) => boolean,
): Generator<MovedRow> {
  if (isWanted("stream")) {
    yield { of: "stream", namespace, ...streamRow(stream), artifacts: [...stream.artifacts].sort() };
  }
  for (const write of isWanted("write") ? stream.writes : []) {
    const payload = copyPayload(write.payload);
    yield { of: "write", namespace, stream: stream.name, ...write, payload };
  }
  for (const item of isWanted("item") ? stream.items.values() : []) yield { of: "item", namespace, ...item };
}

function put(space: Space, row: MovedRow): void {
  switch (row.of) {
    case "lease": {
      // Stored as expired: no holder survives the move. The holder's name is kept for messages.
      const { name, token, holder, ttlMs } = row;
      space.leases.set(name, { token, holder: holder && { ...holder }, ttlMs, deadline: 0 });
      break;
    }
    case "artifact":
      space.artifacts.set(row.hash, { bytes: row.bytes.slice(), putAt: row.putAt });
      break;
    case "key":
      space.keys.set(row.key, { stream: row.stream, seq: row.seq });
      break;
    case "stream":
      putStream(space, row);
      break;
    case "write":
      putWrite(streamOf(space, row.stream), row);
      break;
    case "item": {
      const { of: _of, namespace: _namespace, ...item } = row;
      streamOf(space, row.stream).items.set(JSON.stringify([item.kind, item.id]), item);
    }
  }
}

function putStream(space: Space, row: Extract<MovedRow, { of: "stream" }>): void {
  const stream = space.streams.get(row.stream) ?? goneStream(row.stream, row.head.generation);
  const { state, head, base, parent, createdAt, updatedAt, facets } = row;
  Object.assign(stream, { state, head, base, parent, createdAt, updatedAt, facets });
  for (const hash of row.artifacts) stream.artifacts.add(hash);
  space.streams.set(row.stream, stream);
}

function putWrite({ writes }: Stream, row: Extract<MovedRow, { of: "write" }>): void {
  const { of: _of, namespace: _namespace, stream: _stream, ...write } = row;
  const stored = { ...write, payload: copyPayload(write.payload) };
  const index = writes.findIndex(({ first }) => first >= row.first);
  if (index < 0) writes.push(stored);
  else writes.splice(index, writes[index]?.first === row.first ? 1 : 0, stored);
}
