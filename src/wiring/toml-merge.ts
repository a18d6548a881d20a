/** One table at the end of a TOML file: put there, found again, taken out. */

import type { Insertion } from "./insertions.ts";
import { malformed } from "./json-text.ts";
import { readTomlText } from "./toml-text.ts";

/** What goes in, or null when the table is there already. */
export function addTable(
  text: string,
  file: string,
  name: string,
  members: Readonly<Record<string, string | readonly string[]>>,
): Insertion | null {
  const { tables, rootKeys } = readTomlText(text, file);
  if (tables.some((each) => each.name === name)) return null;
  const [parent = ""] = name.split(".");
  const inline = rootKeys.find((key) => key === parent || key.startsWith(`${parent}.`));
  if (inline !== undefined) {
    const at = text.search(new RegExp(`^\\s*"?${parent}`, "m"));
    throw malformed(text, Math.max(0, at), file, `${inline} is not a table, so [${name}] cannot be added`);
  }
  const eol = text.includes("\r\n") ? "\r\n" : "\n";
  const rows = Object.entries(members).map(([key, value]) => `${key} = ${written(value)}`);
  const before = text.trim() === "" ? "" : text.endsWith("\n") ? eol : eol + eol;
  return { at: text.length, text: before + [`[${name}]`, ...rows, ""].join(eol) };
}

export function stripTable(text: string, file: string, name: string): string {
  const table = readTomlText(text, file).tables.find((each) => each.name === name);
  if (!table) return text;
  const before = text.slice(0, table.from);
  const after = text.slice(table.to);
  return (after === "" ? before.replace(/(\r?\n)\r?\n$/, "$1") : before) + after;
}

/** What a JSON string may hold a TOML string may, too. */
function written(value: string | readonly string[]): string {
  return typeof value === "string"
    ? JSON.stringify(value)
    : `[${value.map((each) => JSON.stringify(each)).join(", ")}]`;
}
