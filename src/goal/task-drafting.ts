/**
 * Many tasks in one act. Two questions of a new task are about all the others: which phase the work is in, and whether
 * somebody waits for the new one already. Asked anew for each task they would make the act quadratic, so the answers are
 * kept for as long as what was added since cannot change them; anything else that is drafted forgets them.
 */

import {
  activeBlockers,
  findTask,
  focusElsewhere,
  type GoalDraft,
  surveyGoal,
  type Task,
  taskOf,
} from "../model/goal/index.ts";
import { DraftBatch } from "./act.ts";

export class TaskDrafting extends DraftBatch {
  private current: { readonly phase: number; readonly hasReady: boolean } | null = null;
  private waiting: Waiting | null = null;

  override add(draft: GoalDraft): void {
    super.add(draft);
    this.current = null;
    this.waiting = null;
  }

  /** Where a task goes that names no phase: where somebody moved, else where the work is. */
  currentPhase(): number {
    if (!this.current) {
      const survey = surveyGoal(this.state);
      const moved = focusElsewhere(this.state, survey);
      const phase = (moved ?? survey.current)?.number ?? 1;
      this.current = { phase, hasReady: moved === null && survey.ready.length > 0 };
    }
    return this.current.phase;
  }

  /** Whether the task waits for somebody, and somebody for it: without that it cannot wait for itself. */
  addTask(draft: GoalDraft, id: string): { readonly isBetween: boolean } {
    const { current } = this;
    const waiting = this.waiting ?? this.whoWaits();
    super.add(draft);
    const task = taskOf(this.state, id);
    const lane = laneOf(task);
    const last = waiting.lastWaves.get(lane) ?? 0;
    const isWaitedFor = last > task.wave || waiting.missing.has(id);
    waiting.lastWaves.set(lane, Math.max(last, task.wave));
    this.waiting = waiting;
    const waits = task.kind === "review" || task.dependsOn.length > 0 || task.wave > 1;
    // The new task is ready itself, or what was ready in the phase stays so, since it does not wait for the new one.
    const hasReady =
      (!waits && activeBlockers(this.state).length === 0) || (current?.hasReady === true && !isWaitedFor);
    this.current = current?.phase === task.phase && hasReady ? { ...current, hasReady } : null;
    return { isBetween: waits && isWaitedFor };
  }

  private whoWaits(): Waiting {
    const waiting: Waiting = { lastWaves: new Map(), missing: new Set() };
    for (const task of this.state.tasks.values()) {
      const lane = laneOf(task);
      waiting.lastWaves.set(lane, Math.max(waiting.lastWaves.get(lane) ?? 0, task.wave));
      const names = task.kind === "review" ? [...task.dependsOn, ...task.reviews] : task.dependsOn;
      for (const name of names) if (!findTask(this.state, name)) waiting.missing.add(name);
    }
    return waiting;
  }
}

interface Waiting {
  /** The last wave of each plan: whoever is in it waits for the waves before. */
  readonly lastWaves: Map<string, number>;
  /** Tasks that are waited for and are not there, as a merge can leave them. */
  readonly missing: Set<string>;
}

const laneOf = ({ phase, plan }: Task): string => `${phase}/${plan ?? 0}`;
