/** The side of the client of `append_single`: which flights go that way, and what its parameters say. */

import type { Item, StreamFacets } from "../../model/stream/index.ts";
import type { Write } from "../../store.ts";
import type { Entry } from "./database.ts";
import type { Bound } from "./kept-run.ts";
import { facetBits, markOf, type PlainBatch, textArray } from "./plain.ts";
import { FACET, FACET_WORDS } from "./schema-1-single.ts";
import { toText, toTextOrNull } from "./text.ts";

export function isSingle(flight: readonly PlainBatch[]): boolean {
  const [write] = flight[0]?.batch.writes ?? [];
  return flight.length === 1 && (write?.guards?.length ?? 0) <= 1 && (write?.items?.length ?? 0) <= 1;
}

/** In the order of the parameters in `schema-1-single.ts`. */
export function singleArguments({ store, allowLoss }: Entry, { batch, payloads }: PlainBatch): Bound[] {
  const [write] = batch.writes as [Write];
  const { stream, expect, count, at, sum, codec, facets = {}, guards, items } = write;
  const [payload = ""] = payloads;
  const isText = typeof payload === "string";
  const guard = guards?.[0];
  return [
    store,
    said(allowLoss),
    toText(batch.namespace),
    toText(stream),
    `${expect.generation}`,
    `${expect.seq}`,
    `${expect.seq + count}`,
    `${at}`,
    `${sum}`,
    toText(batch.id),
    toTextOrNull(codec),
    isText ? payload : null,
    isText ? null : payload,
    digits(facets.openCalls),
    said(markOf(write)),
    digits(facets.expiresAt),
    ...facetArguments(facets),
    guard ? toText(guard.lease) : null,
    digits(guard?.token),
    ...itemArguments(items?.[0]),
  ];
}

/** A time to expire at that is not cleared is a parameter of its own. */
function facetArguments(facets: StreamFacets): [Bound, Bound] {
  const bits = facetBits(facets);
  if ((bits & ~FACET.expiresAt) === 0 && facets.expiresAt !== null) return [null, null];
  return [`${bits}`, textArray(FACET_WORDS.map((name) => toTextOrNull(facets[name])))];
}

const NO_ITEM: readonly Bound[] = [null, null, null, null, null, null, null, null, null];

function itemArguments(item: Item | undefined): readonly Bound[] {
  if (!item) return NO_ITEM;
  const { kind, id, seq, endSeq, status, name, key, at, doneAt } = item;
  return [
    toText(kind),
    toText(id),
    digits(seq),
    digits(endSeq),
    toTextOrNull(status),
    toTextOrNull(name),
    toTextOrNull(key),
    digits(at),
    digits(doneAt),
  ];
}

const digits = (value: number | null | undefined): string | null =>
  value === null || value === undefined ? null : `${value}`;

const said = (value: boolean | undefined): string | null => (value === undefined ? null : value ? "t" : "f");
