import { expect } from "vitest";
import { openGoal } from "../../src/goal/index.ts";
import { Journal, type PayloadCodec } from "../../src/journal/index.ts";
import type { Store } from "../../src/store.ts";
import { human } from "./bench.ts";

/** A goal with one of everything that SQL views show, all written at `at`. */
export async function writeViewedGoal(
  store: Store,
  at: number,
  codecs: readonly PayloadCodec[] = [],
): Promise<void> {
  const journal = new Journal({ store, now: () => at, codecs });
  const goal = await openGoal(journal, "checkout", {
    statement: "Ship it",
    by: human,
    phases: ["one", { name: "two", plans: ["a", "b"] }],
    tasks: [{ title: "first" }, { title: "second", phase: 2, plan: 2, wave: 3 }],
  });
  const made = { type: "constraint", context: "c", reason: "r", date: "2026-01-02" } as const;
  await goal.decide({ ...made, decision: "old" });
  const alternatives = [{ option: "other", whyNot: "slow" }];
  await goal.supersede({ ...made, decision: "new", supersedes: "D-001", alternatives, reversible: false });
  await goal.block({ description: "no keys", affects: { tasks: ["T-002"] } });
  await goal.block({ description: "slow", affects: { phases: [2] } });
  await goal.bypass({ blocker: "B-002", workaround: "wait" });
  await goal.block({ description: "no disk", affects: { other: ["CI"] } });
  await goal.resolve({ blocker: "B-003", resolution: "bought one" });
  await goal.startSession({ session: "mon", agent: "claude" });
  const done = { contextUsage: 0.5, completed: ["the login"], issues: ["flaky test"] };
  await goal.handoff({ session: "mon", ...done, reason: "context is full" });
  await goal.startSession({ session: "tue", agent: "codex" });
}

/**
 * The expected rows of each view, whole and in the order of their ids. `json` and `flag` are a JSON value and
 * a boolean as the store returns them.
 */
export function viewedRows(
  iso: string,
  json: (value: unknown) => unknown,
  flag: (value: boolean) => unknown,
): Readonly<Record<string, readonly object[]>> {
  const goal = { goal_id: "checkout", namespace: "default" };
  const task = { ...goal, created_at: iso, done_at: null };
  const decision = { ...goal, context: "c", reason: "r", date: "2026-01-02", made_at: iso };
  const blocker = { ...goal, reported_at: iso, resolved_at: null, workaround: null, resolution: null };
  const affects = (some: object) => json({ goal: false, other: [], tasks: [], phases: [], ...some });
  return {
    goals: [
      {
        ...goal,
        status: "active",
        title: "Ship it",
        created_at: iso,
        updated_at: iso,
        expires_at: expect.any(String),
        seq: expect.any(Number),
      },
    ],
    initiative_state: [
      {
        ...goal,
        current_phase: 1,
        current_plan: null,
        current_task: "T-001",
        current_wave: 1,
        status: "open",
        progress: json({
          phases_total: 2,
          phases_completed: 0,
          current_phase_tasks: 1,
          current_phase_completed: 0,
          percent: 0,
          bar: `${"░".repeat(16)} 0%`,
        }),
        updated_at: iso,
      },
    ],
    tasks: [
      { ...task, task_id: "T-001", title: "first", status: "open", phase: 1, plan: null, wave: 1 },
      { ...task, task_id: "T-002", title: "second", status: "blocked", phase: 2, plan: 2, wave: 3 },
    ],
    decisions: [
      {
        ...decision,
        decision_id: "D-001",
        decision: "old",
        status: "superseded",
        alternatives: json([]),
        reversible: flag(true),
        superseded_at: iso,
      },
      {
        ...decision,
        decision_id: "D-002",
        decision: "new",
        status: "current",
        alternatives: json([{ option: "other", whyNot: "slow" }]),
        reversible: flag(false),
        superseded_at: null,
      },
    ],
    blockers: [
      {
        ...blocker,
        blocker_id: "B-001",
        description: "no keys",
        status: "active",
        affects: affects({ tasks: ["T-002"] }),
      },
      {
        ...blocker,
        blocker_id: "B-002",
        description: "slow",
        status: "bypassed",
        affects: affects({ phases: [2] }),
        workaround: "wait",
      },
      {
        ...blocker,
        blocker_id: "B-003",
        description: "no disk",
        status: "resolved",
        affects: affects({ other: ["CI"] }),
        resolution: "bought one",
        resolved_at: iso,
      },
    ],
    session_history: [
      {
        ...goal,
        session_id: "mon",
        agent: "claude",
        status: "ended",
        context_usage: 0.5,
        completed: json(["the login"]),
        issues: json(["flaky test"]),
        handoff_reason: "context is full",
        started_at: iso,
        ended_at: iso,
      },
      {
        ...goal,
        session_id: "tue",
        agent: "codex",
        status: "active",
        context_usage: null,
        completed: json([]),
        issues: json([]),
        handoff_reason: null,
        started_at: iso,
        ended_at: null,
      },
    ],
  };
}
