/** The harness of the suite: a store per case, and short names for what cases do and expect. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { crc32 } from "node:zlib";
import type * as Port from "../../store.ts";
import type { Batch, Head, Payload, ReadRequest, Store, Write } from "../../store.ts";

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
export interface Trial {
  readonly store: TestStore;
  reopen(): Promise<TestStore>;
  another(): Promise<TestStore>;
  /** The ttl of a lease that should expire during the case. */
  readonly ttlMs: number;
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
      store: new TestStore(opened.store),
      reopen: async () => new TestStore(await opened.reopen()),
      another: async () => new TestStore(await opened.another()),
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

type InSpace = { readonly namespace?: string; readonly limit?: number };
type Filter<Of extends "streams" | "items" | "leases"> = InSpace &
  Omit<Extract<Port.ListRequest, { of: Of }>, "of" | "namespace" | "limit" | "cursor">;
type TakeParts = Partial<Omit<Extract<Port.LeaseRequest, { act: "take" }>, "act" | "name">>;
type RemoveParts = Partial<Omit<Extract<Port.RemoveRequest, { of: "stream" }>, "of" | "stream">>;
type Refusal = Exclude<Port.AppendOutcome["outcome"], "ok">;
type Refused<Kind> = Extract<Port.AppendOutcome, { outcome: Kind }>;

/** A handle with the verbs of the cases. They act in the namespace `default` unless told otherwise. */
export class TestStore {
  readonly port: Store;

  constructor(port: Store) {
    this.port = port;
  }

  async send(writes: Write | readonly Write[], parts: Partial<Batch> = {}): Promise<Port.AppendOutcome> {
    return this.port.append(batchOf(writes, parts));
  }

  /** Appends, and asserts that it is accepted as new. */
  async accept(writes: Write | readonly Write[], parts: Partial<Batch> = {}): Promise<readonly Head[]> {
    const { heads, resent } = outcomeIs(await this.send(writes, parts), "ok");
    assert.equal(resent, false, "a new batch is answered as resent");
    return heads;
  }

  /** Appends like `accept`, and returns the batch. */
  async sent(writes: Write | readonly Write[]): Promise<Batch> {
    const batch = batchOf(writes);
    outcomeIs(await this.port.append(batch), "ok");
    return batch;
  }

  /** Appends one write, and asserts that it is accepted. */
  write(stream: string, seq: number, parts: WriteParts = {}): Promise<readonly Head[]> {
    return this.accept(write(stream, seq, parts));
  }

  /** Writes `count` numbered events to `session/a`, then forks it: `{ "session/b": 2 }`. */
  async family(count: number, forks: Readonly<Record<string, number>>): Promise<void> {
    await this.write("session/a", 0, { events: numbered(0, count) });
    for (const [stream, seq] of Object.entries(forks)) await this.accept(fork(stream, "session/a", seq));
  }

  /** Appends, and asserts that it is refused with these fields. */
  async refuse<Kind extends Refusal>(
    kind: Kind,
    writes: Write | readonly Write[],
    fields: Partial<Refused<Kind>> = {},
    parts: Partial<Batch> = {},
  ): Promise<Refused<Kind>> {
    const refused = outcomeIs(await this.send(writes, parts), kind);
    assertFields(refused, fields);
    return refused;
  }

  page(stream: string, range: Partial<ReadRequest> = {}): Promise<Port.ReadPage> {
    return this.port.read({ namespace: SPACE, stream, after: 0, ...range });
  }

  /** All writes in the range, page by page; each page must bring the reader further. */
  async writes(stream: string, range: Partial<ReadRequest> = {}): Promise<Port.StoredWrite[]> {
    const writes: Port.StoredWrite[] = [];
    let after = range.after ?? 0;
    let page: Port.ReadPage;
    do {
      page = await this.page(stream, { ...range, after });
      const last = page.writes.at(-1)?.last ?? after;
      assert.ok(last > after || !page.more, `a page after ${after} has \`more\` but no writes`);
      after = last;
      writes.push(...page.writes);
    } while (page.more);
    return writes;
  }

  /** The events of a stream as `[seq, value]`; the seqs must be gapless. */
  async events(stream: string, range: Partial<ReadRequest> = {}): Promise<[number, unknown][]> {
    const events: [number, unknown][] = [];
    for (const { first, last, payload } of await this.writes(stream, range)) {
      const values = parse(payload).slice(0, last - first + 1);
      assert.equal(values.length, last - first + 1, `the write at ${first} has too few events`);
      const previous = events.at(-1)?.[0] ?? first - 1;
      assert.equal(first, previous + 1, "writes leave a gap or overlap");
      events.push(...values.map((value, index): [number, unknown] => [first + index, value]));
    }
    return events;
  }

