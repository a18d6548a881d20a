import fc from "fast-check";
import { expect, test } from "vitest";
import {
  activeBlockers,
  BLOCKER_STATUSES,
  BLOCKER_TRANSITIONS,
  type Blocker,
  decodeGoal,
  emptyGoal,
  encodeGoal,
  formatId,
  type GoalState,
  hasDependencyCycle,
  progressBar,
  surveyGoal,
  TASK_ACTS,
  TASK_STATUSES,
  TASK_TRANSITIONS,
  type Task,
} from "../../../src/model/goal/index.ts";
import { worker } from "../../goal/bench.ts";
import { bruteForce, expectNoContradiction } from "./brute-force.ts";

/** Any state that tasks and blockers can be in, circles included: a merge of two branches may bring those. */
const anyTask = fc.record({
  status: fc.constantFrom(...TASK_STATUSES),
  phase: fc.integer({ min: 1, max: 3 }),
  plan: fc.constantFrom(null, 1),
  wave: fc.integer({ min: 1, max: 3 }),
  dependsOn: fc.array(fc.nat(11), { maxLength: 2 }),
  reviews: fc.array(fc.nat(11), { maxLength: 2 }),
  retryable: fc.boolean(),
  failures: fc.integer({ min: 1, max: 4 }),
});

const anyBlocker = fc.record({
  status: fc.constantFrom(...BLOCKER_STATUSES, "active" as const),
  tasks: fc.array(fc.nat(11), { maxLength: 2 }),
  phases: fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 1 }),
  goal: fc.integer({ min: 0, max: 9 }).map((draw) => draw === 0),
});

const anyState: fc.Arbitrary<GoalState> = fc
  .record({
    tasks: fc.array(anyTask, { minLength: 1, maxLength: 12, size: "max" }),
    blockers: fc.array(anyBlocker, { maxLength: 3 }),
    closed: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
    focus: fc.constantFrom(null, 1, 2, 3),
  })
  .map(({ tasks, blockers, closed, focus }) => {
    const plans = [{ number: 1, name: "plan" }];
    const state = emptyGoal();
    state.id = "any";
    state.focus = focus;
    state.phases = closed.map((isClosed, index) => ({
      number: index + 1,
      name: `phase ${index + 1}`,
      plans,
      closedAt: isClosed ? 1 : null,
    }));
    const id = (index: number): string => formatId("T", (index % tasks.length) + 1);
    for (const [index, task] of tasks.entries()) state.tasks.set(id(index), taskFrom(id(index), task, id));
    blockers.forEach(({ status, tasks: named, phases, goal }, index) => {
      const affects = { tasks: named.map(id), phases, goal, other: [] };
      const blocker = { id: formatId("B", index + 1), status, affects } as unknown as Blocker;
      state.blockers.set(blocker.id, blocker);
    });
    return state;
  });

function taskFrom(
  id: string,
  drawn: typeof anyTask extends fc.Arbitrary<infer Drawn> ? Drawn : never,
  idOf: (index: number) => string,
): Task {
  const { status, retryable, failures, reviews, dependsOn, ...place } = drawn;
  const kind = reviews.length > 0 ? "review" : "build";
  const task = { id, kind, title: id, ...place, status, dependsOn: dependsOn.map(idOf) };
  const isFailed = status === "failed";
  return {
    ...task,
    reviews: reviews.map(idOf),
    failure: isFailed ? { error: "e", retryable, at: 1 } : null,
    failures: isFailed ? failures : 0,
    claim:
      status === "in_progress"
        ? { by: worker, session: null, token: 1, at: 1, progressAt: 1, note: null }
        : null,
  } as unknown as Task;
}

const RUNS = { numRuns: process.env["HOLDFAST_FULL"] ? 1_500 : 500 };

test("startable and movable tasks match the definition, in any state", () => {
  fc.assert(
    fc.property(anyState, (state) => {
      const survey = surveyGoal(state);
      const expected = bruteForce(state, activeBlockers(state));
      expect(survey.movable).toEqual(expected.movable);
      expect(survey.impact).toEqual(expected.impact);
      const inPhase = expected.startable.filter(
        (id) => state.tasks.get(id)?.phase === survey.current?.number,
      );
      expect(survey.ready.map(({ id }) => id).sort()).toEqual(inPhase.sort());
    }),
    RUNS,
  );
});

test("position, progress and bar are consistent, in any state", () => {
  fc.assert(fc.property(anyState, expectNoContradiction), RUNS);
});

test("a snapshot restores the state, in any state", () => {
  fc.assert(
    fc.property(anyState, (state) => {
      expect(decodeGoal(JSON.parse(JSON.stringify(encodeGoal(state))))).toEqual(state);
    }),
    { numRuns: 300 },
  );
});

test("a task is in a cycle exactly when it is not movable although only tasks are in its way", () => {
  fc.assert(
    fc.property(anyState, (state) => {
      for (const task of state.tasks.values()) {
        state.tasks.set(task.id, { ...task, status: "open", failure: null, claim: null });
      }
      state.blockers.clear();
      const circular = [...state.tasks.values()].filter((task) => hasDependencyCycle(state, task));
      expect(circular.length > 0).toBe(surveyGoal(state).movable.size < state.tasks.size);
      for (const { id } of circular) expect(surveyGoal(state).movable.has(id)).toBe(false);
    }),
    RUNS,
  );
});

test("a blocker makes the transitions of the table and no others", () => {
  const ways = Object.entries(BLOCKER_TRANSITIONS).map(([from, acts]) => [from, Object.entries(acts)]);
  expect(ways).toEqual([
    ["new", [["identify", "active"]]],
    [
      "active",
      [
        ["bypass", "bypassed"],
        ["resolve", "resolved"],
      ],
    ],
    ["bypassed", [["resolve", "resolved"]]],
    ["resolved", []],
  ]);
});

test("a bar fills a cell once it is fully earned", () => {
  expect(progressBar(5, 8, 8)).toBe("█████░░░");
  expect(progressBar(1, 3, 4)).toBe("█░░░");
  expect(progressBar(0, 0, 4)).toBe("░░░░");
});

test("every status of a task leads somewhere, and only by acts that exist", () => {
  for (const status of TASK_STATUSES) {
    const acts = Object.keys(TASK_TRANSITIONS[status]);
    expect(acts.length).toBeGreaterThan(0);
    for (const act of acts) expect(TASK_ACTS).toContain(act);
  }
});
