/**
 * As much of TOML as it takes to put one table at the end of a file and to know that it is right there: strings, comments,
 * brackets and table headers are followed; what does not fit is refused with its line and column.
 */

import { malformed } from "./json-text.ts";

export interface TomlTable {
  /** `mcp_servers.holdfast` */
  readonly name: string;
  /** From its header to the next one, or the end. */
  readonly from: number;
  readonly to: number;
  /** `command`, `env.PATH` */
  readonly keys: readonly string[];
}

export interface TomlText {
  readonly tables: readonly TomlTable[];
  /** Keys that stand before every table. */
  readonly rootKeys: readonly string[];
}

const PART = String.raw`(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')`;
const KEY = new RegExp(String.raw`${PART}(?:[ \t]*\.[ \t]*${PART})*`, "y");
const HEADER = new RegExp(String.raw`\[\[?[ \t]*(${PART}(?:[ \t]*\.[ \t]*${PART})*)[ \t]*\]\]?`, "y");
const PLAIN = /[^\s,#\]}]+(?: [0-9:.+-]+)?/y;

export function readTomlText(text: string, file: string): TomlText {
  const headers: { name: string; from: number; keys: string[] }[] = [];
  const rootKeys: string[] = [];
  let at = text.startsWith("\uFEFF") ? 1 : 0;
  const wrong = (what: string, place = at): Error => malformed(text, place, file, what);
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at += found[0].length;
    return found;
  };
  const blank = (lines: boolean): void => {
    for (;;) {
      match(lines ? /\s*/y : /[ \t]*/y);
      if (text[at] !== "#") return;
      match(/[^\n]*/y);
      if (!lines) return;
    }
  };
  const value = (): void => {
    const from = at;
    if (text.startsWith('"""', at) || text.startsWith("'''", at)) {
      const mark = text.slice(at, at + 3);
      at += 3;
      const end = mark === '"""' ? /(?:[^"\\]|\\[\s\S]|"(?!""))*"{3,5}/y : /(?:[^']|'(?!''))*'{3,5}/y;
      if (!match(end)) throw wrong("a string of several lines is not closed", from);
    } else if (text[at] === '"' || text[at] === "'") {
      if (!match(text[at] === '"' ? /"(?:[^"\\\n]|\\.)*"/y : /'[^'\n]*'/y))
        throw wrong("a string is not closed");
    } else if (text[at] === "[") list("]", true, value);
    else if (text[at] === "{") list("}", false, assignment);
    else if (!match(PLAIN)) throw wrong("a value is missing");
  };
  const list = (close: string, lines: boolean, item: () => void): void => {
    const from = at++;
    for (blank(lines); text[at] !== close; ) {
      if (at >= text.length) throw wrong(`${text[from]} is not closed`, from);
      item();
      blank(lines);
      if (text[at] === ",") {
        at++;
        blank(lines);
      } else if (text[at] !== close && at < text.length) throw wrong(`a comma or ${close} is missing`);
    }
    at++;
  };
  const assignment = (): string => {
    const key = match(KEY)?.[0];
    if (key === undefined) throw wrong("a name is missing");
    match(/[ \t]*/y);
    if (text[at] !== "=") throw wrong("= is missing");
    at++;
    match(/[ \t]*/y);
    value();
    return nameOf(key);
  };
  for (blank(true); at < text.length; blank(true)) {
    const from = at;
    if (text[at] === "[") {
      const header = match(HEADER);
      if (!header) throw wrong("a table's header cannot be read");
      headers.push({ name: nameOf(header[1] ?? ""), from, keys: [] });
    } else {
      (headers.at(-1)?.keys ?? rootKeys).push(assignment());
    }
    blank(false);
    if (at < text.length && text[at] !== "\n" && text[at] !== "\r")
      throw wrong("the end of the line is missing");
  }
  const tables = headers.map((header, index) => {
    return { ...header, to: headers[index + 1]?.from ?? text.length };
  });
  return { tables, rootKeys };
}

/** Without quotes and spaces around the dots. */
function nameOf(key: string): string {
  const parts = key.match(new RegExp(PART, "g")) ?? [];
  return parts.map((part) => part.replace(/^["'](.*)["']$/, "$1")).join(".");
}
