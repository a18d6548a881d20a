/**
 * Verifies everything that does not depend on the meaning of events. For damage in Postgres's own files use
 * `pg_amcheck`. Stores are read in pages, each one snapshot; a stream that changes meanwhile is judged by the
 * page that reads its end.
 */

import type { Problem } from "../../store.ts";
import { firstProblems, headProblems, writeProblems } from "../kit/index.ts";
import type { Database } from "./database.ts";
import { fromPayload, fromText, type StoredPayload } from "./rows.ts";

const PAGE = 500;
const PAGE_BYTES = 16 * 1024 * 1024;

export const check = (database: Database) => firstProblems(everyProblem(database));

async function* everyProblem(database: Database): AsyncGenerator<Problem> {
  yield* everyStream(database);
  for (const find of findings(database.schema)) yield* await database.run<Problem>(find);
}

type StreamToCheck = Readonly<
  Record<"namespace" | "stream" | "state", string> & Record<"generation" | "base" | "seq", number>
>;

const COLUMNS = "s.namespace, s.stream, s.state, s.generation, s.base, s.seq";

async function* everyStream(database: Database): AsyncGenerator<Problem> {
  const sql = `SELECT ${COLUMNS} FROM ${database.schema}.streams AS s WHERE (s.namespace, s.stream) > ($1, $2)
    ORDER BY s.namespace, s.stream LIMIT ${PAGE}`;
  for (let after = ["", ""]; ; ) {
    const streams = await database.run<StreamToCheck>(sql, after);
    for (const stream of streams) yield* oneStream(database, stream);
    const last = streams.at(-1);
    if (!last) return;
    after = [last.namespace, last.stream];
  }
}

type WriteToCheck = StoredPayload & Readonly<Record<"first" | "last" | "sum", number>>;

/** The stream as it is now, beside as many of its writes as make up a page of bytes, but at least one. */
const writesAfter = (schema: string) => `
  SELECT ${COLUMNS}, w.first, w.last, w.sum, w.payload, w.bytes
  FROM ${schema}.streams AS s LEFT JOIN LATERAL (
    SELECT *, sum(coalesce(octet_length(payload), octet_length(bytes))) OVER (ORDER BY last)
      - coalesce(octet_length(payload), octet_length(bytes)) AS before
    FROM (SELECT * FROM ${schema}.writes AS w WHERE w.namespace = s.namespace AND w.stream = s.stream
      AND w.last > $3
          ORDER BY w.last LIMIT ${PAGE}) AS page
  ) AS w ON w.before < ${PAGE_BYTES}
  WHERE s.namespace = $1 AND s.stream = $2 ORDER BY w.last`;

async function* oneStream(database: Database, stream: StreamToCheck): AsyncGenerator<Problem> {
  const where = `${fromText(stream.namespace)} ${fromText(stream.stream)}`;
  const sql = writesAfter(database.schema);
  let seq = stream.base;
  for (let after = 0; ; ) {
    const rows = await database.run<
      StreamToCheck & { [Key in keyof WriteToCheck]: WriteToCheck[Key] | null }
    >(sql, [stream.namespace, stream.stream, after]);
    const now = rows[0];
    if (now?.generation !== stream.generation || now.state !== stream.state) return;
    const writes = rows.filter(({ last }) => last !== null) as unknown as WriteToCheck[];
    for (const write of writes) {
      yield* writeProblems(where, seq, { ...write, payload: fromPayload(write) });
      seq = write.last;
    }
    const last = writes.at(-1);
    if (!last) {
      yield* headProblems(where, seq, now.seq);
      return;
    }
    after = last.last;
  }
}

/** Queries that find rows which should not exist, as problems. */
const findings = (schema: string): string[] => [
  `SELECT 'I2' AS invariant, namespace || ' artifact ' || hash AS "where",
    'its bytes do not match its hash' AS what
   FROM ${schema}.artifacts WHERE encode(sha256(bytes), 'hex') <> hash LIMIT 100`,
  `SELECT DISTINCT 'I7' AS invariant, w.namespace || ' ' || w.stream AS "where",
    'it has events but no row' AS what
   FROM ${schema}.writes AS w WHERE NOT EXISTS (
     SELECT 1 FROM ${schema}.streams AS s WHERE s.namespace = w.namespace AND s.stream = w.stream
       AND s.state <> 'gone')
   LIMIT 100`,
  `SELECT 'I7' AS invariant, s.namespace || ' ' || s.stream AS "where", 'its row has no generation' AS what
   FROM ${schema}.streams AS s WHERE s.generation < 1 LIMIT 100`,
  `SELECT 'I7' AS invariant, s.namespace || ' ' || s.stream AS "where", 'its row contradicts itself' AS what
   FROM ${schema}.streams AS s WHERE s.state NOT IN ('live', 'hidden', 'gone') OR s.base NOT BETWEEN 0
     AND s.seq
     OR (s.parent IS NULL) <> (s.parent_generation IS NULL) OR s.open_calls < 0 LIMIT 100`,
  `SELECT 'I7' AS invariant, s.namespace || ' ' || s.stream AS "where",
    'the stream it forked from is gone' AS what
   FROM ${schema}.streams AS s LEFT JOIN ${schema}.streams AS p ON p.namespace = s.namespace
     AND p.stream = s.parent
   WHERE s.parent IS NOT NULL
     AND (p.stream IS NULL OR p.state = 'gone' OR p.generation <> s.parent_generation OR p.seq < s.base)
       LIMIT 100`,
  `SELECT 'I7' AS invariant, namespace || ' ' || name AS "where", 'its token is ' || token AS what
   FROM ${schema}.leases WHERE token < 1 LIMIT 100`,
  `SELECT 'I7' AS invariant, s.namespace || ' ' || s.stream AS "where",
     'it says ' || s.open_calls || ' calls are open, but ' || count(i.id) || ' are' AS what
   FROM ${schema}.streams AS s LEFT JOIN ${schema}.items AS i
     ON i.namespace = s.namespace AND i.stream = s.stream AND i.kind = 'call' AND i.done_at IS NULL
   WHERE s.state = 'live'
   GROUP BY s.namespace, s.stream HAVING s.open_calls <> count(i.id) LIMIT 100`,
  `SELECT 'I2' AS invariant, k.namespace || ' key ' || k.key AS "where",
    'no stream of its namespace holds it' AS what
   FROM ${schema}.keys AS k LEFT JOIN ${schema}.streams AS s ON s.namespace = k.namespace
     AND s.stream = k.stream
   WHERE s.stream IS NULL LIMIT 100`,
  `SELECT 'I2' AS invariant, r.namespace || ' ' || r.stream AS "where",
    'an artifact it refers to is gone' AS what
   FROM ${schema}.artifact_refs AS r
   LEFT JOIN ${schema}.artifacts AS a ON a.namespace = r.namespace AND a.hash = r.hash
   LEFT JOIN ${schema}.streams AS s ON s.namespace = r.namespace AND s.stream = r.stream AND s.state <> 'gone'
   WHERE a.hash IS NULL OR s.stream IS NULL LIMIT 100`,
  `SELECT 'I2' AS invariant, i.namespace || ' ' || i.kind || ' ' || i.id AS "where",
     'it points at an event that is not there' AS what
   FROM ${schema}.items AS i LEFT JOIN ${schema}.streams AS s
     ON s.namespace = i.namespace AND s.stream = i.stream AND s.state = 'live'
   WHERE s.stream IS NULL OR i.seq NOT BETWEEN 1 AND s.seq OR i.end_seq NOT BETWEEN 1 AND s.seq LIMIT 100`,
];
