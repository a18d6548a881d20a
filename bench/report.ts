import type { Measure, Result } from "./measure.ts";

/** One line per measure, aligned; the figures behind it follow, indented. */
export function lineOf(measure: Measure, result: Result): string {
  const { value, bar, ok, direction, numbers } = result;
  const mark = bar === null ? "--" : ok ? "ok" : "MISSED";
  const limit = bar === null ? "" : `${direction === "at most" ? "≤" : "≥"} ${bar}`;
  const figure = `${mark.padEnd(7)}${measure.name.padEnd(20)}${String(value).padStart(8)}`;
  const head = `${figure}  ${limit.padEnd(6)}  ${measure.what}`;
  return [head, ...wrapped(Object.entries(numbers).map(([name, number]) => `${name} ${number}`))].join("\n");
}

const WIDTH = 110;
const INDENT = " ".repeat(9);

function wrapped(parts: readonly string[]): string[] {
  const lines: string[] = [];
  for (const part of parts) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + part.length + 3 <= WIDTH)
      lines[lines.length - 1] = `${last} · ${part}`;
    else lines.push(INDENT + part);
  }
  return lines;
}
