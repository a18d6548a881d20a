import { crc32 } from "node:zlib";
import type { AppendOutcome, Batch, Holder, Payload, Store, Write } from "../../../src/store.ts";

export const NAMESPACE = "default";

let batches = 0;

/** A write of one event per element of `events`, at the expected end of the stream. */
export function write(
  stream: string,
  seq: number,
  events: readonly unknown[],
  parts: Partial<Write> = {},
): Write {
  const payload = JSON.stringify(events);
  return {
    stream,
    expect: { generation: 1, seq },
    count: events.length,
    payload,
    codec: null,
    sum: sumOf(payload),
    at: 1_700_000_000_000 + seq,
    ...parts,
  };
}

export function sumOf(payload: Payload): number {
  return crc32(payload);
}

export function batchOf(...writes: Write[]): Batch {
  batches += 1;
  return { id: `batch-${process.pid}-${batches}`, namespace: NAMESPACE, writes };
}

export async function append(store: Store, ...writes: Write[]): Promise<AppendOutcome> {
  return store.append(batchOf(...writes));
}

export async function headSeq(store: Store, stream: string): Promise<number> {
  const { stream: row } = await store.read({ namespace: NAMESPACE, stream, after: 0, limit: 1 });
  return row.head.seq;
}

export function holder(owner: string): Holder {
  return { owner, label: owner, host: "here", pid: 1, started: null, boot: null, pidNamespace: null };
}
