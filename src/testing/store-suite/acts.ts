/** Short ways to do to a store what the cases do all the time, and to say what must come of it. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import type {
  AppendOutcome,
  Batch,
  Head,
  Holder,
  ItemRow,
  LeaseOutcome,
  LeaseRow,
  ListRequest,
  ListRows,
  Page,
  Payload,
  ReadPage,
  ReadRequest,
  RemoveOutcome,
  Store,
  StoredWrite,
  StreamRow,
  Write,
} from "../../store.ts";
import { LONG_MS } from "./trial.ts";

export const SPACE = "default";

/** What lists return is bounded, so a list that never ends is a failure and not a hang. */
const PAGES_LIMIT = 10_000;

let batches = 0;

export type WriteParts = Partial<Omit<Write, "stream" | "expect">> & {
  readonly generation?: number;
  /** Values for the payload; one that names its seq when absent. */
  readonly events?: readonly unknown[];
};

/** A write to `stream` that expects it to end at `seq`. */
export function write(stream: string, seq: number, parts: WriteParts = {}): Write {
  const { generation = 1, events = [`${stream} ${seq + 1}`], ...rest } = parts;
  const payload = rest.payload ?? JSON.stringify(events);
  return {
    stream,
    expect: { generation, seq },
    count: events.length,
    payload,
    codec: null,
    sum: crc32(payload),
    at: 1_000 + seq,
    ...rest,
  };
}

/** `count` events that name their seq. */
export function numbered(seq: number, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `event ${seq + 1 + index}`);
}

export function batchOf(writes: Write | readonly Write[], parts: Partial<Batch> = {}): Batch {
  batches += 1;
  return { id: `batch-${batches}`, namespace: SPACE, writes: [writes].flat(), ...parts };
}

/** The outcome with its type narrowed; another one fails with all its facts. */
export function outcomeIs<Outcome extends { outcome: string }, Kind extends Outcome["outcome"]>(
  outcome: Outcome,
  kind: Kind,
): Extract<Outcome, { outcome: Kind }> {
  assert.equal(outcome.outcome, kind, `expected ${kind}, got ${JSON.stringify(outcome)}`);
  return outcome as Extract<Outcome, { outcome: Kind }>;
}

/** Appends what must be accepted. */
export async function accept(
  store: Store,
  writes: Write | readonly Write[],
  parts: Partial<Batch> = {},
): Promise<readonly Head[]> {
  const { heads, resent } = outcomeIs(await store.append(batchOf(writes, parts)), "ok");
  assert.equal(resent, false, "a batch that was never sent before counts as resent");
  return heads;
}

/** Appends what must be refused, and returns the refusal. */
export async function refuse<Kind extends Exclude<AppendOutcome["outcome"], "ok">>(
  store: Store,
  kind: Kind,
  writes: Write | readonly Write[],
  parts: Partial<Batch> = {},
): Promise<Extract<AppendOutcome, { outcome: Kind }>> {
  return outcomeIs(await store.append(batchOf(writes, parts)), kind);
}

/** All writes in the range, page by page; each page must bring the reader further. */
export async function readAll(
  store: Store,
  stream: string,
  range: Partial<ReadRequest> = {},
): Promise<StoredWrite[]> {
  const writes: StoredWrite[] = [];
  let after = range.after ?? 0;
  let page: ReadPage;
  do {
    page = await store.read({ namespace: SPACE, stream, ...range, after });
    const last = page.writes.at(-1)?.last ?? after;
    assert.ok(last > after || !page.more, `a page after ${after} that says more follows brings nothing`);
    after = last;
    writes.push(...page.writes);
  } while (page.more);
  return writes;
}

/** The events of a stream as `[seq, value]`, taken from text or from bytes; the seqs must be gapless. */
export async function eventsOf(
  store: Store,
  stream: string,
  range: Partial<ReadRequest> = {},
): Promise<[number, unknown][]> {
  const events: [number, unknown][] = [];
  for (const { first, last, payload } of await readAll(store, stream, range)) {
    const values = parse(payload).slice(0, last - first + 1);
    assert.equal(values.length, last - first + 1, `the write at ${first} has too few events`);
    if (events.length > 0)
      assert.equal(first, (events.at(-1)?.[0] ?? 0) + 1, "writes leave a gap or overlap");
    events.push(...values.map((value, index): [number, unknown] => [first + index, value]));
  }
  return events;
}

function parse(payload: Payload): unknown[] {
  const text = typeof payload === "string" ? payload : Buffer.from(payload).toString();
  try {
    return JSON.parse(text);
  } catch (error) {
    return assert.fail(`a payload is no longer what was stored: ${error}`);
  }
}

export async function valuesOf(
  store: Store,
  stream: string,
  range?: Partial<ReadRequest>,
): Promise<unknown[]> {
  return (await eventsOf(store, stream, range)).map(([, value]) => value);
}

export async function rowOf(store: Store, stream: string, namespace = SPACE): Promise<StreamRow> {
  return (await store.read({ namespace, stream, after: 0, limit: 1 })).stream;
}

export async function headOf(store: Store, stream: string, namespace = SPACE): Promise<Head> {
  return (await rowOf(store, stream, namespace)).head;
}

