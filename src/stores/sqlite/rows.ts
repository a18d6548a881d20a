/**
 * Rows as SQLite stores them, and the cache of rows that the next write will need again.
 *
 * Text. UTF-8 has no lone surrogates, and a NUL ends a text in parts of SQLite. The rare string that has
 * either is stored as a BLOB of its UTF-16 units. In a column that holds only text, a BLOB can be nothing
 * else. Payloads may be bytes as well, so their `utf16` column marks such a string.
 */

import { ERASED } from "../../model/names.ts";
import type { Head, Payload, Seal, StreamState } from "../../store.ts";
import { type Clock, headOf, type StoredStream as StreamColumns } from "../kit/index.ts";
import type { Connection } from "./driver.ts";

export type StoredText = string | Uint8Array;

function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes("\0");
}

export function toText(text: string): StoredText {
  return isStorable(text) ? text : Buffer.from(text, "utf16le");
}

export function toTextOrNull(text: string | null | undefined): StoredText | null {
  return text === null || text === undefined ? null : toText(text);
}

export function fromText(stored: StoredText): string {
  return typeof stored === "string" ? stored : Buffer.from(stored).toString("utf16le");
}

export function fromTextOrNull(stored: StoredText | null): string | null {
  return stored === null ? null : fromText(stored);
}

export function toPayload(payload: Payload): { value: StoredText; utf16: 1 | null } {
  if (typeof payload !== "string") return { value: payload, utf16: null };
  return isStorable(payload) ? { value: payload, utf16: null } : { value: toText(payload), utf16: 1 };
}

export function fromPayload(value: StoredText, utf16: number | null): Payload {
  return utf16 === null ? value : fromText(value);
}

export type PayloadForm = typeof TEXT | typeof BYTES | typeof UTF_16;

export const TEXT = 0;
const BYTES = 1;
const UTF_16 = 2;

/** From Node 24 on its own UTF-8 decoder takes a third of the driver's time: payloads are read as bytes. */
const DECODES_FAST = Number.parseInt(process.versions.node, 10) >= 24;

export const PAYLOAD_COLUMN = DECODES_FAST ? "CAST(payload AS BLOB)" : "payload";

export const PAYLOAD_COLUMNS = `${PAYLOAD_COLUMN}, iif(utf16 IS NULL, typeof(payload) = 'blob', ${UTF_16})`;

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export function decodePayload(payload: StoredText, form: PayloadForm): Payload {
  if (typeof payload === "string" || form === BYTES) return payload;
  return form === TEXT ? decoder.decode(payload) : fromText(payload);
}

export interface Transaction {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly cache: RowCache;
  /** The seal as earlier acts of this transaction left it. */
  seal: Seal | null;
  /** A number that grows with every change but an append. */
  mark: number;
}

/** The result of an act in an open transaction. `wrote`: there is something to commit. */
export interface ActResult<Result> {
  readonly result: Result;
  readonly wrote: boolean;
}

/** The part of a stream's row that a write needs. */
export interface StreamEntry {
  readonly id: number;
  readonly state: StreamState;
  readonly generation: number;
  readonly seq: number;
  /** `coarseTime` of the last change. */
  readonly updated_about: number;
}

/** A time in the 64 ms steps of the index. JavaScript's own shift would cut it to 32 bits. */
export function coarseTime(ms: number): number {
  return Math.floor(ms / 64);
}

export type StoredStream = StreamEntry & StreamColumns<StoredText>;

/** The columns of a `StoredStream`, from a query that calls the table `s`. */
export const STREAM_COLUMNS = `s.id, s.stream, s.state, s.generation, s.seq, s.updated_about, s.base,
  (SELECT p.stream FROM streams AS p WHERE p.id = s.parent) AS parent, s.parent_generation,
  s.created_at, s.updated_at, s.open_calls, s.expires_at, s.status, s.title, s.goal, s.budget`;

const FIND =
  "SELECT id, state, generation, seq, updated_about FROM streams WHERE namespace = ? AND stream = ?";

export function findStream(connection: Connection, namespace: string, stream: string) {
  return connection.get<StreamEntry>(FIND, toText(namespace), toText(stream));
}

/** The end of a stream. Unused names begin after every erased stream. */
export function headIn(connection: Connection, namespace: string, entry: StreamEntry | undefined): Head {
  return headOf(entry, entry ? entry.generation : unusedGeneration(connection, namespace));
}

export function unusedGeneration(connection: Connection, namespace: string): number {
  return (findStream(connection, namespace, ERASED)?.generation ?? 0) + 1;
}

/** `findStream` for a write, which often finds the row that the write before it cached. */
export function findCachedStream({ connection, cache }: Transaction, namespace: string, stream: string) {
  const known = cache.stream(namespace, stream);
  if (known) return known;
  const found = findStream(connection, namespace, stream);
  if (found) cache.setStream(namespace, stream, found);
  return found;
}

export const DELETE_SNAPSHOTS = "DELETE FROM snapshots WHERE stream = ?";

export interface StoredLease {
  readonly name: StoredText;
  readonly token: number;
  readonly boot: string;
  readonly expires_at: number;
  readonly ttl: number;
  readonly holder: StoredText | null;
}

const MAX_ENTRIES = 20_000;

/**
 * Caches the heads of streams and the leases that guard them.
 *
 * They are current until `PRAGMA data_version`, read inside the write transaction, shows the commit of
 * another connection.
 *
 * Invariant: an entry equals its row as the open transaction sees it. A write that changes a row therefore
 * updates or drops its entry, and a rollback drops everything.
 */
export class RowCache {
  #connection: Connection | null = null;
  #version = -1;
  #size = 0;
  readonly #streams = new Map<string, Map<string, StreamEntry>>();
  readonly #leases = new Map<string, Map<string, StoredLease>>();

  /** Called first in every write transaction. `changed`: another connection has committed in between. */
  refresh(connection: Connection): "same" | "changed" | "new connection" {
    const version = connection.number("PRAGMA data_version");
    const isKnown = connection === this.#connection;
    const isSame = isKnown && version === this.#version;
    if (!isSame || this.#size > MAX_ENTRIES) this.clear();
    this.#connection = connection;
    this.#version = version;
    if (isSame) return "same";
    return isKnown ? "changed" : "new connection";
  }

  clear(): void {
    this.#size = 0;
    this.#streams.clear();
    this.#leases.clear();
  }

  stream(namespace: string, name: string): StreamEntry | undefined {
    return this.#streams.get(namespace)?.get(name);
  }

  setStream(namespace: string, name: string, entry: StreamEntry): void {
    this.#set(this.#streams, namespace, name, entry);
  }

  lease(namespace: string, name: string): StoredLease | undefined {
    return this.#leases.get(namespace)?.get(name);
  }

  setLease(namespace: string, name: string, lease: StoredLease): void {
    this.#set(this.#leases, namespace, name, lease);
  }

  dropLease(namespace: string, name: string): void {
    if (this.#leases.get(namespace)?.delete(name)) this.#size -= 1;
  }

  #set<Row>(rows: Map<string, Map<string, Row>>, namespace: string, name: string, row: Row): void {
    const own = rows.get(namespace) ?? new Map<string, Row>();
    rows.set(namespace, own);
    const before = own.size;
    own.set(name, row);
    this.#size += own.size - before;
  }
}
