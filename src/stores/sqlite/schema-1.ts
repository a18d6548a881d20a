/**
 * Migration 1: the whole first schema.
 *
 *     meta           the store's id, and a number that a fresh connection raises to prove that it can write
 *     streams        one row per stream name until it is erased: head, facets, and as a tombstone the
 *                    generation. The row `erased/names` stands for the erased ones
 *     writes         the log, one row per write. Its id joins the stream's number and the write's last seq
 *                    in one integer, so that a stream's writes lie side by side without a second index
 *     items          rows that lists and views show of a stream: calls, checkpoints
 *     leases         named rights with their fencing tokens; a released one stays, for its token
 *     keys           claimed keys and the event that holds each
 *     artifacts, artifact_refs, snapshots
 *
 * Views for people follow. They are computed from the tables and stored nowhere.
 *
 * `updated_about` is `updated_at` in steps of 64 ms, so that a busy stream does not move in its index with
 * every write. A stream's number takes 35 bits and a seq 28: `stream << 28 | seq` fits SQLite's 63 bits, and
 * JavaScript never sees it. A life of a stream ends by deleting its rows.
 */

const TABLES = `
CREATE TABLE meta (
  name TEXT NOT NULL PRIMARY KEY,
  value NOT NULL
) WITHOUT ROWID;

CREATE TABLE streams (
  id INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 34359738367),
  namespace TEXT NOT NULL,
  stream TEXT NOT NULL,
  kind TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('live', 'hidden', 'gone')),
  generation INTEGER NOT NULL CHECK (generation >= 1),
  seq INTEGER NOT NULL CHECK (seq BETWEEN base AND 268435455),
  base INTEGER NOT NULL CHECK (base >= 0),
  parent INTEGER,
  parent_generation INTEGER CHECK ((parent IS NULL) = (parent_generation IS NULL)),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  updated_about INTEGER NOT NULL CHECK (updated_about = updated_at >> 6),
  open_calls INTEGER NOT NULL DEFAULT 0 CHECK (open_calls >= 0),
  expires_at INTEGER,
  status TEXT,
  title TEXT,
  goal TEXT,
  budget TEXT,
  UNIQUE (namespace, stream)
);
CREATE INDEX streams_latest ON streams (namespace, kind, status, updated_about DESC)
  WHERE state <> 'gone';
CREATE INDEX streams_by_goal ON streams (namespace, goal) WHERE goal IS NOT NULL;
CREATE INDEX streams_with_open_calls ON streams (namespace) WHERE open_calls > 0;
CREATE INDEX streams_by_parent ON streams (parent) WHERE parent IS NOT NULL;

CREATE TABLE writes (
  id INTEGER PRIMARY KEY,
  first INTEGER NOT NULL CHECK (first BETWEEN 1 AND (id & 268435455)),
  at INTEGER NOT NULL,
  sum INTEGER NOT NULL,
  utf16 INTEGER CHECK (utf16 = 1),
  codec TEXT,
  batch TEXT NOT NULL,
  payload NOT NULL CHECK (typeof(payload) IN ('text', 'blob'))
);

CREATE TABLE items (
  stream INTEGER NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  namespace TEXT NOT NULL,
  seq INTEGER CHECK (seq >= 1),
  end_seq INTEGER CHECK (end_seq >= 1),
  at INTEGER,
  done_at INTEGER,
  status TEXT,
  name TEXT,
  key TEXT,
  PRIMARY KEY (stream, kind, id)
) WITHOUT ROWID;
CREATE INDEX items_open ON items (namespace, kind, at) WHERE done_at IS NULL;
CREATE INDEX items_metadata ON items (namespace, id) WHERE kind = 'metadata';

CREATE TABLE leases (
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  token INTEGER NOT NULL CHECK (token >= 1),
  boot TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  ttl INTEGER NOT NULL CHECK (ttl >= 0),
  holder TEXT,
  PRIMARY KEY (namespace, name)
) WITHOUT ROWID;

CREATE TABLE keys (
  namespace TEXT NOT NULL,
  key TEXT NOT NULL,
  stream INTEGER NOT NULL,
  seq INTEGER NOT NULL CHECK (seq >= 1),
  PRIMARY KEY (namespace, key)
) WITHOUT ROWID;

CREATE TABLE artifacts (
  id INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL,
  hash TEXT NOT NULL,
  put_at INTEGER NOT NULL,
  bytes BLOB NOT NULL CHECK (typeof(bytes) = 'blob'),
  UNIQUE (namespace, hash)
);

CREATE TABLE artifact_refs (
  artifact INTEGER NOT NULL,
  stream INTEGER NOT NULL,
  PRIMARY KEY (artifact, stream)
) WITHOUT ROWID;
CREATE INDEX artifact_refs_by_stream ON artifact_refs (stream);

CREATE TABLE snapshots (
  stream INTEGER NOT NULL,
  fold TEXT NOT NULL,
  seq INTEGER NOT NULL CHECK (seq >= 0),
  utf16 INTEGER CHECK (utf16 = 1),
  codec TEXT,
  payload NOT NULL CHECK (typeof(payload) IN ('text', 'blob')),
  PRIMARY KEY (stream, fold, seq)
) WITHOUT ROWID;
`;