  async values(stream: string, range?: Partial<ReadRequest>): Promise<unknown[]> {
    return (await this.events(stream, range)).map(([, value]) => value);
  }

  async row(stream: string, namespace = SPACE): Promise<Port.StreamRow> {
    return (await this.page(stream, { namespace, limit: 1 })).stream;
  }

  async rowIs(stream: string, fields: Partial<Port.StreamRow>): Promise<void> {
    assertFields(await this.row(stream), fields);
  }

  async head(stream: string, namespace = SPACE): Promise<Head> {
    return (await this.row(stream, namespace)).head;
  }

  /** The seqs at which streams end. */
  async seqs(...streams: string[]): Promise<number[]> {
    return (await Promise.all(streams.map((stream) => this.head(stream)))).map(({ seq }) => seq);
  }

  /** All rows of a list, page by page. */
  async list<Of extends "streams" | "items" | "leases">(
    request: Filter<Of> & { readonly of: Of },
  ): Promise<Port.ListRows[Of][]> {
    const rows: Port.ListRows[Of][] = [];
    let cursor: string | null = null;
    for (let pages = 0; pages < PAGES_LIMIT; pages++) {
      const asked = { namespace: SPACE, limit: 100, ...request, ...(cursor !== null && { cursor }) };
      const page: Port.Page<Port.ListRows[Of]> = await this.port.list<Of>(
        asked as unknown as Extract<Port.ListRequest, { of: Of }>,
      );
      const { length } = page.rows;
      assert.ok(length <= asked.limit, `a page of at most ${asked.limit} has ${length} rows`);
      rows.push(...page.rows);
      cursor = page.cursor;
      if (cursor === null) return rows;
    }
    assert.fail("the list never ends");
  }

  /** The names of streams. */
  async streams(filter: Filter<"streams"> = {}): Promise<string[]> {
    return (await this.list<"streams">({ of: "streams", ...filter })).map(({ stream }) => stream);
  }

  /** The ids of items. */
  async items(filter: Filter<"items">): Promise<string[]> {
    return (await this.list<"items">({ of: "items", ...filter })).map(({ id }) => id);
  }

  /** The holders of keys, as `key: [stream, seq]`. */
  async holders(keys: readonly string[], namespace = SPACE): Promise<Map<string, [string, number]>> {
    const { rows } = await this.port.list({ of: "keys", namespace, keys });
    assert.equal(new Set(rows.map(({ key }) => key)).size, rows.length, "a key is listed twice");
    return new Map(rows.map(({ key, stream, seq }) => [key, [stream, seq]]));
  }

  take(name: string, owner: string, parts: TakeParts = {}): Promise<Port.LeaseOutcome> {
    const taken = { name, holder: holder(owner), ttlMs: LONG_MS };
    return this.port.lease({ act: "take", namespace: SPACE, ...taken, ...parts });
  }

  /** Takes a lease, and asserts that it is granted. */
  async grant(name: string, owner: string, parts: TakeParts = {}): Promise<Port.LeaseRow> {
    return outcomeIs(await this.take(name, owner, parts), "granted").lease;
  }

  /** Takes a lease, and asserts that another owner holds it. */
  async held(name: string, owner: string, parts: TakeParts = {}): Promise<Port.LeaseRow> {
    return outcomeIs(await this.take(name, owner, parts), "held").lease;
  }

  async release(lease: string, token: number): Promise<boolean> {
    const outcome = await this.port.lease({ act: "release", namespace: SPACE, lease: { lease, token } });
    return outcomeIs(outcome, "released").wasOurs;
  }

  /** Removes a stream, at its current head unless `expect` says otherwise. */
  async remove(stream: string, parts: RemoveParts = {}): Promise<Port.RemoveOutcome> {
    const expect = parts.expect ?? (await this.head(stream, parts.namespace));
    return this.port.remove({ of: "stream", namespace: SPACE, stream, ...parts, expect });
  }

  /** Removes streams one after the other, and asserts the outcome of each. */
  async removeEach(outcomes: Readonly<Record<string, "removed" | "hidden">>): Promise<void> {
    for (const [stream, kind] of Object.entries(outcomes)) outcomeIs(await this.remove(stream), kind);
  }

