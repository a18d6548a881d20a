/** Lists as tables. On a terminal they fit its width: the widest column that may shrink gives way. */

import { stripVTControlCharacters } from "node:util";
import type { Screen } from "./screen.ts";

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
      .map((cell, column) => padded(cut(cell, widths[column] ?? 0), widths[column] ?? 0))
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
export function cut(text: string, width: number): string {
  if (text.includes("\u001b") || lengthOf(text) <= width) return text;
  // A character takes two units at most: of a text of megabytes the rest need not be looked at.
  return `${[...text.slice(0, 2 * width)].slice(0, Math.max(0, width - 1)).join("")}…`;
}
