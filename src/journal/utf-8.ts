/**
 * JSON as the bytes of UTF-8, letter for letter what `JSON.stringify` and an encoder would give. Those two look at each letter by
 * itself, one after the other, and leave strings as long as the text behind, which is a fifth of what saving a turn costs. Here a text is laid out
 * as units of UTF-16, which V8 copies as a block, and walked through once, four units at a time while nothing is to be escaped.
 */

import type { JsonText } from "../model/json-text.ts";

/** One piece of memory for many texts, and how much of it they have. What was given away is not written to again. */
let slab = Buffer.allocUnsafeSlow(0);
let taken = 0;
const SLAB_BYTES = 256 * 1024;
/** Of less text a string is made faster, and the checksum and the driver each make bytes of it faster than they can be asked for here. */
const SHORT = 1024;
/** Longer texts are few, and to make them twice costs little beside writing them. */
const LONG = 32 * 1024;

/** A unit of UTF-16 takes six bytes where it is escaped by its number. */
const MOST_BYTES = 6;

/** Where a text is laid out, as units and as the bytes of those. */
const units = new Uint16Array(LONG);
const unitBytes = Buffer.from(units.buffer);
/** `utf16le` says how the bytes lie, and not how this processor reads them. */
const READS_UNITS = new Uint16Array(new Uint8Array([1, 0]).buffer)[0] === 1;

/** The bytes of a text; undefined where a string will do. To have each text's in memory of its own costs more than to make them. */
export function utf8Of({ pieces, rest, textLength }: JsonText): Uint8Array | undefined {
  if (textLength < SHORT || !READS_UNITS) return undefined;
  let length = rest.length;
  for (const piece of pieces) length += piece.length;
  if (length > LONG) return undefined;
  if (slab.length - taken < MOST_BYTES * length + pieces.length) {
    slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
    taken = 0;
  }
  const begin = taken;
  let at = begin;
  for (let index = 0; index < pieces.length; index += 2) {
    at += slab.write(pieces[index] as string, at);
    at = writeQuoted(pieces[index + 1] as string, slab, at);
  }
  taken = at + slab.write(rest, at);
  return slab.subarray(begin, taken);
}

/** 1 for what a JSON string has as it is, and in one byte. */
const PLAIN = new Uint8Array(0x10000);
PLAIN.fill(1, 0x20, 0x80);
PLAIN[0x22] = 0;
PLAIN[0x5c] = 0;

/** Returns where it ends. */
function writeQuoted(text: string, into: Uint8Array, from: number): number {
  const length = unitBytes.write(text, "utf16le") >> 1;
  let at = from;
  into[at++] = QUOTE;
  let index = 0;
  while (index < length) {
    while (index + 3 < length) {
      const first = units[index] as number;
      const second = units[index + 1] as number;
      const third = units[index + 2] as number;
      const fourth = units[index + 3] as number;
      const all = (PLAIN[first] as number) & (PLAIN[second] as number);
      if ((all & (PLAIN[third] as number) & (PLAIN[fourth] as number)) === 0) break;
      into[at] = first;
      into[at + 1] = second;
      into[at + 2] = third;
      into[at + 3] = fourth;
      at += 4;
      index += 4;
    }
    if (index === length) break;
    const unit = units[index] as number;
    if (PLAIN[unit]) into[at++] = unit;
    else if (unit < 0x80) at = writeEscape(unit, into, at);
    else if (isPair(unit, index + 1 < length ? (units[index + 1] as number) : 0)) {
      at = writePair(unit, units[++index] as number, into, at);
    } else at = writeLetter(unit, into, at);
    index += 1;
  }
  into[at++] = QUOTE;
  return at;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** By the letter that stands for it after a backslash. */
const ESCAPES = new Uint8Array(0x80);
for (const [code, letter] of ['""', "\\\\", "\bb", "\tt", "\nn", "\ff", "\rr"]) {
  ESCAPES[(code as string).charCodeAt(0)] = (letter as string).charCodeAt(0);
}

function writeEscape(unit: number, into: Uint8Array, at: number): number {
  const letter = ESCAPES[unit] as number;
  if (letter === 0) return writeNumber(unit, into, at);
  into[at] = BACKSLASH;
  into[at + 1] = letter;
  return at + 2;
}

const DIGITS = Buffer.from("0123456789abcdef");

function writeNumber(unit: number, into: Uint8Array, at: number): number {
  into[at] = BACKSLASH;
  into[at + 1] = 0x75;
  for (let digit = 0; digit < 4; digit++)
    into[at + 2 + digit] = DIGITS[(unit >> (12 - 4 * digit)) & 15] as number;
  return at + 6;
}

function isPair(unit: number, next: number): boolean {
  return (unit & 0xfc00) === 0xd800 && (next & 0xfc00) === 0xdc00;
}

function writePair(high: number, low: number, into: Uint8Array, at: number): number {
  const point = 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
  into[at] = 0xf0 | (point >> 18);
  into[at + 1] = 0x80 | ((point >> 12) & 0x3f);
  into[at + 2] = 0x80 | ((point >> 6) & 0x3f);
  into[at + 3] = 0x80 | (point & 0x3f);
  return at + 4;
}

/** Half of a pair has no UTF-8; JSON tells its number. */
function writeLetter(unit: number, into: Uint8Array, at: number): number {
  if (unit < 0x800) {
    into[at] = 0xc0 | (unit >> 6);
    into[at + 1] = 0x80 | (unit & 0x3f);
    return at + 2;
  }
  if ((unit & 0xf800) === 0xd800) return writeNumber(unit, into, at);
  into[at] = 0xe0 | (unit >> 12);
  into[at + 1] = 0x80 | ((unit >> 6) & 0x3f);
  into[at + 2] = 0x80 | (unit & 0x3f);
  return at + 3;
}
