import { openGoal } from "../../src/goal/index.ts";
import { Journal } from "../../src/journal/index.ts";
import type { Store } from "../../src/store.ts";
import { human } from "./bench.ts";

/** A goal with one of everything that SQL views show, all written at `at`. */
export async function writeViewedGoal(store: Store, at: number): Promise<void> {
  const journal = new Journal({ store, now: () => at });
  const goal = await openGoal(journal, "checkout", {
    statement: "Ship it",
    by: human,
    phases: ["one", { name: "two", plans: ["a", "b"] }],
    tasks: [{ title: "first" }, { title: "second", phase: 2, plan: 2, wave: 3 }],
  });
  const made = { type: "constraint", context: "c", reason: "r" } as const;
  await goal.decide({ ...made, decision: "old" });
  await goal.supersede({ ...made, decision: "new", supersedes: "D-001" });
  await goal.block({ description: "no keys", affects: { tasks: ["T-002"] } });
  await goal.startSession({ session: "mon", agent: "claude" });
}

/** The expected rows of each view. */
export const viewedRows = (iso: string): Readonly<Record<string, readonly object[]>> => ({
  goals: [{ goal_id: "checkout", status: "active", title: "Ship it", updated_at: iso }],
  tasks: [
    {
      task_id: "T-001",
      title: "first",
      status: "open",
      phase: 1,
      plan: null,
      wave: 1,
      created_at: iso,
      done_at: null,
    },
    { task_id: "T-002", title: "second", status: "blocked", phase: 2, plan: 2, wave: 3, created_at: iso },
  ],
  decisions: [
    { goal_id: "checkout", decision_id: "D-001", decision: "old", status: "superseded", superseded_at: iso },
    { goal_id: "checkout", decision_id: "D-002", decision: "new", status: "current", superseded_at: null },
  ],
  blockers: [
    { blocker_id: "B-001", description: "no keys", status: "active", reported_at: iso, resolved_at: null },
  ],
  session_history: [
    { session_id: "mon", agent: "claude", status: "active", started_at: iso, ended_at: null },
  ],
});
