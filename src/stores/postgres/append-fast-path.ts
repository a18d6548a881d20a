/**
 * The fast path of an append: batches that only continue one existing stream each, which almost all do.
 * The SQL functions, and the code that fills their parameters. `append.ts` has the whole protocol.
 *
 *     append_single   one batch with at most one lease and two items, each value a parameter of its own
 *     append_plain    any number of batches as arrays, each statement for all of them
 *     append_batches    the slow path (`schema-1-append.ts`): every case, and the only one that refuses
 *
 * Both fast functions either store a batch or leave it alone; the slow path then decides why. Without
 * `append_single` one session makes 14 % fewer turns a second. Without `append_plain`, 16 sessions make
 * 23 % fewer.
 * `append-fast-path.test.ts` sends random batches down both paths and compares what is stored.
 */

import type { Item, StreamFacets } from "../../model/stream/index.ts";
import type { Batch, BatchLease, Guard, Write } from "../../store.ts";
import type { WriteContext } from "./database.ts";
import { toBytes, toText, toTextOrNull } from "./rows.ts";
import * as sql from "./schema-1-functions.ts";
import type { Value } from "./value-query.ts";

export interface EncodedPayloads {
  readonly batch: Batch;
  /** One per write: text as Postgres stores it (`rows.ts`), or bytes. */
  readonly payloads: readonly (string | Buffer)[];
}

/** True for a batch that appends events to one existing stream and touches neither keys nor artifacts. */
export function takesFastPath({ writes, lease }: Batch): boolean {
  const [write] = writes;
  if (!write || writes.length > 1 || write.expect.seq <= 0 || write.fork) return false;
  if (lease && !isOnlyLease(lease, write.guards ?? [])) return false;
  const { claims, releases, artifacts, items } = write;
  if (claims?.length || releases?.length || artifacts?.length) return false;
  return !items?.length || areComplete(items);
}

/** A taken lease has no guard yet; a released one is its own guard. */
function isOnlyLease({ act, name, token }: BatchLease, guards: readonly Guard[]): boolean {
  return guards.every((guard) => act === "release" && guard.lease === name && guard.token === token);
}

/** Each item says whether it is done, and none is there twice: one statement cannot change a row twice. */
function areComplete(items: readonly Item[]): boolean {
  if (items.some(({ doneAt }) => doneAt === undefined)) return false;
  return items.length === 1 || new Set(items.map(({ kind, id }) => `${kind}\0${id}`)).size === items.length;
}

/** True if `append_single` can store the group. It never waits longer than its own lock timeout. */
export function fitsOne(group: readonly EncodedPayloads[], busyMs: number): boolean {
  const [write] = group[0]?.batch.writes ?? [];
  const isOne = group.length === 1 && (write?.guards?.length ?? 0) <= 1;
  return isOne && (write?.items?.length ?? 0) <= ONE_ITEMS.length && busyMs >= ONE_LOCK_MS;
}

/**
 * Whether the stream needs `is_marked_open`; undefined leaves it as it is. Lists find streams with open calls
 * by their open items; the mark is for streams whose items may not show it. A superfluous one does no harm.
 */
export function openMark({ facets, items = [] }: Write): boolean | undefined {
  const calls = items.filter(({ kind }) => kind === "call");
  const openCalls = facets?.openCalls;
  if (openCalls === 0) return false;
  if (openCalls === undefined) return calls.some(({ doneAt }) => typeof doneAt === "number") || undefined;
  return !calls.some(({ doneAt }) => doneAt === null);
}

/** Bits that say which of the facets that can be cleared a write sets. */
const FACET = { expiresAt: 1, status: 2, title: 4, goal: 8, budget: 16 } as const;
const TEXT_FACETS = ["status", "title", "goal", "budget"] as const;

function facetBits(facets: StreamFacets): number {
  let bits = 0;
  for (const name of Object.keys(FACET) as (keyof typeof FACET)[]) {
    if (facets[name] !== undefined) bits |= FACET[name];
  }
  return bits;
}

