import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Goal, openGoal, type TaskInput } from "../../src/goal/index.ts";
import type { Actor } from "../../src/model/goal/index.ts";
import { storeSubjects } from "../subjects.ts";
import { Bench, human, worker } from "./bench.ts";

type Attempt = (goal: Goal) => Promise<unknown>;
const decision = { type: "constraint", context: "c", decision: "d", reason: "r" } as const;
const bad = <Value>(value: unknown): Value => value as Value;

/** Each row: description, call, expected code, expected part of the message. */
const REFUSED: readonly [string, Attempt, string, string][] = [
  ["a task without a title", (goal) => goal.addTask({ title: "" }), "INPUT_INVALID", "$.title"],
  [
    "a title as long as a file",
    (goal) => goal.addTask({ title: "x".repeat(501) }),
    "INPUT_INVALID",
    "$.title",
  ],
  [
    "a field that tasks do not have",
    (goal) => goal.addTask(bad<TaskInput>({ title: "t", dependson: ["T-001"] })),
    "INPUT_INVALID",
    "dependson",
  ],
  [
    "null in place of a list",
    (goal) => goal.addTask(bad<TaskInput>({ title: "t", files: null })),
    "INPUT_INVALID",
    "$.files",
  ],
  [
    "a dependency on nothing",
    (goal) => goal.addTask({ title: "t", dependsOn: ["T-404"] }),
    "INPUT_INVALID",
    '"T-404"',
  ],
  [
    "a review of nothing",
    (goal) => goal.addTask({ kind: "review", title: "t", reviews: [], checklist: ["x"] }),
    "INPUT_INVALID",
    "$.reviews",
  ],
  [
    "a review without a checklist",
    (goal) => goal.addTask(bad<TaskInput>({ kind: "review", title: "t", reviews: ["T-001"] })),
    "INPUT_INVALID",
    "$.checklist",
  ],
  [
    "a kind that is none",
    (goal) => goal.addTask(bad<TaskInput>({ kind: "chore", title: "t" })),
    "INPUT_INVALID",
    "kind",
  ],
  [
    "a plan that is not there",
    (goal) => goal.addTask({ title: "t", plan: 9 }),
    "GOAL_ITEM_NOT_FOUND",
    "no plan 9",
  ],
  [
    "a phase that is not there",
    (goal) => goal.addTask({ title: "t", phase: "nine" }),
    "GOAL_ITEM_NOT_FOUND",
    '"nine"',
  ],
  ["wave zero", (goal) => goal.addTask({ title: "t", wave: 0 }), "INPUT_INVALID", "$.wave"],
  [
    "a path out of the root",
    (goal) => goal.addTask({ title: "t", files: ["../x"] }),
    "INPUT_INVALID",
    "$.files[0]",
  ],
  [
    "editing a field of the other kind",
    (goal) => goal.editTask({ task: "T-001", change: { reviews: [] } }),
    "INPUT_INVALID",
    "reviews",
  ],
  ["a task that is not there", (goal) => goal.claim("T-404", { by: worker }), "GOAL_ITEM_NOT_FOUND", "T-404"],
  [
    "submitting what nobody claimed",
    (goal) => goal.submit({ task: "T-001", by: worker }),
    "TASK_TRANSITION",
    "T-001 is open",
  ],
  [
    "verifying what nobody submitted",
    (goal) => goal.verify({ task: "T-001", accept: true }),
    "TASK_TRANSITION",
    "cannot accept",
  ],
  [
    "resetting what nobody has",
    (goal) => goal.reset({ task: "T-001", why: "w" }),
    "TASK_TRANSITION",
    "cannot reset",
  ],
  [
    "a type that decisions do not have",
    (goal) => goal.decide(bad({ ...decision, type: "mood" })),
    "INPUT_INVALID",
    "$.type",
  ],
  [
    "a date that is none",
    (goal) => goal.decide({ ...decision, date: "15.1.2024" }),
    "INPUT_INVALID",
    "$.date",
  ],
  [
    "superseding nothing",
    (goal) => goal.supersede({ ...decision, supersedes: "D-009" }),
    "GOAL_ITEM_NOT_FOUND",
    "D-009",
  ],
  [
    "a blocker of nothing we know",
    (goal) => goal.block({ description: "d", affects: { tasks: ["T-404"] } }),
    "GOAL_ITEM_NOT_FOUND",
    "T-404",
  ],
  [
    "a blocker without words",
    (goal) => goal.block({ description: "", affects: [] }),
    "INPUT_INVALID",
    "$.description",
  ],
  [
    "resolving nothing",
    (goal) => goal.resolve({ blocker: "B-009", resolution: "r" }),
    "GOAL_ITEM_NOT_FOUND",
    "B-009",
  ],
  [
    "a fact that JSON cannot hold",
    (goal) => goal.fact({ key: "k", value: bad(Number.NaN), source: "s" }),
    "VALUE_NOT_JSON",
    "$.value",
  ],
  [
    "a fact as large as an artifact",
    (goal) => goal.fact({ key: "k", value: "x".repeat(40_000), source: "s" }),
    "INPUT_INVALID",
    "artifact",
  ],
  ["a fact without a source", (goal) => goal.fact(bad({ key: "k", value: 1 })), "INPUT_INVALID", "$.source"],
  ["forgetting what is not known", (goal) => goal.forget({ key: "k", why: "w" }), "INPUT_INVALID", '"k"'],
  [
    "a hash that is none",
    (goal) => goal.recordFiles({ files: [{ path: "a", act: "examined", hash: "abc" }] }),
    "INPUT_INVALID",
    "$.files[0].hash",
  ],
  [
    "ending a session that never began",
    (goal) => goal.endSession({ session: "s" }),
    "GOAL_ITEM_NOT_FOUND",
    '"s"',
  ],
  [
    "more context than there is",
    (goal) => goal.noteSession({ session: "s-1", contextUsage: 45 }),
    "INPUT_INVALID",
    "$.contextUsage",
  ],
  [
    "a role that is none",
    (goal) => goal.ask({ text: "t", by: bad<Actor>({ name: "x", role: "king" }) }),
    "INPUT_INVALID",
    "$.role",
  ],
  ["nobody", (goal) => goal.ask({ text: "t", by: { name: "", role: "human" } }), "INPUT_INVALID", "$.name"],
  ["a time to live of nothing", (goal) => goal.describe({ ttlMs: 0 }), "INPUT_INVALID", "$.change.ttlMs"],
  ["describing nothing", (goal) => goal.describe({}), "INPUT_INVALID", "nothing to describe"],
  ["a phase that is not there to move to", (goal) => goal.move({ to: 7 }), "GOAL_ITEM_NOT_FOUND", "phase 7"],
  [
    "an alias that is a task",
    (goal) => goal.aliasTask({ alias: "T-001", task: "T-001" }),
    "INPUT_INVALID",
    "T-001",
  ],
];

