/**
 * The append that is by far the most frequent, on the side of the server: one batch with at most one guard and one item.
 * `append.ts` opens with the protocol, `single.ts` is the side of the client.
 *
 * The server prepares every expression of a statement anew each time it runs, which takes longer than the writing. So
 * each thing that is said is a parameter of its own, of the type of its column; what is seldom said has statements of its
 * own; and what has to be asked first is asked by the statement that moves the stream on.
 */

import { IS_STORED_HERE, LOST_LEASE, NOT_DURABLE, SEES_TOO_LITTLE } from "./schema-1-statements.ts";

/** What `append_single` takes, in this order. `single.ts` fills it. NULL says nothing, but for `p_done_at`. */
const PARAMETERS = [
  "p_store text",
  "p_allow_loss boolean",
  "p_namespace text",
  "p_stream text",
  "p_generation integer",
  "p_seq integer",
  "p_last integer",
  "p_at bigint",
  "p_sum bigint",
  "p_batch text",
  "p_codec text",
  // One of these two.
  "p_payload text",
  "p_bytes bytea",
  "p_open_calls integer",
  "p_is_marked boolean",
  "p_expires_at bigint",
  // Where a facet that is a word changes, or one is cleared: bits of `FACET`, and the words in the order of `FACET_WORDS`.
  "p_facets integer",
  "p_facet_words text[]",
  "p_lease text",
  "p_token bigint",
  "p_kind text",
  "p_id text",
  "p_item_seq integer",
  "p_end_seq integer",
  "p_status text",
  "p_name text",
  "p_key text",
  "p_item_at bigint",
  "p_done_at bigint",
];

export const SINGLE_PARAMETERS = PARAMETERS.length;

/** Bits of `p_facets`: about which of those that may be cleared a write says something. */
export const FACET = { expiresAt: 1, status: 2, title: 4, goal: 8, budget: 16 } as const;
export const FACET_WORDS = ["status", "title", "goal", "budget"] as const;

const MOVED = `seq = p_last, updated_at = p_at, updated_second = p_at / 1000,
      open_calls = coalesce(p_open_calls, s.open_calls), is_marked_open = coalesce(p_is_marked, s.is_marked_open)`;

const facet = (column: string, name: keyof typeof FACET, value: string): string =>
  `${column} = CASE WHEN p_facets & ${FACET[name]} <> 0 THEN ${value} ELSE s.${column} END`;

const FACETS = [
  facet("expires_at", "expiresAt", "p_expires_at"),
  ...FACET_WORDS.map((name, place) => facet(name, name, `p_facet_words[${place + 1}]`)),
].join(",\n      ");

const IS_NEXT = `s.namespace = p_namespace AND s.stream = p_stream AND s.state = 'live'
      AND s.generation = p_generation AND s.seq = p_seq`;

const itemInto = (schema: string): string =>
  `INSERT INTO ${schema}.items (namespace, stream, kind, id, seq, end_seq, status, name, key, at, done_at)
      VALUES (p_namespace, p_stream, p_kind, p_id, p_item_seq, p_end_seq, p_status, p_name, p_key, p_item_at, p_done_at)`;

/**
 * How long it waits for a lock. The long way waits as long as it takes, so this one gives up soon. To set what a store says
 * would be one statement more each time, so a store that waits less than this does not go this way.
 */
export const SINGLE_LOCK_MS = 100;

/** Whole rows are found by their keys alone, so an index is all that its plans need; `PLANNING` says why. */
const SETTINGS = `SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
  SET plan_cache_mode = force_generic_plan SET lock_timeout = ${SINGLE_LOCK_MS}`;

export const singleFunction = (schema: string): string => `
-- As append_plain, for a flight of one batch with at most one guard and one item. Returns whether it is stored.
CREATE FUNCTION ${schema}.append_single(
  ${PARAMETERS.join(", ")}
) RETURNS boolean LANGUAGE plpgsql ${SETTINGS} AS $function$
DECLARE
  v_expires_at bigint;
  v_ttl bigint;
  v_now bigint;
BEGIN
  IF ${NOT_DURABLE} OR ${SEES_TOO_LITTLE} THEN RETURN false; END IF;

  IF p_facets IS NULL THEN
    UPDATE ${schema}.streams AS s SET ${MOVED}, expires_at = coalesce(p_expires_at, s.expires_at)
    WHERE ${IS_NEXT} AND ${IS_STORED_HERE(schema)};
  ELSE
    UPDATE ${schema}.streams AS s SET ${MOVED},
      ${FACETS}
    WHERE ${IS_NEXT} AND ${IS_STORED_HERE(schema)};
  END IF;
  IF NOT FOUND THEN RETURN false; END IF;

  IF p_lease IS NOT NULL THEN
    SELECT l.expires_at, l.ttl INTO v_expires_at, v_ttl FROM ${schema}.leases AS l
    WHERE l.namespace = p_namespace AND l.name = p_lease AND l.token = p_token AND l.holder IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN ${LOST_LEASE}; END IF;
    v_now := ${schema}.now_ms();
    IF v_expires_at - v_now NOT BETWEEN v_ttl * 3 / 4 AND v_ttl THEN
      UPDATE ${schema}.leases AS l SET expires_at = v_now + l.ttl WHERE l.namespace = p_namespace AND l.name = p_lease;
    END IF;
  END IF;

  INSERT INTO ${schema}.writes (namespace, stream, last, first, at, sum, batch, codec, payload, bytes)
  VALUES (p_namespace, p_stream, p_last, p_seq + 1, p_at, p_sum, p_batch, p_codec, p_payload, p_bytes);

  -- An item that begins is new, as good as always; one that says no beginning has one.
  IF p_kind IS NOT NULL THEN
    IF p_item_seq IS NOT NULL THEN
      ${itemInto(schema)} ON CONFLICT DO NOTHING;
      IF FOUND THEN RETURN true; END IF;
    END IF;
    UPDATE ${schema}.items AS i SET seq = coalesce(p_item_seq, i.seq), end_seq = coalesce(p_end_seq, i.end_seq),
      status = coalesce(p_status, i.status), name = coalesce(p_name, i.name), key = coalesce(p_key, i.key),
      at = coalesce(p_item_at, i.at), done_at = p_done_at
    WHERE i.namespace = p_namespace AND i.stream = p_stream AND i.kind = p_kind AND i.id = p_id;
    IF NOT FOUND THEN
      ${itemInto(schema)};
    END IF;
  END IF;
  RETURN true;
END $function$;
`;
