/** A session that ends before its work is done, and says who goes on with what. */

import type { Actor, GoalState, Task } from "../model/goal/index.ts";
import type { Act } from "./act.ts";
import { type EndInput, endSession } from "./history-acts.ts";
import { type NextInput, setNext } from "./note-acts.ts";

export interface HandoffInput extends EndInput {
  readonly reason: string;
  /** A task id, or words. */
  readonly next?: string | NextInput | null;
}

export function handoff(state: GoalState, by: Actor, input: HandoffInput): Act<readonly Task[]> {
  const { reason, next, ...rest } = input;
  const ended = endSession(state, by, rest, reason);
  const following = next === undefined ? [] : setNext(state, by, next).events;
  return { ...ended, events: [...ended.events, ...following] };
}
