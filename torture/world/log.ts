/** The world's own record of its effects: one line per entry, durable before the request is answered. */

import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";

export type WorldKind =
  /** It happened. */
  | "effect"
  /** Requested again with the same key: nothing happened. */
  | "replayed"
  /** Certainly refused. */
  | "refused"
  /** Refused because a verify has raised the fence since. */
  | "fenced"
  | "read"
  | "verified";

export interface WorldEntry {
  readonly kind: WorldKind;
  readonly tool: string;
  readonly item: string;
  readonly key: string;
  readonly session: string;
  readonly callId: string;
  readonly attempt: number;
  readonly token: number;
  readonly result: string;
}

const file = (dir: string): string => join(dir, "world.log");

export function writeEntry(dir: string, entry: WorldEntry): void {
  const descriptor = openSync(file(dir), "a");
  try {
    writeSync(descriptor, `${JSON.stringify(entry)}\n`);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

export function readEntries(dir: string): WorldEntry[] {
  if (!existsSync(file(dir))) return [];
  const lines = readFileSync(file(dir), "utf8").split("\n").filter(Boolean);
  return lines.map((line) => JSON.parse(line) as WorldEntry);
}
