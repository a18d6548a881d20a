/**
 * The usual append, on the side of the server: all batches of a flight in the same few statements, so that sixteen cost
 * little more than one. `append.ts` opens with the protocol, `plain.ts` is the side of the client.
 *
 * What is said of a batch comes as arrays of words and of numbers, so many of each to a batch. Postgres takes those apart
 * in a fraction of the time that JSON needs.
 */

import { FACET, FACET_WORDS } from "./schema-1-single.ts";
import { enter, LOST_LEASE, MERGE_ITEM, PLANNING } from "./schema-1-statements.ts";

/** What the arrays hold for each batch, guard and item, in this order. `plain.ts` fills them. */
const WORDS = ["namespace", "stream", "batch", "codec", "status", "title", "goal", "budget"] as const;
const NUMBERS = [
  "generation",
  "seq",
  "count",
  "at",
  "sum",
  "from",
  "bytes",
  "isText",
  "facets",
  "openCalls",
  "isMarked",
  "expiresAt",
] as const;
const GUARD_WORDS = ["namespace", "lease"] as const;
const ITEM_WORDS = ["kind", "id", "status", "name", "key"] as const;
const ITEM_NUMBERS = ["place", "seq", "endSeq", "at", "doneAt"] as const;

/** How SQL names what an array says of the thing with the place `of`, counted from 0. */
const element =
  <Name extends string>(array: string, names: readonly Name[]) =>
  (name: Name, of: string): string =>
    `${array}[${of} * ${names.length} + ${names.indexOf(name) + 1}]`;

const word = element("p_words", WORDS);
const number = element("p_numbers", NUMBERS);
const guard = element("p_guards", GUARD_WORDS);
const itemWord = element("p_item_words", ITEM_WORDS);
const itemNumber = element("p_item_numbers", ITEM_NUMBERS);

const facet = (column: string, name: keyof typeof FACET, value: string, i: string): string =>
  `${column} = CASE WHEN ${number("facets", i)} & ${FACET[name]} <> 0 THEN ${value} ELSE s.${column} END`;

/** What becomes of the row of a stream. */
const changes = (i: string): string =>
  [
    `seq = ${number("seq", i)} + ${number("count", i)}`,
    `updated_at = ${number("at", i)}`,
    `updated_second = ${number("at", i)} / 1000`,
    `open_calls = coalesce(${number("openCalls", i)}, s.open_calls)`,
    `is_marked_open = coalesce(${number("isMarked", i)} = 1, s.is_marked_open)`,
    facet("expires_at", "expiresAt", number("expiresAt", i), i),
    ...FACET_WORDS.map((name) => facet(name, name, word(name, i), i)),
  ].join(",\n    ");

const isNext = (i: string): string =>
  `s.namespace = ${word("namespace", i)} AND s.stream = ${word("stream", i)} AND s.state = 'live'
    AND s.generation = ${number("generation", i)} AND s.seq = ${number("seq", i)}`;

const isLease = (i: string): string =>
  `l.namespace = ${guard("namespace", i)} AND l.name = ${guard("lease", i)}`;

const IS_DUE = "l.expires_at - v_now NOT BETWEEN l.ttl * 3 / 4 AND l.ttl";

const writeInto = (schema: string, i: string): string => {
  const bytes = `substring(p_bytes FROM ${number("from", i)}::integer + 1 FOR ${number("bytes", i)}::integer)`;
  return `INSERT INTO ${schema}.writes (namespace, stream, last, first, at, sum, batch, codec, payload, bytes)
  SELECT ${word("namespace", i)}, ${word("stream", i)}, ${number("seq", i)} + ${number("count", i)},
    ${number("seq", i)} + 1, ${number("at", i)}, ${number("sum", i)}, ${word("batch", i)}, ${word("codec", i)},
    CASE WHEN ${number("isText", i)} = 1 THEN convert_from(${bytes}, 'UTF8') END,
    CASE WHEN ${number("isText", i)} = 0 THEN ${bytes} END`;
};

