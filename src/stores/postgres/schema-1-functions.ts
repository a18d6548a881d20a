/**
 * The SQL functions for leases and removal, and the fragments that all functions of the schema share.
 * Each function decides and changes in one round trip.
 */

import { ERASED } from "../../model/names.ts";

/** Index scans only, so that a plan made while a table was small stays good when it grows. */
export const INDEX_PLANS_ONLY = `SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
  SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_memoize = off
  SET plan_cache_mode = force_generic_plan`;

/** True if a crash of the server may lose acknowledged commits, and the caller has not allowed that. */
export const IS_NOT_DURABLE = `NOT p_allow_loss
    AND (current_setting('fsync') = 'off' OR current_setting('synchronous_commit') = 'off')`;

/** A higher level would miss a seal, a reference or a fork that was committed while it waited for a lock. */
export const IS_WRONG_ISOLATION =
  "current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')";

/**
 * The start of every change: checks that this is still the store that was opened, that it takes writes, and
 * that the server is durable; then sets the lock timeout. Reading `meta` locks it for `transfer.ts`.
 */
export const beginWrite = (schema: string): string => `
  SELECT m.value, (SELECT s.value FROM ${schema}.meta AS s WHERE s.name = 'seal') INTO v_store, v_seal
  FROM ${schema}.meta AS m WHERE m.name = 'store';
  IF v_store IS DISTINCT FROM p_store THEN
    RAISE EXCEPTION USING ERRCODE = 'HF001', MESSAGE = 'the schema holds another store';
  END IF;
  IF v_seal IS NOT NULL AND v_seal::jsonb ->> 'phase' <> 'arrived' THEN
    RAISE EXCEPTION USING ERRCODE = 'HF003', MESSAGE = 'the store is sealed', DETAIL = v_seal;
  END IF;
  IF ${IS_NOT_DURABLE} THEN
    RAISE EXCEPTION USING ERRCODE = 'HF002', MESSAGE = 'fsync or synchronous_commit is off';
  END IF;
  IF ${IS_WRONG_ISOLATION} THEN
    RAISE EXCEPTION USING ERRCODE = 'HF005', MESSAGE = 'the isolation level is not read committed',
      DETAIL = current_setting('transaction_isolation');
  END IF;
  v_store := set_config('lock_timeout', p_lock_ms::text, true);`;

/**
 * The first two checks of `beginWrite` as a condition of an UPDATE. It is safe because the server locks
 * the tables of a statement before it takes the statement's snapshot.
 */
export const isOpenStore = (schema: string): string =>
  `(SELECT m.value FROM ${schema}.meta AS m WHERE m.name = 'store') = p_store
      AND NOT EXISTS (
        SELECT 1 FROM ${schema}.meta AS m WHERE m.name = 'seal' AND m.value::jsonb ->> 'phase' <> 'arrived')`;

export const LEASE_LOST = `RAISE EXCEPTION USING ERRCODE = 'HF004', MESSAGE = 'a lease has changed hands'`;

/** The columns of an item in a JSON argument. */
export const ITEM_COLUMNS = `kind text, id text, seq integer, "endSeq" integer, status text, name text,
  key text,
      at bigint`;

/** Absent fields keep their value. */
export const MERGE_ITEM = `ON CONFLICT (namespace, stream, kind, id) DO UPDATE SET
      seq = coalesce(excluded.seq, old.seq), end_seq = coalesce(excluded.end_seq, old.end_seq),
      status = coalesce(excluded.status, old.status), name = coalesce(excluded.name, old.name),
      key = coalesce(excluded.key, old.key), at = coalesce(excluded.at, old.at)`;

/**
 * The elements of a JSON argument as rows. Postgres estimates hundreds of rows for a function that unpacks
 * JSON and then reads a whole table; for an array it estimates ten, and looks each up by its key.
 */
export const fewRows = (elements: string): string => `unnest(ARRAY(SELECT ${elements}))`;

