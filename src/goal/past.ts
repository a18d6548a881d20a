/** The past of a goal: its state as it was at any position of the log, or at any time. */

import type { Journal } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { type GoalState, goalKind } from "../model/goal/index.ts";
import { checkId, streamName } from "../model/names.ts";

/** A goal as it was at a position of this store's log. */
export interface GoalMoment {
  readonly state: GoalState;
  readonly seq: number;
  /** When the event at `seq` was written. */
  readonly at: Date;
}

/** The state after the event `when`, or after the last event that was written by the time `when`. */
export async function goalAt(journal: Journal, id: string, when: number | Date): Promise<GoalMoment> {
  const stream = streamName("goal", checkId(id, "goal id"));
  const isMeant = (seq: number, at: number): boolean =>
    typeof when === "number" ? seq <= when : at <= when.getTime();
  let last: { seq: number; at: number } | null = null;
  for await (const [seq, { at }] of journal.events(stream)) {
    if (!isMeant(seq, at)) break;
    last = { seq, at };
  }
  if (last === null || (typeof when === "number" && last.seq !== when)) throw noMoment(id, when);
  const { state } = await journal.load(goalKind, id, last.seq);
  return { state, seq: last.seq, at: new Date(last.at) };
}

function noMoment(goal: string, when: number | Date): HoldfastError {
  const what = typeof when === "number" ? `it has no event ${when}` : `it did not exist at ${isoOf(when)}`;
  return new HoldfastError("INPUT_INVALID", `goal ${goal}: ${what}`, {
    hint: "List its events: holdfast goal log",
    data: { goal },
  });
}

function isoOf(when: Date): string {
  return Number.isNaN(when.getTime()) ? "an invalid time" : when.toISOString();
}
