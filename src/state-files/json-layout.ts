import { ALL_HIDDEN } from "../model/visible-text.ts";

export function jsonString(text: string): string {
  return JSON.stringify(text).replace(ALL_HIDDEN, (character) =>
    [...Array(character.length).keys()]
      .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`)
      .join(""),
  );
}

const INLINE_CHARACTERS = 100;
const INLINE_DEPTH = 3;

/** JSON that diffs well: one member per line; deep inside, a short value stays on its line. */
export function layoutJson(value: unknown, depth = 0): string {
  if (typeof value === "string") return jsonString(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const isList = Array.isArray(value);
  const members = isList
    ? value.map((each) => layoutJson(each, depth + 1))
    : Object.entries(value)
        .filter(([, member]) => member !== undefined)
        .map(([key, member]) => `${jsonString(key)}: ${layoutJson(member, depth + 1)}`);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  if (members.length === 0) return open + close;
  const inline = isList ? `[${members.join(", ")}]` : `{ ${members.join(", ")} }`;
  if (depth >= INLINE_DEPTH && inline.length <= INLINE_CHARACTERS && !inline.includes("\n")) return inline;
  const indent = "  ".repeat(depth + 1);
  return `${open}\n${indent}${members.join(`,\n${indent}`)}\n${"  ".repeat(depth)}${close}`;
}
