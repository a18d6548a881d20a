/**
 * All that is ever done to a file of somebody else's is to put text in. So the way back is to take that very text out,
 * and everything else is what it was, byte for byte.
 */

export interface Insertion {
  /** In the text before any of the insertions. */
  readonly at: number;
  readonly text: string;
}

/** In the order of their places; what is put into the same place keeps the order in which it was said. */
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
 * The text without them, or null when they are not all there any more. `length` is that of the text before they were put
 * in. Where the file was changed in one place since, what stands behind that place has moved by as much as the file
 * grew; where it was changed in several, each is looked for by its words, and has to be found exactly once.
 */
export function takeOutAll(text: string, insertions: readonly Insertion[], length: number): string | null {
  const sorted = [...insertions].sort((a, b) => a.at - b.at);
  const moved = text.length - length - sorted.reduce((sum, { text: put }) => sum + put.length, 0);
  for (let first = 0; first <= sorted.length; first++) {
    // A comma alone would be found anywhere: it moves with what follows it.
    if (isShort(sorted[first - 1]?.text ?? "whole")) continue;
    const taken = takenInPlace(text, sorted, first, moved);
    if (taken !== null) return taken;
  }
  return takenByWords(text, sorted);
}

/** Those from the one at `first` on have moved. */
function takenInPlace(
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

/** A lone comma says nothing about its place, so it is found by how far before the next insertion it stands. */
function takenByWords(text: string, sorted: readonly Insertion[]): string | null {
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
