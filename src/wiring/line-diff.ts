/** Two texts as a unified diff, for people to read before anything is written. */

const AROUND = 2;
/** Beyond this many lines in both together, only what differs as a whole is shown. */
const MOST_CELLS = 4_000_000;

interface Line {
  readonly mark: " " | "+" | "-";
  readonly text: string;
}

export function unifiedDiff(path: string, before: string | null, after: string | null): string {
  if (before === after) return "";
  const lines = compare(linesOf(before), linesOf(after));
  const isShown = lines.map((_, index) =>
    lines.slice(Math.max(0, index - AROUND), index + AROUND + 1).some(({ mark }) => mark !== " "),
  );
  const out = [`--- ${before === null ? "/dev/null" : path}`, `+++ ${after === null ? "/dev/null" : path}`];
  let old = 1;
  let fresh = 1;
  lines.forEach(({ mark, text }, index) => {
    if (isShown[index]) {
      if (index === 0 || !isShown[index - 1]) out.push(`@@ -${old} +${fresh} @@`);
      out.push(`${mark}${text}`);
    }
    if (mark !== "+") old++;
    if (mark !== "-") fresh++;
  });
  return `${out.join("\n")}\n`;
}

function linesOf(text: string | null): string[] {
  if (text === null || text === "") return [];
  return text.replace(/\r?\n$/, "").split(/\r?\n/);
}

function compare(before: readonly string[], after: readonly string[]): Line[] {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head++;
  let tail = 0;
  const most = Math.min(before.length, after.length) - head;
  while (tail < most && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  const same = (text: string): Line => ({ mark: " ", text });
  return [
    ...before.slice(0, head).map(same),
    ...middle(before.slice(head, before.length - tail), after.slice(head, after.length - tail)),
    ...before.slice(before.length - tail).map(same),
  ];
}

/** The longest common run of lines stays, the rest goes or comes. */
function middle(before: readonly string[], after: readonly string[]): Line[] {
  const gone = before.map((text): Line => ({ mark: "-", text }));
  const come = after.map((text): Line => ({ mark: "+", text }));
  if (before.length * after.length > MOST_CELLS) return [...gone, ...come];
  const width = after.length + 1;
  const common = new Uint32Array((before.length + 1) * width);
  const at = (row: number, column: number): number => common[row * width + column] ?? 0;
  for (let row = before.length - 1; row >= 0; row--) {
    for (let column = after.length - 1; column >= 0; column--) {
      common[row * width + column] =
        before[row] === after[column]
          ? at(row + 1, column + 1) + 1
          : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const lines: Line[] = [];
  let row = 0;
  let column = 0;
  while (row < before.length && column < after.length) {
    if (before[row] === after[column]) {
      lines.push({ mark: " ", text: before[row] ?? "" });
      row++;
      column++;
    } else if (at(row + 1, column) >= at(row, column + 1)) lines.push(gone[row++] as Line);
    else lines.push(come[column++] as Line);
  }
  return [...lines, ...gone.slice(row), ...come.slice(column)];
}