const facetColumn = (column: string, name: keyof typeof FACET, bits: string, value: string): string =>
  `${column} = CASE WHEN ${bits} & ${FACET[name]} <> 0 THEN ${value} ELSE s.${column} END`;

/** `append_single` has parameters for two items: the end of a turn has its call and its checkpoint. */
const ONE_ITEMS = [1, 2] as const;

/**
 * The parameters of `append_single`. NULL leaves a column as it is, except for `p_done_at_1`. `p_payload`
 * excludes `p_bytes`. `p_facets` (bits of `FACET`) and `p_facet_texts` (ordered as `TEXT_FACETS`) are set
 * when a text facet changes or any facet is cleared.
 */
const ONE_PARAMETERS = [
  "p_store text, p_allow_loss boolean, p_namespace text, p_stream text",
  "p_generation integer, p_seq integer, p_last integer, p_at bigint, p_sum bigint",
  "p_batch text, p_codec text, p_payload text, p_bytes bytea",
  "p_open_calls integer, p_is_marked boolean, p_expires_at bigint",
  "p_facets integer, p_facet_texts text[]",
  "p_lease text, p_token bigint, p_act integer, p_owner text, p_holder text, p_ttl bigint",
  ...ONE_ITEMS.flatMap((i) => [
    `p_kind_${i} text, p_id_${i} text, p_item_seq_${i} integer, p_end_seq_${i} integer`,
    `p_status_${i} text, p_name_${i} text, p_key_${i} text, p_item_at_${i} bigint, p_done_at_${i} bigint`,
  ]),
].flatMap((line) => line.split(", "));

export const ONE_PARAMETER_COUNT = ONE_PARAMETERS.length;

/** In the order of `ONE_PARAMETERS`. */
export function oneArguments(
  { store, allowLoss }: WriteContext,
  { batch, payloads: [payload = ""] }: EncodedPayloads,
): Value[] {
  const [write] = batch.writes as [Write];
  const { stream, expect, count, at, sum, codec, facets = {}, items } = write;
  const isText = typeof payload === "string";
  return [
    store,
    allowLoss,
    toText(batch.namespace),
    toText(stream),
    expect.generation,
    expect.seq,
    expect.seq + count,
    at,
    sum,
    toText(batch.id),
    toTextOrNull(codec),
    isText ? payload : null,
    isText ? null : payload,
    facets.openCalls ?? null,
    openMark(write) ?? null,
    facets.expiresAt ?? null,
    ...facetArguments(facets),
    ...leaseArguments(leasesOf(batch)[0]),
    ...ONE_ITEMS.flatMap((i) => itemArguments(items?.[i - 1])),
  ];
}

/** An `expiresAt` that is set rather than cleared has a parameter of its own. */
function facetArguments(facets: StreamFacets): [Value, Value] {
  const bits = facetBits(facets);
  if ((bits & ~FACET.expiresAt) === 0 && facets.expiresAt !== null) return [null, null];
  return [bits, TEXT_FACETS.map((name) => toTextOrNull(facets[name]))];
}

/** Acts on a lease: an append needs a held one, takes a free one, or releases its own. */
const ACT = { guard: 0, take: 1, release: 2 } as const;

interface LeaseAct {
  readonly act: keyof typeof ACT;
  readonly lease: string;
  readonly token: number;
  /** The new owner's; null unless the lease is taken. */
  readonly owner: string | null;
  readonly holder: string | null;
  readonly ttlMs: number | null;
}

