/**
 * How a channel's value differs from an earlier one, and the way back.
 *
 * In memory a list is an array that later versions share: a version is that array up to its own length. Adding to the
 * latest version extends the array in place; every other change makes a new one. A thread's history therefore takes the
 * memory of what was added, not of every version.
 */

import { sameJson } from "../../model/json.ts";
import type { WrittenList } from "./list-memory.ts";
import type { ValueParts } from "./part.ts";
import type { Part } from "./stored-part.ts";

export type Value =
  | { readonly kind: "list"; readonly list: Part[]; readonly length: number }
  | { readonly kind: "members"; readonly members: ReadonlyMap<string, Part> }
  | { readonly kind: "whole"; readonly part: Part };

/** Elements `from` up to but not including `to` of the earlier list, or new ones. */
export type Segment = readonly [from: number, to: number] | { readonly add: readonly Part[] };

/** `of`: the checkpoint whose value of the same channel it begins with; without it, with nothing. */
export type Change =
  | { readonly as: string }
  | { readonly value: Part }
  | { readonly of?: string; readonly list: readonly Segment[] }
  | {
      readonly of?: string;
      readonly set: readonly (readonly [string, Part])[];
      readonly drop?: readonly string[];
    };

/** The change from `base`, the channel's value at checkpoint `of`; null when there is none. */
export function compareValue(
  next: ValueParts,
  base: { readonly value: Value; readonly of: string } | undefined,
): Change | null {
  switch (next.kind) {
    case "list":
      if (base?.value.kind !== "list") return { list: next.length > 0 ? [{ add: partsOf(next, 0) }] : [] };
      return compareLists(next, base.value, base.of);
    case "members":
      if (base?.value.kind !== "members") return { set: [...next.members] };
      return compareMembers(next.members, base.value.members, base.of);
    case "whole":
      if (base?.value.kind === "whole" && same(base.value.part, next.part)) return null;
      return { value: next.part };
  }
}

function same(one: Part, other: Part): boolean {
  return one === other || sameJson(one, other);
}

function partsOf({ written, length }: WrittenList, from: number): Part[] {
  return written.parts.slice(from, length);
}

/** Both sides are arrays that only grow, so what was found equal once is equal for good. */
function compareLists(next: WrittenList, base: Extract<Value, { kind: "list" }>, of: string): Change | null {
  const { written, length } = next;
  const shorter = Math.min(base.length, length);
  let kept = written.agreed?.list === base.list ? Math.min(written.agreed.length, shorter) : 0;
  while (kept < shorter && same(base.list[kept] as Part, written.parts[kept] as Part)) kept++;
  written.agreed = { list: base.list, length: kept };
  if (kept === length && kept === base.length) return null;
  const start: Segment[] = kept > 0 ? [[0, kept]] : [];
  const rest = partsOf(next, kept);
  if (kept === base.length || kept === length) {
    return { of, list: rest.length > 0 ? [...start, { add: rest }] : start };
  }
  return { of, list: [...start, ...segments(rest, base, kept)] };
}

/** For lists that lost or changed something before their end: what was there already is referred to by its place. */
function segments(
  parts: readonly Part[],
  base: Extract<Value, { kind: "list" }>,
  from: number,
): readonly Segment[] {
  const places = new Map<string, number>();
  for (let index = base.length - 1; index >= from; index--)
    places.set(JSON.stringify(base.list[index]), index);
  const found: Segment[] = [];
  for (const part of parts) {
    const last = found.at(-1);
    // What follows the element before is preferred, so that equal elements do not break a run.
    const follows =
      last && !("add" in last) && last[1] < base.length && same(base.list[last[1]] as Part, part);
    const place = follows ? last[1] : places.get(JSON.stringify(part));
    if (place === undefined) {
      if (last && "add" in last) (last.add as Part[]).push(part);
      else found.push({ add: [part] });
    } else if (follows) found[found.length - 1] = [last[0], place + 1];
    else found.push([place, place + 1]);
  }
  return found;
}

function compareMembers(
  next: ReadonlyMap<string, Part>,
  base: ReadonlyMap<string, Part>,
  of: string,
): Change | null {
  const set = [...next].filter(([name, part]) => {
    const before = base.get(name);
    return before === undefined || !same(before, part);
  });
  const drop = [...base.keys()].filter((name) => !next.has(name));
  if (set.length === 0 && drop.length === 0) return null;
  return drop.length > 0 ? { of, set, drop } : { of, set };
}

/** The value after `change`; `base` is what `change.of` or `change.as` refers to. */
export function applyChange(change: Change, base: Value | undefined): Value | undefined {
  if ("as" in change) return base;
  if ("value" in change) return { kind: "whole", part: change.value };
  if ("list" in change) return applySegments(change.list, base?.kind === "list" ? base : undefined);
  const members = new Map(base?.kind === "members" ? base.members : []);
  for (const name of change.drop ?? []) members.delete(name);
  for (const [name, part] of change.set) members.set(name, part);
  return { kind: "members", members };
}

function applySegments(
  segments: readonly Segment[],
  base: Extract<Value, { kind: "list" }> | undefined,
): Value {
  const [first, second] = segments;
  const isGrowth =
    base !== undefined &&
    base.length === base.list.length &&
    segments.length === 2 &&
    Array.isArray(first) &&
    first[0] === 0 &&
    first[1] === base.length;
  if (isGrowth && second && "add" in second) {
    for (const part of second.add) base.list.push(part);
    return { kind: "list", list: base.list, length: base.list.length };
  }
  const list: Part[] = [];
  for (const segment of segments) {
    if ("add" in segment) for (const part of segment.add) list.push(part);
    else for (let index = segment[0]; index < segment[1]; index++) list.push(base?.list[index] as Part);
  }
  return { kind: "list", list, length: list.length };
}
