/**
 * Streams, latest change first, without looking at more of them than a page holds.
 *
 * The index `streams_latest` is ordered by kind and status before the second of the latest change, so that lists of one kind and status, the
 * usual question, read one run of it. A wider question jumps through the index from one kind and status to the next,
 * reads each run no further than the page, and merges them, all in one statement. Goals and parents have
 * small indexes of their own, and so have open items; their few rows are sorted.
 */

import { decodeCursor, pageOf } from "../../model/stream/index.ts";
import type { ListRequest, Page, StreamRow } from "../../store.ts";
import { Conditions } from "./conditions.ts";
import type { Database } from "./database.ts";
import { STREAM_COLUMNS, type StoredStream, streamRow } from "./streams.ts";
import { toText } from "./text.ts";

type Asked = Extract<ListRequest, { of: "streams" }>;

const ORDER = "ORDER BY s.updated_second DESC, s.updated_at DESC, s.stream";

const second = (ms: number): number => Math.trunc(ms / 1000);

export async function listStreams(database: Database, asked: Asked): Promise<Page<StreamRow>> {
  const conditions = new Conditions();
  conditions.add("s.namespace = ?", toText(asked.namespace));
  conditions.add(asked.hidden ? "s.state <> 'gone'" : "s.state <> 'gone' AND s.state = 'live'");
  if (asked.goal !== undefined) conditions.add("s.goal = ?", toText(asked.goal));
  if (asked.openCalls) conditions.add(`s.open_calls > 0 AND s.stream IN (${maybeOpen(database.schema)})`);
  if (asked.expiredAt !== undefined) conditions.add("s.expires_at <= ?", asked.expiredAt);
  if (asked.updatedBefore !== undefined) {
    conditions.add(
      "s.updated_second <= ? AND s.updated_at < ?",
      second(asked.updatedBefore),
      asked.updatedBefore,
    );
  }
  if (asked.parent !== undefined) conditions.add("s.parent = ?", toText(asked.parent));
  const after = decodeCursor(asked.cursor, [0, ""] as [number, string]);
  if (after) {
    const [updatedAt, stream] = after;
    conditions.add("s.updated_second <= ? AND s.updated_at <= ?", second(updatedAt), updatedAt);
    conditions.add("(s.updated_at < ? OR s.stream > ?)", updatedAt, stream);
  }
  const isNarrow = asked.goal !== undefined || asked.parent !== undefined || asked.openCalls;
  const isOneRun = asked.kind !== undefined && asked.status !== undefined;
  const sql =
    isNarrow || isOneRun ? oneRun(database, asked, conditions) : manyRuns(database, asked, conditions);
  const stored = await database.run<StoredStream>(sql, conditions.values);
  return pageOf(stored, asked.limit, streamRow, ({ updated_at, stream }) => [updated_at, stream]);
}

/** Streams that may have open calls: the namespace is the first value. Their own number decides. */
const maybeOpen = (schema: string): string => `
  SELECT i.stream FROM ${schema}.items AS i WHERE i.namespace = $1 AND i.kind = 'call' AND i.done_at IS NULL
  UNION SELECT m.stream FROM ${schema}.streams AS m WHERE m.namespace = $1 AND m.is_marked_open`;

function oneRun({ schema }: Database, asked: Asked, conditions: Conditions): string {
  if (asked.kind !== undefined) conditions.add("s.kind = ?", toText(asked.kind));
  if (asked.status !== undefined) conditions.add("s.status = ?", toText(asked.status));
  const limit = conditions.value(asked.limit + 1);
  return `SELECT ${STREAM_COLUMNS} FROM ${schema}.streams AS s WHERE ${conditions.sql} ${ORDER} LIMIT ${limit}`;
}

/** The namespace is the first value. Each kind's last group is that of the streams without a status. */
function manyRuns({ schema }: Database, asked: Asked, conditions: Conditions): string {
  const common = conditions.sql;
  const limit = conditions.value(asked.limit + 1);
  const first = (column: string, where: string): string => `(SELECT n.${column} FROM ${schema}.streams AS n
    WHERE n.namespace = $1 AND n.state <> 'gone' AND ${where} ORDER BY n.${column} LIMIT 1)`;
  const kinds =
    asked.kind !== undefined
      ? `SELECT ${conditions.value(toText(asked.kind))}::text COLLATE "C"`
      : `SELECT ${first("kind", "true")} UNION ALL
         SELECT ${first("kind", "n.kind > kinds.kind")} FROM kinds WHERE kinds.kind IS NOT NULL`;
  const groups =
    asked.status !== undefined
      ? `SELECT kind, ${conditions.value(toText(asked.status))}::text COLLATE "C" FROM kinds WHERE kind IS NOT NULL`
      : `SELECT kind, ${first("status", "n.kind = kinds.kind AND n.status IS NOT NULL")} FROM kinds
         WHERE kind IS NOT NULL UNION ALL
         SELECT kind, ${first("status", "n.kind = groups.kind AND n.status > groups.status")} FROM groups
         WHERE groups.status IS NOT NULL`;
  const run = (status: string): string => `(SELECT ${STREAM_COLUMNS} FROM ${schema}.streams AS s
    WHERE s.kind = groups.kind AND ${status} AND ${common} ${ORDER} LIMIT ${limit})`;
  const withoutStatus =
    asked.status === undefined ? `UNION ALL ${run("s.status IS NULL AND groups.status IS NULL")}` : "";
  return `WITH RECURSIVE kinds (kind) AS (${kinds}), groups (kind, status) AS (${groups})
    SELECT runs.* FROM groups CROSS JOIN LATERAL (
      ${run("s.status = groups.status")} ${withoutStatus}
    ) AS runs ORDER BY updated_at DESC, stream LIMIT ${limit}`;
}
