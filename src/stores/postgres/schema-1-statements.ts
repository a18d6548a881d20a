/** What several of the functions of the first schema are made of. */

/**
 * Beside each function that changes something. They name everything with its schema and take no setting from the session
 * but the durability that they check. They plan with indexes only: a plan made while a table was small stays good while
 * it grows.
 */
export const PLANNING = `SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
  SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_memoize = off
  SET plan_cache_mode = force_generic_plan`;

/** Whether the server may forget what it acknowledges, and that was not allowed. */
export const NOT_DURABLE = `NOT p_allow_loss AND (current_setting('fsync') = 'off' OR current_setting('synchronous_commit') = 'off')`;

/**
 * Each statement of a function must see what was committed while it waited for a lock, as it does at the server's own level. At
 * any higher one the whole transaction sees what was there before it waited: a seal that was set meanwhile, a reference to an
 * artifact, a fork of what is being removed would all be missed.
 */
export const SEES_TOO_LITTLE =
  "current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')";

/**
 * Before every change: whether this is still the store that was opened, takes writes, and is on a server that keeps what
 * it acknowledges; and how long the transaction waits for locks. Reading meta locks it in the weakest way until the
 * transaction ends, and whoever sets a seal waits for all of these (`seal.ts`). The function `enter` is the same for
 * those that need not count microseconds.
 */
export const enter = (schema: string): string => `
  SELECT m.value, (SELECT s.value FROM ${schema}.meta AS s WHERE s.name = 'seal') INTO v_store, v_seal
  FROM ${schema}.meta AS m WHERE m.name = 'store';
  IF v_store IS DISTINCT FROM p_store THEN
    RAISE EXCEPTION USING ERRCODE = 'HF001', MESSAGE = 'the schema holds another store';
  END IF;
  IF v_seal IS NOT NULL AND v_seal::jsonb ->> 'phase' <> 'arrived' THEN
    RAISE EXCEPTION USING ERRCODE = 'HF003', MESSAGE = 'the store is sealed', DETAIL = v_seal;
  END IF;
  IF ${NOT_DURABLE} THEN
    RAISE EXCEPTION USING ERRCODE = 'HF002', MESSAGE = 'fsync or synchronous_commit is off';
  END IF;
  IF ${SEES_TOO_LITTLE} THEN
    RAISE EXCEPTION USING ERRCODE = 'HF005', MESSAGE = 'the isolation level is not read committed',
      DETAIL = current_setting('transaction_isolation');
  END IF;
  v_store := set_config('lock_timeout', p_lock_ms::text, true);`;

/**
 * The first two questions of `enter` as a condition, for a statement that leaves everything alone where it does not hold.
 * The server locks the tables of a statement before it decides which state of them the statement sees.
 */
export const IS_STORED_HERE = (
  schema: string,
): string => `(SELECT m.value FROM ${schema}.meta AS m WHERE m.name = 'store') = p_store
      AND NOT EXISTS (SELECT 1 FROM ${schema}.meta AS m WHERE m.name = 'seal' AND m.value::jsonb ->> 'phase' <> 'arrived')`;

export const LOST_LEASE = `RAISE EXCEPTION USING ERRCODE = 'HF004', MESSAGE = 'a lease has changed hands'`;

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
