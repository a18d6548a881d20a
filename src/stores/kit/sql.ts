/**
 * From the rows of the SQL stores to the values of the port, and back for conditions. Their tables share one
 * shape: columns in snake case, texts that the store encodes (`Decode`), tombstones with their generation.
 */

import { decodeCursor } from "../../model/stream/index.ts";
import type { Head, ItemRow, ListRequest, StoredWrite, StreamRow, StreamState } from "../../store.ts";

/** Decodes a text column. Each store escapes the rare strings that its database cannot hold. */
type Decode<Text> = (stored: Text) => string;

export interface StoredStream<Text> {
  readonly stream: Text;
  readonly state: StreamState;
  readonly generation: number;
  readonly seq: number;
  readonly base: number;
  readonly parent: Text | null;
  readonly parent_generation: number | null;
  readonly created_at: number;
  readonly updated_at: number;
  readonly open_calls: number;
  readonly expires_at: number | null;
  readonly status: Text | null;
  readonly title: Text | null;
  readonly goal: Text | null;
  readonly budget: Text | null;
}

/**
 * A tombstone keeps the generation of its last life; the port's head has the generation of the next.
 * `unused`: the generation at which unused names begin.
 */
export function headOf(
  stored: Pick<StoredStream<unknown>, "state" | "generation" | "seq"> | undefined,
  unused: number,
): Head {
  if (!stored) return { generation: unused, seq: 0 };
  if (stored.state === "gone") return { generation: stored.generation + 1, seq: 0 };
  return { generation: stored.generation, seq: stored.seq };
}

export function streamRow<Text>(stored: StoredStream<Text>, decode: Decode<Text>): StreamRow {
  const { state, base, parent, parent_generation: generation } = stored;
  return {
    stream: decode(stored.stream),
    state,
    head: headOf(stored, stored.generation),
    base,
    parent: parent === null || generation === null ? null : { stream: decode(parent), generation },
    createdAt: stored.created_at,
    updatedAt: stored.updated_at,
    facets: {
      status: orNull(stored.status, decode),
      title: orNull(stored.title, decode),
      goal: orNull(stored.goal, decode),
      openCalls: stored.open_calls,
      expiresAt: stored.expires_at,
      budget: orNull(stored.budget, decode),
    },
  };
}

/** The row of a name that no stream has had, or an erased one. */
export function unusedStreamRow(stream: string, generation: number): StreamRow {
  const facets = { status: null, title: null, goal: null, openCalls: 0, expiresAt: null, budget: null };
  const head = headOf(undefined, generation);
  return { stream, state: "gone", head, base: 0, parent: null, createdAt: 0, updatedAt: 0, facets };
}

export interface StoredItem<Text> {
  readonly stream: Text;
  readonly kind: Text;
  readonly id: Text;
  readonly seq: number | null;
  readonly end_seq: number | null;
  readonly status: Text | null;
  readonly name: Text | null;
  readonly key: Text | null;
  readonly at: number | null;
  readonly done_at: number | null;
}

export function itemRow<Text>(stored: StoredItem<Text>, decode: Decode<Text>): ItemRow {
  return {
    stream: decode(stored.stream),
    kind: decode(stored.kind),
    id: decode(stored.id),
    seq: stored.seq,
    endSeq: stored.end_seq,
    status: orNull(stored.status, decode),
    name: orNull(stored.name, decode),
    key: orNull(stored.key, decode),
    at: stored.at,
    doneAt: stored.done_at,
  };
}

/** A row of `writes` without its payload, whose columns differ between the stores. */
export interface StoredWriteRow<Text> {
  readonly first: number;
  readonly last: number;
  readonly batch: Text;
  readonly codec: Text | null;
  readonly sum: number;
  readonly at: number;
}

export function writeRow<Text>(
  { first, last, batch, codec, sum, at }: StoredWriteRow<Text>,
  payload: string | Uint8Array,
  decode: Decode<Text>,
): StoredWrite {
  return { first, last, batch: decode(batch), payload, codec: orNull(codec, decode), sum, at };
}

function orNull<Text>(stored: Text | null, decode: Decode<Text>): string | null {
  return stored === null ? null : decode(stored);
}

/** The conditions of a query with their values. A `?` in a condition stands for its next value. */
export class Conditions<Value> {
  readonly #parts: string[] = [];
  readonly #placeholder: ((number: number) => string) | null;
  readonly values: Value[] = [];

  /** `placeholder` writes parameters that are numbered, as in `$1`. Without it, `?` stays. */
  constructor(placeholder: ((number: number) => string) | null = null) {
    this.#placeholder = placeholder;
  }

  add(sql: string, ...values: Value[]): void {
    if (!this.#placeholder) {
      this.#parts.push(sql);
      this.values.push(...values);
      return;
    }
    const rest = values.values();
    this.#parts.push(sql.replaceAll("?", () => this.value(rest.next().value as Value)));
  }

  /** Adds a value that no condition uses, such as a limit. Returns its placeholder. */
  value(value: Value): string {
    this.values.push(value);
    return this.#placeholder?.(this.values.length) ?? "?";
  }

  get sql(): string {
    return this.#parts.join(" AND ");
  }
}

/** How one store's `streams` table differs from the other's. The queries call the table `s`. */
interface StreamsTable<Value> {
  readonly encode: (text: string) => Value;
  /** The coarse time by which the index is ordered: its column, and its value for a time in milliseconds. */
  readonly coarse: { readonly column: string; readonly of: (ms: number) => Value };
  readonly hasOpenCalls: string;
  readonly isForkOf: (conditions: Conditions<Value>, parent: string) => void;
}

/** Adds every condition of a list of streams but kind and status. The namespace is the first value. */
export function addStreamConditions<Value>(
  conditions: Conditions<Value | number>,
  asked: Extract<ListRequest, { of: "streams" }>,
  { encode, coarse, hasOpenCalls, isForkOf }: StreamsTable<Value | number>,
): void {
  conditions.add("s.namespace = ?", encode(asked.namespace));
  conditions.add(asked.hidden ? "s.state <> 'gone'" : "s.state <> 'gone' AND s.state = 'live'");
  if (asked.goal !== undefined) conditions.add("s.goal = ?", encode(asked.goal));
  if (asked.openCalls) conditions.add(hasOpenCalls);
  if (asked.expiredAt !== undefined) conditions.add("s.expires_at <= ?", asked.expiredAt);
  if (asked.updatedBefore !== undefined) {
    conditions.add(`${coarse.column} <= ?`, coarse.of(asked.updatedBefore));
    conditions.add("s.updated_at < ?", asked.updatedBefore);
  }
  if (asked.parent !== undefined) isForkOf(conditions, asked.parent);
  const after = decodeCursor(asked.cursor, [0, ""] as [number, string]);
  if (after) {
    const [updatedAt, stream] = after;
    conditions.add(`${coarse.column} <= ?`, coarse.of(updatedAt));
    conditions.add("s.updated_at <= ?", updatedAt);
    conditions.add("(s.updated_at < ? OR s.stream > ?)", updatedAt, encode(stream));
  }
}