describe.each(storeSubjects())("bad input on $name", (subject) => {
  let bench: Bench;
  let goal: Goal;

  beforeEach(async () => {
    bench = await Bench.open(subject);
    goal = await bench.goal({ phases: ["one"], tasks: [{ title: "a" }] });
    await goal.startSession({ session: "s-1" });
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  test.each(REFUSED)("%s is rejected with the reason and a hint, and nothing is written", async (...row) => {
    const [what, attempt, code, names] = row;
    const before = goal.seq;
    const error = await attempt(goal).then(
      () => null,
      (reason: unknown) => reason,
    );
    expect({ what, error }).toMatchObject({
      what,
      error: { code, message: expect.stringContaining(names) },
    });
    expect((error as { hint: string }).hint.length).toBeGreaterThan(10);
    await goal.refresh();
    expect([...goal.state.tasks.values()]).toMatchObject([{ id: "T-001", status: "open" }]);
    expect(goal.seq).toBe(before);
  });

  test("a goal is not created by a wrong role or without a statement", async () => {
    const make = (options: object): Promise<unknown> =>
      openGoal(bench.journal, "other", { statement: "s", by: human, ...options });
    await expect(make({ by: worker })).rejects.toMatchObject({ code: "ROLE_REFUSED" });
    await expect(make({ statement: "" })).rejects.toMatchObject({ code: "INPUT_INVALID" });
    await expect(make({ phases: [""] })).rejects.toMatchObject({ code: "INPUT_INVALID" });
    await expect(openGoal(bench.journal, "../x")).rejects.toMatchObject({ code: "NAME_INVALID" });
    expect((await bench.journal.row("goal/other")).state).toBe("gone");
  });
});
