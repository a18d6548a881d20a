/** JSON-RPC as MCP speaks it over stdio: one message per line. Lines that are not ours to change are passed on as they came. */

import type { Readable, Writable } from "node:stream";
import { type InexactNumber, inexactNumbers } from "./json-text.ts";

/** An integer that a number cannot hold is a bigint: whoever asks under it waits for an answer under that very one. */
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

/** A message, and the very text that it came as. */
export interface Line {
  readonly raw: string;
  readonly message: Message;
  /** What is another number in `message` than in `raw`. */
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
    // Servers that print to stdout are not rare; whoever reads decides what to do with it.
    return null;
  }
}

export function isId(value: unknown): value is Id {
  return typeof value === "string" || typeof value === "bigint" || Number.isFinite(value);
}

/** The id of a request that a parameter names. */
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

/** `result` is JSON already. */
export function resultText(id: Id, result: string): string {
  return `{"jsonrpc":"2.0","id":${idText(id)},"result":${result}}`;
}

/** Without an id: what it answers had none that could be read. */
export function errorText(id: Id | null, error: RpcError): string {
  return `{"jsonrpc":"2.0","id":${id === null ? "null" : idText(id)},"error":${JSON.stringify(error)}}`;
}

const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;
export const INVALID_PARAMS = -32_602;

/** Why a line is no message, in the words of JSON-RPC; null if it is one that wants no answer at all. */
export function invalidity(raw: string): RpcError | null {
  let read: unknown;
  try {
    read = JSON.parse(raw);
  } catch (error) {
    return { code: PARSE_ERROR, message: `a line is no JSON: ${(error as Error).message}` };
  }
  if (Array.isArray(read))
    return { code: INVALID_REQUEST, message: "batches are not taken: send one message per line" };
  // An answer to an answer would be answered in turn.
  if (typeof read === "object" && read !== null && ("error" in read || "result" in read)) return null;
  return {
    code: INVALID_REQUEST,
    message: "this is no message: a request has a method, and a text or a number as its id",
  };
}

const NEWLINE = 0x0a;

/**
 * Calls back for each line. Split at the newline byte only: what `readline` also takes for the end of a line (U+2028,
 * for one) may stand in JSON.
 */
export function readLines(source: Readable, each: (raw: string) => void): void {
  let parts: Buffer[] = [];
  source.on("data", (chunk: Buffer) => {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      parts.push(chunk.subarray(from, at));
      const text = Buffer.concat(parts).toString("utf8").trim();
      parts = [];
      from = at + 1;
      if (text !== "") each(text);
    }
    if (from < chunk.length) parts.push(chunk.subarray(from));
  });
}

/**
 * Writes a line; while the reader is slow, what feeds it is paused. Resolves once the system has taken the bytes. A reader
 * that ends with a full pipe never empties it: then, too, what feeds it goes on, for whoever comes next.
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
