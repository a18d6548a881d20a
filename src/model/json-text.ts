/**
 * JSON text that is still being written. Its long strings are kept apart and unescaped until the end, when
 * the whole becomes a string (`toString`) or UTF-8 bytes (`toUtf8`).
 *
 * `toString` is the plain form. `toUtf8` gives the same text as bytes in one walk, for stores that take bytes
 * (see `acceptsUtf8`). Checksum and driver would otherwise each encode the string again. A turn of 4 KB takes
 * 5 µs on Node 20, where `JSON.stringify` and an encoder take 17 (8 and 12 on Node 24). Without `toUtf8`, 64
 * sessions at once on SQLite reach 0.67 of the raw rate instead of 0.82; the bar is 0.7 (decision 021). A
 * property test in `test/model/json-text.test.ts` compares the two forms.
 */
export class JsonText {
  /** Pairs: JSON text, then a string that is not escaped yet. `rest` follows the last pair. */
  private readonly pieces: string[] = [];
  private rest = "";
  /** Length of all strings in `pieces`, which is most of the whole text. */
  private textLength = 0;

  /** Adds text that is JSON already. */
  json(text: string): void {
    this.rest += text;
  }

  /** Adds a string as a JSON value. */
  text(value: string): void {
    if (value.length < MIN_PIECE) {
      this.rest += JSON.stringify(value);
      return;
    }
    this.pieces.push(this.rest, value);
    this.rest = "";
    this.textLength += value.length;
  }

  /** Adds everything that `other` holds. */
  add(other: JsonText): void {
    for (let index = 0; index < other.pieces.length; index += 2) {
      this.json(other.pieces[index] as string);
      this.text(other.pieces[index + 1] as string);
    }
    this.rest += other.rest;
  }

  toString(): string {
    let joined = "";
    for (let index = 0; index < this.pieces.length; index += 2) {
      joined += this.pieces[index];
      joined += JSON.stringify(this.pieces[index + 1]);
    }
    return joined + this.rest;
  }

  /** The text as UTF-8; undefined where a string is as fast. The bytes never change later. */
  toUtf8(): Uint8Array | undefined {
    if (this.textLength < MIN_UTF8 || !IS_LITTLE_ENDIAN) return undefined;
    let length = this.rest.length;
    for (const piece of this.pieces) length += piece.length;
    if (length > MAX_UTF8) return undefined;
    if (slab.length - slabUsed < MAX_BYTES_PER_UNIT * length + this.pieces.length) {
      slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
      slabUsed = 0;
    }
    const start = slabUsed;
    let at = start;
    for (let index = 0; index < this.pieces.length; index += 2) {
      at += slab.write(this.pieces[index] as string, at);
      at = writeQuoted(this.pieces[index + 1] as string, slab, at);
    }
    slabUsed = at + slab.write(this.rest, at);
    return slab.subarray(start, slabUsed);
  }
}

/** A shorter string is escaped at once: one call of `JSON.stringify` is the fastest way. */
const MIN_PIECE = 64;
/** Below this a string is faster: checksum and driver encode a short one in no time. */
const MIN_UTF8 = 1024;
/** Longer texts are rare, and encoding them twice is little beside writing them. */
const MAX_UTF8 = 32 * 1024;

/**
 * Memory shared by many texts, each in a part of its own. Memory for each text alone costs more than encoding
 * it.
 */
let slab = Buffer.allocUnsafeSlow(0);
let slabUsed = 0;
const SLAB_BYTES = 256 * 1024;
/** A UTF-16 unit written as `\u001f` takes six bytes. */
const MAX_BYTES_PER_UNIT = 6;

/** `utf16le` stores the low byte first; `Uint16Array` reads in the processor's order. */
const IS_LITTLE_ENDIAN = new Uint16Array(new Uint8Array([1, 0]).buffer)[0] === 1;

interface Tables {
  /** The UTF-16 units of the string being written: V8 copies them as a block. */
  readonly units: Uint16Array;
  readonly unitBytes: Buffer;
  /** 1 for units that JSON writes unescaped and UTF-8 in one byte. */
  readonly isVerbatim: Uint8Array;
  /** The letter after the backslash, such as `n`; 0 for units without one. */
  readonly escapes: Uint8Array;
}

