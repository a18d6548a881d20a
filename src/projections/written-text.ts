/**
 * Writes values as text that people can edit and that reads back as the same values. Text that looks like a
 * heading or the end of a frontmatter becomes a JSON string, which neither YAML nor Markdown interprets.
 */

import { ALL_HIDDEN, HIDDEN } from "../model/visible-text.ts";
import { jsonString } from "../state-files/index.ts";

const LATEST_DATE_MS = 8.64e15;

/** A time as ISO text; a number beyond the calendar stays a number. */
export function isoTime(ms: number): string | number {
  return ms <= LATEST_DATE_MS ? new Date(ms).toISOString() : ms;
}

export function optionalTime(ms: number | null): string | number | null {
  return ms === null ? null : isoTime(ms);
}

export function oneLine(text: string, limit: number): string {
  const line = text.replace(/\s+/gu, " ").replace(ALL_HIDDEN, "").replace(/ +/g, " ").trim();
  if (line.length <= limit) return line;
  return `${[...line.slice(0, limit)].slice(0, -1).join("").trimEnd()}…`;
}

const BARE = /^(?:[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*|\d{4}-\d\d-\d\d(?:T[\d:.]+Z)?)$/;
const MEANS_SOMETHING = /^(?:true|false|null|yes|no|on|off|y|n)$/i;

/** A scalar of a frontmatter: bare if it cannot be misread, else a JSON string, which is also YAML. */
export function yamlScalar(value: string | number | boolean | null): string {
  if (typeof value !== "string") return String(value);
  return BARE.test(value) && !MEANS_SOMETHING.test(value) ? value : jsonString(value);
}

const LOOKS_LIKE_STRUCTURE = /^(?:#|```|---|\+\+\+|<<<<<<<|=======|>>>>>>>)/m;

/** Text under a heading: as it is, or as a JSON string in a fence if it looks like structure. */
export function textBlock(text: string): string {
  const isUnambiguous =
    text === text.trim() &&
    text !== "" &&
    !HIDDEN.test(text.replaceAll("\n", "")) &&
    !LOOKS_LIKE_STRUCTURE.test(text);
  return isUnambiguous ? text : `\`\`\`json\n${jsonString(text)}\n\`\`\``;
}

/** The reverse of `textBlock`. Throws a SyntaxError if a fence holds no JSON string. */
export function readBlock(block: string): string {
  const fence = /^```json\n([^\n]*)\n```$/.exec(block.trim());
  if (!fence) return block.trim();
  const value: unknown = JSON.parse(fence[1] ?? "");
  if (typeof value !== "string") throw new SyntaxError("the fence holds JSON, but no string");
  return value;
}
