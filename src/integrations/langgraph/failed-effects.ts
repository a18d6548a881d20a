/**
 * What a run of a node made of a failure that is on record, so that it is decided once whether the effect may be tried again.
 *
 *     not heard ──▶ heard: its body was given the failure ──▶ ended: its body threw that very failure, and did nothing more
 *
 *  - Heard only: the body may have gone on from it, and paid in another way. It has the same answer whenever it runs again.
 *  - Ended: nothing came of this attempt at the node. The next one makes the call anew, under the next number.
 *  - Not heard, of an effect with an `id`, which another run of a node has tried: this one makes it anew as well. Of all other
 *    effects only the run that they belong to can hear, so nothing has to be noted.
 *
 * A crash before "heard" is saved leaves a body that never got the failure; one before "ended", a failure that is given once
 * more. What a person said, and what counts as failed only because it was interrupted, is never tried again by itself: the
 * person meant it, and the other may have happened.
 *
 * It is saved as writes that belong to no checkpoint, in a namespace of its own that LangGraph never asks for.
 */

import type { Call } from "../../model/session/index.ts";
import type { Draft } from "../../model/stream/index.ts";
import { draftWrites } from "./saving.ts";
import type { Part } from "./stored-part.ts";
import { findCheckpoint, type ThreadState, writeKey } from "./thread-state.ts";

export const FAILURES = "holdfast:failures";

export type Heard = "no" | "heard" | "ended";

/** A failure, and the run of a node that it is about. */
export interface HeardFailure {
  readonly thread: string;
  readonly root: string;
  readonly ns: string;
  readonly callId: string;
}

export function draftHeard(
  state: ThreadState,
  failure: HeardFailure,
  heard: Exclude<Heard, "no">,
  yes: Part,
): Draft | null {
  // Nobody runs again on what was pruned or deleted, and a note must not bring that back.
  if (!findCheckpoint(state, "", failure.root)) return null;
  const place = { ns: FAILURES, checkpoint: failure.root, task: taskOf(failure) };
  const writes =
    heard === "heard" ? [["heard", yes] as const] : [["heard", yes] as const, ["ended", yes] as const];
  return draftWrites(state, place, writes);
}

export function howHeard(state: ThreadState, failure: HeardFailure): Heard {
  const notes = state.spaces.get(FAILURES)?.slots.get(failure.root)?.writes;
  if (notes?.has(writeKey(taskOf(failure), 1))) return "ended";
  return notes?.has(writeKey(taskOf(failure), 0)) ? "heard" : "no";
}

/** Whether it is certain enough that nothing happened, and nobody's decision that nothing shall. */
export function mayBeTriedAgain({ status, settledBy }: Call): boolean {
  return status === "failed" && settledBy !== "person" && settledBy !== "interrupted";
}

function taskOf({ ns, callId }: HeardFailure): string {
  return JSON.stringify([ns, callId]);
}
