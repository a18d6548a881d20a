import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import type { Goal } from "../../src/goal/index.ts";
import {
  activeBlockers,
  blockerImpact,
  branchGoal,
  decodeGoal,
  displayStatus,
  encodeGoal,
  type GoalState,
  goalKind,
  goalStatus,
  surveyGoal,
  type Task,
} from "../../src/model/goal/index.ts";
import { canonicalText, type Json } from "../../src/model/json.ts";
import { bruteForce, expectNoContradiction, isFinished } from "../model/goal/brute-force.ts";
import { storeSubjects } from "../subjects.ts";
import { Bench } from "./bench.ts";
import { anySteps, BEGINNING, take } from "./random-operations.ts";

const words = fc.string({ minLength: 1, maxLength: 20, unit: "grapheme" });

function expectInvariants(state: GoalState): void {
  const isSound = (task: Task): boolean =>
    (task.claim !== null) === (task.status === "in_progress") &&
    (task.doneAt !== null) === isFinished(task) &&
    (task.endSeq !== null) === isFinished(task);
  expect([...state.tasks.values()].filter((task) => !isSound(task))).toEqual([]);
}

describe.each(storeSubjects())("any operations on $name", (subject) => {
  afterAll(() => subject.dispose());
  /** HOLDFAST_FULL=1: ten times as many. */
  const runs = (subject.name === "memory" ? 15 : 2) * (process.env["HOLDFAST_FULL"] ? 10 : 1);

  const play = async (steps: Parameters<typeof take>[1][], check: (goal: Goal, bench: Bench) => unknown) => {
    const bench = await Bench.open(subject);
    try {
      const goal = await bench.goal(BEGINNING);
      for (const step of steps) await take(goal, step);
      await check(goal, bench);
    } finally {
      await bench.dispose();
    }
  };

  test("keep position, progress and bar consistent at every step", async () => {
    await fc.assert(
      fc.asyncProperty(anySteps(words, 60), async (steps) => {
        const bench = await Bench.open(subject);
        try {
          const goal = await bench.goal(BEGINNING);
          for (const step of steps) {
            await take(goal, step);
            expectNoContradiction(goal.state);
            expectInvariants(goal.state);
          }
        } finally {
          await bench.dispose();
        }
      }),
      { numRuns: runs },
    );
  });

  test("the impact of blockers matches the definition, for all of them and for each", async () => {
    const check = ({ state }: Goal): void => {
      expect(surveyGoal(state).impact).toEqual(bruteForce(state, activeBlockers(state)).impact);
      for (const blocker of state.blockers.values()) {
        const alone = blocker.status === "active" ? [blocker] : [];
        expect(blockerImpact(state, blocker)).toEqual(bruteForce(state, alone).impact);
      }
    };
    await fc.assert(
      fc.asyncProperty(anySteps(words, 80), (steps) => play(steps, check)),
      { numRuns: runs },
    );
  });

  test("snapshot, replay, handle and lists agree", async () => {
    const check = async (goal: Goal, bench: Bench): Promise<void> => {
      const { state } = goal;
      const stored = JSON.parse(JSON.stringify(encodeGoal(state))) as Json;
      expect(decodeGoal(stored)).toEqual(state);
      expect(encodeGoal(branchGoal(state))).toEqual(encodeGoal(state));
      const replayed = await bench.journal.load(goalKind, "checkout");
      expect(canonicalText(encodeGoal(replayed.state))).toBe(canonicalText(encodeGoal(state)));
      const survey = surveyGoal(state);
      const shown = await bench.items("task");
      const wanted = [...state.tasks.values()].map((task) => ({
        id: task.id,
        status: displayStatus(task, survey.blockedBy.has(task.id)),
        doneAt: task.doneAt,
      }));
      const found = shown.map(({ id, status, doneAt }) => ({ id, status, doneAt }));
      const byId = (a: { id: string }, b: { id: string }): number => (a.id < b.id ? -1 : 1);
      expect(found.sort(byId)).toEqual(wanted.sort(byId));
      const { facets } = await bench.journal.row("goal/checkout");
      expect(facets.status).toBe(goalStatus(survey));
      expect(await bench.items("history")).toHaveLength(state.history.size);
    };
    await fc.assert(
      fc.asyncProperty(anySteps(words, 60), (steps) => play(steps, check)),
      { numRuns: runs },
    );
  });

  test("every movable task is ready, in progress, or behind such a task", async () => {
    const check = async (goal: Goal): Promise<void> => {
      const survey = goal.survey();
      const isUnderWay = [...goal.state.tasks.values()].some(
        ({ id, status }) => (status === "in_progress" || status === "submitted") && survey.movable.has(id),
      );
      const { tasks } = await goal.next();
      const isWaitingForPlan = survey.current?.status === "unplanned";
      if (survey.movable.size > 0 && !isWaitingForPlan) expect(tasks.length > 0 || isUnderWay).toBe(true);
    };
    await fc.assert(
      fc.asyncProperty(anySteps(words, 60), (steps) => play(steps, check)),
      { numRuns: runs },
    );
  });
});
