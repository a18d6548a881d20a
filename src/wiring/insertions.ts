/** Wiring only inserts text into a file of a user, so `--remove` gives back the same bytes. */

import { HoldfastError } from "../model/errors.ts";

export interface Insertion {
  readonly at: number;
  readonly text: string;
}

/** Insertions at the same offset keep their order. */
export function insertAll(text: string, insertions: readonly Insertion[]): string {
  const sorted = [...insertions].sort((a, b) => a.at - b.at);
  let out = "";
  let from = 0;
  for (const { at, text: put } of sorted) {
    out += text.slice(from, at) + put;
    from = at;
  }
  return out + text.slice(from);
}

/**
 * The text without the insertions, or null if they are not all there; `length`: that of the text before them.
 * After a change in one place, everything behind it has moved by as much as the file grew. After several,
 * each insertion is searched by its text, and must be found exactly once.
 */
export function removeAll(text: string, insertions: readonly Insertion[], length: number): string | null {
  const sorted = [...insertions].sort((a, b) => a.at - b.at);
  const moved = text.length - length - sorted.reduce((sum, { text: put }) => sum + put.length, 0);
  for (let first = 0; first <= sorted.length; first++) {
    // A lone comma would be found anywhere: it moves with the insertion after it.
    if (isShort(sorted[first - 1]?.text ?? "whole")) continue;
    const rest = removedInPlace(text, sorted, first, moved);
    if (rest !== null) return rest;
  }
  return removedByText(text, sorted);
}

function removedInPlace(
  text: string,
  sorted: readonly Insertion[],
  first: number,
  moved: number,
): string | null {
  let out = "";
  let from = 0;
  let shift = 0;
  for (const [index, { at, text: put }] of sorted.entries()) {
    const place = at + shift + (index >= first ? moved : 0);
    if (place < from || !text.startsWith(put, place)) return null;
    out += text.slice(from, place);
    from = place + put.length;
    shift += put.length;
  }
  return out + text.slice(from);
}

/** A lone comma is found by its distance to the next insertion. */
function removedByText(text: string, sorted: readonly Insertion[]): string | null {
  let out = text;
  for (const [index, { at, text: put }] of sorted.entries()) {
    if (isShort(put)) continue;
    const place = out.indexOf(put);
    if (place < 0 || out.indexOf(put, place + 1) >= 0) return null;
    out = out.slice(0, place) + out.slice(place + put.length);
    const before = sorted[index - 1];
    if (!before || !isShort(before.text)) continue;
    const comma = place - (at - before.at) - before.text.length;
    if (comma < 0 || !out.startsWith(before.text, comma)) return null;
    out = out.slice(0, comma) + out.slice(comma + before.text.length);
  }
  return out;
}

function isShort(text: string): boolean {
  return text.trim().length < 3;
}

/** A file that cannot be wired: `file:line:column: what`. */
export function malformed(file: string, line: number, column: number, what: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${file}:${line}:${column}: ${what}`, {
    hint: "No file was changed. Correct that place and run holdfast init, or leave this agent out: --agent",
    data: { file, line, column },
  });
}
