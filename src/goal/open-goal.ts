/**
 * Opening a goal, by name. One that is not there is created if a statement is given; one that is there keeps its own
 * statement and phases. State older than its time to live is not taken up silently: the caller is told how old it is
 * and has to say that it is to be used. Nothing is deleted by growing old.
 */

import { type Journal, leaseLost } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import {
  type Actor,
  type Entry,
  type GoalState,
  goalKind,
  mayDo,
  refuseRole,
  staleness,
} from "../model/goal/index.ts";
import { checkId } from "../model/names.ts";
import { exactAge } from "../model/time.ts";
import { stamped } from "./act.ts";
import { Goal } from "./goal.ts";
import { goalNotFound } from "./goal-core.ts";
import { type MergeReport, mergeEntries } from "./merging.ts";
import { create, type NewGoal } from "./planning-acts.ts";

/** How a goal is opened. With a `statement` one that is not there is made; without, it has to be there. */
export interface OpenGoalOptions extends Partial<NewGoal> {
  /** Who acts where an operation does not say. */
  readonly by?: Actor;
  /** The folder that recorded paths are relative to. */
  readonly root?: string;
  /** `use`: take it up although it is older than its time to live. */
  readonly stale?: "use";
}

/** A program that opens a goal steers it; whoever works on tasks says so with `by`. */
const DEFAULT_BY: Actor = { name: "program", role: "orchestrator" };

export async function openGoal(journal: Journal, id: string, options: OpenGoalOptions = {}): Promise<Goal> {
  checkId(id, "goal id");
  const { by = DEFAULT_BY, root = null, stale, statement, ...settings } = options;
  const log = await journal.open(goalKind, id);
  if (log.state.id === "") {
    if (statement === undefined) throw goalNotFound(id);
    const outcome = await log.commit((state) => {
      if (state.id === "" && !mayDo(by.role, "create"))
        throw refuseRole(by, "create", `there is no goal ${id}`);
      return stamped(state, by, create(state, by, id, { ...settings, statement }));
    });
    if (outcome.outcome === "fenced") throw leaseLost(outcome.lease, outcome.now);
  }
  if (stale !== "use") refuseStale(log.state, journal.now());
  return new Goal({ journal, log, id, by, root });
}

/**
 * For the projections layer: takes in what other copies of a goal wrote, before or without opening it. A goal that this
 * store does not have begins with it. Null: it is all here.
 */
export async function mergeGoal(
  journal: Journal,
  id: string,
  by: Actor,
  entries: readonly Entry[],
): Promise<MergeReport | null> {
  const log = await journal.open(goalKind, checkId(id, "goal id"));
  return mergeEntries(journal, log, id, by, entries);
}

/** The state at a position, or now, without a handle on it: for lists, replays and comparisons. */
export async function loadGoal(
  journal: Journal,
  id: string,
  options: { readonly upTo?: number; readonly stale?: "use" } = {},
): Promise<{ readonly state: GoalState; readonly seq: number }> {
  const { state, head } = await journal.load(goalKind, checkId(id, "goal id"), options.upTo);
  if (state.id === "") throw goalNotFound(id);
  if (options.stale !== "use" && options.upTo === undefined) refuseStale(state, journal.now());
  return { state, seq: head.seq };
}

function refuseStale(state: GoalState, now: number): void {
  const { stale, ageMs } = staleness(state, now);
  if (!stale || state.ttlMs === null) return;
  throw new HoldfastError(
    "STATE_STALE",
    `goal ${state.id} was last touched ${exactAge(ageMs)} ago; it counts as stale after ${exactAge(state.ttlMs)}`,
    {
      hint: 'Check that it still says what is true, then open it with stale: "use". Nothing was deleted.',
      data: { goal: state.id, ageMs, ttlMs: state.ttlMs, updatedAt: state.updatedAt },
    },
  );
}
