/**
 * Adds entries to a JSON file with comments, and removes them again.
 *
 * Objects are merged, lists get missing elements appended, other values are added if nothing is there.
 * Existing text never changes. Entries of ours are recognised by their content.
 *
 * `jsonc-parser` reads. Writing is ours, because `modify` of that library reformats every line that it
 * touches: removing our entries would then not give back the same bytes.
 */

import { createScanner, getNodeValue, type Node, type ParseError, parseTree } from "jsonc-parser";
import type { HoldfastError } from "../model/errors.ts";
import { type Insertion, insertAll, malformed } from "./insertions.ts";

export type Wanted = { readonly [key: string]: Wanted } | readonly unknown[] | string | number;

/** Tells whether an element of a list, or a member by its path, is an entry of ours. */
export interface Ours {
  element(value: unknown): boolean;
  member(path: readonly string[], value: unknown): boolean;
}

export interface Merged {
  readonly text: string;
  readonly insertions: readonly Insertion[];
  readonly kept: readonly string[];
}

export function mergeJson(text: string, file: string, wanted: { readonly [key: string]: Wanted }): Merged {
  const root = readJson(text, file);
  if (root === null) {
    const put = `${JSON.stringify(wanted, null, 2)}\n`;
    const at = text.startsWith("\uFEFF") ? 1 : 0;
    const insertions = [{ at, text: put }];
    return { text: insertAll(text, insertions), insertions, kept: [] };
  }
  const merging = new JsonMerge(text, file);
  merging.enter(root, wanted, []);
  return { text: insertAll(text, merging.insertions), insertions: merging.insertions, kept: merging.kept };
}

class JsonMerge {
  readonly insertions: Insertion[] = [];
  readonly kept: string[] = [];
  private readonly text: string;
  private readonly file: string;

  constructor(text: string, file: string) {
    this.text = text;
    this.file = file;
  }

  enter(node: Node, wanted: { readonly [key: string]: Wanted }, path: readonly string[]): void {
    if (node.type !== "object") throw this.mismatch(node, path, "an object { }");
    const absent: [string, Wanted][] = [];
    for (const [key, value] of Object.entries(wanted)) {
      const member = memberOf(node, key);
      if (member) this.meet(member, value, [...path, key]);
      else absent.push([key, value]);
    }
    if (absent.length > 0) this.insertions.push(...addMembers(this.text, node, absent));
  }

  private meet(node: Node, wanted: Wanted, path: readonly string[]): void {
    if (Array.isArray(wanted)) this.append(node, wanted, path);
    else if (typeof wanted === "object") this.enter(node, wanted as { [key: string]: Wanted }, path);
    else if (JSON.stringify(getNodeValue(node)) !== JSON.stringify(wanted)) this.kept.push(path.join("."));
  }

  private append(node: Node, wanted: readonly unknown[], path: readonly string[]): void {
    if (node.type !== "array") throw this.mismatch(node, path, "a list [ ]");
    const known = new Set((node.children ?? []).map((each) => canonical(getNodeValue(each))));
    const missing = wanted.filter((each) => !known.has(canonical(each)));
    if (missing.length > 0) {
      this.insertions.push(
        ...addItems(this.text, node, (indent, style) => missing.map((each) => written(each, indent, style))),
      );
    }
  }

  private mismatch(node: Node, path: readonly string[], what: string): HoldfastError {
    const name = path.length === 0 ? "the file" : path.join(".");
    return malformedAt(this.text, node.offset, this.file, `${name} has to be ${what}`);
  }
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, each: unknown) =>
    each !== null && typeof each === "object" && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  );
}

interface Style {
  readonly eol: string;
  readonly step: string;
  readonly isOneLine: boolean;
}

function addMembers(
  text: string,
  object: Node,
  members: readonly (readonly [key: string, value: unknown])[],
): Insertion[] {
  return addItems(text, object, (indent, style) =>
    members.map(([key, value]) => {
      const space = style.isOneLine ? "" : " ";
      return `${JSON.stringify(key)}:${space}${written(value, indent, style)}`;
    }),
  );
}

