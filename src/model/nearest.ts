/** What somebody may have meant: the ids and words that are closest to what was typed. */

/** At most three, best first; nothing that is too far off to be a slip. */
function nearestTo(typed: string, known: Iterable<string>): string[] {
  const word = typed.toLowerCase();
  // Of short ids, such as T-099, two wrong letters leave nothing that was meant.
  const limit = Math.max(1, Math.floor(word.length / 3));
  const scored = [...known].map((each) => ({ each, far: distance(word, each.toLowerCase()) }));
  const close = scored.filter(({ far }) => far <= limit).sort((a, b) => a.far - b.far);
  return close.slice(0, 3).map(({ each }) => each);
}

/** `did you mean …?`, or nothing. */
export function didYouMean(typed: string, known: Iterable<string>): string {
  const close = nearestTo(typed, known);
  return close.length === 0 ? "" : `Did you mean ${close.join(" or ")}? `;
}

/** Edits from one word to the other; a swap of two neighbours counts as one. */
function distance(a: string, b: string): number {
  if (b.startsWith(a) && a.length >= 3) return 1;
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  for (let row = 1; row <= a.length; row++) {
    const line = [row];
    for (let column = 1; column <= b.length; column++) {
      const cost = Number(a[row - 1] !== b[column - 1]);
      const above = rows[row - 1] ?? [];
      let best = Math.min(
        (above[column] ?? 0) + 1,
        (line[column - 1] ?? 0) + 1,
        (above[column - 1] ?? 0) + cost,
      );
      const isSwap = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (isSwap) best = Math.min(best, (rows[row - 2]?.[column - 2] ?? 0) + 1);
      line.push(best);
    }
    rows.push(line);
  }
  return rows[a.length]?.[b.length] ?? 0;
}
