/** Reading one stream, and the bytes beside streams. */

import type { Blob, GetRequest, ReadPage, ReadRequest, StoredWrite } from "../../store.ts";
import type { Connection } from "./driver.ts";
import { loadStream, neverRow, streamRow } from "./streams.ts";
import { fromPayload, fromText, fromTextOrNull, type StoredText, toText } from "./text.ts";

/** All but the payload and its codec comes as one text: a column costs more to hand over than to take apart. */
type WriteRow = readonly [payload: StoredText, rest: string, codec: StoredText | null];

interface SnapshotRow {
  readonly seq: number;
  readonly generation: number;
  readonly payload: StoredText;
  readonly codec: StoredText | null;
  readonly utf16: number | null;
}

const ZERO = 0x30;

const MAX_SEQ = 2 ** 28 - 1;

/**
 * A bare `LIMIT ?` makes SQLite compile the statement anew for every value; `+ 0` keeps it from looking at it.
 *
 * The last write of the range is the one that covers `upTo`: the first whose end is not before it.
 */
const SELECT_WRITES = `SELECT payload, first || ' ' || (id & 268435455) || ' ' || at || ' ' || sum || ' ' || (utf16 IS NULL) || ' '
    || CASE typeof(batch) WHEN 'text' THEN '"' || batch ELSE hex(batch) END, codec FROM writes
  WHERE id > (?1 << 28 | ?2) AND id <= coalesce(
    (SELECT id FROM writes WHERE id >= (?1 << 28 | ?3) AND id <= (?1 << 28 | 268435455) ORDER BY id LIMIT 1),
    ?1 << 28 | 268435455)
  ORDER BY id LIMIT ?4 + 0`;

/** Nothing can come after that: the row alone is wanted. */
export function isHeadOnly({ after }: ReadRequest): boolean {
  return after >= MAX_SEQ;
}

export function read(connection: Connection, request: ReadRequest): ReadPage {
  const { stream: name, after, upTo = MAX_SEQ, limit } = request;
  const stored = loadStream(connection, toText(request.namespace), toText(name));
  const stream = stored ? streamRow(stored) : neverRow(name);
  if (!stored || stored.state === "gone" || isHeadOnly(request) || upTo <= stored.base || upTo < 1) {
    return { stream, writes: [], more: false };
  }
  const from = Math.max(after, stored.base, 0);
  const to = Math.min(upTo, MAX_SEQ);
  const rows = connection.rows<WriteRow>(
    SELECT_WRITES,
    stored.id,
    from,
    to,
    limit === undefined ? -1 : limit + 1,
  );
  const more = limit !== undefined && rows.length > limit;
  if (more) rows.pop();
  return { stream, writes: rows.map(storedWrite), more };
}

function storedWrite([payload, rest, codec]: WriteRow): StoredWrite {
  const numbers = new Numbers(rest);
  return {
    first: numbers.next(),
    last: numbers.next(),
    at: numbers.next(),
    sum: numbers.next(),
    payload: numbers.next() === 1 ? payload : fromText(payload),
    codec: fromTextOrNull(codec),
    batch: batchOf(rest, numbers.end),
  };
}

/** Digit by digit: of a long stream this is done more often than anything else, and texts cut out would be garbage at once. */
class Numbers {
  end = 0;
  private readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** The number up to the next space. */
  next(): number {
    const { text, end: start } = this;
    let number = 0;
    for (let at = start; ; at++) {
      const digit = text.charCodeAt(at) - ZERO;
      if (digit >= 0 && digit <= 9) {
        number = number * 10 + digit;
        continue;
      }
      // Whatever else is in it, a sign, a fraction, is rare.
      const end = text.indexOf(" ", at);
      this.end = end + 1;
      return end === at ? number : Number(text.slice(start, end));
    }
  }
}

/** Text after a quote, or the bytes of one that SQLite cannot keep as text. */
function batchOf(rest: string, from: number): string {
  return rest[from] === '"' ? rest.slice(from + 1) : fromText(Buffer.from(rest.slice(from), "hex"));
}

const ARTIFACT = "SELECT bytes FROM artifacts WHERE namespace = ? AND hash = ?";

const SNAPSHOT = `SELECT n.seq, s.generation, n.payload, n.codec, n.utf16 FROM streams AS s JOIN snapshots AS n ON n.stream = s.id
  WHERE s.namespace = ? AND s.stream = ? AND s.state <> 'gone' AND n.fold = ? AND n.seq <= ?
  ORDER BY n.seq DESC LIMIT 1`;

export function get(connection: Connection, request: GetRequest): Blob | null {
  const namespace = toText(request.namespace);
  if (request.of === "artifact") {
    const row = connection.get<{ bytes: Uint8Array }>(ARTIFACT, namespace, toText(request.hash));
    return row ? { payload: row.bytes, codec: null, seq: 0, generation: 0 } : null;
  }
  const row = connection.get<SnapshotRow>(
    SNAPSHOT,
    namespace,
    toText(request.stream),
    toText(request.fold),
    request.upTo,
  );
  if (!row) return null;
  const { seq, generation } = row;
  return { payload: fromPayload(row.payload, row.utf16), codec: fromTextOrNull(row.codec), seq, generation };
}
