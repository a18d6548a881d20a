/** The slow path of an append: every case, in SQL. `append.ts` has the protocol. */

import { ERASED } from "../../model/names.ts";
import { fewRows, INDEX_PLANS_ONLY, ITEM_COLUMNS, MERGE_ITEM } from "./schema-1-functions.ts";

export const appendFunctions = (schema: string): string => `
CREATE FUNCTION ${schema}.append_batches(
  p_store text, p_allow_loss boolean, p_lock_ms integer,
  p_places jsonb, p_leases jsonb, p_batches jsonb, p_bytes bytea
) RETURNS text LANGUAGE plpgsql ${INDEX_PLANS_ONLY} AS $function$
DECLARE
  v_begins boolean := p_places @? '$[*][2] ? (@ == true)';
  v_outcomes jsonb := '[]';
  v_outcome jsonb;
  v_batch jsonb;
  v_tries integer;
  v_now bigint;
BEGIN
  v_now := ${schema}.enter(p_store, p_allow_loss, p_lock_ms);

  IF v_begins THEN
    INSERT INTO ${schema}.streams (namespace, stream, kind, state, generation, seq, base, created_at,
      updated_at,
      updated_second)
    SELECT p ->> 0, p ->> 1, split_part(p ->> 1, '/', 1), 'gone', 0, 0, 0, 0, 0, 0
    FROM ${fewRows("jsonb_array_elements(p_places)")} AS p
    WHERE (p ->> 2)::boolean
      AND NOT EXISTS (SELECT 1 FROM ${schema}.streams AS s WHERE s.namespace = p ->> 0 AND s.stream = p ->> 1)
    ORDER BY 1, 2
    ON CONFLICT DO NOTHING;
  END IF;
  IF p_places <> '[]' THEN
    PERFORM 1 FROM ${fewRows("jsonb_array_elements(p_places)")} AS p
    JOIN ${schema}.streams AS s ON s.namespace = p ->> 0 AND s.stream = p ->> 1
    ORDER BY s.namespace, s.stream FOR UPDATE OF s;
  END IF;
  IF p_leases <> '[]' THEN
    PERFORM 1 FROM ${fewRows("jsonb_array_elements(p_leases)")} AS p
    JOIN ${schema}.leases AS l ON l.namespace = p ->> 0 AND l.name = p ->> 1
    ORDER BY l.namespace, l.name FOR UPDATE OF l;
  END IF;

  FOR i IN 0 .. jsonb_array_length(p_batches) - 1 LOOP
    v_batch := p_batches -> i;
    IF NOT (v_batch -> 'keys')::boolean THEN
      v_outcome := ${schema}.append_batch(v_batch, p_bytes, v_now);
    ELSE
      -- A key that another transaction claims at this moment shows only when the row is inserted. Then only
      -- this batch is undone and tried again, and finds the key taken.
      v_tries := 0;
      LOOP
        BEGIN
          v_outcome := ${schema}.append_batch(v_batch, p_bytes, v_now);
          EXIT;
        EXCEPTION WHEN unique_violation THEN
          v_tries := v_tries + 1;
          IF v_tries > 9 THEN RAISE; END IF;
        END;
      END LOOP;
    END IF;
    v_outcomes := v_outcomes || v_outcome;
  END LOOP;

  IF v_begins THEN
    DELETE FROM ${schema}.streams AS s USING ${fewRows("jsonb_array_elements(p_places)")} AS p
    WHERE s.namespace = p ->> 0 AND s.stream = p ->> 1 AND s.generation = 0;
  END IF;
  RETURN v_outcomes::text;
END $function$;

-- One batch: first every check, then every change. A refusal therefore has nothing to undo.
CREATE FUNCTION ${schema}.append_batch(p_batch jsonb, p_bytes bytea, p_now bigint) RETURNS jsonb
LANGUAGE plpgsql AS $function$
DECLARE
  v_namespace CONSTANT text := p_batch ->> 'namespace';
  v_writes CONSTANT jsonb := p_batch -> 'writes';
  v_last CONSTANT integer := jsonb_array_length(v_writes) - 1;
  v_states text[];
  v_generations integer[];
  v_seqs integer[];
  v_write jsonb;
  v_guard jsonb;
  v_lease record;
  v_renewed text[] := '{}';
  v_refusal jsonb;
  v_state text;
  v_generation integer;
  v_seq integer;
  v_is_resent boolean := true;
  v_missing text;
BEGIN
  FOR i IN 0 .. v_last LOOP
    v_write := v_writes -> i;
    SELECT s.state, s.generation, s.seq INTO v_state, v_generation, v_seq FROM ${schema}.streams AS s
    WHERE s.namespace = v_namespace AND s.stream = v_write ->> 'stream' FOR UPDATE;
    -- An erase deleted the row while this statement waited for it: begin again, with a placeholder.
    IF NOT FOUND AND (v_write ? 'fork' OR (v_write -> 'seq')::integer = 0) THEN
      RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'the stream was erased meanwhile';
    ELSIF NOT FOUND OR v_generation = 0 THEN
      -- Read after the placeholder was inserted: from then on no other creates and erases this stream.
      v_state := 'gone'; v_generation := ${schema}.unused_generation(v_namespace); v_seq := 0;
    ELSIF v_state = 'gone' THEN
      v_generation := v_generation + 1; v_seq := 0;
    END IF;
    v_states[i] := v_state; v_generations[i] := v_generation; v_seqs[i] := v_seq;
    v_is_resent := v_is_resent
      AND v_generation = (v_write -> 'generation')::integer AND v_seq > (v_write -> 'seq')::integer;
  END LOOP;

  -- Resent: every write is stored at its seq with this batch's id. The rows are locked, so that even this
  -- answer comes after a commit that waited for the log and for a synchronous standby.
  IF v_is_resent THEN
    FOR i IN 0 .. v_last LOOP
      v_write := v_writes -> i;
      v_is_resent := v_is_resent AND coalesce((
        SELECT w.batch = p_batch ->> 'id' AND w.first = (v_write -> 'seq')::integer + 1
        FROM ${schema}.writes AS w WHERE w.namespace = v_namespace AND w.stream = v_write ->> 'stream'
          AND w.last > (v_write -> 'seq')::integer
        ORDER BY w.last LIMIT 1), false);
    END LOOP;
    IF v_is_resent THEN RETURN '{"outcome": "ok", "resent": true}'; END IF;
  END IF;

  -- Fenced: only the token counts, not the clock. The rows stay locked, so that no lease changes hands
  -- before this transaction has ended. Leases with more than three quarters of their ttl left are not
  -- renewed.
  FOR i IN 0 .. v_last LOOP
    FOR j IN 0 .. coalesce(jsonb_array_length(v_writes -> i -> 'guards'), 0) - 1 LOOP
      v_guard := v_writes -> i -> 'guards' -> j;
      SELECT l.token, l.holder IS NOT NULL AS is_held, l.expires_at - p_now AS left_ms, l.ttl INTO v_lease
      FROM ${schema}.leases AS l WHERE l.namespace = v_namespace AND l.name = v_guard ->> 'lease' FOR UPDATE;
      IF NOT FOUND OR NOT v_lease.is_held OR v_lease.token <> (v_guard -> 'token')::bigint THEN
        RETURN ${schema}.fence(v_namespace, v_guard);
      ELSIF v_lease.left_ms NOT BETWEEN v_lease.ttl * 3 / 4 AND v_lease.ttl THEN
        v_renewed := v_renewed || (v_guard ->> 'lease');
      END IF;
    END LOOP;
  END LOOP;

  IF p_batch ? 'lease' THEN
    v_refusal := ${schema}.refuse_lease(v_namespace, p_batch -> 'lease');
    IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  END IF;

  -- Conflict: each write must continue its stream where it ends; a fork must leave a past that exists.
  FOR i IN 0 .. v_last LOOP
    v_write := v_writes -> i;
    IF v_generations[i] > (v_write -> 'generation')::integer OR v_states[i] = 'hidden'
      OR (v_generations[i] < (v_write -> 'generation')::integer AND v_states[i] <> 'gone')
      OR (v_write ? 'fork' AND v_states[i] <> 'gone')
      OR (NOT v_write ? 'fork' AND v_seqs[i] <> (v_write -> 'seq')::integer)
    THEN
      RETURN jsonb_build_object('outcome', 'conflict', 'stream', v_write -> 'stream',
        'generation', v_generations[i], 'seq', v_seqs[i]);
    END IF;
    IF v_write ? 'fork' THEN
      v_refusal := ${schema}.missing_past(v_namespace, v_write -> 'fork');
      IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
    END IF;
  END LOOP;

  IF (p_batch -> 'keys')::boolean THEN
    v_refusal := ${schema}.taken_key(v_namespace, v_writes);
    IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  END IF;

  -- Missing: the rows are locked, so that no artifact is collected before the reference to it is stored.
  FOR i IN 0 .. v_last LOOP
    FOR j IN 0 .. coalesce(jsonb_array_length(v_writes -> i -> 'artifacts'), 0) - 1 LOOP
      v_missing := v_writes -> i -> 'artifacts' ->> j;
      PERFORM 1 FROM ${schema}.artifacts AS a WHERE a.namespace = v_namespace
        AND a.hash = v_missing FOR SHARE;
      IF NOT FOUND THEN RETURN jsonb_build_object('outcome', 'missing', 'artifact', v_missing); END IF;
    END LOOP;
  END LOOP;

  IF v_renewed <> '{}' THEN
    UPDATE ${schema}.leases SET expires_at = p_now + ttl WHERE namespace = v_namespace
      AND name = ANY (v_renewed);
  END IF;
  IF p_batch ? 'lease' THEN PERFORM ${schema}.change_lease(v_namespace, p_batch -> 'lease', p_now); END IF;
  FOR i IN 0 .. v_last LOOP
    PERFORM ${schema}.store_write(v_namespace, p_batch ->> 'id', v_writes -> i, v_states[i], p_bytes);
  END LOOP;
  RETURN '{"outcome": "ok", "resent": false}';
END $function$;

-- A batch may take a lease that no owner has, with the next token, or release one that it holds.
CREATE FUNCTION ${schema}.refuse_lease(p_namespace text, p_lease jsonb) RETURNS jsonb
  LANGUAGE plpgsql AS $function$
DECLARE
  v_token bigint;
  v_is_held boolean;
BEGIN
  IF p_lease ->> 'act' = 'release' THEN RETURN ${schema}.fence(p_namespace, p_lease); END IF;
  SELECT l.token, l.holder IS NOT NULL INTO v_token, v_is_held FROM ${schema}.leases AS l
  WHERE l.namespace = p_namespace AND l.name = p_lease ->> 'lease' FOR UPDATE;
  IF NOT FOUND THEN
    v_token := coalesce((SELECT e.token FROM ${schema}.leases AS e
      WHERE e.namespace = p_namespace AND e.name = '${ERASED}'), 0);
  END IF;
  IF v_is_held IS NOT TRUE AND v_token + 1 = (p_lease -> 'token')::bigint THEN RETURN NULL; END IF;
  -- No lease has the token 0: the answer describes the row as it is.
  RETURN ${schema}.fence(p_namespace, p_lease || '{"token": 0}');
END $function$;

-- For a batch that passed every check. If another transaction took the same new lease meanwhile, this
-- one is undone, and the batch is sent again.
CREATE FUNCTION ${schema}.change_lease(p_namespace text, p_lease jsonb, p_now bigint) RETURNS void
  LANGUAGE plpgsql AS $function$
BEGIN
  IF p_lease ->> 'act' = 'release' THEN
    UPDATE ${schema}.leases SET owner = NULL, holder = NULL, expires_at = p_now
    WHERE namespace = p_namespace AND name = p_lease ->> 'lease';
    RETURN;
  END IF;
  UPDATE ${schema}.leases SET token = (p_lease -> 'token')::bigint, owner = p_lease ->> 'owner',
    holder = p_lease ->> 'holder', ttl = (p_lease -> 'ttl')::bigint,
    expires_at = p_now + (p_lease -> 'ttl')::bigint
  WHERE namespace = p_namespace AND name = p_lease ->> 'lease'
    -- A lease that was not there when the batch was checked may be another owner's by now.
    AND holder IS NULL AND token = (p_lease -> 'token')::bigint - 1;
  IF FOUND THEN RETURN; END IF;
  INSERT INTO ${schema}.leases (namespace, name, token, owner, holder, ttl, expires_at)
  VALUES (p_namespace, p_lease ->> 'lease', (p_lease -> 'token')::bigint, p_lease ->> 'owner',
    p_lease ->> 'holder', (p_lease -> 'ttl')::bigint, p_now + (p_lease -> 'ttl')::bigint)
  ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'the lease was taken meanwhile';
  END IF;
END $function$;

-- A fork needs its parent live or hidden, in the same generation, and at least as long as the shared past.
CREATE FUNCTION ${schema}.missing_past(p_namespace text, p_fork jsonb) RETURNS jsonb
  LANGUAGE plpgsql AS $function$
DECLARE
  v_parent record;
BEGIN
  SELECT s.state, s.generation, s.seq INTO v_parent FROM ${schema}.streams AS s
  WHERE s.namespace = p_namespace AND s.stream = p_fork ->> 'stream' FOR UPDATE;
  IF NOT FOUND THEN
    RETURN jsonb_build_object('outcome', 'conflict', 'stream', p_fork -> 'stream',
      'generation', ${schema}.unused_generation(p_namespace), 'seq', 0);
  ELSIF v_parent.state = 'gone' THEN
    RETURN jsonb_build_object('outcome', 'conflict', 'stream', p_fork -> 'stream',
      'generation', v_parent.generation + 1, 'seq', 0);
  ELSIF v_parent.generation <> (p_fork -> 'generation')::integer
    OR v_parent.seq < (p_fork -> 'seq')::integer THEN
    RETURN jsonb_build_object('outcome', 'conflict', 'stream', p_fork -> 'stream',
      'generation', v_parent.generation, 'seq', v_parent.seq);
  END IF;
  RETURN NULL;
END $function$;

-- Within a write releases come first, so that a key can change hands. Changes by earlier writes count.
CREATE FUNCTION ${schema}.taken_key(p_namespace text, p_writes jsonb) RETURNS jsonb
  LANGUAGE plpgsql AS $function$
DECLARE
  v_changed jsonb := '{}';
  v_write jsonb;
  v_key text;
  v_holder jsonb;
BEGIN
  FOR v_write IN SELECT value FROM jsonb_array_elements(p_writes) LOOP
    FOR v_key IN SELECT value FROM jsonb_array_elements_text(v_write -> 'releases') LOOP
      v_holder := CASE WHEN v_changed ? v_key THEN v_changed -> v_key
        ELSE ${schema}.key_holder(p_namespace, v_key) END;
      IF v_holder ->> 'stream' = v_write ->> 'stream' THEN
        v_changed := v_changed || jsonb_build_object(v_key, NULL);
      END IF;
    END LOOP;
    FOR v_key, v_holder IN
      SELECT value ->> 'key', jsonb_build_object('stream', v_write -> 'stream', 'seq', value -> 'seq')
      FROM jsonb_array_elements(v_write -> 'claims')
    LOOP
      IF NOT v_changed ? v_key AND ${schema}.key_holder(p_namespace, v_key) IS NOT NULL THEN
        RETURN jsonb_build_object('outcome', 'taken', 'key', v_key, 'by', ${schema}.key_holder(p_namespace,
          v_key));
      ELSIF jsonb_typeof(v_changed -> v_key) = 'object' THEN
        RETURN jsonb_build_object('outcome', 'taken', 'key', v_key, 'by', v_changed -> v_key);
      END IF;
      v_changed := v_changed || jsonb_build_object(v_key, v_holder);
    END LOOP;
  END LOOP;
  RETURN NULL;
END $function$;

CREATE FUNCTION ${schema}.key_holder(p_namespace text, p_key text) RETURNS jsonb
  LANGUAGE sql STABLE AS $function$
  SELECT jsonb_build_object('stream', stream, 'seq', seq) FROM ${schema}.keys
  WHERE namespace = p_namespace AND key = p_key
$function$;

-- The changes of one write that passed every check.
CREATE FUNCTION ${schema}.store_write(
  p_namespace text, p_batch text, p_write jsonb, p_state text, p_bytes bytea
) RETURNS void LANGUAGE plpgsql AS $function$
DECLARE
  v_stream CONSTANT text := p_write ->> 'stream';
  v_seq CONSTANT integer := (p_write -> 'seq')::integer;
  v_end CONSTANT integer := v_seq + (p_write -> 'count')::integer;
  v_at CONSTANT bigint := (p_write ->> 'at')::bigint;
  v_facets CONSTANT jsonb := p_write -> 'facets';
  v_is_text CONSTANT boolean := (p_write -> 'text')::boolean;
  v_payload CONSTANT bytea :=
    substring(p_bytes FROM (p_write -> 'from')::integer + 1 FOR (p_write -> 'bytes')::integer);
BEGIN
  IF p_state = 'gone' THEN
    UPDATE ${schema}.streams SET
      state = 'live', generation = (p_write -> 'generation')::integer, seq = v_end, base = v_seq,
      parent = p_write -> 'fork' ->> 'stream',
      parent_generation = (p_write -> 'fork' -> 'generation')::integer,
      created_at = v_at, updated_at = v_at, updated_second = v_at / 1000,
      open_calls = coalesce((v_facets ->> 'openCalls')::integer, 0),
      is_marked_open = coalesce((p_write -> 'mark')::boolean, false),
      expires_at = (v_facets ->> 'expiresAt')::bigint, status = v_facets ->> 'status',
        title = v_facets ->> 'title',
      goal = v_facets ->> 'goal', budget = v_facets ->> 'budget'
    WHERE namespace = p_namespace AND stream = v_stream;
  ELSIF v_facets IS NULL THEN
    UPDATE ${schema}.streams SET seq = v_end, updated_at = v_at, updated_second = v_at / 1000,
      is_marked_open = coalesce((p_write -> 'mark')::boolean, is_marked_open)
    WHERE namespace = p_namespace AND stream = v_stream;
  ELSE
    UPDATE ${schema}.streams SET seq = v_end, updated_at = v_at, updated_second = v_at / 1000,
      open_calls = coalesce((v_facets ->> 'openCalls')::integer, open_calls),
      is_marked_open = coalesce((p_write -> 'mark')::boolean, is_marked_open),
      expires_at = CASE WHEN v_facets ? 'expiresAt' THEN (v_facets ->> 'expiresAt')::bigint
        ELSE expires_at END,
      status = CASE WHEN v_facets ? 'status' THEN v_facets ->> 'status' ELSE status END,
      title = CASE WHEN v_facets ? 'title' THEN v_facets ->> 'title' ELSE title END,
      goal = CASE WHEN v_facets ? 'goal' THEN v_facets ->> 'goal' ELSE goal END,
      budget = CASE WHEN v_facets ? 'budget' THEN v_facets ->> 'budget' ELSE budget END
    WHERE namespace = p_namespace AND stream = v_stream;
  END IF;

  INSERT INTO ${schema}.writes (namespace, stream, last, first, at, sum, batch, codec, payload, bytes)
  VALUES (p_namespace, v_stream, v_end, v_seq + 1, v_at, (p_write ->> 'sum')::bigint, p_batch,
    p_write ->> 'codec',
    CASE WHEN v_is_text THEN convert_from(v_payload, 'UTF8') END, CASE WHEN NOT v_is_text THEN v_payload END);

  -- Items that say whether they are done, and items that keep their done_at.
  IF p_write ? 'items' THEN
    INSERT INTO ${schema}.items AS old (namespace, stream, kind, id, seq, end_seq, status, name, key, at,
      done_at)
    SELECT p_namespace, v_stream, i.kind, i.id, i.seq, i."endSeq", i.status, i.name, i.key, i.at, i."doneAt"
    FROM jsonb_to_recordset(p_write -> 'items') AS i (${ITEM_COLUMNS}, "doneAt" bigint)
    ${MERGE_ITEM}, done_at = excluded.done_at;
  END IF;
  IF p_write ? 'changedItems' THEN
    INSERT INTO ${schema}.items AS old (namespace, stream, kind, id, seq, end_seq, status, name, key, at)
    SELECT p_namespace, v_stream, i.kind, i.id, i.seq, i."endSeq", i.status, i.name, i.key, i.at
    FROM jsonb_to_recordset(p_write -> 'changedItems') AS i (${ITEM_COLUMNS})
    ${MERGE_ITEM};
  END IF;
  IF p_write ? 'releases' THEN
    DELETE FROM ${schema}.keys USING ${fewRows("jsonb_array_elements_text(p_write -> 'releases')")} AS r
    WHERE namespace = p_namespace AND key = r AND stream = v_stream;
  END IF;
  IF p_write ? 'claims' THEN
    INSERT INTO ${schema}.keys (namespace, key, stream, seq)
    SELECT p_namespace, c.key, v_stream, c.seq
    FROM jsonb_to_recordset(p_write -> 'claims') AS c (key text, seq integer) ORDER BY c.key;
  END IF;
  IF p_write ? 'artifacts' THEN
    INSERT INTO ${schema}.artifact_refs (namespace, hash, stream)
    SELECT p_namespace, r, v_stream FROM jsonb_array_elements_text(p_write -> 'artifacts') AS r
    ON CONFLICT DO NOTHING;
  END IF;
END $function$;
`;