/** A lease that would last this much longer than its ttl was taken before the server's clock was set back. */
const SLACK_MS = 60_000;

export const leaseAndRemovalFunctions = (schema: string): string => `
CREATE FUNCTION ${schema}.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $function$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
$function$;

-- Returns the time.
CREATE FUNCTION ${schema}.enter(p_store text, p_allow_loss boolean, p_lock_ms integer) RETURNS bigint
LANGUAGE plpgsql AS $function$
DECLARE
  v_store text;
  v_seal text;
BEGIN${beginWrite(schema)}
  RETURN ${schema}.now_ms();
END $function$;

CREATE FUNCTION ${schema}.remaining_ms(p_holder text, p_expires_at bigint, p_ttl bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $function$
  SELECT CASE WHEN p_holder IS NULL OR left_ms > p_ttl + ${SLACK_MS} THEN 0 ELSE left_ms END
  FROM (SELECT p_expires_at - ${schema}.now_ms() AS left_ms) AS clock
$function$;

-- Refuses a guard whose token is not the current one of a held lease. The row stays locked, so that the
-- lease cannot change hands before this transaction has ended.
CREATE FUNCTION ${schema}.fence(p_namespace text, p_guard jsonb) RETURNS jsonb LANGUAGE plpgsql AS $function$
DECLARE
  v_lease ${schema}.leases;
BEGIN
  SELECT * INTO v_lease FROM ${schema}.leases
  WHERE namespace = p_namespace AND name = p_guard ->> 'lease' FOR UPDATE;
  IF FOUND AND v_lease.holder IS NOT NULL AND v_lease.token = (p_guard -> 'token')::bigint
    THEN RETURN NULL; END IF;
  RETURN jsonb_build_object('outcome', 'fenced', 'lease', p_guard -> 'lease', 'now',
    CASE WHEN v_lease.name IS NOT NULL THEN jsonb_build_object('name', v_lease.name, 'token', v_lease.token,
      'holder', v_lease.holder,
      'remaining', ${schema}.remaining_ms(v_lease.holder, v_lease.expires_at, v_lease.ttl)) END);
END $function$;

-- The generation at which unused names begin: after every erased stream.
CREATE FUNCTION ${schema}.unused_generation(p_namespace text) RETURNS integer LANGUAGE sql AS $function$
  SELECT coalesce((SELECT s.generation FROM ${schema}.streams AS s
    WHERE s.namespace = p_namespace AND s.stream = '${ERASED}'), 0) + 1
$function$;

-- Leaves nothing with the name of a stream that is gone: its generation and tokens go to the names in
-- '${ERASED}', and so do its keys. Its leases are that of its name, and those below it.
CREATE FUNCTION ${schema}.forget(p_namespace text, p_stream text) RETURNS void LANGUAGE plpgsql AS $function$
BEGIN
  INSERT INTO ${schema}.streams AS old (namespace, stream, kind, state, generation, seq, base, created_at,
    updated_at, updated_second)
  SELECT s.namespace, '${ERASED}', 'erased', 'gone', s.generation, 0, 0, 0, 0, 0
  FROM ${schema}.streams AS s WHERE s.namespace = p_namespace AND s.stream = p_stream
  ON CONFLICT (namespace, stream) DO UPDATE SET generation = greatest(old.generation, excluded.generation);
  UPDATE ${schema}.keys SET stream = '${ERASED}' WHERE namespace = p_namespace AND stream = p_stream;
  DELETE FROM ${schema}.streams WHERE namespace = p_namespace AND stream = p_stream;
  WITH own AS (
    DELETE FROM ${schema}.leases WHERE namespace = p_namespace
      AND (name = p_stream OR (name > p_stream || '/' AND name < p_stream || '0'))
    RETURNING token)
  INSERT INTO ${schema}.leases AS old (namespace, name, token, expires_at, ttl)
  SELECT p_namespace, '${ERASED}', max(own.token), 0, 0 FROM own HAVING count(*) > 0
  ON CONFLICT (namespace, name) DO UPDATE SET token = greatest(old.token, excluded.token);
END $function$;

CREATE FUNCTION ${schema}.take_lease(
  p_store text, p_allow_loss boolean, p_lock_ms integer,
  p_namespace text, p_name text, p_owner text, p_holder text, p_ttl bigint, p_evict bigint
) RETURNS TABLE (granted boolean, token bigint, holder text, remaining bigint, from_holder text)
LANGUAGE plpgsql ${INDEX_PLANS_ONLY} AS $function$
DECLARE
  v_old ${schema}.leases;
  v_remaining bigint;
  v_is_ours boolean;
BEGIN
  PERFORM ${schema}.enter(p_store, p_allow_loss, p_lock_ms);
  -- A placeholder for a lease that never existed, so that there is a row to lock. No other transaction sees
  -- token 0. An erase may delete the row that was there.
  LOOP
    INSERT INTO ${schema}.leases (namespace, name, token, expires_at, ttl)
    VALUES (p_namespace, p_name, 0, 0, 0) ON CONFLICT DO NOTHING;
    SELECT * INTO v_old FROM ${schema}.leases AS l WHERE l.namespace = p_namespace AND l.name = p_name
      FOR UPDATE;
    EXIT WHEN FOUND;
  END LOOP;
  v_remaining := ${schema}.remaining_ms(v_old.holder, v_old.expires_at, v_old.ttl);
  v_is_ours := v_old.owner IS NOT DISTINCT FROM p_owner;
  IF v_old.holder IS NOT NULL AND NOT v_is_ours AND v_remaining > 0 AND v_old.token IS DISTINCT
    FROM p_evict THEN
    RETURN QUERY SELECT false, v_old.token, v_old.holder, v_remaining, NULL::text;
    RETURN;
  END IF;
  RETURN QUERY UPDATE ${schema}.leases AS l SET token = CASE WHEN v_is_ours THEN l.token
    WHEN l.token > 0 THEN l.token + 1
    ELSE coalesce((SELECT e.token FROM ${schema}.leases AS e
      WHERE e.namespace = p_namespace AND e.name = '${ERASED}'), 0) + 1 END,
    owner = p_owner, holder = p_holder, ttl = p_ttl, expires_at = ${schema}.now_ms() + p_ttl
  WHERE l.namespace = p_namespace AND l.name = p_name
  RETURNING true, l.token, l.holder, p_ttl, CASE WHEN NOT v_is_ours THEN v_old.holder END;
END $function$;

-- Renews all in one request, locked in the order of their names. Returns the indexes of lost leases,
-- counted from 1.
CREATE FUNCTION ${schema}.renew_leases(
  p_store text, p_allow_loss boolean, p_lock_ms integer,
  p_namespace text, p_names text[], p_tokens bigint[], p_ttl bigint
) RETURNS TABLE (lost integer) LANGUAGE plpgsql ${INDEX_PLANS_ONLY} AS $function$
BEGIN
  PERFORM ${schema}.enter(p_store, p_allow_loss, p_lock_ms);
  PERFORM 1 FROM unnest(p_names) AS n (name)
  JOIN ${schema}.leases AS l ON l.namespace = p_namespace AND l.name = n.name
  ORDER BY l.name FOR UPDATE OF l;
  UPDATE ${schema}.leases AS l SET expires_at = ${schema}.now_ms() + p_ttl, ttl = p_ttl
  FROM unnest(p_names, p_tokens) AS n (name, token)
  WHERE l.namespace = p_namespace AND l.name = n.name AND l.token = n.token AND l.holder IS NOT NULL;
  RETURN QUERY SELECT n.place::integer FROM unnest(p_names, p_tokens) WITH ORDINALITY AS n (name, token,
    place)
  WHERE NOT EXISTS (SELECT 1 FROM ${schema}.leases AS l
    WHERE l.namespace = p_namespace AND l.name = n.name AND l.token = n.token AND l.holder IS NOT NULL)
  ORDER BY 1;
END $function$;

-- 'ours' if the lease was held with this token, 'before' if it was already released with this token.
CREATE FUNCTION ${schema}.release_lease(
  p_store text, p_allow_loss boolean, p_lock_ms integer, p_namespace text, p_name text, p_token bigint
) RETURNS text LANGUAGE plpgsql ${INDEX_PLANS_ONLY} AS $function$
DECLARE
  v_lease ${schema}.leases;
BEGIN
  PERFORM ${schema}.enter(p_store, p_allow_loss, p_lock_ms);
  SELECT * INTO v_lease FROM ${schema}.leases
  WHERE namespace = p_namespace AND name = p_name AND token = p_token FOR UPDATE;
  IF NOT FOUND THEN RETURN 'not ours'; END IF;
  IF v_lease.holder IS NULL THEN RETURN 'before'; END IF;
  UPDATE ${schema}.leases SET owner = NULL, holder = NULL, expires_at = ${schema}.now_ms()
  WHERE namespace = p_namespace AND name = p_name;
  RETURN 'ours';
END $function$;

-- Deletes items and snapshots at once; events and references stay as long as a fork needs them. Claimed
-- keys stay for ever, and so does the row, with its generation, unless the stream is erased. Hidden
-- ancestors without any fork left are deleted too.
CREATE FUNCTION ${schema}.remove_stream(
  p_store text, p_allow_loss boolean, p_lock_ms integer,
  p_namespace text, p_stream text, p_generation integer, p_seq integer, p_guards jsonb, p_erase boolean
) RETURNS text LANGUAGE plpgsql ${INDEX_PLANS_ONLY} AS $function$
DECLARE
  v_head record;
  v_refusal jsonb;
  v_next text := p_stream;
  v_parent text;
  v_hashes text[];
  v_count integer := 0;
BEGIN
  PERFORM ${schema}.enter(p_store, p_allow_loss, p_lock_ms);
  SELECT s.state, s.generation, s.seq INTO v_head FROM ${schema}.streams AS s
  WHERE s.namespace = p_namespace AND s.stream = p_stream FOR UPDATE;
  FOR i IN 0 .. jsonb_array_length(p_guards) - 1 LOOP
    v_refusal := ${schema}.fence(p_namespace, p_guards -> i);
    IF v_refusal IS NOT NULL THEN RETURN v_refusal::text; END IF;
  END LOOP;
  IF v_head.state IS NULL THEN
    SELECT 'gone' AS state, ${schema}.unused_generation(p_namespace) AS generation, 0 AS seq INTO v_head;
  ELSIF v_head.state = 'gone' THEN v_head.generation := v_head.generation + 1; v_head.seq := 0;
  END IF;
  IF v_head.generation <> p_generation OR v_head.seq <> p_seq THEN
    RETURN jsonb_build_object('outcome', 'conflict', 'generation', v_head.generation, 'seq',
      v_head.seq)::text;
  ELSIF v_head.state = 'gone' THEN
    IF p_erase THEN PERFORM ${schema}.forget(p_namespace, p_stream); END IF;
    RETURN '{"outcome": "removed", "count": 0}';
  END IF;

  DELETE FROM ${schema}.items WHERE namespace = p_namespace AND stream = p_stream;
  DELETE FROM ${schema}.snapshots WHERE namespace = p_namespace AND stream = p_stream;
  UPDATE ${schema}.streams SET state = 'hidden' WHERE namespace = p_namespace AND stream = p_stream;
  WHILE v_next IS NOT NULL LOOP
    SELECT s.parent INTO v_parent FROM ${schema}.streams AS s
    WHERE s.namespace = p_namespace AND s.stream = v_next AND s.state = 'hidden' FOR UPDATE;
    EXIT WHEN NOT FOUND OR EXISTS (
      SELECT 1 FROM ${schema}.streams AS fork WHERE fork.namespace = p_namespace AND fork.parent = v_next);
    DELETE FROM ${schema}.writes WHERE namespace = p_namespace AND stream = v_next;
    IF p_erase THEN
      -- Locked first and checked after the stream's own references are gone, as in collect_artifacts.
      SELECT array_agg(c.hash) INTO v_hashes FROM (
        SELECT a.hash FROM ${schema}.artifacts AS a
        JOIN ${schema}.artifact_refs AS r ON r.namespace = p_namespace AND r.hash = a.hash
        JOIN ${schema}.streams AS s ON s.namespace = p_namespace AND s.stream = v_next
        WHERE a.namespace = p_namespace AND r.stream = v_next AND a.put_at <= s.updated_at
        ORDER BY a.hash FOR UPDATE OF a SKIP LOCKED) AS c;
    END IF;
    DELETE FROM ${schema}.artifact_refs WHERE namespace = p_namespace AND stream = v_next;
    IF p_erase THEN
      DELETE FROM ${schema}.artifacts AS a WHERE a.namespace = p_namespace AND a.hash = ANY (v_hashes)
        AND NOT EXISTS (
        SELECT 1 FROM ${schema}.artifact_refs AS r WHERE r.namespace = p_namespace AND r.hash = a.hash);
    END IF;
    DELETE FROM ${schema}.snapshots WHERE namespace = p_namespace AND stream = v_next;
    UPDATE ${schema}.streams SET state = 'gone', seq = 0, base = 0, parent = NULL, parent_generation = NULL,
      created_at = 0, updated_at = 0, updated_second = 0, open_calls = 0, is_marked_open = false,
        expires_at = NULL,
      status = NULL, title = NULL, goal = NULL, budget = NULL
    WHERE namespace = p_namespace AND stream = v_next;
    IF p_erase THEN PERFORM ${schema}.forget(p_namespace, v_next); END IF;
    v_count := v_count + 1;
    v_next := v_parent;
  END LOOP;
  RETURN CASE WHEN v_count = 0 THEN '{"outcome": "hidden"}'
    ELSE jsonb_build_object('outcome', 'removed', 'count', v_count)::text END;
END $function$;

-- Deletes one batch of unreferenced artifacts. A candidate is locked first and checked again afterwards: an
-- append that locked it earlier has left its reference, and a later one finds it gone. Locked candidates
-- are in use.
CREATE FUNCTION ${schema}.collect_artifacts(
  p_store text, p_allow_loss boolean, p_lock_ms integer,
  p_namespace text, p_put_before bigint, p_after text, p_limit integer
) RETURNS TABLE (deleted integer, last text) LANGUAGE plpgsql ${INDEX_PLANS_ONLY} AS $function$
DECLARE
  v_hashes text[];
BEGIN
  PERFORM ${schema}.enter(p_store, p_allow_loss, p_lock_ms);
  SELECT array_agg(c.hash), max(c.hash) INTO v_hashes, last FROM (
    SELECT a.hash FROM ${schema}.artifacts AS a
    WHERE a.namespace = p_namespace AND a.hash > p_after AND a.put_at < p_put_before AND NOT EXISTS (
      SELECT 1 FROM ${schema}.artifact_refs AS r WHERE r.namespace = p_namespace AND r.hash = a.hash)
    ORDER BY a.hash LIMIT p_limit FOR UPDATE OF a SKIP LOCKED) AS c;
  DELETE FROM ${schema}.artifacts AS a WHERE a.namespace = p_namespace AND a.hash = ANY (v_hashes)
    AND NOT EXISTS (
    SELECT 1 FROM ${schema}.artifact_refs AS r WHERE r.namespace = p_namespace AND r.hash = a.hash);
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN NEXT;
END $function$;
`;