const itemInto = (schema: string, i: string, place: string): string =>
  `INSERT INTO ${schema}.items AS old (namespace, stream, kind, id, seq, end_seq, status, name, key, at, done_at)
    SELECT ${word("namespace", place)}, ${word("stream", place)}, ${itemWord("kind", i)}, ${itemWord("id", i)},
      ${itemNumber("seq", i)}, ${itemNumber("endSeq", i)}, ${itemWord("status", i)}, ${itemWord("name", i)},
      ${itemWord("key", i)}, ${itemNumber("at", i)}, ${itemNumber("doneAt", i)}`;

/** Several batches: each statement is for all of them. */
export const plainFunction = (schema: string): string => `
-- The batches that can only be accepted: one write each, that continues a live stream where it ends, with neither keys
-- nor artifacts. Returns NULL when all are stored, or else the places of those that are, counted from 0: the others have
-- changed nothing and are for append_batches, which knows every case. A guard that does not hold undoes everything.
-- Batches and guards arrive in the order of their names, and are locked in it, streams before leases. What a lock brings
-- to light (another has written meanwhile) is seen as it is now. Each row is looked up by itself (the LIMIT sees to
-- that): the server would otherwise read all leases where it believes that few are held.
CREATE FUNCTION ${schema}.append_plain(
  p_store text, p_allow_loss boolean, p_lock_ms integer, p_words text[], p_numbers bigint[],
  p_guards text[], p_tokens bigint[], p_item_words text[], p_item_numbers bigint[], p_bytes bytea
) RETURNS integer[] LANGUAGE plpgsql ${PLANNING} AS $function$
DECLARE
  v_count CONSTANT integer := cardinality(p_numbers) / ${NUMBERS.length};
  v_guards CONSTANT integer := cardinality(p_tokens);
  v_items CONSTANT integer := cardinality(p_item_numbers) / ${ITEM_NUMBERS.length};
  v_now bigint;
  v_store text;
  v_seal text;
  v_done integer[];
  v_held integer;
  v_is_due boolean;
BEGIN${enter(schema)}
  v_now := ${schema}.now_ms();

  WITH stored AS (
    UPDATE ${schema}.streams AS s SET ${changes("i")}
    FROM generate_series(0, v_count - 1) AS i WHERE ${isNext("i")} RETURNING i)
  SELECT coalesce(array_agg(i), '{}') INTO v_done FROM stored;
  IF v_done = '{}' THEN RETURN v_done; END IF;

  IF v_guards > 0 THEN
    SELECT count(*), bool_or(${IS_DUE}) INTO v_held, v_is_due
    FROM generate_series(0, v_guards - 1) AS i CROSS JOIN LATERAL (
      SELECT l.token, l.holder, l.expires_at, l.ttl FROM ${schema}.leases AS l
      WHERE ${isLease("i")} LIMIT 1 FOR UPDATE) AS l
    WHERE l.token = p_tokens[i + 1] AND l.holder IS NOT NULL;
    IF v_held < v_guards THEN ${LOST_LEASE}; END IF;
    IF v_is_due THEN
      UPDATE ${schema}.leases AS l SET expires_at = v_now + l.ttl FROM generate_series(0, v_guards - 1) AS i
      WHERE ${isLease("i")} AND ${IS_DUE};
    END IF;
  END IF;

  ${writeInto(schema, "i")} FROM unnest(v_done) AS i;

  IF v_items > 0 THEN
    ${itemInto(schema, "i", itemNumber("place", "i"))}
    FROM generate_series(0, v_items - 1) AS i WHERE ${itemNumber("place", "i")} = ANY (v_done)
    ${MERGE_ITEM}, done_at = excluded.done_at;
  END IF;
  RETURN CASE WHEN cardinality(v_done) < v_count THEN v_done END;
END $function$;
`;