function leasesOf({ lease, writes }: Batch): LeaseAct[] {
  if (!lease) {
    const guards = writes.flatMap((write) => write.guards ?? []);
    return guards.map((guard) => ({ act: "guard", ...guard, ...NO_OWNER, lease: toText(guard.lease) }));
  }
  const { act, name, token } = lease;
  if (act === "release") return [{ act, lease: toText(name), token, ...NO_OWNER }];
  const { holder, ttlMs } = lease;
  const owner = { owner: toText(holder.owner), holder: JSON.stringify(holder), ttlMs: Math.round(ttlMs) };
  return [{ act, lease: toText(name), token, ...owner }];
}

const NO_OWNER = { owner: null, holder: null, ttlMs: null } as const;
const NO_LEASE: readonly Value[] = Array.from({ length: 6 }, () => null);

function leaseArguments(leaseAct: LeaseAct | undefined): readonly Value[] {
  if (!leaseAct) return NO_LEASE;
  const { act, lease, token, owner, holder, ttlMs } = leaseAct;
  return [lease, token, ACT[act], owner, holder, ttlMs];
}

const NO_ITEM: readonly Value[] = Array.from({ length: 9 }, () => null);

function itemArguments(item: Item | undefined): readonly Value[] {
  if (!item) return NO_ITEM;
  const { kind, id, seq, endSeq, status, name, key, at, doneAt } = item;
  const texts = [toTextOrNull(status), toTextOrNull(name), toTextOrNull(key)];
  return [toText(kind), toText(id), seq ?? null, endSeq ?? null, ...texts, at ?? null, doneAt ?? null];
}

/** Soon, because the slow path waits. A constant, because setting `busyMs` would cost a statement. */
const ONE_LOCK_MS = 100;

/** Its rows are found by their primary keys alone, so an index scan is all that its plans need. */
const ONE_SETTINGS = `SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
  SET plan_cache_mode = force_generic_plan SET lock_timeout = ${ONE_LOCK_MS}`;

const HEAD_COLUMNS = `seq = p_last, updated_at = p_at, updated_second = p_at / 1000,
      open_calls = coalesce(p_open_calls, s.open_calls), is_marked_open = coalesce(p_is_marked,
        s.is_marked_open)`;

const FACET_COLUMNS = [
  facetColumn("expires_at", "expiresAt", "p_facets", "p_expires_at"),
  ...TEXT_FACETS.map((name, index) => facetColumn(name, name, "p_facets", `p_facet_texts[${index + 1}]`)),
].join(",\n      ");

const ENDS_AT_SEQ = `s.namespace = p_namespace AND s.stream = p_stream AND s.state = 'live'
      AND s.generation = p_generation AND s.seq = p_seq`;

const insertItem = (schema: string, i: number): string =>
  `INSERT INTO ${schema}.items (namespace, stream, kind, id, seq, end_seq, status, name, key, at, done_at)
      VALUES (p_namespace, p_stream, p_kind_${i}, p_id_${i}, p_item_seq_${i}, p_end_seq_${i}, p_status_${i},
        p_name_${i}, p_key_${i}, p_item_at_${i}, p_done_at_${i})`;

/** An item with a first event is almost always new; one without is almost always there already. */
const storeItem = (schema: string, i: number): string => `
  IF p_kind_${i} IS NULL THEN RETURN true; END IF;
  v_is_new := false;
  IF p_item_seq_${i} IS NOT NULL THEN
    ${insertItem(schema, i)} ON CONFLICT DO NOTHING;
    v_is_new := FOUND;
  END IF;
  IF NOT v_is_new THEN
    UPDATE ${schema}.items AS i SET seq = coalesce(p_item_seq_${i}, i.seq),
      end_seq = coalesce(p_end_seq_${i}, i.end_seq), status = coalesce(p_status_${i}, i.status),
      name = coalesce(p_name_${i}, i.name), key = coalesce(p_key_${i}, i.key),
      at = coalesce(p_item_at_${i}, i.at), done_at = p_done_at_${i}
    WHERE i.namespace = p_namespace AND i.stream = p_stream AND i.kind = p_kind_${i} AND i.id = p_id_${i};
    IF NOT FOUND THEN
      ${insertItem(schema, i)};
    END IF;
  END IF;`;

