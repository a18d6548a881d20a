/**
 * Migration 1: the whole first schema.
 *
 *     meta           the format version, the store's own id, and the seal while the store moves
 *     streams        one row per stream name until it is erased: head, facets, and as a tombstone the
 *                    generation. The row `erased/names` stands for the erased ones
 *     writes         the log: one row per write, found by the seq of its last event
 *     items          rows that lists and views can see inside a stream: calls, checkpoints, tasks
 *     leases         named rights with their fencing tokens; a released lease keeps its row, for its token
 *     keys           claimed keys and the event that holds each
 *     artifacts, artifact_refs, snapshots
 *
 * Then come the functions that change several tables in one round trip, and the views for people. A store of
 * this format has the functions under these names for good: renaming one takes a migration.
 *
 * The namespace leads every primary key except that of `meta`, and no statement joins two namespaces, so
 * the tables can be partitioned or sharded by it. Names compare byte by byte (`COLLATE "C"`) in any
 * database. Times are milliseconds of the writer's clock, except in `leases`, where the server's clock
 * counts.
 *
 * An update that changes no indexed column (HOT) costs a fraction of one that does. So the index by latest
 * change holds only the second of it, and the number of open calls is in no index (`openMark`).
 *
 * Tables that every append writes have no CHECK constraints, which took as long as the writing. `checkBatch`
 * and `check` verify the same rules (decision 013).
 *
 * Payloads are compressed (LZ4 if the server has it) but stay in their row as long as a page can hold it. A
 * TOAST table makes inserts of 4 KB turns a quarter slower and takes 5 % more disk (decision 020).
 *
 * A stream row of generation 0 is a placeholder that a running append locks for a stream that it may
 * create. No other transaction ever sees one.
 */

import { fastAppendFunctions } from "./append-fast-path.ts";
import { appendFunctions } from "./schema-1-append.ts";
import { leaseAndRemovalFunctions } from "./schema-1-functions.ts";
import { views } from "./schema-1-views.ts";

/** Names that the migration creates. A schema in which another program uses one of them is refused. */
export const OWN_NAMES = [
  ...["meta", "streams", "writes", "items", "leases", "keys", "artifacts", "artifact_refs", "snapshots"],
  ...["sessions", "checkpoints", "messages", "tool_calls", "budgets"],
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
  IF EXISTS (
    SELECT 1 FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)
  ) THEN
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
CREATE INDEX items_metadata ON ${schema}.items (namespace, id) WHERE kind = 'metadata';

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
  [tables, leaseAndRemovalFunctions, fastAppendFunctions, appendFunctions, views]
    .map((part) => part(schema))
    .join("\n");
