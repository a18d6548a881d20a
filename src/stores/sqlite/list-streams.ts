/**
 * Streams, latest change first, without looking at more of them than a page holds.
 *
 * The index `streams_latest` is ordered by kind and status before time, so that lists of one kind and status, the
 * usual question, read one run of it. A wider question reads one run per kind and status that occurs, each no
 * further than the page, and merges them. Goals, parents and open calls have small indexes of their own; their
 * few rows are sorted.
 */

import { pageOf } from "../../model/stream/index.ts";
import type { ListRequest, Page, StreamRow } from "../../store.ts";
import { addStreamConditions, Conditions, streamRow } from "../kit/index.ts";
import type { Connection, Value } from "./driver.ts";
import { about } from "./rows.ts";
import { STREAM_COLUMNS, type StoredStream } from "./streams.ts";
import { fromText, type StoredText, toText } from "./text.ts";

type Asked = Extract<ListRequest, { of: "streams" }>;

/** A kind and a status that occur together. */
interface Group {
  readonly kind: StoredText;
  readonly status: StoredText | null;
}

const ORDER = "ORDER BY s.updated_at DESC, s.stream";

/** The same order where the index gives its first part: only streams of one moment are sorted. */
const ORDER_IN_GROUP = "ORDER BY s.updated_about DESC, s.updated_at DESC, s.stream";

/** More than this many groups are not worth a query each: one that sorts everything is cheaper. */
const MAX_GROUPS = 64;

export function listStreams(connection: Connection, asked: Asked): Page<StreamRow> {
  const stored = findStreams(connection, asked);
  return pageOf(
    stored,
    asked.limit,
    (row) => streamRow(row, fromText),
    ({ updated_at, stream }) => [updated_at, fromText(stream)],
  );
}

function findStreams(connection: Connection, asked: Asked): StoredStream[] {
  const common = commonConditions(asked);
  if (asked.goal !== undefined || asked.parent !== undefined || asked.openCalls) {
    return sorted(connection, asked, common);
  }
  const groups = findGroups(connection, asked);
  if (!groups) return sorted(connection, asked, common);
  const runs = groups.map((group) => oneGroup(connection, asked, common, group));
  return runs.length === 1
    ? (runs[0] ?? [])
    : runs
        .flat()
        .sort(latestFirst)
        .slice(0, asked.limit + 1);
}

function latestFirst(a: StoredStream, b: StoredStream): number {
  if (a.updated_at !== b.updated_at) return b.updated_at - a.updated_at;
  return Buffer.compare(Buffer.from(a.stream as string), Buffer.from(b.stream as string));
}

/** Everything but kind and status. */
function commonConditions(asked: Asked): Conditions<Value> {
  const conditions = new Conditions<Value>();
  const namespace = toText(asked.namespace);
  addStreamConditions(conditions, asked, {
    encode: toText,
    coarse: { column: "s.updated_about", of: about },
    hasOpenCalls: "s.open_calls > 0",
    isForkOf: (list, parent) => {
      const id = "(SELECT id FROM streams WHERE namespace = ? AND stream = ?)";
      list.add(`s.parent = ${id}`, namespace, toText(parent));
    },
  });
  return conditions;
}

/** For questions that a small index answers, or that no index does. */
function sorted(connection: Connection, asked: Asked, common: Conditions<Value>): StoredStream[] {
  const conditions = new Conditions<Value>();
  conditions.add(common.sql, ...common.values);
  if (asked.kind !== undefined) conditions.add("s.kind = ?", toText(asked.kind));
  if (asked.status !== undefined) conditions.add("s.status = ?", toText(asked.status));
  const sql = `SELECT ${STREAM_COLUMNS} FROM streams AS s WHERE ${conditions.sql} ${ORDER} LIMIT ? + 0`;
  return connection.all<StoredStream>(sql, ...conditions.values, asked.limit + 1);
}

function oneGroup(
  connection: Connection,
  asked: Asked,
  common: Conditions<Value>,
  group: Group,
): StoredStream[] {
  const sql = `SELECT ${STREAM_COLUMNS} FROM streams AS s INDEXED BY streams_latest
    WHERE s.kind = ? AND s.status IS ? AND ${common.sql} ${ORDER_IN_GROUP} LIMIT ? + 0`;
  return connection.all<StoredStream>(sql, group.kind, group.status, ...common.values, asked.limit + 1);
}

const FIRST_KIND = `SELECT kind FROM streams INDEXED BY streams_latest
  WHERE namespace = ? AND state <> 'gone' ORDER BY kind LIMIT 1`;
const NEXT_KIND = `SELECT kind FROM streams INDEXED BY streams_latest
  WHERE namespace = ? AND kind > ? AND state <> 'gone' ORDER BY kind LIMIT 1`;
const NO_STATUS = `SELECT status FROM streams INDEXED BY streams_latest
  WHERE namespace = ? AND kind = ? AND status IS NULL AND state <> 'gone' LIMIT 1`;
const FIRST_STATUS = `SELECT status FROM streams INDEXED BY streams_latest
  WHERE namespace = ? AND kind = ? AND status IS NOT NULL AND state <> 'gone' ORDER BY status LIMIT 1`;
const NEXT_STATUS = `SELECT status FROM streams INDEXED BY streams_latest
  WHERE namespace = ? AND kind = ? AND status > ? AND state <> 'gone' ORDER BY status LIMIT 1`;

/** Jumps through the index from one kind and status to the next. Null when there are too many. */
function findGroups(connection: Connection, asked: Asked): Group[] | null {
  const namespace = toText(asked.namespace);
  const groups: Group[] = [];
  const kinds = asked.kind === undefined ? allKinds(connection, namespace) : [toText(asked.kind)];
  for (const kind of kinds) {
    const statuses =
      asked.status === undefined ? allStatuses(connection, namespace, kind) : [toText(asked.status)];
    for (const status of statuses) {
      groups.push({ kind, status });
      if (groups.length > MAX_GROUPS) return null;
    }
  }
  return groups;
}

function* allKinds(connection: Connection, namespace: StoredText): Generator<StoredText> {
  let row = connection.get<{ kind: StoredText }>(FIRST_KIND, namespace);
  while (row) {
    yield row.kind;
    row = connection.get<{ kind: StoredText }>(NEXT_KIND, namespace, row.kind);
  }
}

function* allStatuses(
  connection: Connection,
  namespace: StoredText,
  kind: StoredText,
): Generator<StoredText | null> {
  if (connection.get(NO_STATUS, namespace, kind)) yield null;
  let row = connection.get<{ status: StoredText }>(FIRST_STATUS, namespace, kind);
  while (row) {
    yield row.status;
    row = connection.get<{ status: StoredText }>(NEXT_STATUS, namespace, kind, row.status);
  }
}
