/**
 * Verifies SQLite's own structures; that payloads and artifacts are unchanged (I2); that streams have no
 * gaps and tokens are valid (I7); that keys, items, references and forks point at something.
 *
 * Between pages the event loop turns, so that heartbeats pass. Each page is one snapshot. A stream that
 * changes meanwhile is judged by the page that reads its end.
 */

import { setImmediate as nextTurn } from "node:timers/promises";
import { sha256 } from "../../model/digest.ts";
import { isHoldfastError } from "../../model/errors.ts";
import type { Problem } from "../../store.ts";
import { firstProblems, headProblems, writeProblems } from "../kit/index.ts";
import type { Connection } from "./driver.ts";
import { fromPayload, fromText, type StoredText, type StreamEntry } from "./rows.ts";

type Read = <Result>(act: (connection: Connection) => Result) => Promise<Result>;

const PAGE = 500;
const PAGE_BYTES = 16 * 1024 * 1024;

export function check(read: Read): Promise<readonly Problem[]> {
  return firstProblems(allProblems(read));
}

async function* allProblems(read: Read): AsyncGenerator<Problem> {
  try {
    yield* await read(integrity);
    yield* streamProblems(read);
    yield* artifactProblems(read);
    for (const find of FINDINGS) yield* await read((connection) => connection.all<Problem>(find));
  } catch (error) {
    if (!isHoldfastError(error, "STORE_CORRUPT")) throw error;
    yield { invariant: "medium", where: "the file", what: `it could be read no further: ${error.message}` };
  }
}

function integrity(connection: Connection): Problem[] {
  const rows = connection.all<{ integrity_check: string }>("PRAGMA integrity_check(100)");
  return rows
    .filter((row) => row.integrity_check !== "ok")
    .map((row) => ({ invariant: "medium", where: "the file", what: row.integrity_check }));
}

interface StreamToCheck extends Omit<StreamEntry, "updated_about"> {
  readonly namespace: StoredText;
  readonly stream: StoredText;
  readonly base: number;
}

const COLUMNS = "id, namespace, stream, state, generation, base, seq";
const STREAMS_AFTER = `SELECT ${COLUMNS} FROM streams WHERE id > ? ORDER BY id LIMIT ${PAGE}`;

async function* streamProblems(read: Read): AsyncGenerator<Problem> {
  for (let after = 0; ; ) {
    const streams = await read((connection) => connection.all<StreamToCheck>(STREAMS_AFTER, after));
    for (const stream of streams) yield* problemsOf(read, stream);
    const last = streams.at(-1);
    if (!last) return;
    after = last.id;
    await nextTurn();
  }
}

interface WriteToCheck {
  readonly first: number;
  readonly last: number;
  readonly sum: number;
  readonly utf16: number | null;
  readonly payload: StoredText;
}

/** At least one write, and no more than make up a page of bytes. */
const WRITES_AFTER = `SELECT first, last, sum, utf16, payload FROM (
    SELECT first, id & 268435455 AS last, sum, utf16, payload,
      sum(octet_length(payload)) OVER (ORDER BY id) - octet_length(payload) AS before
    FROM (SELECT * FROM writes WHERE id > (?1 << 28 | ?2) AND id <= (?1 << 28 | 268435455)
          ORDER BY id LIMIT ${PAGE})
  ) WHERE before < ${PAGE_BYTES}`;

const STREAM_NOW = `SELECT ${COLUMNS} FROM streams WHERE id = ?`;

async function* problemsOf(read: Read, stream: StreamToCheck): AsyncGenerator<Problem> {
  const where = `${fromText(stream.namespace)} ${fromText(stream.stream)}`;
  let seq = stream.base;
  for (let after = 0; ; ) {
    const [now, writes] = await read((connection) => [
      connection.get<StreamToCheck>(STREAM_NOW, stream.id),
      connection.all<WriteToCheck>(WRITES_AFTER, stream.id, after),
    ]);
    if (now?.generation !== stream.generation || now.state !== stream.state) return;
    for (const write of writes) {
      yield* writeProblems(where, seq, { ...write, payload: fromPayload(write.payload, write.utf16) });
      seq = write.last;
    }
    const last = writes.at(-1);
    if (!last) {
      yield* headProblems(where, seq, now.seq);
      return;
    }
    after = last.last;
    if (writes.length > 1) await nextTurn();
  }
}