let tables: Tables | undefined;

function makeTables(): Tables {
  const units = new Uint16Array(MAX_UTF8);
  const isVerbatim = new Uint8Array(0x10000).fill(1, 0x20, 0x80);
  isVerbatim[QUOTE] = 0;
  isVerbatim[BACKSLASH] = 0;
  const escapes = new Uint8Array(0x80);
  for (const [unit, letter] of ['""', "\\\\", "\bb", "\tt", "\nn", "\ff", "\rr"]) {
    escapes[(unit as string).charCodeAt(0)] = (letter as string).charCodeAt(0);
  }
  return { units, unitBytes: Buffer.from(units.buffer), isVerbatim, escapes };
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Writes `text` as a JSON string at `from`, and returns where it ends. */
function writeQuoted(text: string, into: Uint8Array, from: number): number {
  tables ??= makeTables();
  const { units, unitBytes, isVerbatim, escapes } = tables;
  const length = unitBytes.write(text, "utf16le") >> 1;
  let at = from;
  into[at++] = QUOTE;
  let index = 0;
  while (index < length) {
    // Four at a time while nothing needs an escape.
    while (index + 3 < length) {
      const first = units[index] as number;
      const second = units[index + 1] as number;
      const third = units[index + 2] as number;
      const fourth = units[index + 3] as number;
      const both = (isVerbatim[first] as number) & (isVerbatim[second] as number);
      if ((both & (isVerbatim[third] as number) & (isVerbatim[fourth] as number)) === 0) break;
      into[at] = first;
      into[at + 1] = second;
      into[at + 2] = third;
      into[at + 3] = fourth;
      at += 4;
      index += 4;
    }
    if (index === length) break;
    const unit = units[index] as number;
    if (isVerbatim[unit]) into[at++] = unit;
    else if (unit < 0x80) at = writeEscape(unit, escapes[unit] as number, into, at);
    else if (isPair(unit, index + 1 < length ? (units[index + 1] as number) : 0)) {
      at = writePair(unit, units[++index] as number, into, at);
    } else at = writeUnit(unit, into, at);
    index += 1;
  }
  into[at++] = QUOTE;
  return at;
}

function writeEscape(unit: number, letter: number, into: Uint8Array, at: number): number {
  if (letter === 0) return writeHex(unit, into, at);
  into[at] = BACKSLASH;
  into[at + 1] = letter;
  return at + 2;
}

const HEX_DIGITS = Buffer.from("0123456789abcdef");

/** `\u001f` */
function writeHex(unit: number, into: Uint8Array, at: number): number {
  into[at] = BACKSLASH;
  into[at + 1] = 0x75;
  for (let digit = 0; digit < 4; digit++) {
    into[at + 2 + digit] = HEX_DIGITS[(unit >> (12 - 4 * digit)) & 15] as number;
  }
  return at + 6;
}

function isPair(unit: number, next: number): boolean {
  return (unit & 0xfc00) === 0xd800 && (next & 0xfc00) === 0xdc00;
}

function writePair(high: number, low: number, into: Uint8Array, at: number): number {
  const codePoint = 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
  into[at] = 0xf0 | (codePoint >> 18);
  into[at + 1] = 0x80 | ((codePoint >> 12) & 0x3f);
  into[at + 2] = 0x80 | ((codePoint >> 6) & 0x3f);
  into[at + 3] = 0x80 | (codePoint & 0x3f);
  return at + 4;
}

/** A unit outside a pair. Half of a pair has no UTF-8, so it is escaped by its number, as JSON does. */
function writeUnit(unit: number, into: Uint8Array, at: number): number {
  if (unit < 0x800) {
    into[at] = 0xc0 | (unit >> 6);
    into[at + 1] = 0x80 | (unit & 0x3f);
    return at + 2;
  }
  if ((unit & 0xf800) === 0xd800) return writeHex(unit, into, at);
  into[at] = 0xe0 | (unit >> 12);
  into[at + 1] = 0x80 | ((unit >> 6) & 0x3f);
  into[at + 2] = 0x80 | (unit & 0x3f);
  return at + 3;
}
