/**
 * A goal as it will be once what hooks left is taken in, without writing any of it: what a briefing speaks of. The writing
 * takes longer than an agent should wait, so it follows in a process of its own (`background.ts`); both decide by the
 * same code (`taking-in.ts`), so that what was said at the start is what the goal then says.
 *
 * Nothing here is checked against a schema, and nothing here is kept.
 */

import { sessionActs } from "../goal/index.ts";
import { type Actor, type GoalState, goalFold } from "../model/goal/index.ts";
import { applyEvent } from "../model/stream/index.ts";
import type { Recording } from "./taking-in.ts";

interface Drafted {
  readonly type: string;
  readonly data: unknown;
}

/** Changes the state it is given: it belongs to the caller, who loaded it for this. */
export class Foreseen implements Recording {
  readonly state: GoalState;
  private readonly now: number;

  constructor(state: GoalState, now: number) {
    this.state = state;
    this.now = now;
  }

  startSession({ by, ...input }: Parameters<Recording["startSession"]>[0]): void {
    this.apply(sessionActs.startSession(this.state, by, input));
  }

  noteSession({ by, ...input }: Parameters<Recording["noteSession"]>[0]): void {
    this.apply(sessionActs.noteSession(this.state, by, input));
  }

  endSession({ by, ...input }: Parameters<Recording["endSession"]>[0]): void {
    this.apply(sessionActs.endSession(this.state, by, input));
  }

  crashSession({ by, ...input }: Parameters<Recording["crashSession"]>[0]): void {
    this.apply(sessionActs.crashSession(this.state, by, input));
  }

  recordFiles({ by, session, files }: Parameters<Recording["recordFiles"]>[0]): void {
    const data = { by, session, task: null, files: files.map((each) => ({ hash: null, ...each })) };
    this.apply({ events: [{ type: "files.recorded", data }] });
  }

  reset({ by, task, why }: { by: Actor; task: string; why: string }): void {
    this.apply({ events: [{ type: "task.reset", data: { by, task, why } }] });
  }

  private apply({ events }: { readonly events: readonly Drafted[] }): void {
    for (const { type, data } of events) {
      applyEvent(
        goalFold,
        this.state,
        { type, v: goalFold.events[type]?.version ?? 0, at: this.now, data },
        0,
      );
    }
  }
}
