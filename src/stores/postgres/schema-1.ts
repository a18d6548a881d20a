/**
 * Migration 1: the whole first schema.
 *
 *   meta           the format, and the store's own id
 *   streams        one row per stream name for ever: head, facets, and as a tombstone the generation
 *   writes         the log: one row per write, found by the seq of its last event
 *   items          rows that lists and views may see inside a stream: calls, checkpoints
 *   leases         named rights with their fencing tokens; a row stays when released, for its token
 *   keys           claimed keys and the event that holds each
 *   artifacts, artifact_refs, snapshots
 *
 * Then the functions that change several of them in one round trip, and the views for people.
 *
 * The namespace leads every primary key but that of `meta`, and no statement joins two of them: the tables can be
 * partitioned or sharded by it. Names are compared byte by byte (`COLLATE "C"`), whatever the database is set to.
 * Times are milliseconds: of the writer's wall clock, but in `leases`, where the server's clock counts.
 *
 * An update that changes no indexed column costs Postgres a fraction of one that does. So the index by the latest change
 * knows the second of it only, which a burst of appends leaves as it is; lists sort within the second. The number of open
 * calls is in no index: streams that have some are found by their open items, and by a mark where those may not tell
 * (`plain.ts`).
 *
 * Tables that every append writes have no CHECK: Postgres reads and plans each of them anew for every statement, which
 * together took as long as the writing. What they would say is asked before a batch is sent, and by `check`.
 *
 * Payloads are pressed, but stay in their row as long as a page can hold it. Postgres would move those of more than 2 KB to a
 * table of their own, which half of all turns of 4 KB are: an insert then takes a quarter longer, and 5 % more disk. Where the server
 * was built with LZ4, that presses them: what Postgres has by itself takes a third of all that it does for sixteen sessions.
 *
 * A stream of generation 0 is a place that a running append holds for a stream that it may begin; nobody else ever
 * sees one.
 */

import { appendFunctions } from "./schema-1-append.ts";
import { otherFunctions } from "./schema-1-functions.ts";
import { plainFunction } from "./schema-1-plain.ts";
import { singleFunction } from "./schema-1-single.ts";
import { views } from "./schema-1-views.ts";

/** What a migration needs in the schema for itself: where another program has one of these, it is not ours to fill. */
export const OWN_NAMES = [
  "meta",
  "streams",
  "writes",
  "items",
  "leases",
  "keys",
  "artifacts",
  "artifact_refs",
  "snapshots",
  "sessions",
  "checkpoints",
  "messages",
  "tool_calls",
  "budgets",
];

const tables = (schema: string) => `
CREATE TABLE ${schema}.meta (
  name text COLLATE "C" PRIMARY KEY,
  value text NOT NULL
);

CREATE TABLE ${schema}.streams (
  namespace text COLLATE "C" NOT NULL,
  stream text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  state text COLLATE "C" NOT NULL,
  generation integer NOT NULL,
  seq integer NOT NULL,
  base integer NOT NULL,
  parent text COLLATE "C",
  parent_generation integer,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  updated_second bigint NOT NULL,
  open_calls integer NOT NULL DEFAULT 0,
  is_marked_open boolean NOT NULL DEFAULT false,
  expires_at bigint,
  status text COLLATE "C",
  title text,
  goal text COLLATE "C",
  budget text,
  PRIMARY KEY (namespace, stream)
) WITH (fillfactor = 70);
CREATE INDEX streams_latest ON ${schema}.streams (namespace, kind, status, updated_second DESC)
  WHERE state <> 'gone';
CREATE INDEX streams_by_goal ON ${schema}.streams (namespace, goal) WHERE goal IS NOT NULL;
CREATE INDEX streams_marked_open ON ${schema}.streams (namespace) WHERE is_marked_open;
CREATE INDEX streams_by_parent ON ${schema}.streams (namespace, parent) WHERE parent IS NOT NULL;

CREATE TABLE ${schema}.writes (
  namespace text COLLATE "C" NOT NULL,
  stream text COLLATE "C" NOT NULL,
  last integer NOT NULL,
  first integer NOT NULL,
  at bigint NOT NULL,
  sum bigint NOT NULL,
  batch text COLLATE "C" NOT NULL,
  codec text,
  payload text,
  bytes bytea,
  PRIMARY KEY (namespace, stream, last)
);
ALTER TABLE ${schema}.writes ALTER payload SET STORAGE MAIN, ALTER bytes SET STORAGE MAIN;
DO $function$ BEGIN
  IF EXISTS (SELECT 1 FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
    ALTER TABLE ${schema}.writes ALTER payload SET COMPRESSION lz4, ALTER bytes SET COMPRESSION lz4;
  END IF;
END $function$;

CREATE TABLE ${schema}.items (
  namespace text COLLATE "C" NOT NULL,
  stream text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  seq integer,
  end_seq integer,
  at bigint,
  done_at bigint,
  status text,
  name text,
  key text,
  PRIMARY KEY (namespace, stream, kind, id)
);
CREATE INDEX items_open ON ${schema}.items (namespace, kind, coalesce(at, 0), stream, coalesce(seq, 0), id)
  WHERE done_at IS NULL;

CREATE TABLE ${schema}.leases (
  namespace text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  token bigint NOT NULL CHECK (token >= 0),
  expires_at bigint NOT NULL,
  ttl bigint NOT NULL CHECK (ttl >= 0),
  owner text COLLATE "C",
  holder text CHECK ((owner IS NULL) = (holder IS NULL)),
  PRIMARY KEY (namespace, name)
) WITH (fillfactor = 70);

CREATE TABLE ${schema}.keys (
  namespace text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  stream text COLLATE "C" NOT NULL,
  seq integer NOT NULL CHECK (seq >= 1),
  PRIMARY KEY (namespace, key)
);

CREATE TABLE ${schema}.artifacts (
  namespace text COLLATE "C" NOT NULL,
  hash text COLLATE "C" NOT NULL,
  put_at bigint NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (namespace, hash)
);
CREATE INDEX artifacts_by_age ON ${schema}.artifacts (namespace, put_at);

CREATE TABLE ${schema}.artifact_refs (
  namespace text COLLATE "C" NOT NULL,
  hash text COLLATE "C" NOT NULL,
  stream text COLLATE "C" NOT NULL,
  PRIMARY KEY (namespace, hash, stream)
);
CREATE INDEX artifact_refs_by_stream ON ${schema}.artifact_refs (namespace, stream);

CREATE TABLE ${schema}.snapshots (
  namespace text COLLATE "C" NOT NULL,
  stream text COLLATE "C" NOT NULL,
  fold text COLLATE "C" NOT NULL,
  seq integer NOT NULL CHECK (seq >= 0),
  codec text,
  payload text,
  bytes bytea CHECK ((payload IS NULL) <> (bytes IS NULL)),
  PRIMARY KEY (namespace, stream, fold, seq)
);
`;

export const schema1 = (schema: string): string =>
  [tables, otherFunctions, plainFunction, singleFunction, appendFunctions, views]
    .map((part) => part(schema))
    .join("\n");
