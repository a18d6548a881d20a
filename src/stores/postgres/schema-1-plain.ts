/**
 * The usual append, on the side of the server: whole sets of rows at a time, so that sixteen batches cost little more
 * than one. Whatever is not plain, or does not pass, is left to `append_batch`, which knows every case.
 */

/** What an item of a write has, as columns. */
export const ITEM = `kind text, id text, seq integer, "endSeq" integer, status text, name text, key text, at bigint`;

/** Absent fields keep their value. */
export const MERGE_ITEM = `ON CONFLICT (namespace, stream, kind, id) DO UPDATE SET seq = coalesce(excluded.seq, old.seq),
      end_seq = coalesce(excluded.end_seq, old.end_seq), status = coalesce(excluded.status, old.status),
      name = coalesce(excluded.name, old.name), key = coalesce(excluded.key, old.key), at = coalesce(excluded.at, old.at)`;

/**
 * Elements of an argument as rows. Postgres expects hundreds from a function that takes JSON apart, and then prefers to
 * read a whole table; from an array it expects ten, and looks up each.
 */
export const few = (elements: string): string => `unnest(ARRAY(SELECT ${elements}))`;

const plainWrites = (path = "") =>
  few(`jsonb_path_query(p_batches, '$[*] ? (@.plain == true).writes[*]${path}')`);

