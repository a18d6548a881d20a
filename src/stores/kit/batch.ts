/** Rules about batches that hold in every store. */

import { HoldfastError } from "../../model/errors.ts";
import type { Batch, Guard, Head, Write } from "../../store.ts";

/**
 * Rejects a batch that no store can hold, before it waits in a queue beside valid ones.
 * `maxSeq` is the largest seq that fits the store's columns; `checkWrite` adds rules of the store's own.
 */
export function checkBatch(
  { writes }: Batch,
  maxSeq: number = Number.MAX_SAFE_INTEGER,
  checkWrite?: (write: Write) => void,
): void {
  if (writes.length === 0) throw invalidBatch("it has no writes");
  if (writes.length > 1 && new Set(writes.map(({ stream }) => stream)).size < writes.length) {
    throw invalidBatch("it writes twice to one stream");
  }
  for (const write of writes) {
    checkWriteShape(write, maxSeq);
    checkWrite?.(write);
  }
}

function checkWriteShape({ stream, expect, count, claims, fork }: Write, maxSeq: number): void {
  if (!Number.isSafeInteger(count) || count < 1) throw invalidBatch(`its write to ${stream} has no events`);
  if (claims?.some(({ event }) => !Number.isSafeInteger(event) || event < 0 || event >= count)) {
    throw invalidBatch(`its write to ${stream} claims a key for an event that it does not have`);
  }
  if (fork && fork.seq !== expect.seq) throw invalidBatch(`${stream} does not begin where it forks`);
  if (!(expect.seq + count <= maxSeq)) throw invalidBatch(`${stream} would have more than ${maxSeq} events`);
}

export function invalidBatch(why: string): HoldfastError {
  return new HoldfastError("BATCH_INVALID", `the batch cannot be stored: ${why}`, {
    hint: "This is a mistake in the code that made the batch; sending it again will not help.",
  });
}

export function headsAfter({ writes }: Batch): Head[] {
  return writes.map(({ expect, count }) => ({ generation: expect.generation, seq: expect.seq + count }));
}

const NO_GUARDS: readonly Guard[] = [];

/** A lease that the batch releases is checked like a guard. */
export function guardsOf({ writes, lease }: Batch): readonly Guard[] {
  const released = lease?.act === "release" ? { lease: lease.name, token: lease.token } : null;
  if (writes.length === 1 && !released) return writes[0]?.guards ?? NO_GUARDS;
  const guards = writes.flatMap((write) => write.guards ?? NO_GUARDS);
  return released ? [...guards, released] : guards;
}
