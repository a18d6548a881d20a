/** Puts a member into an object or an element into a list of a JSON text, in the manner of the text around it. */

import type { Insertion } from "./insertions.ts";
import {
  afterLastComment,
  afterLineComments,
  type JsonArrayNode,
  type JsonNode,
  type JsonObjectNode,
} from "./json-text.ts";

/** How the file is written: what ends its lines, what one level of depth looks like, whether it has lines at all. */
interface Manner {
  readonly eol: string;
  readonly step: string;
  readonly isOneLine: boolean;
}

export function addMember(
  text: string,
  node: JsonObjectNode,
  members: readonly (readonly [key: string, value: unknown])[],
): Insertion[] {
  const ends = node.members.map(({ value }) => value.to);
  const firsts = node.members.map(({ from }) => from);
  return addInside(text, node, ends, firsts, (depth, manner) =>
    members.map(
      ([key, value]) =>
        `${JSON.stringify(key)}:${manner.isOneLine ? "" : " "}${written(value, depth, manner)}`,
    ),
  );
}

export function addElement(text: string, node: JsonArrayNode, values: readonly unknown[]): Insertion[] {
  const ends = node.elements.map(({ to }) => to);
  const firsts = node.elements.map(({ from }) => from);
  return addInside(text, node, ends, firsts, (depth, manner) =>
    values.map((value) => written(value, depth, manner)),
  );
}

/** A whole new file. */
export function newJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

function addInside(
  text: string,
  node: JsonNode,
  ends: readonly number[],
  firsts: readonly number[],
  items: (indent: string, manner: Manner) => readonly string[],
): Insertion[] {
  const manner = mannerOf(text);
  const last = ends.at(-1);
  const inside = text.slice(node.from, node.to);
  if (last !== undefined && !inside.includes("\n")) {
    // All on one line: it stays on one line.
    const put = items("", { ...manner, isOneLine: true }).join(", ");
    const close = node.to - 1;
    const comma = commaAfter(text, last, close);
    if (comma !== null) return [{ at: comma, text: ` ${put},` }];
    return [{ at: last, text: `,${text[last] === " " || manner.step !== "" ? " " : ""}${put}` }];
  }
  const outer = indentAt(text, node.from);
  const first = firsts[0];
  const own = first === undefined ? null : ownIndent(text, first);
  const indent = own ?? outer + manner.step;
  const put = items(indent, manner);
  const glue = manner.isOneLine ? "" : `${manner.eol}${indent}`;
  if (last === undefined) {
    const at = afterLastComment(text, node.from + 1, node.to - 1);
    const gap = text.slice(at, node.to - 1);
    const tail = manner.isOneLine || gap.includes("\n") ? "" : `${manner.eol}${outer}`;
    return [{ at, text: put.map((each, index) => `${index > 0 ? "," : ""}${glue}${each}`).join("") + tail }];
  }
  const comma = commaAfter(text, last, node.to - 1);
  const at = afterLineComments(text, comma ?? last);
  const body = put.map((each) => `${glue}${each}`).join(",") + (comma === null ? "" : ",");
  if (comma !== null || at !== last)
    return [...(comma === null ? [{ at: last, text: "," }] : []), { at, text: body }];
  return [{ at, text: `,${body}` }];
}

/** The place after a trailing comma, if there is one. */
function commaAfter(text: string, from: number, to: number): number | null {
  const rest = text
    .slice(from, to)
    .replace(/\/\/[^\r\n]*|\/\*[\s\S]*?\*\//g, (comment) => " ".repeat(comment.length));
  const at = rest.indexOf(",");
  return at < 0 ? null : from + at + 1;
}

function mannerOf(text: string): Manner {
  const eol = /\r\n/.test(text) ? "\r\n" : "\n";
  const isOneLine = !text.trim().includes("\n") && text.trim() !== "" && text.trim().length > 2;
  const step = /\n([ \t]+)\S/.exec(text)?.[1] ?? (isOneLine ? "" : "  ");
  return { eol, step, isOneLine };
}

/** The space that the line of this place begins with. */
function indentAt(text: string, at: number): string {
  const line = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  return /^[ \t]*/.exec(line)?.[0] ?? "";
}

/** The indent of what stands first on its line; null where something stands before it. */
function ownIndent(text: string, at: number): string | null {
  const line = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  return /^[ \t]*$/.test(line) ? line : null;
}

function written(value: unknown, indent: string, { eol, step, isOneLine }: Manner): string {
  if (isOneLine) return JSON.stringify(value);
  return JSON.stringify(value, null, step || 2).replaceAll("\n", `${eol}${indent}`);
}
