/**
 * JSON-RPC over stdio: one message per line. The proxy forwards a line as the text it came as.
 *
 * JavaScript rounds an integer above 2^53. A rounded id would delete another row than the agent meant, and
 * two calls would look like one. So numbers that would change are found in the text (`inexactNumbers`).
 */

import { randomBytes } from "node:crypto";
import type { Readable, Writable } from "node:stream";

/** A number that changes when its JSON is parsed and written again. */
export interface InexactNumber {
  readonly path: readonly (string | number)[];
  readonly text: string;
}

/** A double has at most this many digits. A fraction with more digits is meant to keep them. */
const DOUBLE_DIGITS = 17;
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const PARTS = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
/** Fast path: most texts contain nothing that looks like such a number. */
const SUSPECT = /[\d.]{16}|\d[eE][+-]?\d/;

/**
 * The ledger takes values of 200 levels; a message has a few levels around them. Deeper messages are refused
 * or become text (`untrusted-line.ts`).
 */
export const MAX_DEPTH = 150;

/** `raw` must be valid JSON. Numbers below `MAX_DEPTH` are left out: a path costs as much as it is long. */
function inexactNumbers(raw: string): readonly InexactNumber[] {
  if (!SUSPECT.test(raw)) return [];
  const found: InexactNumber[] = [];
  eachScalar(raw, (path, from, to, depth) => {
    if (raw[from] === '"' || depth > MAX_DEPTH) return;
    const text = raw.slice(from, to);
    if (!isExact(text)) found.push({ path: path(), text });
  });
  return found;
}

type Path = readonly (string | number)[];

/** Where the string or number at a path stands in the text. */
function placeOf(raw: string, wanted: Path): readonly [number, number] | undefined {
  const at = wanted.join("\n");
  let place: readonly [number, number] | undefined;
  eachScalar(raw, (path, from, to, depth) => {
    if (depth === wanted.length && path().join("\n") === at) place = [from, to];
  });
  return place;
}

/** The text of the string or number at a path, as it stands in `raw`. */
export function textAt(raw: string, path: Path): string | undefined {
  const place = placeOf(raw, path);
  return place && raw.slice(...place);
}

/** `raw` with another text at a path. It stays as it is if there is nothing. */
export function withTextAt(raw: string, path: Path, text: string): string {
  const place = placeOf(raw, path);
  return place ? raw.slice(0, place[0]) + text + raw.slice(place[1]) : raw;
}

export function withId(raw: string, id: string): string {
  return withTextAt(raw, ["id"], id);
}

export function asTexts(value: unknown, numbers: readonly InexactNumber[]): unknown {
  return replaced(value, numbers, ({ text }) => text);
}

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
    // The value at that path must be that number. A number beyond all doubles was recorded as null.
    const isSame = stands === read || (stands === null && !Number.isFinite(read));
    if (isSame && PARTS.test(number.text)) members[last] = make(number);
  }
  return copy;
}

function isExact(text: string): boolean {
  const read = Number(text);
  if (!Number.isFinite(read)) return false;
  const meant = decimal(text);
  const became = decimal(String(read));
  if (meant.digits === became.digits && meant.exponent === became.exponent) return true;
  // A program that prints a double with all its digits means that double.
  return meant.exponent < 0 && meant.digits.length <= DOUBLE_DIGITS && read !== 0;
}

/** The digits without zeros at either end, and their power of ten. */
function decimal(text: string): { readonly digits: string; readonly exponent: number } {
  const [, whole = "", fraction = "", exponent = "0"] = PARTS.exec(text) ?? [];
  const all = (whole + fraction).replace(/^0+/, "");
  // Not by a pattern: in a number of a million zeros it would begin at each of them.
  let end = all.length;
  while (all[end - 1] === "0") end -= 1;
  const digits = all.slice(0, end);
  if (digits === "") return { digits, exponent: 0 };
  return { digits, exponent: Number(exponent) - fraction.length + all.length - digits.length };
}

type EachScalar = (path: () => (string | number)[], from: number, to: number, depth: number) => void;

/** Calls `each` for every string and number but keys. `raw` must be valid JSON. */
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

/** An integer that a double cannot hold is a bigint: the client waits for an answer under exactly that id. */
export type Id = string | number | bigint;

export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

export interface Message {
  readonly id?: Id;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly error?: RpcError;
}

export interface Line {
  readonly raw: string;
  readonly message: Message;
  readonly inexact: readonly InexactNumber[];
}

export function parseLine(raw: string): Line | null {
  try {
    const read = JSON.parse(raw) as unknown;
    if (typeof read !== "object" || read === null || Array.isArray(read)) return null;
    const inexact = inexactNumbers(raw);
    const message = read as Message;
    const id = exactId(inexact, ["id"]);
    return { raw, message: id === undefined ? message : { ...message, id }, inexact };
  } catch {
    // Servers often print to stdout; the caller decides what to do with the line.
    return null;
  }
}

