/**
 * JSON as the text that it came as. JavaScript reads every number as a double: an integer above 2^53 is rounded, and then
 * another thing is deleted than the one that was meant, and two calls look like one. What is passed on as text has no such
 * trouble; what is read and written again is looked at here first.
 */

import { randomBytes } from "node:crypto";

/** A number that comes out as another one when the text is read and written again. */
export interface InexactNumber {
  readonly path: readonly (string | number)[];
  /** As it was written. */
  readonly text: string;
}

/** A double has no more digits than these: a fraction that has more is meant to be kept to the last one. */
const DOUBLE_DIGITS = 17;
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const PARTS = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
/** Few texts have what could be such a number anywhere; the others need no closer look. */
const SUSPECT = /[\d.]{16}|\d[eE][+-]?\d/;

/** Of a text that is JSON. */
export function inexactNumbers(raw: string): readonly InexactNumber[] {
  if (!SUSPECT.test(raw)) return [];
  const found: InexactNumber[] = [];
  eachScalar(raw, (path, from, to) => {
    if (raw[from] === '"') return;
    const text = raw.slice(from, to);
    if (!isExact(text)) found.push({ path: path(), text });
  });
  return found;
}

/** The same text with another `id`. */
export function withId(raw: string, id: string): string {
  let place: readonly [number, number] | undefined;
  eachScalar(raw, (path, from, to, depth) => {
    if (depth === 1 && path()[0] === "id") place = [from, to];
  });
  return place ? raw.slice(0, place[0]) + id + raw.slice(place[1]) : raw;
}

/** A copy of the value in which these numbers are texts. */
export function asTexts(value: unknown, numbers: readonly InexactNumber[]): unknown {
  return replaced(value, numbers, ({ text }) => text);
}

/** The value as JSON, in which these numbers stand as they were written. */
export function exactText(value: unknown, numbers: readonly InexactNumber[]): string {
  const mark = randomBytes(12).toString("hex");
  const texts: string[] = [];
  const marked = replaced(value, numbers, ({ text }) => `${mark}${texts.push(text) - 1}.`);
  return JSON.stringify(marked).replace(
    new RegExp(`"${mark}(\\d+)\\."`, "g"),
    (_, at: string) => texts[Number(at)] ?? "null",
  );
}

function replaced(
  value: unknown,
  numbers: readonly InexactNumber[],
  make: (number: InexactNumber) => string,
): unknown {
  if (numbers.length === 0) return value;
  const copy = structuredClone(value);
  for (const number of numbers) {
    let inside: unknown = copy;
    for (const step of number.path.slice(0, -1)) inside = (Object(inside) as Record<string, unknown>)[step];
    const last = number.path.at(-1) ?? "";
    if (typeof inside !== "object" || inside === null || !Object.hasOwn(inside, last)) continue;
    const members = inside as Record<string, unknown>;
    const stands = members[last];
    const read = Number(number.text);
    // Whatever is at that place by now must be that number; beyond all doubles, the record has null.
    const isIt = stands === read || (stands === null && !Number.isFinite(read));
    if (isIt && PARTS.test(number.text)) members[last] = make(number);
  }
  return copy;
}

function isExact(text: string): boolean {
  const read = Number(text);
  if (!Number.isFinite(read)) return false;
  const meant = decimal(text);
  const became = decimal(String(read));
  if (meant.digits === became.digits && meant.exponent === became.exponent) return true;
  // Programs that print a double with all its digits mean that double.
  return meant.exponent < 0 && meant.digits.length <= DOUBLE_DIGITS && read !== 0;
}

/** Its digits without zeros at either end, and by which power of ten they count. */
function decimal(text: string): { readonly digits: string; readonly exponent: number } {
  const [, whole = "", fraction = "", exponent = "0"] = PARTS.exec(text) ?? [];
  const all = (whole + fraction).replace(/^0+/, "");
  const digits = all.replace(/0+$/, "");
  if (digits === "") return { digits, exponent: 0 };
  return { digits, exponent: Number(exponent) - fraction.length + all.length - digits.length };
}

type EachScalar = (path: () => (string | number)[], from: number, to: number, depth: number) => void;

/** Calls back for each text and number that is no name, with its place. Trusts that the text is JSON. */
function eachScalar(raw: string, each: EachScalar): void {
  const inside: { key: string | number; isNamed: boolean }[] = [];
  const path = (): (string | number)[] => inside.map(({ key }) => key);
  for (let at = 0; at < raw.length; ) {
    const char = raw[at] as string;
    const here = inside.at(-1);
    let to = at + 1;
    if (char === "{") inside.push({ key: "", isNamed: false });
    else if (char === "[") inside.push({ key: 0, isNamed: true });
    else if (char === "}" || char === "]") inside.pop();
    else if (char === "," && here) {
      if (typeof here.key === "number") here.key += 1;
      else here.isNamed = false;
    } else if (char === '"') {
      to = endOfText(raw, at);
      if (here && !here.isNamed) {
        here.key = JSON.parse(raw.slice(at, to)) as string;
        here.isNamed = true;
      } else each(path, at, to, inside.length);
    } else if (char === "-" || (char >= "0" && char <= "9")) {
      NUMBER.lastIndex = at;
      to = at + (NUMBER.exec(raw)?.[0].length ?? 1);
      each(path, at, to, inside.length);
    }
    at = to;
  }
}

function endOfText(raw: string, from: number): number {
  for (let quote = raw.indexOf('"', from + 1); quote >= 0; quote = raw.indexOf('"', quote + 1)) {
    let first = quote;
    while (raw[first - 1] === "\\") first -= 1;
    if ((quote - first) % 2 === 0) return quote + 1;
  }
  return raw.length;
}
