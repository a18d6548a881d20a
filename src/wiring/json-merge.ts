/**
 * Brings wanted entries into a JSON file, and takes them out again.
 *
 * What is wanted is a tree: objects are entered, lists get their elements appended, everything else is put in only where
 * nothing is. What is there is never changed. Elements and members that are ours are known by what they say, so that a
 * second time adds nothing, and an entry of an older release is replaced.
 */

import type { HoldfastError } from "../model/errors.ts";
import { type Insertion, insertAll } from "./insertions.ts";
import { addElement, addMember, newJson } from "./json-insert.ts";
import {
  type JsonArrayNode,
  type JsonNode,
  type JsonObjectNode,
  malformed,
  memberOf,
  plainValue,
  readJsonText,
} from "./json-text.ts";

export type Wanted = { readonly [key: string]: Wanted } | readonly unknown[] | string | number;

/** Whether an element of a list, or a member by its path, is one that we put in. */
export interface Ours {
  element(value: unknown): boolean;
  member(path: readonly string[], value: unknown): boolean;
}

export interface Merged {
  readonly text: string;
  readonly insertions: readonly Insertion[];
  /** What is there already in another way and was left alone. */
  readonly kept: readonly string[];
}

export function mergeJson(text: string, file: string, wanted: { readonly [key: string]: Wanted }): Merged {
  const root = readJsonText(text, file);
  if (root === null) {
    const put = newJson(wanted);
    const at = text.startsWith("\uFEFF") ? 1 : 0;
    const insertions = [{ at, text: put }];
    return { text: insertAll(text, insertions), insertions, kept: [] };
  }
  const merging = new Merging(text, file);
  merging.enter(root, wanted, []);
  return { text: insertAll(text, merging.insertions), insertions: merging.insertions, kept: merging.kept };
}

class Merging {
  readonly insertions: Insertion[] = [];
  readonly kept: string[] = [];
  private readonly text: string;
  private readonly file: string;

  constructor(text: string, file: string) {
    this.text = text;
    this.file = file;
  }

  enter(node: JsonNode, wanted: { readonly [key: string]: Wanted }, path: readonly string[]): void {
    if (node.kind !== "object") throw this.mismatch(node, path, "an object { }");
    const absent: [string, Wanted][] = [];
    for (const [key, value] of Object.entries(wanted)) {
      const member = memberOf(node, key);
      if (member) this.meet(member.value, value, [...path, key]);
      else absent.push([key, value]);
    }
    if (absent.length > 0) this.insertions.push(...addMember(this.text, node, absent));
  }

  private meet(node: JsonNode, wanted: Wanted, path: readonly string[]): void {
    if (Array.isArray(wanted)) this.append(node, wanted, path);
    else if (typeof wanted === "object") this.enter(node, wanted as { [key: string]: Wanted }, path);
    else if (JSON.stringify(plainValue(node)) !== JSON.stringify(wanted)) this.kept.push(path.join("."));
  }

  private append(node: JsonNode, wanted: readonly unknown[], path: readonly string[]): void {
    if (node.kind !== "array") throw this.mismatch(node, path, "a list [ ]");
    const known = new Set(node.elements.map((each) => canonical(plainValue(each))));
    const missing = wanted.filter((each) => !known.has(canonical(each)));
    if (missing.length > 0) this.insertions.push(...addElement(this.text, node, missing));
  }

  private mismatch(node: JsonNode, path: readonly string[], what: string): HoldfastError {
    const name = path.length === 0 ? "the file" : path.join(".");
    return malformed(this.text, node.from, this.file, `${name} has to be ${what}`);
  }
}

/** Without regard to the order of members. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, each: unknown) =>
    each !== null && typeof each === "object" && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  );
}

/** The text without what is ours; lists and objects that are empty afterwards and below `drop` go too. */
export function stripJson(text: string, file: string, ours: Ours, drop: readonly string[]): string {
  let left = text;
  for (;;) {
    const root = readJsonText(left, file);
    if (root === null) return left;
    const cut = firstCut(left, root, [], ours, drop);
    if (cut === null) return left;
    left = cutOut(left, cut);
  }
}

interface Cut {
  readonly container: JsonObjectNode | JsonArrayNode;
  readonly index: number;
}

function firstCut(
  text: string,
  node: JsonNode,
  path: readonly string[],
  ours: Ours,
  drop: readonly string[],
): Cut | null {
  if (node.kind === "plain") return null;
  const items =
    node.kind === "array"
      ? node.elements.map((value) => ({ value, path }))
      : node.members.map(({ key, value }) => ({ value, path: [...path, key] }));
  for (const [index, item] of items.entries()) {
    const value = plainValue(item.value);
    const isOurs = node.kind === "array" ? ours.element(value) : ours.member(item.path, value);
    if (isOurs) return { container: node, index };
    const inner = firstCut(text, item.value, item.path, ours, drop);
    if (inner === null) continue;
    // The last one in a container of ours takes the container with it, unless somebody wrote a comment there.
    const isLast = inner.container === item.value && isBareAround(text, inner);
    const isDroppable = node.kind === "object" && drop.includes(item.path[0] ?? "");
    return isLast && isDroppable ? { container: node, index } : inner;
  }
  return null;
}

/** Whether it is alone in its container, with nothing else around it but space and commas. */
function isBareAround(text: string, { container, index }: Cut): boolean {
  const places = placesIn(container);
  const own = places[index];
  if (!own || places.length !== 1) return false;
  return /^[\s,]*$/.test(text.slice(container.from + 1, own.from) + text.slice(own.to, container.to - 1));
}

function placesIn(container: JsonObjectNode | JsonArrayNode): { from: number; to: number }[] {
  if (container.kind === "array") return container.elements.map(({ from, to }) => ({ from, to }));
  return container.members.map(({ from, value }) => ({ from, to: value.to }));
}

function cutOut(text: string, cut: Cut): string {
  const { container, index } = cut;
  const places = placesIn(container);
  const own = places[index] as { from: number; to: number };
  const before = places[index - 1];
  const after = places[index + 1];
  if (before) return cutBetween(text, before.to, own.from, own.to);
  if (after)
    return text.slice(0, own.from) + withoutComma(text.slice(own.to, after.from)) + text.slice(after.from);
  if (isBareAround(text, cut)) return text.slice(0, container.from + 1) + text.slice(container.to - 1);
  return text.slice(0, own.from) + text.slice(own.to).replace(/^\s*,/, "");
}

/** With the comma and the space before it; comments that stand there stay, on lines of their own. */
function cutBetween(text: string, end: number, from: number, to: number): string {
  const gap = text.slice(end, from);
  const kept = /^\s*,\s*$/.test(gap) ? "" : commaFree(gap);
  return text.slice(0, end) + kept + text.slice(to);
}

/** What stands between two items, without the comma; nothing at all where only space is left. */
function withoutComma(gap: string): string {
  const kept = commaFree(gap);
  return kept.trim() === "" ? "" : kept;
}

function commaFree(gap: string): string {
  const bare = gap.replace(/\/\/[^\r\n]*|\/\*[\s\S]*?\*\//g, (comment) => " ".repeat(comment.length));
  const comma = bare.indexOf(",");
  return gap.slice(0, comma) + gap.slice(comma + 1);
}