type Listed = "streams" | "items" | "leases";

/** All rows of a list, page by page. */
export async function listAll<Of extends Listed>(
  store: Store,
  request: Omit<Extract<ListRequest, { of: Of }>, "namespace" | "limit" | "cursor"> & {
    readonly of: Of;
    readonly namespace?: string;
    readonly limit?: number;
  },
): Promise<ListRows[Of][]> {
  const rows: ListRows[Of][] = [];
  let cursor: string | null = null;
  for (let pages = 0; pages < PAGES_LIMIT; pages++) {
    const at = cursor === null ? {} : { cursor };
    const asked = { namespace: SPACE, limit: 100, ...request, ...at };
    const page: Page<ListRows[Of]> = await store.list<Of>(
      asked as unknown as Extract<ListRequest, { of: Of }>,
    );
    assert.ok(
      page.rows.length <= asked.limit,
      `a page of at most ${asked.limit} has ${page.rows.length} rows`,
    );
    rows.push(...page.rows);
    cursor = page.cursor;
    if (cursor === null) return rows;
  }
  assert.fail("the list never ends");
}

export async function streamNames(
  store: Store,
  filter: Omit<Extract<ListRequest, { of: "streams" }>, "of" | "namespace" | "limit"> & {
    namespace?: string;
    limit?: number;
  } = {},
): Promise<string[]> {
  return (await listAll(store, { of: "streams", ...filter })).map(({ stream }) => stream);
}

export async function itemIds(
  store: Store,
  filter: { kind: string; stream?: string; id?: string; open?: true; limit?: number; namespace?: string },
): Promise<string[]> {
  return (await listAll<"items">(store, { of: "items", ...filter })).map(({ id }: ItemRow) => id);
}

/** Who holds each of these keys, as `key: [stream, seq]`. */
export async function holdersOf(
  store: Store,
  keys: readonly string[],
  namespace = SPACE,
): Promise<Map<string, [string, number]>> {
  const { rows } = await store.list({ of: "keys", namespace, keys });
  assert.equal(new Set(rows.map(({ key }) => key)).size, rows.length, "a key is listed twice");
  return new Map(rows.map(({ key, stream, seq }) => [key, [stream, seq]]));
}

export function holder(owner: string): Holder {
  return {
    owner,
    label: `worker ${owner}`,
    host: "host.example",
    pid: 4711,
    started: "8812345",
    boot: "2f6c1d1e-5d0c-4b52-9a55-1a5f8a0f3c11",
    pidNamespace: "4026531836",
  };
}

interface TakeParts {
  readonly ttlMs?: number;
  readonly evict?: number;
  readonly namespace?: string;
}

export function take(
  store: Store,
  name: string,
  owner: string,
  parts: TakeParts = {},
): Promise<LeaseOutcome> {
  return store.lease({
    act: "take",
    namespace: SPACE,
    name,
    holder: holder(owner),
    ttlMs: LONG_MS,
    ...parts,
  });
}

/** Takes what must be granted. */
export async function grant(
  store: Store,
  name: string,
  owner: string,
  parts: TakeParts = {},
): Promise<LeaseRow> {
  return outcomeIs(await take(store, name, owner, parts), "granted").lease;
}

export async function release(store: Store, lease: string, token: number): Promise<boolean> {
  const outcome = await store.lease({ act: "release", namespace: SPACE, lease: { lease, token } });
  return outcomeIs(outcome, "released").wasOurs;
}

/** Removes a stream as it is now. */
export async function removeStream(store: Store, stream: string, namespace = SPACE): Promise<RemoveOutcome> {
  return store.remove({ of: "stream", namespace, stream, expect: await headOf(store, stream, namespace) });
}

/** Bytes that cannot be text, and the name that an artifact of them has. */
export function artifactOf(content: string | Uint8Array): { hash: string; bytes: Uint8Array } {
  const bytes = typeof content === "string" ? Buffer.from(`\xff\0${content}`, "latin1") : content;
  return { hash: createHash("sha256").update(bytes).digest("hex"), bytes: new Uint8Array(bytes) };
}

/** Puts an artifact and returns its hash. */
export async function putArtifact(
  store: Store,
  content: string | Uint8Array,
  { at = 1_000, namespace = SPACE } = {},
): Promise<string> {
  const { hash, bytes } = artifactOf(content);
  await store.put({ of: "artifact", namespace, hash, bytes, at });
  return hash;
}

export async function hasArtifact(store: Store, hash: string, namespace = SPACE): Promise<boolean> {
  return (await store.get({ of: "artifact", namespace, hash })) !== null;
}

/** What must be bytes, and not text. */
export function bytesOf(payload: Payload | undefined): Uint8Array {
  assert.ok(payload instanceof Uint8Array, `expected bytes, got ${typeof payload}`);
  return payload;
}

export async function rejectsWith(code: string, act: () => unknown): Promise<void> {
  await assert.rejects(
    async () => act(),
    (error: Error & { code?: string; hint?: string }) => {
      assert.equal(error.name, "HoldfastError", `it rejects with ${error.stack}`);
      assert.equal(error.code, code, `it rejects with ${error.code}: ${error.message}`);
      assert.ok(error.hint, "the error has no hint");
      return true;
    },
  );
}
