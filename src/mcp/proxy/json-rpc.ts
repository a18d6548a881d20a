/** JSON-RPC as MCP speaks it over stdio: one message per line. Lines that are not ours to change are passed on as they came. */

import type { Readable, Writable } from "node:stream";

export type Id = string | number;

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
}

export function parseLine(raw: string): Line | null {
  try {
    const message = JSON.parse(raw) as unknown;
    const isObject = typeof message === "object" && message !== null && !Array.isArray(message);
    return isObject ? { raw, message: message as Message } : null;
  } catch {
    // Servers that print to stdout are not rare; whoever reads decides what to do with it.
    return null;
  }
}

export function isRequest(message: Message): message is Message & { id: Id; method: string } {
  return message.method !== undefined && message.id !== undefined;
}

export function isResponse(message: Message): message is Message & { id: Id } {
  return message.method === undefined && message.id !== undefined;
}

export function requestText(id: Id, method: string, params: unknown): string {
  return JSON.stringify({ jsonrpc: "2.0", id, method, params });
}

export function notificationText(method: string, params: unknown): string {
  return JSON.stringify({ jsonrpc: "2.0", method, params });
}

export function resultText(id: Id, result: unknown): string {
  return JSON.stringify({ jsonrpc: "2.0", id, result });
}

export function errorText(id: Id, error: RpcError): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error });
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

/** Writes a line; while the reader is slow, what feeds it is paused. Resolves once the system has taken the bytes. */
export function writeLine(sink: Writable, raw: string, feeding?: Readable): Promise<void> {
  return new Promise((resolve, reject) => {
    const hasRoom = sink.write(`${raw}\n`, (error) => (error ? reject(error) : resolve()));
    if (hasRoom || !feeding || feeding.isPaused()) return;
    feeding.pause();
    sink.once("drain", () => feeding.resume());
  });
}
