/**
 * Which batches are plain, and the side of the client of `append_plain`: its arguments. `schema-1-plain.ts` says what the
 * arrays hold.
 */

import type { Item, StreamFacets } from "../../model/stream/index.ts";
import type { Batch, Write } from "../../store.ts";
import type { Bound } from "./kept-run.ts";
import { FACET } from "./schema-1-single.ts";
import { toBytes, toText, toTextOrNull } from "./text.ts";

/** Nothing but the next events of one stream that is there already. */
export function isPlain({ writes }: Batch): boolean {
  const [write] = writes;
  if (!write || writes.length > 1 || write.expect.seq <= 0 || write.fork) return false;
  const { claims, releases, artifacts, items } = write;
  if (claims?.length || releases?.length || artifacts?.length) return false;
  return !items?.length || areWhole(items);
}

/** Each says whether it is done, and none is there twice: one statement cannot change a row twice. */
function areWhole(items: readonly Item[]): boolean {
  if (items.some(({ doneAt }) => doneAt === undefined)) return false;
  return items.length === 1 || new Set(items.map(({ kind, id }) => `${kind}\0${id}`)).size === items.length;
}

/**
 * Streams with open calls are found by their open items: an index on the number would have to be changed with every
 * call, and all others of the table with it. This says whether a stream has to be marked because its items may not tell;
 * undefined leaves the mark as it is. A mark too many does no harm.
 */
export function markOf({ facets, items = [] }: Write): boolean | undefined {
  const calls = items.filter(({ kind }) => kind === "call");
  const openCalls = facets?.openCalls;
  if (openCalls === 0) return false;
  if (openCalls === undefined) return calls.some(({ doneAt }) => typeof doneAt === "number") || undefined;
  return !calls.some(({ doneAt }) => doneAt === null);
}

export interface PlainBatch {
  readonly batch: Batch;
  /** Text is kept as text (`text.ts`). */
  readonly payloads: readonly (string | Buffer)[];
}

/** As the server locks them. Names beyond the 16-bit characters may come in another order, and at worst deadlock, once. */
export function inLockOrder<Each extends PlainBatch>(flight: readonly Each[]): readonly Each[] {
  if (flight.length === 1) return flight;
  const stream = ({ batch }: Each) => batch.writes[0]?.stream ?? "";
  return [...flight].sort(
    (a, b) => compare(a.batch.namespace, b.batch.namespace) || compare(stream(a), stream(b)),
  );
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

type Words = (string | null)[];
type Numbers = (number | null)[];

/** All arguments but the first three. */
export function plainArguments(flight: readonly PlainBatch[]): Bound[] {
  const words: Words = [];
  const numbers: Numbers = [];
  const guards: { namespace: string; lease: string; token: number }[] = [];
  const items: { words: Words; numbers: Numbers } = { words: [], numbers: [] };
  const all = flight.flatMap(({ payloads }) => payloads.map(toBytes));
  let offset = 0;
  flight.forEach(({ batch }, place) => {
    const [write] = batch.writes as [Write];
    const namespace = toText(batch.namespace);
    const bytes = all[place]?.length ?? 0;
    addWrite(words, numbers, { write, namespace, batch: toText(batch.id), offset, bytes });
    offset += bytes;
    for (const { lease, token } of write.guards ?? [])
      guards.push({ namespace, lease: toText(lease), token });
    for (const item of write.items ?? []) addItem(items.words, items.numbers, place, item);
  });
  if (guards.length > 1) {
    guards.sort((a, b) => compare(a.namespace, b.namespace) || compare(a.lease, b.lease));
  }
  return [
    textArray(words),
    numberArray(numbers),
    textArray(guards.flatMap(({ namespace, lease }) => [namespace, lease])),
    numberArray(guards.map(({ token }) => token)),
    textArray(items.words),
    numberArray(items.numbers),
    Buffer.concat(all),
  ];
}

interface Placed {
  readonly write: Write;
  readonly namespace: string;
  readonly batch: string;
  readonly offset: number;
  readonly bytes: number;
}

function addWrite(words: Words, numbers: Numbers, { write, namespace, batch, offset, bytes }: Placed): void {
  const { stream, expect, count, payload, codec, sum, at, facets = {} } = write;
  const { openCalls, expiresAt, status, title, goal, budget } = facets;
  const mark = markOf(write);
  words.push(namespace, toText(stream), batch, toTextOrNull(codec));
  words.push(toTextOrNull(status), toTextOrNull(title), toTextOrNull(goal), toTextOrNull(budget));
  numbers.push(
    expect.generation,
    expect.seq,
    count,
    at,
    sum,
    offset,
    bytes,
    typeof payload === "string" ? 1 : 0,
  );
  numbers.push(
    facetBits(facets),
    openCalls ?? null,
    mark === undefined ? null : Number(mark),
    expiresAt ?? null,
  );
}

export function facetBits(facets: StreamFacets): number {
  let bits = 0;
  if (facets.expiresAt !== undefined) bits |= FACET.expiresAt;
  if (facets.status !== undefined) bits |= FACET.status;
  if (facets.title !== undefined) bits |= FACET.title;
  if (facets.goal !== undefined) bits |= FACET.goal;
  if (facets.budget !== undefined) bits |= FACET.budget;
  return bits;
}

function addItem(words: Words, numbers: Numbers, place: number, item: Item): void {
  const { kind, id, status, name, key, seq, endSeq, at, doneAt } = item;
  words.push(toText(kind), toText(id), toTextOrNull(status), toTextOrNull(name), toTextOrNull(key));
  numbers.push(place, seq ?? null, endSeq ?? null, at ?? null, doneAt ?? null);
}

/** Arrays as Postgres writes them. */
function numberArray(numbers: Numbers): string {
  let text = "{";
  for (const each of numbers) text += `${text.length > 1 ? "," : ""}${each === null ? "NULL" : each}`;
  return `${text}}`;
}

export function textArray(words: Words): string {
  let text = "{";
  for (const each of words) text += `${text.length > 1 ? "," : ""}${each === null ? "NULL" : quoted(each)}`;
  return `${text}}`;
}

const quoted = (word: string): string => `"${/["\\]/.test(word) ? word.replace(/["\\]/g, "\\$&") : word}"`;
