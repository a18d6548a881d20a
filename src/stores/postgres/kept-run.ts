/**
 * One run of a statement that the server keeps, on a connection of `pg`: bound, executed, and answered by one row with one
 * column, as text. Whatever is sent leaves as one piece:
 *
 *     Parse, if this connection has not sent it yet ─▶ Bind ─▶ Execute ─▶ Sync
 *
 * `pg` by itself asks each time which columns the answer will have, copies what it sends, and makes objects of what it
 * gets. For who writes one event after another that takes as long as a tenth of the commit.
 *
 * What `pg` promises of a query holds here as well: it is sent when the connection has answered the one before, and is told
 * once, of its answer or of its failure.
 */

import type pg from "pg";

/** What is bound: text as the server reads it, or bytes as they are. */
export type Bound = string | Buffer | null;

/** A statement that is worth keeping on the server. Without a name it is sent in full, and kept by nobody. */
export interface Kept {
  readonly name: string;
  readonly text: string;
}

/** As much of a connection of `pg` as is used here. */
interface Wire {
  readonly stream: { write(bytes: Buffer): unknown; cork?(): void; uncork?(): void };
  /** By name, what the server has prepared; and, in newer releases, what is on its way. */
  readonly parsedStatements: Record<string, string | undefined>;
  readonly submittedNamedStatements?: Record<string, string | undefined>;
  parse(statement: { name: string; text: string; types: readonly number[] }): void;
}

/** Of an error, or, where that is null, of the answer. */
export type Told = (error: unknown, answer: string | null) => void;

/** Whether a client sends what is made here: not the native one, nor one that has several queries on their way. */
export function takesRuns(client: pg.ClientBase): boolean {
  const { connection, pipeline } = client as unknown as { connection?: object; pipeline?: unknown };
  return connection !== undefined && !pipeline;
}

export class KeptRun implements pg.Submittable {
  /** By these two `pg` notes what the server has prepared. */
  readonly name: string;
  readonly text: string;
  /** Named as `pg` names it, which puts its own around it where queries have a time limit. */
  callback: Told;
  readonly #values: readonly Bound[];
  /** Undefined until a row has come. */
  #answer: string | null | undefined;

  constructor({ name, text }: Kept, values: readonly Bound[], told: Told) {
    this.name = name;
    this.text = text;
    this.#values = values;
    this.callback = told;
  }

  /** What cannot be put into bytes, such as gigabytes, is returned as an error, of which `pg` then tells as of any other. */
  submit(connection: pg.Connection): Error | undefined {
    try {
      this.#send(connection as unknown as Wire);
      return;
    } catch (error) {
      return error as Error;
    }
  }

  #send(wire: Wire): void {
    const { name, text } = this;
    const bytes = boundMessages(name, this.#values);
    const submitted = wire.submittedNamedStatements;
    if (name !== "" && (wire.parsedStatements[name] ?? submitted?.[name]) !== undefined) {
      wire.stream.write(bytes);
      return;
    }
    // The sockets of some drivers have no such thing; it only saves a packet.
    wire.stream.cork?.();
    try {
      wire.parse({ name, text, types: [] });
      if (name !== "" && submitted) submitted[name] = text;
      wire.stream.write(bytes);
    } finally {
      wire.stream.uncork?.();
    }
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    this.#answer = fields[0] ?? null;
  }

  handleReadyForQuery(): void {
    if (this.#answer === undefined) this.callback(noRow(this.text), null);
    else this.callback(null, this.#answer);
  }

  handleError(error: unknown): void {
    this.callback(error, null);
  }

  handleCommandComplete(): void {}
  handleRowDescription(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
}

/** Taken for an answer, it would say that everything is stored. */
export function noRow(text: string): Error {
  return new Error(`the server sent no row for ${text}`);
}

const BIND = 0x42;
/** Of all that is in it beside the name, and six bytes and the value itself for each value. */
const BIND_LENGTH = 13;
/** Execute without a limit of rows, on the portal without a name; then Sync. */
const EXECUTE_AND_SYNC = Buffer.from([0x45, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0x53, 0, 0, 0, 4]);
const NULL = -1;
/** Texts up to here are put into bytes by hand, which takes less than to ask for it. */
const SHORT = 64;

/** Bind, of the portal without a name, with text for an answer; Execute and Sync. */
function boundMessages(name: string, values: readonly Bound[]): Buffer {
  const count = values.length;
  const bytes = Buffer.allocUnsafe(mostBytes(name, values));
  bytes[0] = BIND;
  bytes[5] = 0;
  let end = 6 + bytes.write(name, 6, "latin1");
  bytes[end++] = 0;
  end = bytes.writeInt16BE(count, end);
  for (const value of values) {
    bytes[end++] = 0;
    bytes[end++] = Buffer.isBuffer(value) ? 1 : 0;
  }
  end = bytes.writeInt16BE(count, end);
  for (const value of values) end = putValue(bytes, end, value);
  end = bytes.writeInt16BE(0, end);
  bytes.writeInt32BE(end - 1, 1);
  end += EXECUTE_AND_SYNC.copy(bytes, end);
  return bytes.subarray(0, end);
}

function mostBytes(name: string, values: readonly Bound[]): number {
  let most = BIND_LENGTH + name.length + 6 * values.length + EXECUTE_AND_SYNC.length;
  for (const value of values) {
    if (value === null) continue;
    // A unit of UTF-16 has at most three bytes in UTF-8.
    most += typeof value === "string" && value.length <= SHORT ? 3 * value.length : Buffer.byteLength(value);
  }
  return most;
}

function putValue(bytes: Buffer, at: number, value: Bound): number {
  if (value === null) return bytes.writeInt32BE(NULL, at);
  const begin = at + 4;
  const length = typeof value === "string" ? putText(bytes, begin, value) : value.copy(bytes, begin);
  bytes.writeInt32BE(length, at);
  return begin + length;
}

function putText(bytes: Buffer, begin: number, text: string): number {
  if (text.length > SHORT) return bytes.write(text, begin, "utf8");
  for (let place = 0; place < text.length; place++) {
    const unit = text.charCodeAt(place);
    if (unit > 0x7f) return bytes.write(text, begin, "utf8");
    bytes[begin + place] = unit;
  }
  return text.length;
}