function addItems(
  text: string,
  container: Node,
  items: (indent: string, style: Style) => readonly string[],
): Insertion[] {
  const style = styleOf(text);
  const children = container.children ?? [];
  const lastChild = children.at(-1);
  const close = endOf(container) - 1;
  if (lastChild && !text.slice(container.offset, close).includes("\n")) {
    const put = items("", { ...style, isOneLine: true }).join(", ");
    const last = endOf(lastChild);
    const comma = commaAfter(text, last, close);
    if (comma !== null) return [{ at: comma, text: ` ${put},` }];
    return [{ at: last, text: `,${text[last] === " " || style.step !== "" ? " " : ""}${put}` }];
  }
  const outer = indentAt(text, container.offset);
  const indent = (children[0] && ownIndent(text, children[0].offset)) ?? outer + style.step;
  const glue = style.isOneLine ? "" : `${style.eol}${indent}`;
  const put = items(indent, style).map((each) => `${glue}${each}`);
  if (!lastChild) {
    const at = afterComments(text, container.offset + 1, close);
    const isOpen = !style.isOneLine && !text.slice(at, close).includes("\n");
    return [{ at, text: put.join(",") + (isOpen ? `${style.eol}${outer}` : "") }];
  }
  const last = endOf(lastChild);
  const comma = commaAfter(text, last, close);
  const at = afterLineComments(text, comma ?? last);
  if (comma !== null) return [{ at, text: `${put.join(",")},` }];
  if (at === last) return [{ at, text: `,${put.join(",")}` }];
  return [
    { at: last, text: "," },
    { at, text: put.join(",") },
  ];
}

// The kinds of tokens of `jsonc-parser`, which declares them as a const enum.
const COMMA = 5;
const LINE_COMMENT = 12;
const BLOCK_COMMENT = 13;
const SPACE = 15;
const END = 17;

/** The offset after the first comma outside of comments; null if there is none. */
function commaAfter(text: string, from: number, to: number): number | null {
  const scanner = createScanner(text);
  scanner.setPosition(from);
  for (let token: number = scanner.scan(); token !== END; token = scanner.scan()) {
    if (scanner.getTokenOffset() >= to) return null;
    if (token === COMMA) return scanner.getPosition();
  }
  return null;
}

/** The end of the comments on the same line; `from` if there are none. */
function afterLineComments(text: string, from: number): number {
  const scanner = createScanner(text);
  scanner.setPosition(from);
  for (let end = from; ; ) {
    const token: number = scanner.scan();
    if (token === LINE_COMMENT) return scanner.getPosition();
    if (token === BLOCK_COMMENT && !scanner.getTokenValue().includes("\n")) end = scanner.getPosition();
    else if (token !== SPACE) return end;
  }
}

/** The end of the last comment before `to`; `from` if there is none. */
function afterComments(text: string, from: number, to: number): number {
  const scanner = createScanner(text);
  scanner.setPosition(from);
  let end = from;
  for (let token: number = scanner.scan(); scanner.getTokenOffset() < to; token = scanner.scan()) {
    if (token === LINE_COMMENT || token === BLOCK_COMMENT) end = scanner.getPosition();
  }
  return end;
}

function styleOf(text: string): Style {
  const eol = /\r\n/.test(text) ? "\r\n" : "\n";
  const isOneLine = !text.trim().includes("\n") && text.trim() !== "" && text.trim().length > 2;
  const step = /\n([ \t]+)\S/.exec(text)?.[1] ?? (isOneLine ? "" : "  ");
  return { eol, step, isOneLine };
}

function indentAt(text: string, at: number): string {
  const line = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  return /^[ \t]*/.exec(line)?.[0] ?? "";
}

function ownIndent(text: string, at: number): string | null {
  const line = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  return /^[ \t]*$/.test(line) ? line : null;
}

function written(value: unknown, indent: string, { eol, step, isOneLine }: Style): string {
  if (isOneLine) return JSON.stringify(value);
  return JSON.stringify(value, null, step || 2).replaceAll("\n", `${eol}${indent}`);
}

/** Removes our entries, and containers below a key in `drop` that are empty then. */
export function stripJson(text: string, file: string, ours: Ours, drop: readonly string[]): string {
  let left = text;
  for (;;) {
    const root = readJson(left, file);
    if (root === null) return left;
    const cut = firstCut(left, root, [], ours, drop);
    if (cut === null) return left;
    left = cutOut(left, cut);
  }
}

interface Cut {
  readonly container: Node;
  readonly index: number;
}