/**
 * Postgres initializes every expression of a statement each time it runs, which takes longer than writing.
 * So each value is a parameter with its column's type, and rare values have statements of their own.
 */
const appendFastOne = (schema: string): string => `
-- Like append_plain, for one batch with at most one lease and two items. Returns whether it is stored.
CREATE FUNCTION ${schema}.append_single(
  ${ONE_PARAMETERS.join(", ")}
) RETURNS boolean LANGUAGE plpgsql ${ONE_SETTINGS} AS $function$
DECLARE
  v_expires_at bigint;
  v_ttl bigint;
  v_now bigint;
  v_is_new boolean;
BEGIN
  IF ${sql.IS_NOT_DURABLE} OR ${sql.IS_WRONG_ISOLATION} THEN RETURN false; END IF;

  IF p_facets IS NULL THEN
    UPDATE ${schema}.streams AS s SET ${HEAD_COLUMNS}, expires_at = coalesce(p_expires_at, s.expires_at)
    WHERE ${ENDS_AT_SEQ} AND ${sql.isOpenStore(schema)};
  ELSE
    UPDATE ${schema}.streams AS s SET ${HEAD_COLUMNS},
      ${FACET_COLUMNS}
    WHERE ${ENDS_AT_SEQ} AND ${sql.isOpenStore(schema)};
  END IF;
  IF NOT FOUND THEN RETURN false; END IF;

  IF p_act = ${ACT.guard} THEN
    SELECT l.expires_at, l.ttl INTO v_expires_at, v_ttl FROM ${schema}.leases AS l
    WHERE l.namespace = p_namespace AND l.name = p_lease AND l.token = p_token AND l.holder IS NOT NULL
      FOR UPDATE;
    IF NOT FOUND THEN ${sql.LEASE_LOST}; END IF;
    v_now := ${schema}.now_ms();
    IF v_expires_at - v_now NOT BETWEEN v_ttl * 3 / 4 AND v_ttl THEN
      UPDATE ${schema}.leases AS l SET expires_at = v_now + l.ttl WHERE l.namespace = p_namespace
        AND l.name = p_lease;
    END IF;
  ELSIF p_act = ${ACT.take} THEN
    UPDATE ${schema}.leases AS l SET token = p_token, owner = p_owner, holder = p_holder, ttl = p_ttl,
      expires_at = ${schema}.now_ms() + p_ttl
    WHERE l.namespace = p_namespace AND l.name = p_lease AND l.token = p_token - 1 AND l.holder IS NULL;
    IF NOT FOUND THEN ${sql.LEASE_LOST}; END IF;
  ELSIF p_act = ${ACT.release} THEN
    UPDATE ${schema}.leases AS l SET owner = NULL, holder = NULL, expires_at = ${schema}.now_ms()
    WHERE l.namespace = p_namespace AND l.name = p_lease AND l.token = p_token AND l.holder IS NOT NULL;
    IF NOT FOUND THEN ${sql.LEASE_LOST}; END IF;
  END IF;

  INSERT INTO ${schema}.writes (namespace, stream, last, first, at, sum, batch, codec, payload, bytes)
  VALUES (p_namespace, p_stream, p_last, p_seq + 1, p_at, p_sum, p_batch, p_codec, p_payload, p_bytes);
${ONE_ITEMS.map((i) => storeItem(schema, i)).join("")}
  RETURN true;
END $function$;
`;

/** The values that the arrays of `append_plain` hold for each batch, lease and item, in this order. */
const TEXTS = ["namespace", "stream", "batch", "codec", "status", "title", "goal", "budget"] as const;
const NUMBERS = [
  ...(["generation", "seq", "count", "at", "sum", "from", "bytes", "isText"] as const),
  ...(["facets", "openCalls", "isMarked", "expiresAt"] as const),
];
const LEASE_TEXTS = ["namespace", "lease", "owner", "holder"] as const;
const LEASE_NUMBERS = ["batch", "token", "act", "ttl"] as const;
const ITEM_TEXTS = ["kind", "id", "status", "name", "key"] as const;
const ITEM_NUMBERS = ["batch", "seq", "endSeq", "at", "doneAt"] as const;