export function isId(value: unknown): value is Id {
  return typeof value === "string" || typeof value === "bigint" || Number.isFinite(value);
}

export function idAt({ message, inexact }: Line, param: string): Id | undefined {
  const id = exactId(inexact, ["params", param]) ?? message.params?.[param];
  return isId(id) ? id : undefined;
}

function exactId(inexact: readonly InexactNumber[], path: readonly string[]): bigint | undefined {
  const at = path.join();
  const text = inexact.find((each) => each.path.length === path.length && each.path.join() === at)?.text;
  return text !== undefined && /^-?\d+$/.test(text) ? BigInt(text) : undefined;
}

export function isRequest(message: Message): message is Message & { id: Id; method: string } {
  return message.method !== undefined && message.id !== undefined;
}

export function isResponse(message: Message): message is Message & { id: Id } {
  return message.method === undefined && message.id !== undefined;
}

export function idText(id: Id): string {
  return typeof id === "bigint" ? String(id) : JSON.stringify(id);
}

export function requestText(id: Id, method: string, params: unknown): string {
  return `{"jsonrpc":"2.0","id":${idText(id)},${JSON.stringify({ method, params }).slice(1)}`;
}

export function notificationText(method: string, params: unknown): string {
  return JSON.stringify({ jsonrpc: "2.0", method, params });
}

export function resultText(id: Id, result: string): string {
  return `{"jsonrpc":"2.0","id":${idText(id)},"result":${result}}`;
}

export function errorText(id: Id | null, error: RpcError): string {
  return `{"jsonrpc":"2.0","id":${id === null ? "null" : idText(id)},"error":${JSON.stringify(error)}}`;
}

export const PARSE_ERROR = -32_700;
export const INVALID_REQUEST = -32_600;
export const METHOD_NOT_FOUND = -32_601;
export const HEADER_MISMATCH = -32_020;
export const MISSING_CAPABILITY = -32_021;
export const UNSUPPORTED_VERSION = -32_022;
export const INTERNAL_ERROR = -32_603;
export const INVALID_PARAMS = -32_602;

/** The JSON-RPC error for a line that is not a message, or null if it must not be answered. */
export function invalidity(raw: string): RpcError | null {
  let read: unknown;
  try {
    read = JSON.parse(raw);
  } catch (error) {
    return { code: PARSE_ERROR, message: `a line is not JSON: ${(error as Error).message}` };
  }
  if (Array.isArray(read))
    return { code: INVALID_REQUEST, message: "batches are not supported: send one message per line" };
  // Answering an answer could loop for ever.
  if (typeof read === "object" && read !== null && ("error" in read || "result" in read)) return null;
  const message = "not a message: a request has a method, and a string or a number as id";
  return { code: INVALID_REQUEST, message };
}

const NEWLINE = 0x0a;

/** The longest line, in bytes. JSON takes several times as much memory. */
export const MAX_LINE = 32 << 20;

/**
 * Splits at the newline byte only: `readline` would also split at U+2028, which JSON may contain. A line
 * above `MAX_LINE` is reported once and skipped up to its end.
 */
export function readLines(
  source: Readable,
  each: (raw: string) => void,
  tooLong: () => void = () => undefined,
): () => void {
  let parts: Buffer[] = [];
  let bytes = 0;
  let isSkipping = false;
  const keep = (part: Buffer): void => {
    bytes += part.length;
    if (isSkipping) return;
    if (bytes <= MAX_LINE) parts.push(part);
    else {
      isSkipping = true;
      parts = [];
      tooLong();
    }
  };
  const read = (chunk: Buffer): void => {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      keep(chunk.subarray(from, at));
      const text = Buffer.concat(parts).toString("utf8").trim();
      parts = [];
      bytes = 0;
      isSkipping = false;
      from = at + 1;
      if (text !== "") each(text);
    }
    if (from < chunk.length) keep(chunk.subarray(from));
  };
  source.on("data", read);
  return () => void source.off("data", read);
}

/**
 * Resolves when the operating system has the bytes. Pauses `feeding` while the reader is slow. A reader that
 * exits with a full pipe never drains it, so `close` and `error` resume `feeding` too.
 */
export function writeLine(sink: Writable, raw: string, feeding?: Readable): Promise<void> {
  return new Promise((resolve, reject) => {
    const hasRoom = sink.write(`${raw}\n`, (error) => (error ? reject(error) : resolve()));
    if (hasRoom || !feeding || feeding.isPaused()) return;
    feeding.pause();
    const events = ["drain", "close", "error"] as const;
    const resume = (): void => {
      for (const event of events) sink.off(event, resume);
      feeding.resume();
    };
    for (const event of events) sink.once(event, resume);
  });
}
