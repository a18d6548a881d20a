/** Where a command prints: how wide it is, whether it has colours, and what happens when nobody reads any more. */

import { stripVTControlCharacters } from "node:util";
import { shellWord } from "../model/stream/index.ts";
import { ON_A_STORE, withTypedCommands } from "../wiring/index.ts";

/** Lists as tables. On a terminal they fit its width: the widest column that may shrink gives way. */

/** How a command ends, as scripts see it. `docs/cli.md` has the same table. */

export const EXIT = {
  done: 0,
  failed: 1,
  misused: 2,
  notFound: 3,
  refused: 4,
  /** It worked, and found something that a person has to see to. */
  found: 5,
  interrupted: 130,
  closedPipe: 141,
} as const;

const GAP = "  ";
const LEAST = 8;

/** Rows of cells; empty columns are left out. `shrinks` are the columns that may be cut. */
export function table(
  screen: Screen,
  head: readonly string[],
  rows: readonly (readonly string[])[],
  shrinks: readonly string[] = [],
): string {
  const used = head.map((_, column) => rows.some((row) => (row[column] ?? "") !== ""));
  const titles = head.filter((_, column) => used[column]);
  const cells = rows.map((row) => row.filter((_, column) => used[column]).map(oneLine));
  const widths = titles.map((title, column) =>
    Math.max(title.length, ...cells.map((row) => lengthOf(row[column] ?? ""))),
  );
  narrow(widths, titles, shrinks, screen.width);
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => padded(truncate(cell, widths[column] ?? 0), widths[column] ?? 0))
      .join(GAP)
      .trimEnd();
  const header = screen.paint.dim(line(titles.map((title) => title.toUpperCase())));
  return [header, ...cells.map(line)].map((each) => `${each}\n`).join("");
}

function narrow(widths: number[], titles: readonly string[], shrinks: readonly string[], room: number): void {
  if (!Number.isFinite(room)) return;
  const total = (): number => widths.reduce((sum, width) => sum + width + GAP.length, -GAP.length);
  while (total() > room) {
    const able = titles.map((title, column) => (shrinks.includes(title) ? (widths[column] ?? 0) : 0));
    const widest = able.indexOf(Math.max(...able));
    if ((able[widest] ?? 0) <= LEAST) return;
    widths[widest] = Math.max(LEAST, (widths[widest] ?? 0) - (total() - room));
  }
}

function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, " ");
}

function lengthOf(text: string): number {
  return [...stripVTControlCharacters(text)].length;
}

function padded(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - lengthOf(text)));
}

/** Cells that may shrink hold no colours, so cutting cannot cut a colour in two. */
export function truncate(text: string, width: number): string {
  if (text.includes("\u001b") || lengthOf(text) <= width) return text;
  // A character takes two units at most: of a text of megabytes the rest need not be looked at.
  return `${[...text.slice(0, 2 * width)].slice(0, Math.max(0, width - 1)).join("")}…`;
}

/**
 * What agents wrote may hold what a terminal obeys. It is said by its number, in the data before a page is made of it: what
 * the page paints itself stays.
 */

/** Controls but for tabs and ends of lines, and what turns the direction of text. */
const OBEYED =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
  /\r(?!\n)|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g;

export function escapeControls<Data>(data: Data): Data {
  return said(data) as Data;
}

function said(value: unknown): unknown {
  if (typeof value === "string") return value.replace(OBEYED, byNumber);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(said);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [said(key), said(each)]));
}

function byNumber(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

type Brush = (text: string) => string;

export interface Paint {
  readonly bold: Brush;
  readonly dim: Brush;
  readonly red: Brush;
  readonly yellow: Brush;
  readonly green: Brush;
  readonly cyan: Brush;
}

const same: Brush = (text) => text;
const PLAIN: Paint = { bold: same, dim: same, red: same, yellow: same, green: same, cyan: same };

export interface Screen {
  readonly paint: Paint;
  /** Columns; without end where the output is no terminal, so that programs read whole lines. */
  readonly width: number;
  readonly isTerminal: boolean;
  /** ` --store …` where a store was named: what a page says to type is meant for that one. */
  readonly store?: string;
}

/** `named` is the store as it was typed. One with a password in it is not repeated. */
export async function openScreen(named?: unknown): Promise<Screen> {
  const { stdout } = process;
  stdout.on("error", exitOnWriteError);
  const isTerminal = stdout.isTTY === true;
  const width = isTerminal ? Math.max(40, stdout.columns || 80) : Number.POSITIVE_INFINITY;
  const isSecret = /\/\/[^/]*@/.test(String(named));
  const store = typeof named === "string" ? ` --store ${isSecret ? "…" : shellWord(named)}` : "";
  hintedStore = store;
  if (!hasColours(isTerminal)) return { paint: PLAIN, width, isTerminal, store };
  const { default: colours } = await import("picocolors");
  return { paint: colours.createColors(true), width, isTerminal, store };
}

/** `| head` closes the pipe: that is no failure of ours, and nothing is left to say. Of a full disk somebody has to hear. */
function exitOnWriteError(error: NodeJS.ErrnoException): never {
  if (error.code === "EPIPE") process.exit(EXIT.closedPipe);
  process.stderr.write(`holdfast: the answer could not be written to the output: ${error.message}\n`);
  process.exit(EXIT.failed);
}

/** For whoever ends the process right after: that it was not written is told later than the write returns. */
export function print(text: string): Promise<void> {
  return new Promise((resolve) => {
    process.stdout.write(text, (error) => (error ? exitOnWriteError(error) : resolve()));
  });
}

/** What a page says to type. */
export function commandToPaste({ paint, store = "" }: Screen, command: string): string {
  return paint.cyan(command + store);
}

/** Of the screen that was opened last: a failure is told where no screen is at hand. */
let hintedStore = "";

/** A command as a hint names it, up to where an option may stand. Prose may speak of holdfast as well. */
const HINTED = new RegExp(String.raw`\bholdfast (?:${ON_A_STORE})(?![\w-])`, "g");

/** A hint is worded where nobody knows what was typed: its commands have to reach the same store. */
export function addStoreOption(hint: string): string {
  if (hintedStore === "" || hint.includes("--store")) return hint;
  return hint.replace(HINTED, (command) => command + hintedStore);
}

function hasColours(isTerminal: boolean): boolean {
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
  if (NO_COLOR) return false;
  if (FORCE_COLOR) return FORCE_COLOR !== "0";
  return isTerminal && TERM !== "dumb";
}

/** Every answer: exact JSON, or a page that a terminal can be trusted with. */
export function formatAnswer<Data>(
  asJson: unknown,
  kind: string,
  data: Data,
  page: (data: Data) => string,
  exact: (data: Data) => unknown = (same) => same,
): string {
  return asJson ? envelope(kind, exact(data)) : withTypedCommands(page(escapeControls(data)));
}

/** The envelope that every `--json` answer comes in. */
export function envelope(kind: string, data: unknown): string {
  return `${JSON.stringify({ schemaVersion: 1, kind, data })}\n`;
}