const iso = (column: string) => `strftime('%Y-%m-%dT%H:%M:%fZ', ${column} / 1000.0, 'unixepoch')`;

const sessionId = (alias: string) => `substr(${alias}.stream, instr(${alias}.stream, '/') + 1)`;

/** The payload if it is JSON text, else NULL: the output of a codec is not shown, and breaks no query. */
const json = (alias: string) =>
  `CASE WHEN ${alias}.codec IS NULL AND typeof(${alias}.payload) = 'text' AND json_valid(${alias}.payload)
        THEN ${alias}.payload END`;

/** One field, as JSON, of the event at \`seq\` in the stream of the item \`i\`. */
const eventField = (seq: string, field: string) => `(
    SELECT ${json("w")} -> ('$[' || (${seq} - w.first) || '].data.${field}') FROM writes AS w
    WHERE w.id >= (i.stream << 28 | ${seq}) AND w.id <= (i.stream << 28 | 268435455) ORDER BY w.id LIMIT 1)`;

/** A field of the details of an item, which a goal keeps as JSON in \`key\`. */
const detail = (field: string, operator = "->>") =>
  `(CASE WHEN json_valid(i.key) THEN i.key END ${operator} '$.${field}')`;

/** Each session with the streams that hold its past: itself and those it was forked from, up to where. */
const PAST = `WITH RECURSIVE past (session, source, up_to) AS (
  SELECT id, id, seq FROM streams WHERE kind = 'session' AND state = 'live'
  UNION ALL
  SELECT past.session, s.parent, min(past.up_to, s.base)
  FROM past JOIN streams AS s ON s.id = past.source WHERE s.parent IS NOT NULL
)`;

/**
 * The events of the session `past` up to the version `i` whose type begins with `type`. Only writes whose
 * text has the type are parsed.
 */
const versionEvents = (type: string) => `FROM past AS q
    JOIN writes AS w ON w.id > (q.source << 28) AND w.id <= (q.source << 28 | 268435455)
      AND w.first <= min(q.up_to, i.seq) AND instr(w.payload, '"${type}')
    JOIN json_each(${json("w")}) AS e
    WHERE q.session = past.session AND w.first + e.key <= min(q.up_to, i.seq)
      AND iif(e.type = 'object', e.value ->> '$.type', '') GLOB '${type}*'`;

/**
 * The budget at a version, as JSON: `{"usd":{"spent":1.5,"limit":20}}`. A reservation counts until the next
 * event with its id.
 */
const VERSION_BUDGET = `(
   SELECT nullif(json_group_object(unit, json_object('spent', spent, 'limit', most)), '{}') FROM (
    SELECT unit, round(total(iif(is_limit, 0, amount)), 9) AS spent,
      max(iif(is_limit AND place = 1, amount, NULL)) AS most
    FROM (
      SELECT u.key AS unit, u.value AS amount, c.is_limit,
        row_number() OVER (PARTITION BY u.key, c.is_limit ORDER BY c.seq DESC) AS place
      FROM (
        SELECT w.first + e.key AS seq, e.value ->> '$.type' = 'budget.limited' AS is_limit,
          e.value ->> '$.type' = 'budget.reserved' AS is_reserved, e.value -> '$.data' AS data,
          lead(1) OVER (PARTITION BY e.value ->> '$.data.id' ORDER BY w.first + e.key) AS is_followed
        ${versionEvents("budget.")}
      ) AS c
      JOIN json_each(coalesce(c.data -> '$.amounts', c.data -> '$.spent', c.data -> '$.limits')) AS u
      WHERE NOT (c.is_reserved AND c.is_followed IS NOT NULL)
    )
    GROUP BY unit HAVING min(is_limit) = 0 OR most IS NOT NULL))`;

