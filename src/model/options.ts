/**
 * What callers say beside the main thing. A name that is misspelt, or a value that cannot be meant, would otherwise be no option
 * at all: a budget that does not hold, a dry run that is none. Types say so first; programs without them, and values that come from
 * an environment, hear it here, before anything has happened.
 */

import { HoldfastError } from "./errors.ts";

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

/** What an option may be. A list names all its values; `null` in a rule's place: whoever uses the option checks it. */
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

/** Refuses what is not in the table, and what is in it with a value that does not fit. `undefined` counts as not said. */
export function checkOptions(
  what: string,
  given: unknown,
  table: Readonly<Record<string, OptionRule>>,
): void {
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw refused(
      `${what} takes an object of options, and got ${shown(given)}`,
      `It may hold ${listed(table)}.`,
    );
  }
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    if (!Object.hasOwn(table, name)) {
      const hint = `${didYouMean(name, Object.keys(table))}It may hold ${listed(table)}.`;
      throw refused(`${what} has no option ${JSON.stringify(name)}`, hint);
    }
    checkOption(`${what}: ${name}`, value, table[name] ?? null);
  }
}

/** The same for one value. */
export function checkOption(what: string, value: unknown, rule: OptionRule): void {
  if (rule === null) return;
  if (typeof rule === "string") {
    if (!RULES[rule].holds(value)) {
      throw refused(`${what} is ${shown(value)}`, `It has to be ${RULES[rule].words}. Nothing was done.`);
    }
    return;
  }
  if (typeof value === "string" && rule.includes(value)) return;
  const meant = typeof value === "string" ? didYouMean(value, rule) : "";
  throw refused(
    `${what} is ${shown(value)}`,
    `${meant}It has to be one of ${rule.join(", ")}. Nothing was done.`,
  );
}

function refused(message: string, hint: string): HoldfastError {
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
