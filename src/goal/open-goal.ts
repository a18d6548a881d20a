/**
 * Opens a goal by its id. With a `statement`, a missing goal is created; an existing one keeps its own
 * statement and phases. A goal older than its time to live throws `STATE_STALE` until the caller passes
 * `stale: "use"`. Nothing is deleted because of its age.
 */

import { type Journal, leaseLost } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { Actor, GoalState } from "../model/goal/index.ts";
import { goalKind, mayDo, refuseRole, staleness } from "../model/goal/index.ts";
import { checkId } from "../model/names.ts";
import { exactAge } from "../model/time.ts";
import { cloneId } from "../project-place.ts";
import { stamped } from "./act.ts";
import { Goal } from "./goal.ts";
import { DEFAULT_BY, goalNotFound } from "./goal-core.ts";
import { type MergeInput, type MergeReport, mergeEntries } from "./merging.ts";
import { create, type NewGoal } from "./planning-acts.ts";

/**
 * Options of `holdfast.goal(id, options)`.
 *
 * @example
 * const phases = ["design", { name: "build", plans: ["backend", "frontend"] }];
 * const goal = await holdfast.goal("checkout", { statement: "Ship the new checkout", phases });
 */
export interface OpenGoalOptions extends Partial<NewGoal> {
  /**
   * The actor of operations that pass no `by`. By default `{ name: "program", role: "orchestrator" }`, which
   * claims and submits tasks as a worker.
   */
  readonly by?: Actor;
  /** The folder that recorded paths are relative to. */
  readonly root?: string;
  /** `use`: open the goal although it is older than its time to live. */
  readonly stale?: "use";
}

export async function openGoal(journal: Journal, id: string, options: OpenGoalOptions = {}): Promise<Goal> {
  checkId(id, "goal id");
  const { by = DEFAULT_BY, root = null, stale, statement, ...settings } = options;
  const log = await journal.open(goalKind, id);
  const clone = root === null ? null : cloneId(root);
  if (log.state.id === "") {
    if (statement === undefined) throw goalNotFound(id);
    const outcome = await log.commit((state) => {
      if (state.id === "" && !mayDo(by.role, "create"))
        throw refuseRole(by, "create", `there is no goal ${id}`);
      const made = create(state, by, id, { ...settings, statement });
      return stamped(state, made, { goal: id, by, at: journal.now(), clone });
    });
    if (outcome.outcome === "fenced") throw leaseLost(outcome.lease, outcome.now);
  }
  if (stale !== "use") rejectStale(log.state, journal.now());
  return new Goal({ journal, log, id, by, root, clone });
}

/**
 * Merges the events of other copies into a goal that is not open; creates the goal if this store does not
 * have it. Null: all of them were here already.
 */
export async function mergeGoal(
  journal: Journal,
  id: string,
  by: Actor,
  input: MergeInput,
): Promise<MergeReport | null> {
  const log = await journal.open(goalKind, checkId(id, "goal id"));
  return mergeEntries(journal, log, id, by, input);
}

/** The state now or at a position, without opening the goal: for lists, replays and comparisons. */
export async function loadGoal(
  journal: Journal,
  id: string,
  options: { readonly upTo?: number; readonly stale?: "use" } = {},
): Promise<{ readonly state: GoalState; readonly seq: number }> {
  const { state, head } = await journal.load(goalKind, checkId(id, "goal id"), options.upTo);
  if (state.id === "") throw goalNotFound(id);
  if (options.stale !== "use" && options.upTo === undefined) rejectStale(state, journal.now());
  return { state, seq: head.seq };
}

function rejectStale(state: GoalState, now: number): void {
  const { stale, ageMs } = staleness(state, now);
  const { id: goal, ttlMs, updatedAt, touchedAt } = state;
  if (!stale || ttlMs === null) return;
  const message = `goal ${goal} was last touched ${exactAge(ageMs)} ago (stale after ${exactAge(ttlMs)})`;
  const hint = 'Check that it is still true, then open it with stale: "use". Nothing was deleted.';
  throw new HoldfastError("STATE_STALE", message, {
    hint,
    data: { goal, ageMs, ttlMs, updatedAt, touchedAt },
  });
}