export const plainFunction = (schema: string): string => `
-- The batches that can only be accepted, all at once: they continue live streams where those end, hold their leases,
-- and have neither keys nor artifacts. Returns their places. No two batches of a flight touch one stream, so what is
-- stored here first changes nothing for the others. Rows are locked in the order of their names, streams before leases;
-- what a lock brings to light (another has written meanwhile) is seen as it is now. Each row is looked up by itself (the
-- LIMIT sees to that): the server would otherwise read all leases where it believes that few are held.
CREATE FUNCTION ${schema}.append_plain(p_batches jsonb, p_bytes bytea, p_now bigint) RETURNS integer[]
LANGUAGE plpgsql AS $function$
DECLARE
  v_done integer[];
  v_held integer[];
  v_is_due boolean;
BEGIN
  SELECT coalesce(array_agg(whole.place), '{}') INTO v_done FROM (
    SELECT w.place FROM (
      SELECT w.* FROM ${plainWrites()} AS each CROSS JOIN LATERAL jsonb_to_record(each)
        AS w (place integer, size integer, namespace text, stream text, generation integer, seq integer)
      ORDER BY w.namespace COLLATE "C", w.stream COLLATE "C") AS w
    CROSS JOIN LATERAL (
      SELECT s.state, s.generation, s.seq FROM ${schema}.streams AS s
      WHERE s.namespace = w.namespace AND s.stream = w.stream LIMIT 1 FOR UPDATE) AS s
    WHERE s.state = 'live' AND s.generation = w.generation AND s.seq = w.seq
    GROUP BY w.place, w.size HAVING count(*) = w.size) AS whole;
  IF v_done = '{}' THEN RETURN v_done; END IF;

  IF p_batches @? '$[*].writes[*].guards' THEN
    SELECT coalesce(array_agg(place), '{}'), bool_or(is_due) INTO v_held, v_is_due FROM (
      SELECT g.place, bool_or(l.expires_at - p_now NOT BETWEEN l.ttl * 3 / 4 AND l.ttl) AS is_due FROM (
        SELECT g.* FROM ${plainWrites(".guards[*]")} AS each CROSS JOIN LATERAL jsonb_to_record(each)
          AS g (place integer, size integer, namespace text, lease text, token bigint)
        WHERE g.place = ANY (v_done) ORDER BY g.namespace COLLATE "C", g.lease COLLATE "C") AS g
      CROSS JOIN LATERAL (
        SELECT l.token, l.holder, l.expires_at, l.ttl FROM ${schema}.leases AS l
        WHERE l.namespace = g.namespace AND l.name = g.lease LIMIT 1 FOR UPDATE) AS l
      WHERE l.token = g.token AND l.holder IS NOT NULL
      GROUP BY g.place, g.size HAVING count(*) = g.size) AS held;
    IF cardinality(v_held) < cardinality(v_done) THEN
      SELECT coalesce(array_agg(place), '{}') INTO v_done FROM unnest(v_done) AS place
      WHERE place = ANY (v_held) OR NOT p_batches -> (place - 1) @? '$.writes[*].guards';
      IF v_done = '{}' THEN RETURN v_done; END IF;
    END IF;
    IF v_is_due THEN
      UPDATE ${schema}.leases AS l SET expires_at = p_now + l.ttl
      FROM ${plainWrites(".guards[*]")} AS each, LATERAL jsonb_to_record(each)
        AS g (place integer, namespace text, lease text)
      WHERE g.place = ANY (v_done) AND l.namespace = g.namespace AND l.name = g.lease
        AND l.expires_at - p_now NOT BETWEEN l.ttl * 3 / 4 AND l.ttl;
    END IF;
  END IF;

  UPDATE ${schema}.streams AS s SET seq = w.seq + w.count, updated_at = w.at, updated_second = w.at / 1000,
    open_calls = coalesce((w.facets ->> 'openCalls')::integer, open_calls),
    expires_at = CASE WHEN w.facets ? 'expiresAt' THEN (w.facets ->> 'expiresAt')::bigint ELSE expires_at END,
    status = CASE WHEN w.facets ? 'status' THEN w.facets ->> 'status' ELSE status END,
    title = CASE WHEN w.facets ? 'title' THEN w.facets ->> 'title' ELSE title END,
    goal = CASE WHEN w.facets ? 'goal' THEN w.facets ->> 'goal' ELSE goal END,
    budget = CASE WHEN w.facets ? 'budget' THEN w.facets ->> 'budget' ELSE budget END
  FROM ${plainWrites()} AS each, LATERAL jsonb_to_record(each)
    AS w (place integer, namespace text, stream text, seq integer, count integer, at bigint, facets jsonb)
  WHERE w.place = ANY (v_done) AND s.namespace = w.namespace AND s.stream = w.stream;

  INSERT INTO ${schema}.writes (namespace, stream, last, first, at, sum, batch, codec, payload, bytes)
  SELECT w.namespace, w.stream, w.seq + w.count, w.seq + 1, w.at, w.sum, w.batch, w.codec,
    CASE WHEN w.text THEN convert_from(substring(p_bytes FROM w."from" + 1 FOR w.bytes), 'UTF8') END,
    CASE WHEN NOT w.text THEN substring(p_bytes FROM w."from" + 1 FOR w.bytes) END
  FROM ${plainWrites()} AS each CROSS JOIN LATERAL jsonb_to_record(each)
    AS w (place integer, namespace text, stream text, seq integer, count integer, at bigint, sum bigint, batch text,
      codec text, text boolean, "from" integer, bytes integer)
  WHERE w.place = ANY (v_done);

  IF p_batches @? '$[*].writes[*].items' THEN
    INSERT INTO ${schema}.items AS old (namespace, stream, kind, id, seq, end_seq, status, name, key, at, done_at)
    SELECT each ->> 'namespace', each ->> 'stream', i.kind, i.id, i.seq, i."endSeq", i.status, i.name, i.key, i.at,
      i."doneAt"
    FROM ${plainWrites()} AS each CROSS JOIN LATERAL jsonb_to_recordset(each -> 'items') AS i (${ITEM}, "doneAt" bigint)
    WHERE (each -> 'place')::integer = ANY (v_done)
    ${MERGE_ITEM}, done_at = excluded.done_at;
  END IF;
  IF p_batches @? '$[*].writes[*].changedItems' THEN
    INSERT INTO ${schema}.items AS old (namespace, stream, kind, id, seq, end_seq, status, name, key, at)
    SELECT each ->> 'namespace', each ->> 'stream', i.kind, i.id, i.seq, i."endSeq", i.status, i.name, i.key, i.at
    FROM ${plainWrites()} AS each CROSS JOIN LATERAL jsonb_to_recordset(each -> 'changedItems') AS i (${ITEM})
    WHERE (each -> 'place')::integer = ANY (v_done)
    ${MERGE_ITEM};
  END IF;
  RETURN v_done;
END $function$;
`;
