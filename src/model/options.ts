/**
 * Checks options before anything happens. Without that, a misspelt name or an impossible value would be
 * ignored: a budget that limits nothing, a dry run that is none. Types catch it first, but not in JavaScript,
 * nor for values from the environment.
 */

import { HoldfastError } from "./errors.ts";

/** At most three known words that are close enough to be a typing mistake, closest first. */
function nearestTo(typed: string, known: Iterable<string>): string[] {
  const word = typed.toLowerCase();
  // In a short id, such as T-099, two wrong letters make another id.
  const limit = Math.max(1, Math.floor(word.length / 3));
  const scored = [...known].map((each) => ({ each, far: distance(word, each.toLowerCase()) }));
  const close = scored.filter(({ far }) => far <= limit).sort((a, b) => a.far - b.far);
  return close.slice(0, 3).map(({ each }) => each);
}

/** `Did you mean …? `, or an empty text. */
export function didYouMean(typed: string, known: Iterable<string>): string {
  const close = nearestTo(typed, known);
  return close.length === 0 ? "" : `Did you mean ${close.join(" or ")}? `;
}

/** Number of edits between two words; a swap of two neighbours counts as one. */
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

/**
 * The rule for an option. A list has all its values; `null` means that the code that uses the option checks
 * it.
 */
export type OptionRule = keyof typeof RULES | readonly string[] | null;

const isFiniteNumber = (value: unknown): value is number =>
  typeof value === "number" && Number.isFinite(value);

const RULES = {
  text: { holds: (value: unknown) => typeof value === "string", words: "a text" },
  flag: { holds: (value: unknown) => typeof value === "boolean", words: "true or false" },
  function: { holds: (value: unknown) => typeof value === "function", words: "a function" },
  list: { holds: Array.isArray, words: "a list" },
  object: { holds: (value: unknown) => typeof value === "object" && value !== null, words: "an object" },
  count: {
    holds: (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0,
    words: "a whole number of 0 or more",
  },
  number: {
    holds: (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 1,
    words: "a whole number of 1 or more",
  },
  most: {
    holds: (value: unknown) =>
      value === Number.POSITIVE_INFINITY || (Number.isSafeInteger(value) && (value as number) >= 0),
    words: "a whole number of 0 or more, or Infinity",
  },
  duration: {
    holds: (value: unknown) => isFiniteNumber(value) && value > 0,
    words: "a number above 0",
  },
  wait: {
    holds: (value: unknown) => value === Number.POSITIVE_INFINITY || (isFiniteNumber(value) && value >= 0),
    words: "a number of 0 or more",
  },
  time: { holds: isFiniteNumber, words: "a time in milliseconds" },
  age: {
    holds: (value: unknown) => isFiniteNumber(value) && value >= 0,
    words: "a number of 0 or more",
  },
} as const;

/** Throws for a name that is not in `table`, or a value that breaks its rule. `undefined` is ignored. */
export function checkOptions(
  what: string,
  options: unknown,
  table: Readonly<Record<string, OptionRule>>,
): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw invalid(
      `${what} takes an object of options, not ${shown(options)}`,
      `It may hold ${listed(table)}.`,
    );
  }
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (!Object.hasOwn(table, name)) {
      const hint = `${didYouMean(name, Object.keys(table))}It may hold ${listed(table)}.`;
      throw invalid(`${what} has no option ${JSON.stringify(name)}`, hint);
    }
    checkOption(`${what}: ${name}`, value, table[name] ?? null);
  }
}

/** `checkOptions` for one value. */
export function checkOption(what: string, value: unknown, rule: OptionRule): void {
  if (rule === null) return;
  if (typeof rule === "string") {
    if (!RULES[rule].holds(value)) {
      throw invalid(`${what} is ${shown(value)}`, `It has to be ${RULES[rule].words}. Nothing was done.`);
    }
    return;
  }
  if (typeof value === "string" && rule.includes(value)) return;
  const suggestion = typeof value === "string" ? didYouMean(value, rule) : "";
  throw invalid(
    `${what} is ${shown(value)}`,
    `${suggestion}It has to be one of ${rule.join(", ")}. Nothing was done.`,
  );
}

function invalid(message: string, hint: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", message, { hint });
}

function listed(table: Readonly<Record<string, OptionRule>>): string {
  return Object.keys(table).join(", ");
}

function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 80));
  if (value === null || typeof value !== "object")
    return typeof value === "function" ? "a function" : String(value);
  return Array.isArray(value) ? "a list" : "an object";
}
