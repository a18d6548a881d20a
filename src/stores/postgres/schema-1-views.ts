/**
 * Views for people, computed from facets, items and, for contents, from the log if it is JSON that Postgres
 * can parse. Encrypted payloads, NUL and lone surrogates show as NULL and break no query.
 */

const iso = (column: string) =>
  `to_char(to_timestamp(${column} / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

const sessionId = (column: string) => `substr(${column}, strpos(${column}, '/') + 1)`;

export const views = (schema: string): string => {
  const json = (alias: string) =>
    `CASE WHEN ${alias}.codec IS NULL THEN ${schema}.json_or_null(${alias}.payload) END`;

  /** A field, as JSON, of the event at `seq` in the stream of the item `i`. */
  const eventField = (seq: string, field: string) => `(
    SELECT ${json("w")} -> (${seq} - w.first) -> 'data' -> '${field}' FROM ${schema}.writes AS w
    WHERE w.namespace = i.namespace AND w.stream = i.stream AND w.last >= ${seq} ORDER BY w.last LIMIT 1)`;

  /** The items of one kind of all goals. */
  const goalItems = (kind: string) => `FROM ${schema}.streams AS s
JOIN ${schema}.items AS i ON i.namespace = s.namespace AND i.stream = s.stream AND i.kind = '${kind}'
WHERE s.kind = 'goal' AND s.state = 'live';`;

  /** Each session with the streams that hold its past: itself and its ancestors, up to the shared seq. */
  const past = `WITH RECURSIVE past (namespace, session, source, up_to) AS (
  SELECT namespace, stream, stream, seq FROM ${schema}.streams WHERE kind = 'session' AND state = 'live'
  UNION ALL
  SELECT past.namespace, past.session, s.parent, least(past.up_to, s.base)
  FROM past JOIN ${schema}.streams AS s ON s.namespace = past.namespace AND s.stream = past.source
  WHERE s.parent IS NOT NULL
)`;

  /**
   * The events of the session `past` up to the version `i` whose type begins with `type`. Only writes whose
   * text has the type are parsed.
   */
  const versionEvents = (type: string) => `FROM past AS q
    JOIN ${schema}.writes AS w ON w.namespace = q.namespace AND w.stream = q.source
      AND w.first <= least(q.up_to, i.seq) AND strpos(w.payload, '"${type}') > 0
    CROSS JOIN LATERAL jsonb_path_query(${json("w")}, '$[*]') WITH ORDINALITY AS e (event, place)
    WHERE q.namespace = past.namespace AND q.session = past.session
      AND w.first + e.place - 1 <= least(q.up_to, i.seq) AND starts_with(e.event ->> 'type', '${type}')`;

  /** The budget at a version, as JSON. A reservation counts until the next event with its id. */
  const versionBudget = `(
    SELECT jsonb_object_agg(unit, jsonb_build_object('spent', spent, 'limit', most)) FROM (
      SELECT u.unit, (array_agg(u.amount ORDER BY c.seq DESC) FILTER (WHERE is_limit))[1] AS most,
        coalesce(sum(u.amount) FILTER (WHERE NOT is_limit), 0) AS spent, bool_or(NOT is_limit) AS has_spent
      FROM (
        SELECT w.first + e.place AS seq, e.event ->> 'type' = 'budget.limited' AS is_limit,
          e.event ->> 'type' = 'budget.reserved' AS is_reserved, e.event -> 'data' AS data,
          lead(true) OVER (PARTITION BY e.event #>> '{data,id}' ORDER BY w.first + e.place) AS is_followed
        ${versionEvents("budget.")}
      ) AS c
      CROSS JOIN LATERAL (
        SELECT pair ->> 'key' AS unit,
          CASE jsonb_typeof(pair -> 'value') WHEN 'number' THEN (pair ->> 'value')::numeric END AS amount
        FROM jsonb_path_query(coalesce(c.data -> 'amounts', c.data -> 'spent', c.data -> 'limits'),
          '$.keyvalue()') AS pair
      ) AS u
      WHERE NOT (c.is_reserved AND c.is_followed IS NOT NULL)
      GROUP BY 1
    ) AS units WHERE has_spent OR most IS NOT NULL)`;

  /** A field of the details of an item, which a goal keeps as JSON in `key`. */
  const detail = (path: string) => `(${schema}.json_or_null(i.key) ${path})`;

  const numberDetail = (field: string) =>
    `jsonb_path_query_first(${detail("")}, '$.${field} ? (@.type() == "number")')::numeric`;

  /** A number out of `1.-.2`, or NULL. */
  const part = (column: string, place: number) =>
    `CASE WHEN split_part(${column}, '.', ${place}) ~ '^[0-9]{1,9}$'
    THEN split_part(${column}, '.', ${place})::integer END`;

  return `
CREATE FUNCTION ${schema}.json_or_null(p_text text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $function$
BEGIN
  RETURN p_text::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
  RETURN NULL;
END $function$;

CREATE VIEW ${schema}.sessions AS
SELECT ${sessionId("s.stream")} AS session_id, s.namespace, s.status, s.title, s.goal,
  ${iso("s.created_at")} AS created_at, ${iso("s.updated_at")} AS updated_at,
  s.open_calls, ${iso("s.expires_at")} AS expires_at, ${sessionId("s.parent")} AS forked_from, s.seq
FROM ${schema}.streams AS s
WHERE s.kind = 'session' AND s.state = 'live';

-- A fork also shows the versions of its shared past, as they were when it forked.
CREATE VIEW ${schema}.checkpoints AS
${past}
SELECT ${sessionId("past.session")} AS session_id, past.namespace,
  CASE WHEN i.id ~ '^[0-9]{1,9}$' THEN i.id::integer END AS version,
  ${iso("i.at")} AS created_at, i.name AS label, i.seq,
  (SELECT nullif(e.event #> '{data,plan}', 'null'::jsonb) ${versionEvents("plan.set")}
   ORDER BY w.first + e.place DESC LIMIT 1) AS plan,
  ${versionBudget} AS budget
FROM past
JOIN ${schema}.items AS i
  ON i.namespace = past.namespace AND i.stream = past.source AND i.kind = 'checkpoint' AND i.seq <= past.up_to
WHERE NOT EXISTS (
  SELECT 1 FROM past AS p
  JOIN ${schema}.items AS d
    ON d.namespace = p.namespace AND d.stream = p.source AND d.kind = 'checkpoint' AND d.id = i.id
      AND d.status = 'deleted'
  WHERE p.namespace = past.namespace AND p.session = past.session AND coalesce(d.end_seq, 0) <= p.up_to);

-- A fork also shows the messages of its shared past. 'results' are the messages of tools. A message that
-- replaces others, for example after a compaction, has the seq of the replacing event and its place among
-- the new messages.
CREATE VIEW ${schema}.messages AS
${past}
SELECT ${sessionId("past.session")} AS session_id, past.namespace, (w.first + e.place - 1)::integer AS seq,
  a.place::integer AS place, e.event ->> 'type' AS event,
  coalesce(a.message ->> 'id', e.event #>> '{data,message,id}', e.event #>> '{data,id}') AS message_id,
  coalesce(a.message ->> 'role', e.event #>> '{data,message,role}', 'tool') AS role,
  coalesce(a.message ->> 'createdAt', e.event #>> '{data,message,createdAt}', e.event #>> '{data,createdAt}')
    AS created_at,
  coalesce(a.message -> 'blocks', e.event #> '{data,message,blocks}', e.event #> '{data,blocks}') AS blocks,
  (SELECT string_agg(b.block ->> 'text', chr(10) ORDER BY b.place)
   FROM jsonb_path_query(coalesce(a.message, e.event #> '{data,message}'), '$.blocks[*]')
     WITH ORDINALITY AS b (block, place)
   WHERE b.block ->> 'kind' = 'text') AS text
FROM past
JOIN ${schema}.writes AS w ON w.namespace = past.namespace AND w.stream = past.source
  AND w.first <= past.up_to
CROSS JOIN LATERAL jsonb_path_query(${json("w")}, '$[*]') WITH ORDINALITY AS e (event, place)
CROSS JOIN LATERAL (
  SELECT NULL::jsonb AS message, 1 AS place WHERE e.event ->> 'type' IN ('message', 'results')
  UNION ALL
  SELECT added.message, added.place
  FROM jsonb_path_query(e.event, '$.data.segments[*].add[*] ? (@.type() == "object")')
    WITH ORDINALITY AS added (message, place)
  WHERE e.event ->> 'type' = 'transcript.replaced'
) AS a
WHERE jsonb_typeof(e.event) = 'object' AND w.first + e.place - 1 <= past.up_to;

CREATE VIEW ${schema}.tool_calls AS
SELECT ${sessionId("s.stream")} AS session_id, s.namespace, i.id AS call_id, i.name AS tool_name,
  ${eventField("i.seq", "args")} AS args, i.key AS idempotency_key, i.status,
  ${eventField("i.end_seq", "result")} AS result,
  ${iso("i.at")} AS started_at, ${iso("i.done_at")} AS completed_at
FROM ${schema}.streams AS s
JOIN ${schema}.items AS i ON i.namespace = s.namespace AND i.stream = s.stream AND i.kind = 'call'
WHERE s.kind = 'session' AND s.state = 'live';

CREATE VIEW ${schema}.budgets AS
SELECT ${sessionId("s.stream")} AS session_id, s.namespace, b.key AS unit,
  (b.value ->> 'spent')::numeric AS spent, (b.value ->> 'limit')::numeric AS "limit"
FROM ${schema}.streams AS s
CROSS JOIN LATERAL jsonb_path_query(${schema}.json_or_null(s.budget), '$.keyvalue()') AS pair
CROSS JOIN LATERAL (SELECT pair ->> 'key' AS key, pair -> 'value' AS value) AS b
WHERE s.kind = 'session' AND s.state = 'live' AND jsonb_typeof(b.value) = 'object';

-- Goals as lists show them, from facets alone. Names are cut to 200 characters.
CREATE VIEW ${schema}.goals AS
SELECT ${sessionId("s.stream")} AS goal_id, s.namespace, s.status, s.title,
  ${iso("s.created_at")} AS created_at, ${iso("s.updated_at")} AS updated_at,
  ${iso("s.expires_at")} AS expires_at, s.seq
FROM ${schema}.streams AS s WHERE s.kind = 'goal' AND s.state = 'live';

CREATE VIEW ${schema}.initiative_state AS
SELECT ${sessionId("s.stream")} AS goal_id, s.namespace, ${numberDetail("phase")} AS current_phase,
  ${numberDetail("plan")} AS current_plan, ${detail("->> 'task'")} AS current_task,
  ${numberDetail("wave")} AS current_wave, i.status, ${detail("-> 'progress'")} AS progress,
  ${iso("s.updated_at")} AS updated_at
FROM ${schema}.streams AS s
LEFT JOIN ${schema}.items AS i
  ON i.namespace = s.namespace AND i.stream = s.stream AND i.kind = 'position' AND i.id = 'current'
WHERE s.kind = 'goal' AND s.state = 'live';

CREATE VIEW ${schema}.tasks AS
SELECT ${sessionId("s.stream")} AS goal_id, s.namespace, i.id AS task_id, i.name AS title, i.status,
  ${part("i.key", 1)} AS phase, ${part("i.key", 2)} AS plan, ${part("i.key", 3)} AS wave,
  ${iso("i.at")} AS created_at, ${iso("i.done_at")} AS done_at
${goalItems("task")}

CREATE VIEW ${schema}.decisions AS
SELECT ${sessionId("s.stream")} AS goal_id, s.namespace, i.id AS decision_id, i.name AS decision, i.status,
  ${detail("->> 'context'")} AS context, ${detail("->> 'reason'")} AS reason,
  ${detail("-> 'alternatives'")} AS alternatives,
  CASE ${detail("->> 'reversible'")} WHEN 'true' THEN true WHEN 'false' THEN false END AS reversible,
  ${detail("->> 'date'")} AS date,
  ${iso("i.at")} AS made_at, ${iso("i.done_at")} AS superseded_at
${goalItems("decision")}

CREATE VIEW ${schema}.blockers AS
SELECT ${sessionId("s.stream")} AS goal_id, s.namespace, i.id AS blocker_id, i.name AS description, i.status,
  ${detail("-> 'affects'")} AS affects, ${detail("->> 'workaround'")} AS workaround,
  ${detail("->> 'resolution'")} AS resolution,
  ${iso("i.at")} AS reported_at, ${iso("i.done_at")} AS resolved_at
${goalItems("blocker")}

CREATE VIEW ${schema}.session_history AS
SELECT ${sessionId("s.stream")} AS goal_id, s.namespace, i.id AS session_id, i.name AS agent, i.status,
  ${numberDetail("contextUsage")} AS context_usage, ${detail("-> 'completed'")} AS completed,
  ${detail("-> 'issues'")} AS issues, ${detail("->> 'handoffReason'")} AS handoff_reason,
  ${iso("i.at")} AS started_at, ${iso("i.done_at")} AS ended_at
${goalItems("history")}
`;
};
