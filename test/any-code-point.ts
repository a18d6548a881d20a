import fc from "fast-check";

const HALVES = { from: 0xd800, count: 0x800 };
const COUNT = 0x110000 - HALVES.count;
/** Shrinking ends at a space, not at NUL. */
const FIRST = 0x20;

/**
 * All of Unicode but surrogates, like `unit: "binary"`, which builds a table of 100 MB and takes a second for
 * it.
 */
export const anyCodePoint: fc.Arbitrary<string> = fc.nat(COUNT - 1).map(
  (number) => String.fromCodePoint(withoutHalves((number + FIRST) % COUNT)),
  (text) => {
    const [only, ...more] = typeof text === "string" ? text : "";
    const point = only?.codePointAt(0) ?? HALVES.from;
    const isHalf = point >= HALVES.from && point < HALVES.from + HALVES.count;
    if (isHalf || more.length > 0) throw new Error("that is no code point");
    const place = point < HALVES.from ? point : point - HALVES.count;
    return (place - FIRST + COUNT) % COUNT;
  },
);

function withoutHalves(place: number): number {
  return place < HALVES.from ? place : place + HALVES.count;
}