/**
 * The messages that an event added to the transcript, as a JSON array: one message, the results of tools,
 * or the replacements of a compaction. Selected by paths, because not every value need be JSON.
 */
const MESSAGES = `CASE iif(e.type = 'object', e.value ->> '$.type', '')
  WHEN 'message' THEN json_array(e.value -> '$.data.message')
  WHEN 'results' THEN json_array(e.value -> '$.data')
  WHEN 'transcript.replaced' THEN (SELECT json_group_array(json(value)) FROM (
    SELECT a.value FROM json_each(e.value, '$.data.segments') AS g
    JOIN json_each(e.value, g.fullkey || '.add') AS a
    WHERE a.type = 'object' ORDER BY g.key, a.key))
  ELSE '[]' END`;

/**
 * A fork also shows the versions and messages of its shared past, as they were when it left. Goals show the
 * same as lists do, from facets alone, with names cut to 200 characters.
 */
const VIEWS = `
CREATE VIEW sessions AS
SELECT ${sessionId("s")} AS session_id, s.namespace, s.status, s.title, s.goal,
  ${iso("s.created_at")} AS created_at, ${iso("s.updated_at")} AS updated_at,
  s.open_calls, ${iso("s.expires_at")} AS expires_at, ${sessionId("p")} AS forked_from, s.seq
FROM streams AS s LEFT JOIN streams AS p ON p.id = s.parent
WHERE s.kind = 'session' AND s.state = 'live';

CREATE VIEW checkpoints AS
${PAST}
SELECT ${sessionId("s")} AS session_id, s.namespace, CAST(i.id AS INTEGER) AS version,
  ${iso("i.at")} AS created_at, i.name AS label, i.seq,
  (SELECT nullif(e.value -> '$.data.plan', 'null') ${versionEvents("plan.set")}
   ORDER BY w.first + e.key DESC LIMIT 1) AS plan,
  ${VERSION_BUDGET} AS budget
FROM past
JOIN streams AS s ON s.id = past.session
JOIN items AS i ON i.stream = past.source AND i.kind = 'checkpoint' AND i.seq <= past.up_to
WHERE NOT EXISTS (
  SELECT 1 FROM past AS p
  JOIN items AS d ON d.stream = p.source AND d.kind = 'checkpoint' AND d.id = i.id AND d.status = 'deleted'
  WHERE p.session = past.session AND coalesce(d.end_seq, 0) <= p.up_to);

CREATE VIEW messages AS
${PAST}
SELECT ${sessionId("s")} AS session_id, s.namespace, w.first + e.key AS seq, m.key + 1 AS place,
  e.value ->> '$.type' AS event, m.value ->> '$.id' AS message_id,
  coalesce(m.value ->> '$.role', 'tool') AS role,
  m.value ->> '$.createdAt' AS created_at, m.value -> '$.blocks' AS blocks,
  (SELECT group_concat(b.value ->> '$.text', char(10)) FROM json_each(m.value, '$.blocks') AS b
   WHERE b.type = 'object' AND b.value ->> '$.kind' = 'text') AS text
FROM past
JOIN streams AS s ON s.id = past.session
JOIN writes AS w
  ON w.id > (past.source << 28) AND w.id <= (past.source << 28 | 268435455) AND w.first <= past.up_to
JOIN json_each(${json("w")}) AS e
JOIN json_each(${MESSAGES}) AS m
WHERE w.first + e.key <= past.up_to AND m.type = 'object';

CREATE VIEW tool_calls AS
SELECT ${sessionId("s")} AS session_id, s.namespace, i.id AS call_id, i.name AS tool_name,
  ${eventField("i.seq", "args")} AS args, i.key AS idempotency_key, i.status,
  ${eventField("i.end_seq", "result")} AS result,
  ${iso("i.at")} AS started_at, ${iso("i.done_at")} AS completed_at
FROM streams AS s JOIN items AS i ON i.stream = s.id AND i.kind = 'call'
WHERE s.kind = 'session' AND s.state = 'live';

CREATE VIEW budgets AS
SELECT ${sessionId("s")} AS session_id, s.namespace, b.key AS unit,
  b.value ->> '$.spent' AS spent, b.value ->> '$.limit' AS "limit"
FROM streams AS s
JOIN json_each(CASE WHEN typeof(s.budget) = 'text' AND json_valid(s.budget) THEN s.budget END) AS b
WHERE s.kind = 'session' AND s.state = 'live' AND b.type = 'object';

CREATE VIEW goals AS
SELECT ${sessionId("s")} AS goal_id, s.namespace, s.status, s.title,
  ${iso("s.created_at")} AS created_at, ${iso("s.updated_at")} AS updated_at,
  ${iso("s.expires_at")} AS expires_at, s.seq
FROM streams AS s WHERE s.kind = 'goal' AND s.state = 'live';

CREATE VIEW initiative_state AS
SELECT ${sessionId("s")} AS goal_id, s.namespace, ${detail("phase")} AS current_phase,
  ${detail("plan")} AS current_plan, ${detail("task")} AS current_task, ${detail("wave")} AS current_wave,
  i.status, ${detail("progress", "->")} AS progress, ${iso("s.updated_at")} AS updated_at
FROM streams AS s LEFT JOIN items AS i ON i.stream = s.id AND i.kind = 'position' AND i.id = 'current'
WHERE s.kind = 'goal' AND s.state = 'live';

CREATE VIEW tasks AS
SELECT ${sessionId("s")} AS goal_id, s.namespace, i.id AS task_id, i.name AS title, i.status,
  CAST(substr(i.key, 1, instr(i.key, '.') - 1) AS INTEGER) AS phase,
  CAST(nullif(
    substr(i.key, instr(i.key, '.') + 1, instr(substr(i.key, instr(i.key, '.') + 1), '.') - 1), '-'
  ) AS INTEGER) AS plan,
  CAST(substr(
    i.key, instr(i.key, '.') + instr(substr(i.key, instr(i.key, '.') + 1), '.') + 1
  ) AS INTEGER) AS wave,
  ${iso("i.at")} AS created_at, ${iso("i.done_at")} AS done_at
FROM streams AS s JOIN items AS i ON i.stream = s.id AND i.kind = 'task'
WHERE s.kind = 'goal' AND s.state = 'live';

CREATE VIEW decisions AS
SELECT ${sessionId("s")} AS goal_id, s.namespace, i.id AS decision_id, i.name AS decision, i.status,
  ${detail("context")} AS context, ${detail("reason")} AS reason,
  ${detail("alternatives", "->")} AS alternatives, ${detail("reversible")} AS reversible,
  ${detail("date")} AS date,
  ${iso("i.at")} AS made_at, ${iso("i.done_at")} AS superseded_at
FROM streams AS s JOIN items AS i ON i.stream = s.id AND i.kind = 'decision'
WHERE s.kind = 'goal' AND s.state = 'live';

CREATE VIEW blockers AS
SELECT ${sessionId("s")} AS goal_id, s.namespace, i.id AS blocker_id, i.name AS description, i.status,
  ${detail("affects", "->")} AS affects, ${detail("workaround")} AS workaround,
  ${detail("resolution")} AS resolution,
  ${iso("i.at")} AS reported_at, ${iso("i.done_at")} AS resolved_at
FROM streams AS s JOIN items AS i ON i.stream = s.id AND i.kind = 'blocker'
WHERE s.kind = 'goal' AND s.state = 'live';

CREATE VIEW session_history AS
SELECT ${sessionId("s")} AS goal_id, s.namespace, i.id AS session_id, i.name AS agent, i.status,
  ${detail("contextUsage")} AS context_usage, ${detail("completed", "->")} AS completed,
  ${detail("issues", "->")} AS issues, ${detail("handoffReason")} AS handoff_reason,
  ${iso("i.at")} AS started_at, ${iso("i.done_at")} AS ended_at
FROM streams AS s JOIN items AS i ON i.stream = s.id AND i.kind = 'history'
WHERE s.kind = 'goal' AND s.state = 'live';
`;

export const SCHEMA_1 = TABLES + VIEWS;