function firstCut(
  text: string,
  node: Node,
  path: readonly string[],
  ours: Ours,
  drop: readonly string[],
): Cut | null {
  const isList = node.type === "array";
  if (!isList && node.type !== "object") return null;
  const items = (node.children ?? []).map((each) =>
    isList ? { value: each, path } : { value: memberValue(each), path: [...path, nameOf(each)] },
  );
  for (const [index, item] of items.entries()) {
    const value: unknown = getNodeValue(item.value);
    const isOurs = isList ? ours.element(value) : ours.member(item.path, value);
    if (isOurs) return { container: node, index };
    const inner = firstCut(text, item.value, item.path, ours, drop);
    if (inner === null) continue;
    // Our last entry takes its container with it, unless a comment is left there.
    const isLast = inner.container === item.value && isBareAround(text, inner);
    const isDroppable = !isList && drop.includes(item.path[0] ?? "");
    return isLast && isDroppable ? { container: node, index } : inner;
  }
  return null;
}

function isBareAround(text: string, { container, index }: Cut): boolean {
  const [own, other] = container.children ?? [];
  if (!own || other || index !== 0) return false;
  const around = text.slice(container.offset + 1, own.offset) + text.slice(endOf(own), endOf(container) - 1);
  return /^[\s,]*$/.test(around);
}

function cutOut(text: string, cut: Cut): string {
  const { container, index } = cut;
  const { [index - 1]: before, [index]: own, [index + 1]: after } = container.children ?? [];
  if (!own) return text;
  if (before) return cutBetween(text, endOf(before), own.offset, endOf(own));
  if (after) {
    const gap = text.slice(endOf(own), after.offset);
    return text.slice(0, own.offset) + withoutComma(gap) + text.slice(after.offset);
  }
  if (isBareAround(text, cut)) return text.slice(0, container.offset + 1) + text.slice(endOf(container) - 1);
  return text.slice(0, own.offset) + text.slice(endOf(own)).replace(/^\s*,/, "");
}

/** Cuts an item with the comma and space before it; comments there stay. */
function cutBetween(text: string, end: number, from: number, to: number): string {
  const gap = text.slice(end, from);
  const kept = /^\s*,\s*$/.test(gap) ? "" : commaFree(gap);
  return text.slice(0, end) + kept + text.slice(to);
}

function withoutComma(gap: string): string {
  const kept = commaFree(gap);
  return kept.trim() === "" ? "" : kept;
}

function commaFree(gap: string): string {
  const comma = commaAfter(gap, 0, gap.length);
  return comma === null ? gap : gap.slice(0, comma - 1) + gap.slice(comma);
}

function readJson(text: string, file: string): Node | null {
  const errors: ParseError[] = [];
  const root = treeOf(text, file, errors);
  const [first] = errors;
  if (first) throw malformedAt(text, first.offset, file, WORDS[first.error] ?? "this is not JSON");
  return root ?? null;
}

export function jsonValue(text: string, file: string): unknown {
  const root = readJson(text, file);
  return root === null ? undefined : (getNodeValue(root) as unknown);
}

function treeOf(text: string, file: string, errors: ParseError[]): Node | undefined {
  try {
    // A byte order mark becomes a space, so that offsets stay the same.
    const options = { allowTrailingComma: true, allowEmptyContent: true };
    return parseTree(text.replace(/^\uFEFF/, " "), errors, options);
  } catch (error) {
    if (error instanceof RangeError) throw malformedAt(text, 0, file, "it is nested too deeply");
    throw error;
  }
}

const WORDS: Readonly<Record<number, string>> = {
  2: "a number is not valid",
  3: 'a name in " is missing',
  4: "a value is missing",
  5: ": is missing",
  6: "a comma is missing",
  7: "} is missing",
  8: "] is missing",
  9: "something follows the end of the JSON",
  11: "a comment is not closed",
  12: "a string is not closed",
  14: "a string has an invalid \\u",
  15: "a string has an invalid escape",
  16: "a string has a control character",
};

function malformedAt(text: string, offset: number, file: string, what: string): HoldfastError {
  const before = text.slice(0, offset).split("\n");
  return malformed(file, before.length, (before.at(-1)?.length ?? 0) + 1, what);
}

const endOf = ({ offset, length }: Node): number => offset + length;
const nameOf = (property: Node): string => String(property.children?.[0]?.value);
const memberValue = (property: Node): Node => property.children?.[1] ?? property;

/** The value of a member. The last of several with one name counts, as in every JSON parser. */
function memberOf(object: Node, key: string): Node | undefined {
  const found = object.children?.findLast((each) => nameOf(each) === key);
  return found && memberValue(found);
}