type Numbers = (number | null)[];
type Texts = (string | null)[];

/** In the server's lock order. JS sorts rare code points differently: at worst one deadlock. */
export function inLockOrder<Each extends EncodedPayloads>(group: readonly Each[]): readonly Each[] {
  if (group.length === 1) return group;
  const stream = ({ batch }: Each) => batch.writes[0]?.stream ?? "";
  return [...group].sort(
    (a, b) => compare(a.batch.namespace, b.batch.namespace) || compare(stream(a), stream(b)),
  );
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** All arguments of `append_plain` but the first three. */
export function fastArguments(group: readonly EncodedPayloads[]): Value[] {
  const texts: Texts = [];
  const numbers: Numbers = [];
  const leases: (LeaseAct & { namespace: string; batch: number })[] = [];
  const itemTexts: Texts = [];
  const itemNumbers: Numbers = [];
  const payloads = group.flatMap((each) => each.payloads.map(toBytes));
  let offset = 0;
  group.forEach(({ batch }, index) => {
    const [write] = batch.writes as [Write];
    const namespace = toText(batch.namespace);
    const bytes = payloads[index]?.length ?? 0;
    texts.push(namespace, toText(write.stream), toText(batch.id), toTextOrNull(write.codec));
    texts.push(...TEXT_FACETS.map((name) => toTextOrNull(write.facets?.[name])));
    numbers.push(...numbersOf(write, offset, bytes));
    offset += bytes;
    for (const each of leasesOf(batch)) leases.push({ ...each, namespace, batch: index });
    for (const { kind, id, status, name, key, seq, endSeq, at, doneAt } of write.items ?? []) {
      itemTexts.push(toText(kind), toText(id), toTextOrNull(status), toTextOrNull(name), toTextOrNull(key));
      itemNumbers.push(index, seq ?? null, endSeq ?? null, at ?? null, doneAt ?? null);
    }
  });
  leases.sort((a, b) => compare(a.namespace, b.namespace) || compare(a.lease, b.lease));
  return [
    texts,
    numbers,
    leases.flatMap(({ namespace, lease, owner, holder }) => [namespace, lease, owner, holder]),
    leases.flatMap(({ batch, token, act, ttlMs }) => [batch, token, ACT[act], ttlMs]),
    itemTexts,
    itemNumbers,
    Buffer.concat(payloads),
  ];
}

/** In the order of `NUMBERS`. */
function numbersOf(write: Write, offset: number, bytes: number): Numbers {
  const { expect, count, payload, sum, at, facets = {} } = write;
  const mark = openMark(write);
  return [
    ...[expect.generation, expect.seq, count, at, sum, offset, bytes, typeof payload === "string" ? 1 : 0],
    facetBits(facets),
    facets.openCalls ?? null,
    mark === undefined ? null : Number(mark),
    facets.expiresAt ?? null,
  ];
}

/** SQL for one value of the batch, lease or item at index `of`, counted from 0. */
const element =
  <Name extends string>(array: string, names: readonly Name[]) =>
  (name: Name, of: string): string =>
    `${array}[${of} * ${names.length} + ${names.indexOf(name) + 1}]`;

const text = element("p_texts", TEXTS);
const number = element("p_numbers", NUMBERS);
const leaseText = element("p_lease_texts", LEASE_TEXTS);
const leaseNumber = element("p_lease_numbers", LEASE_NUMBERS);
const itemText = element("p_item_texts", ITEM_TEXTS);
const itemNumber = element("p_item_numbers", ITEM_NUMBERS);

const streamColumns = (i: string): string =>
  [
    `seq = ${number("seq", i)} + ${number("count", i)}`,
    `updated_at = ${number("at", i)}`,
    `updated_second = ${number("at", i)} / 1000`,
    `open_calls = coalesce(${number("openCalls", i)}, s.open_calls)`,
    `is_marked_open = coalesce(${number("isMarked", i)} = 1, s.is_marked_open)`,
    facetColumn("expires_at", "expiresAt", number("facets", i), number("expiresAt", i)),
    ...TEXT_FACETS.map((name) => facetColumn(name, name, number("facets", i), text(name, i))),
  ].join(",\n    ");

const endsAtSeq = (i: string): string =>
  `s.namespace = ${text("namespace", i)} AND s.stream = ${text("stream", i)} AND s.state = 'live'
    AND s.generation = ${number("generation", i)} AND s.seq = ${number("seq", i)}`;

const isLease = (i: string): string =>
  `l.namespace = ${leaseText("namespace", i)} AND l.name = ${leaseText("lease", i)}`;

const isTake = (i: string): string => `${leaseNumber("act", i)} = ${ACT.take}`;

/** True if the lease is as the batch needs it: free with the token before its own, or held with its own. */
const isAsNeeded = (i: string): string =>
  `CASE WHEN ${isTake(i)} THEN l.token = ${leaseNumber("token", i)} - 1 AND l.holder IS NULL
        ELSE l.token = ${leaseNumber("token", i)} AND l.holder IS NOT NULL END`;

/** Leases of batches that are stored. */
const storedLeases = (i: string): string =>
  `generate_series(0, v_leases - 1) AS ${i}
      WHERE ${leaseNumber("batch", i)} = ANY (v_done)`;

const IS_DUE = "l.expires_at - v_now NOT BETWEEN l.ttl * 3 / 4 AND l.ttl";

const insertWrites = (schema: string, i: string): string => {
  const bytes = `substring(p_bytes FROM ${number("from", i)}::integer + 1
    FOR ${number("bytes", i)}::integer)`;
  return `INSERT INTO ${schema}.writes (namespace, stream, last, first, at, sum, batch, codec, payload, bytes)
  SELECT ${text("namespace", i)}, ${text("stream", i)}, ${number("seq", i)} + ${number("count", i)},
    ${number("seq", i)} + 1, ${number("at", i)}, ${number("sum", i)}, ${text("batch", i)},
      ${text("codec", i)},
    CASE WHEN ${number("isText", i)} = 1 THEN convert_from(${bytes}, 'UTF8') END,
    CASE WHEN ${number("isText", i)} = 0 THEN ${bytes} END`;
};

const insertItems = (schema: string, i: string, batch: string): string =>
  `INSERT INTO ${schema}.items AS old (namespace, stream, kind, id, seq, end_seq, status, name, key, at,
    done_at)
    SELECT ${text("namespace", batch)}, ${text("stream", batch)}, ${itemText("kind", i)},
      ${itemText("id", i)},
      ${itemNumber("seq", i)}, ${itemNumber("endSeq", i)}, ${itemText("status", i)}, ${itemText("name", i)},
      ${itemText("key", i)}, ${itemNumber("at", i)}, ${itemNumber("doneAt", i)}`;

/** Arrays, because Postgres takes them apart in a fraction of the time that JSON needs. */
const appendFast = (schema: string): string => `
-- Stores batches of one write each that continue a live stream where it ends, with neither keys nor
-- artifacts. Returns NULL if all are stored, else the indexes of those that are, counted from 0. The others
-- have changed nothing and are for append_batches, which knows every case. A lease that is not as a batch
-- needs it undoes everything. Batches and leases arrive in the order of their names and are locked in it,
-- streams before leases. A row that was locked by another transaction is seen as that transaction left it.
-- Each lease is looked up alone (hence the LIMIT): the server would otherwise read the whole table where it
-- estimates that few leases are held.
CREATE FUNCTION ${schema}.append_plain(
  p_store text, p_allow_loss boolean, p_lock_ms integer, p_texts text[], p_numbers bigint[],
  p_lease_texts text[], p_lease_numbers bigint[], p_item_texts text[], p_item_numbers bigint[],
  p_bytes bytea
) RETURNS integer[] LANGUAGE plpgsql ${sql.INDEX_PLANS_ONLY} AS $function$
DECLARE
  v_count CONSTANT integer := cardinality(p_numbers) / ${NUMBERS.length};
  v_leases CONSTANT integer := cardinality(p_lease_numbers) / ${LEASE_NUMBERS.length};
  v_items CONSTANT integer := cardinality(p_item_numbers) / ${ITEM_NUMBERS.length};
  v_now bigint;
  v_store text;
  v_seal text;
  v_done integer[];
  v_is_held boolean;
  v_is_due boolean;
  v_changes integer;
  v_changed integer;
BEGIN${sql.beginWrite(schema)}
  v_now := ${schema}.now_ms();

  WITH stored AS (
    UPDATE ${schema}.streams AS s SET ${streamColumns("i")}
    FROM generate_series(0, v_count - 1) AS i WHERE ${endsAtSeq("i")} RETURNING i)
  SELECT coalesce(array_agg(i), '{}') INTO v_done FROM stored;
  IF v_done = '{}' THEN RETURN v_done; END IF;

  IF v_leases > 0 THEN
    SELECT bool_and(coalesce(l.is_as_needed, false)), bool_or(l.is_due),
      count(*) FILTER (WHERE ${leaseNumber("act", "i")} <> ${ACT.guard})
    INTO v_is_held, v_is_due, v_changes
    FROM (SELECT i FROM ${storedLeases("i")}) AS stored LEFT JOIN LATERAL (
      SELECT ${isAsNeeded("i")} AS is_as_needed, ${IS_DUE} AS is_due FROM ${schema}.leases AS l
      WHERE ${isLease("i")} LIMIT 1 FOR UPDATE) AS l ON true;
    IF NOT v_is_held THEN ${sql.LEASE_LOST}; END IF;
    IF v_is_due THEN
      UPDATE ${schema}.leases AS l SET expires_at = v_now + l.ttl FROM (SELECT i FROM ${storedLeases("i")}
        AND ${leaseNumber("act", "i")} = ${ACT.guard}) AS stored
      WHERE ${isLease("i")} AND ${IS_DUE};
    END IF;
    IF v_changes > 0 THEN
      UPDATE ${schema}.leases AS l SET token = ${leaseNumber("token", "i")},
        owner = ${leaseText("owner", "i")},
        holder = ${leaseText("holder", "i")}, ttl = coalesce(${leaseNumber("ttl", "i")}, l.ttl),
        expires_at = v_now + coalesce(${leaseNumber("ttl", "i")}, 0)
      FROM (SELECT i FROM ${storedLeases("i")} AND ${leaseNumber("act", "i")} <> ${ACT.guard}) AS stored
      WHERE ${isLease("i")};
      GET DIAGNOSTICS v_changed = ROW_COUNT;
      -- Two batches change the same lease.
      IF v_changed < v_changes THEN ${sql.LEASE_LOST}; END IF;
    END IF;
  END IF;

  ${insertWrites(schema, "i")} FROM unnest(v_done) AS i;

  IF v_items > 0 THEN
    ${insertItems(schema, "i", itemNumber("batch", "i"))}
    FROM generate_series(0, v_items - 1) AS i WHERE ${itemNumber("batch", "i")} = ANY (v_done)
    ${sql.MERGE_ITEM}, done_at = excluded.done_at;
  END IF;
  RETURN CASE WHEN cardinality(v_done) < v_count THEN v_done END;
END $function$;
`;

export const fastAppendFunctions = (schema: string): string => appendFast(schema) + appendFastOne(schema);
