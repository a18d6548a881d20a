/** The harness of the suite: a store per case, and short names for what cases do and expect. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { setTimeout } from "node:timers/promises";
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

/** A store under test. */
export interface StoreSubject {
  /** Shown in messages: `memory`, `my store on S3`. */
  readonly name: string;
  /** Makes an empty store. Every case gets one of its own, so `open` must be cheap. */
  open(): Promise<Opened>;
}

/** One empty store, and what a case may do to it. */
export interface Opened {
  readonly store: Store;
  /** Closes `store` and opens the same data again. */
  reopen(): Promise<Store>;
  /** A second handle on the same data, as another process would have it. */
  another(): Promise<Store>;
  /**
   * Moves the clock of the leases, for all handles. Without it the suite waits for short leases, which takes
   * about five seconds longer.
   */
  advanceMs?(ms: number): void | Promise<void>;
  /** Closes every handle and deletes the data. */
  dispose(): Promise<void>;
}

/** The argument of a case: an open store, and a clock to let leases expire. */
export interface Trial extends Omit<Opened, "advanceMs" | "dispose"> {
  /** The ttl of a lease that should expire during the case. */
  readonly ttlMs: number;
  /** Lets time pass for the leases. */
  pass(ms: number): Promise<void>;
}

/** The cases of one topic. A name states the property that the case protects. */
export type Cases = Readonly<Record<string, (trial: Trial) => Promise<void>>>;

/** Long enough that it never expires during a case, on any machine. */
export const LONG_MS = 600_000;

const FAKED_TTL_MS = 10_000;
/** Long enough for a busy machine to act within its second half. */
const REAL_TTL_MS = 400;

export async function attempt(subject: StoreSubject, run: (trial: Trial) => Promise<void>): Promise<void> {
  const opened = await subject.open();
  const advance = opened.advanceMs?.bind(opened);
  try {
    await run({
      store: opened.store,
      reopen: () => opened.reopen(),
      another: () => opened.another(),
      ttlMs: advance ? FAKED_TTL_MS : REAL_TTL_MS,
      pass: async (ms) => {
        if (advance) await advance(ms);
        else await setTimeout(ms);
      },
    });
  } finally {
    await opened.dispose();
  }
}

export const SPACE = "default";

/** A list that never ends fails instead of hanging. */
const PAGES_LIMIT = 10_000;

let batches = 0;

export type WriteParts = Partial<Omit<Write, "stream" | "expect">> & {
  readonly generation?: number;
  /** Values for the payload. Default: one that names its seq. */
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

/** Asserts the kind of an outcome and narrows its type. */
export function outcomeIs<Outcome extends { outcome: string }, Kind extends Outcome["outcome"]>(
  outcome: Outcome,
  kind: Kind,
): Extract<Outcome, { outcome: Kind }> {
  assert.equal(outcome.outcome, kind, `expected ${kind}, got ${JSON.stringify(outcome)}`);
  return outcome as Extract<Outcome, { outcome: Kind }>;
}

/** Appends, and asserts that it is accepted. */
export async function accept(
  store: Store,
  writes: Write | readonly Write[],
  parts: Partial<Batch> = {},
): Promise<readonly Head[]> {
  const { heads, resent } = outcomeIs(await store.append(batchOf(writes, parts)), "ok");
  assert.equal(resent, false, "a new batch is answered as resent");
  return heads;
}

/** Appends, asserts that it is refused, and returns the outcome. */
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
    assert.ok(last > after || !page.more, `a page after ${after} has \`more\` but no writes`);
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

/** The holders of keys, as `key: [stream, seq]`. */
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

/** Takes a lease, and asserts that it is granted. */
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

/** Asserts that a payload is bytes. */
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
