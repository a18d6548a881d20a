/** One table at the end of a TOML file: put there, found again, taken out. */

import type { Insertion } from "./insertions.ts";
import { malformed } from "./json-text.ts";
import { readTomlText } from "./toml-text.ts";

/** Whether anything is said under that name: a table, one below it, or a key of a table above it. */
export function isNamed(text: string, file: string, name: string): boolean {
  const { tables, rootKeys } = readTomlText(text, file);
  const keys = tables.flatMap((table) => table.keys.map((key) => `${table.name}.${key}`));
  const names = [...rootKeys, ...keys, ...tables.map((table) => table.name)];
  return names.some((each) => each === name || each.startsWith(`${name}.`));
}

/** What a table of ours says; nothing where another hand wrote it: we write our values as JSON, each on one line. */
export function valuesOf(text: string, file: string, name: string): Readonly<Record<string, unknown>> | null {
  const table = readTomlText(text, file).tables.find((each) => each.name === name);
  if (!table) return null;
  const rows = text.slice(table.from, table.to).matchAll(/^(command|args) = (.+?)\r?$/gm);
  return Object.fromEntries([...rows].map(([, key, value]) => [key, jsonOrNull(value ?? "")]));
}

/** What goes in, or null when something of that name is there already. */
export function addTable(
  text: string,
  file: string,
  name: string,
  members: Readonly<Record<string, string | readonly string[]>>,
): Insertion | null {
  if (isNamed(text, file, name)) return null;
  const { rootKeys } = readTomlText(text, file);
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

function jsonOrNull(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    // TOML that is no JSON: not written by us.
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
