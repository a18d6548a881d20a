/**
 * One table at the end of a TOML file: added, read, removed.
 *
 * `smol-toml` parses; this file only appends or cuts text, and parses the result to check it. Editors such as
 * `@decimalturn/toml-patch` rewrite more and do not give back a file with CRLF byte for byte.
 */

import { parse, TomlError } from "smol-toml";
import type { HoldfastError } from "../model/errors.ts";
import { type Insertion, malformed } from "./insertions.ts";

type Table = Readonly<Record<string, unknown>>;

/** The value under a dotted name, however it is written; undefined if there is none. */
export function tomlValue(text: string, file: string, name: string): unknown {
  return valueAt(parseToml(text, file), name.split("."));
}

export function addTable(
  text: string,
  file: string,
  name: string,
  members: Readonly<Record<string, string | readonly string[]>>,
): Insertion | null {
  if (tomlValue(text, file, name) !== undefined) return null;
  const eol = text.includes("\r\n") ? "\r\n" : "\n";
  const rows = Object.entries(members).map(([key, value]) => `${key} = ${written(value)}`);
  const before = text.trim() === "" ? "" : text.endsWith("\n") ? eol : eol + eol;
  const insertion = { at: text.length, text: before + [`[${name}]`, ...rows, ""].join(eol) };
  if (parsed(text + insertion.text) instanceof TomlError) {
    const [parent = ""] = name.split(".");
    const line = text.split("\n").findIndex((each) => new RegExp(`^\\s*"?${parent}`).test(each)) + 1;
    const what = `${parent} is not a table, so [${name}] cannot be added`;
    throw malformed(file, Math.max(1, line), 1, what);
  }
  return insertion;
}

/** Removes a table with its header; unchanged if it is not written as one table. */
export function stripTable(text: string, file: string, name: string): string {
  const path = name.split(".");
  const wanted = comparable(without(parseToml(text, file), path));
  const header = new RegExp(`^\\[${name.replaceAll(".", "\\.")}\\]`, "gm");
  for (const { index: from } of text.matchAll(header)) {
    const next = text.slice(from + 1).search(/^[ \t]*\[/m);
    const after = next < 0 ? "" : text.slice(from + 1 + next);
    const before = text.slice(0, from);
    const rest = parsed(before + after);
    // A header inside a multi-line string is text: cutting there would change another value.
    if (rest instanceof TomlError || comparable(without(rest, path)) !== wanted) continue;
    return (after === "" ? before.replace(/(\r?\n)\r?\n$/, "$1") : before) + after;
  }
  return text;
}

function parseToml(text: string, file: string): Table {
  const found = parsed(text);
  if (!(found instanceof TomlError)) return found;
  throw tomlMalformed(found, file);
}

function parsed(text: string): Table | TomlError {
  try {
    // A byte order mark becomes a space, so that columns stay the same.
    return parse(text.replace(/^\uFEFF/, " "), { integersAsBigInt: "asNeeded" });
  } catch (error) {
    if (error instanceof TomlError) return error;
    throw error;
  }
}

function tomlMalformed({ message, line, column }: TomlError, file: string): HoldfastError {
  const [first = ""] = message.split("\n", 1);
  return malformed(file, line, column, first.replace(/^Invalid TOML document: /, ""));
}

function valueAt(value: unknown, [name, ...rest]: readonly string[]): unknown {
  if (name === undefined) return value;
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return valueAt((value as Table)[name], rest);
}

function without(table: Table, [name = "", ...rest]: readonly string[]): Table {
  const { [name]: found, ...others } = table;
  if (rest.length === 0 || typeof found !== "object" || found === null)
    return rest.length === 0 ? others : table;
  const inner = without(found as Table, rest);
  return Object.keys(inner).length === 0 ? others : { ...table, [name]: inner };
}

function comparable(table: Table): string {
  return JSON.stringify(table, (_key, value: unknown) => (typeof value === "bigint" ? `${value}n` : value));
}

/** Every JSON string is a TOML string. */
function written(value: string | readonly string[]): string {
  return typeof value === "string"
    ? JSON.stringify(value)
    : `[${value.map((each) => JSON.stringify(each)).join(", ")}]`;
}
