/**
 * I13: no acknowledgement after an I/O error, until a fresh handle has succeeded.
 *
 * Checked on the system calls of one process. Once a write or a sync of the store has failed, the next
 * acknowledgement must come after the file was opened again and a sync has succeeded.
 */

import type { Violation } from "./evidence.ts";

export interface IoStep {
  readonly act: "open" | "write" | "sync" | "acknowledged" | "other";
  readonly ok: boolean;
}

export function noAckAfterError(steps: readonly IoStep[]): Violation[] {
  let trust: "sound" | "failed" | "opened" = "sound";
  let number = 0;
  const found: Violation[] = [];
  for (const { act, ok } of steps) {
    if (act === "acknowledged") {
      number++;
      if (trust !== "sound")
        found.push({ invariant: "I13", what: `acknowledgement ${number} rests on a failed write` });
    } else if (!ok) trust = "failed";
    else if (act === "open" && trust === "failed") trust = "opened";
    else if (act === "sync" && trust === "opened") trust = "sound";
  }
  return found;
}
