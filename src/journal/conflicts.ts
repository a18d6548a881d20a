/** What a conflict tells beside that somebody else was faster. */

import { HoldfastError } from "../model/errors.ts";
import type { Head } from "../store.ts";

/** What we were told is durable must still be there; a store that went back in time is not written to (I12). */
export function mustGoOn(stream: string, at: Head, head: Head): void {
  if (head.generation === at.generation && head.seq === at.seq) {
    throw new HoldfastError(
      "STREAM_NOT_FOUND",
      `${stream} was removed; only forks of it still use its past`,
      {
        hint: "Make a new one, or go on with one of its forks.",
      },
    );
  }
  const isOlder = head.generation < at.generation || (head.generation === at.generation && head.seq < at.seq);
  if (!isOlder) return;
  throw new HoldfastError(
    "STORE_REPLACED",
    `${stream} ends at ${head.seq} but ${at.seq} was acknowledged: the store is not the one it was`,
    {
      hint: "Stop all writers. An older copy was put in its place; bring back the newer one, or reopen to accept it.",
    },
  );
}

export function cannotFork(stream: string, met: string): HoldfastError {
  if (met === stream) {
    return new HoldfastError("STREAM_EXISTS", `${stream} exists already`, {
      hint: "A fork makes a new one: choose a name that is free.",
    });
  }
  return new HoldfastError(
    "STREAM_NOT_FOUND",
    `${met} was removed while ${stream} was being forked from it`,
    {
      hint: "List what is there and fork from that.",
    },
  );
}