const ARTIFACT_AFTER = "SELECT id, namespace, hash, bytes FROM artifacts WHERE id > ? ORDER BY id LIMIT 1";

async function* artifactProblems(read: Read): AsyncGenerator<Problem> {
  for (let after = 0; ; ) {
    const artifact = await read((connection) => {
      type Row = { id: number; namespace: StoredText; hash: StoredText; bytes: Uint8Array };
      return connection.get<Row>(ARTIFACT_AFTER, after);
    });
    if (!artifact) return;
    const { id, namespace, hash, bytes } = artifact;
    if (sha256(bytes) !== fromText(hash)) {
      const where = `${fromText(namespace)} artifact ${fromText(hash)}`;
      yield { invariant: "I2", where, what: "its bytes do not match its hash" };
    }
    after = id;
    await nextTurn();
  }
}

const OF_STREAM = "s.namespace || ' ' || s.stream";

/** Each query returns the rows that break one rule, as problems. */
const FINDINGS: readonly string[] = [
  `SELECT 'I7' AS invariant, 'stream number ' || (id >> 28) AS "where",
     'it has events but no row' AS what
   FROM writes WHERE NOT EXISTS (SELECT 1 FROM streams AS s WHERE s.id = writes.id >> 28)
   GROUP BY id >> 28 LIMIT 100`,
  `SELECT 'I7' AS invariant, ${OF_STREAM} AS "where", 'the stream it forked from is gone' AS what
   FROM streams AS s LEFT JOIN streams AS p ON p.id = s.parent
   WHERE s.parent IS NOT NULL
     AND (p.id IS NULL OR p.state = 'gone' OR p.generation <> s.parent_generation OR p.seq < s.base)
   LIMIT 100`,
  `SELECT 'I7' AS invariant, namespace || ' ' || name AS "where", 'its token is ' || token AS what
   FROM leases WHERE typeof(token) <> 'integer' OR token < 1 LIMIT 100`,
  `SELECT 'I7' AS invariant, ${OF_STREAM} AS "where",
     'it says ' || s.open_calls || ' calls are open, but ' || count(i.id) || ' are' AS what
   FROM streams AS s LEFT JOIN items AS i ON i.stream = s.id AND i.kind = 'call' AND i.done_at IS NULL
   WHERE s.state = 'live'
   GROUP BY s.id HAVING s.open_calls <> count(i.id) LIMIT 100`,
  `SELECT 'I2' AS invariant, k.namespace || ' key ' || k.key AS "where",
     'no stream of its namespace holds it' AS what
   FROM keys AS k LEFT JOIN streams AS s ON s.id = k.stream AND s.namespace = k.namespace
   WHERE s.id IS NULL LIMIT 100`,
  `SELECT 'I2' AS invariant, 'stream number ' || r.stream AS "where",
     'an artifact it refers to is gone' AS what
   FROM artifact_refs AS r LEFT JOIN artifacts AS a ON a.id = r.artifact
   LEFT JOIN streams AS s ON s.id = r.stream AND s.state <> 'gone'
   WHERE a.id IS NULL OR s.id IS NULL OR a.namespace <> s.namespace LIMIT 100`,
  `SELECT 'I2' AS invariant, i.namespace || ' ' || i.kind || ' ' || i.id AS "where",
     'it points at an event that is not there' AS what
   FROM items AS i
   LEFT JOIN streams AS s ON s.id = i.stream AND s.namespace = i.namespace AND s.state = 'live'
   WHERE s.id IS NULL OR i.seq > s.seq OR i.end_seq > s.seq LIMIT 100`,
];
