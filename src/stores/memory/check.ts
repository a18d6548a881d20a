import { crc32 } from "node:zlib";
import type { Problem } from "../../store.ts";
import type { MemoryData, Stream } from "./data.ts";

/** A memory store can only break by a mistake in its own code, which is what this would show. */
export function check(data: MemoryData): Problem[] {
  return [...data.spaces].flatMap(([namespace, { streams }]) =>
    [...streams.values()].flatMap((stream) => {
      const where = `${namespace} ${stream.name}`;
      return [...changedWrites(stream, where), ...gaps(stream, where)];
    }),
  );
}

function changedWrites({ writes }: Stream, where: string): Problem[] {
  return writes
    .filter(({ payload, sum }) => crc32(payload) !== sum)
    .map(({ first, last }) => ({
      invariant: "I2",
      where,
      what: `events ${first} to ${last} do not match their checksum`,
    }));
}

function gaps({ base, head, writes }: Stream, where: string): Problem[] {
  let seq = base;
  for (const { first, last } of writes) {
    if (first !== seq + 1) return [{ invariant: "I7", where, what: `event ${first} follows event ${seq}` }];
    seq = last;
  }
  if (seq === head.seq) return [];
  return [{ invariant: "I7", where, what: `it ends at event ${seq}, its head says ${head.seq}` }];
}
