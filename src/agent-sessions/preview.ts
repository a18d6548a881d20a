/**
 * A preview of a goal: its state once all spooled lines are ingested, without writing them, because ingestion
 * takes longer than an agent should wait. Both run the same code (`ingest.ts`).
 */

import { sessionActs } from "../goal/index.ts";
import { type Actor, type GoalState, goalFold } from "../model/goal/index.ts";
import { applyEvent } from "../model/stream/index.ts";
import type { SessionRecorder } from "./ingest.ts";

type Input<Act extends keyof SessionRecorder> = SessionRecorder[Act] extends (input: infer Of) => unknown
  ? Of
  : never;

/** Changes `state` in place: the caller loaded it for this. */
export class GoalPreview implements SessionRecorder {
  readonly state: GoalState;
  private readonly now: number;

  constructor(state: GoalState, now: number) {
    this.state = state;
    this.now = now;
  }

  startSession({ by, ...input }: Input<"startSession">): void {
    this.apply(sessionActs.startSession(this.state, by, input));
  }

  noteSession({ by, ...input }: Input<"noteSession">): void {
    this.apply(sessionActs.noteSession(this.state, by, input));
  }

  endSession({ by, ...input }: Input<"endSession">): void {
    this.apply(sessionActs.endSession(this.state, by, input));
  }

  crashSession({ by, ...input }: Input<"crashSession">): void {
    this.apply(sessionActs.crashSession(this.state, by, input));
  }

  recordFiles({ by, session, files }: Input<"recordFiles">): void {
    const data = { by, session, task: null, files: files.map((each) => ({ hash: null, ...each })) };
    this.apply({ events: [{ type: "files.recorded", data }] });
  }

  reset({ by, task, why }: { by: Actor; task: string; why: string }): void {
    this.apply({ events: [{ type: "task.reset", data: { by, task, why } }] });
  }

  private apply({
    events,
  }: {
    readonly events: readonly { readonly type: string; readonly data: object }[];
  }): void {
    for (const { type, data } of events) {
      const v = goalFold.events[type]?.version ?? 0;
      applyEvent(goalFold, this.state, { type, v, at: this.now, data: { ...data, observed: true } }, 0);
    }
  }
}
