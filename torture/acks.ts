/**
 * Acknowledgements that the agent got: the third record beside the store and the world. One line
 * per fact, written at once, so that a kill in the next instant does not lose it.
 */

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

export type Ack =
  /** An append resolved: these events must be durable. `token` is that of the guarding lease. */
  | {
      readonly t: "append";
      readonly pid: number;
      readonly stream: string;
      readonly batch: string;
      readonly first: number;
      readonly last: number;
      readonly sum: number;
      readonly token: number | null;
    }
  | { readonly t: "granted"; readonly pid: number; readonly name: string; readonly token: number }
  /** A verb of the store rejected. */
  | { readonly t: "error"; readonly pid: number; readonly verb: string; readonly code: string }
  /** A tool begins its effect. */
  | {
      readonly t: "start";
      readonly pid: number;
      readonly session: string;
      readonly callId: string;
      readonly attempt: number;
    }
  /** The program relies on the outcome of a direct call, which the library calls durable. */
  | { readonly t: "settled"; readonly pid: number; readonly session: string; readonly callId: string }
  /** The model reads the result of a call. */
  | {
      readonly t: "saw";
      readonly pid: number;
      readonly session: string;
      readonly callId: string;
      readonly content: string;
    }
  | {
      readonly t: "result";
      readonly pid: number;
      readonly session: string;
      readonly status: string;
      readonly reason: string;
      /** Calls for which a person is asked. */
      readonly persons: number;
    }
  | { readonly t: "end"; readonly pid: number; readonly code: number; readonly error: string | null };

export type AckFact = Ack extends infer Each ? (Each extends Ack ? Omit<Each, "pid"> : never) : never;

export function acksFile(dir: string): string {
  return join(dir, "acks.log");
}

export function acknowledge(dir: string, fact: AckFact): void {
  appendFileSync(acksFile(dir), `${JSON.stringify({ ...fact, pid: process.pid })}\n`);
}

/** Skips a line that a kill cut short: the agent cannot have acted on it. */
export function readAcks(dir: string): Ack[] {
  if (!existsSync(acksFile(dir))) return [];
  const lines = readFileSync(acksFile(dir), "utf8").split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Ack);
}