  /** Puts an artifact and returns its hash. */
  async putArtifact(content: string | Uint8Array, { at = 1_000, namespace = SPACE } = {}): Promise<string> {
    const { hash, bytes } = artifactOf(content);
    await this.port.put({ of: "artifact", namespace, hash, bytes, at });
    return hash;
  }

  /** The bytes of an artifact; null if there is none. */
  async artifact(hash: string, namespace = SPACE): Promise<Uint8Array | null> {
    const found = await this.port.get({ of: "artifact", namespace, hash });
    return found && bytesOf(found.payload);
  }

  async hasArtifact(hash: string, namespace = SPACE): Promise<boolean> {
    return (await this.artifact(hash, namespace)) !== null;
  }
}

let batches = 0;

export function batchOf(writes: Write | readonly Write[], parts: Partial<Batch> = {}): Batch {
  batches += 1;
  return { id: `batch-${batches}`, namespace: SPACE, writes: [writes].flat(), ...parts };
}

export type WriteParts = Partial<Omit<Write, "stream" | "expect">> & {
  readonly generation?: number;
  /** Values for the payload. Default: one that names its seq. */
  readonly events?: readonly unknown[];
};

/** A write to `stream` that expects it to end at `seq`. */
export function write(stream: string, seq: number, parts: WriteParts = {}): Write {
  const { generation = 1, events = [`${stream} ${seq + 1}`], ...rest } = parts;
  const payload = rest.payload ?? JSON.stringify(events);
  const plain = { count: events.length, payload, codec: null, sum: crc32(payload), at: 1_000 + seq };
  return { stream, expect: headAt(seq, generation), ...plain, ...rest };
}

/** The first write of `stream`, which shares the past of `parent` up to `seq`. */
export function fork(stream: string, parent: string, seq: number, parts: WriteParts = {}): Write {
  return write(stream, seq, { fork: { stream: parent, generation: 1, seq }, ...parts });
}

export const headAt = (seq: number, generation = 1): Head => ({ generation, seq });

/** The parts of a write that claims these keys for its first event. */
export const claiming = (...keys: string[]) => ({ claims: keys.map((key) => ({ key, event: 0 })) });

/** The parts of a write that is guarded by a lease. */
export const guardedBy = (token: number, lease = "session/a") => ({ guards: [{ lease, token }] });

export function times<Value>(count: number, make: (index: number) => Value): Value[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

/** `count` events that name their seq. */
export const numbered = (seq: number, count: number) => times(count, (index) => `event ${seq + 1 + index}`);

/** Asserts the kind of an outcome and narrows its type. */
export function outcomeIs<Outcome extends { outcome: string }, Kind extends Outcome["outcome"]>(
  outcome: Outcome,
  kind: Kind,
): Extract<Outcome, { outcome: Kind }> {
  assert.equal(outcome.outcome, kind, `expected ${kind}, got ${JSON.stringify(outcome)}`);
  return outcome as Extract<Outcome, { outcome: Kind }>;
}

/** The kinds of the outcomes of acts that run at once, sorted. */
export async function kindsOf(acts: readonly Promise<{ outcome: string }>[]): Promise<string[]> {
  return (await Promise.all(acts)).map(({ outcome }) => outcome).sort();
}

function assertFields<Row extends object>(row: Row, fields: Partial<Row>): void {
  for (const name of Object.keys(fields) as (keyof Row)[]) {
    assert.deepEqual(row[name], fields[name], `${String(name)}: got ${JSON.stringify(row[name])}`);
  }
}

function parse(payload: Payload): unknown[] {
  const text = typeof payload === "string" ? payload : Buffer.from(payload).toString();
  try {
    return JSON.parse(text);
  } catch (error) {
    return assert.fail(`a payload is no longer what was stored: ${error}`);
  }
}

export function holder(owner: string): Port.Holder {
  const boot = "2f6c1d1e-5d0c-4b52-9a55-1a5f8a0f3c11";
  const process = { pid: 4711, started: "8812345", boot, pidNamespace: "4026531836" };
  return { owner, label: `worker ${owner}`, host: "host.example", ...process };
}

/** Bytes that cannot be text, and the hash of an artifact of them. */
export function artifactOf(content: string | Uint8Array): { hash: string; bytes: Uint8Array } {
  const bytes = typeof content === "string" ? Buffer.from(`\xff\0${content}`, "latin1") : content;
  return { hash: createHash("sha256").update(bytes).digest("hex"), bytes: new Uint8Array(bytes) };
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
