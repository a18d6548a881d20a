/** Many tasks in one act: the same result as one after the other, at constant cost for each. */

import fc from "fast-check";
import { expect, test } from "vitest";
import { type Act, DraftBatch, openGoal, planningActs, type TaskInput } from "../../src/goal/index.ts";
import { Journal } from "../../src/journal/index.ts";
import { isHoldfastError } from "../../src/model/errors.ts";
import {
  focusElsewhere,
  type GoalState,
  hasDependencyCycle,
  surveyGoal,
  taskOf,
} from "../../src/model/goal/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { human } from "./bench.ts";
import { anySteps, BEGINNING, take } from "./random-operations.ts";

const goalNow = (beginning: object = BEGINNING) =>
  openGoal(new Journal({ store: openMemory() }), "checkout", {
    statement: "Ship it",
    by: human,
    ...beginning,
  });

const anyTask = fc.record(
  {
    title: fc.constant("t"),
    phase: fc.constantFrom(1, 2, "two"),
    wave: fc.integer({ min: 1, max: 3 }),
    // Existing tasks, later tasks of this act, and one that never exists.
    dependsOn: fc.array(
      fc.integer({ min: 1, max: 12 }).map((n) => taskId(n)),
      { maxLength: 2 },
    ),
  },
  { requiredKeys: ["title"] },
);

/** Each task alone, with all lookups repeated. */
function oneByOne(state: GoalState, inputs: readonly TaskInput[]): string[] {
  const draft = new DraftBatch(state);
  for (const input of inputs) {
    const survey = surveyGoal(draft.state);
    const phase = input.phase ?? (focusElsewhere(draft.state, survey) ?? survey.current)?.number ?? 1;
    const { events, result } = planningActs.addTasks(draft.state, human, [{ ...input, phase }]);
    for (const event of events) draft.add(event);
    const [id = ""] = result;
    if (hasDependencyCycle(draft.state, taskOf(draft.state, id))) return [`${id} would wait for itself`];
  }
  return draft.events.map((event) => JSON.stringify(event));
}

/** The events, or the error. */
function outcome(act: () => Act<unknown> | string[]): string[] {
  try {
    const made = act();
    return Array.isArray(made) ? made : made.events.map((event) => JSON.stringify(event));
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
    return [error.message.replace(/^task (?=.*would wait)/, "")];
  }
}

test("many tasks in one act get the same phases and errors as one after the other", async () => {
  const seen = { made: 0, refused: 0 };
  await fc.assert(
    fc.asyncProperty(
      anySteps(fc.constantFrom("x", "y"), 25),
      fc.array(anyTask, { minLength: 2, maxLength: 6 }),
      async (steps, inputs) => {
        const goal = await goalNow();
        for (const step of steps) await take(goal, step);
        const { state } = goal;
        const tasks = inputs as readonly TaskInput[];
        const together = outcome(() => planningActs.addTasks(state, human, tasks));
        expect(together).toEqual(outcome(() => oneByOne(state, tasks)));
        seen[together[0]?.startsWith("{") ? "made" : "refused"] += 1;
      },
    ),
    { numRuns: 60 },
  );
  expect(Math.min(seen.made, seen.refused)).toBeGreaterThan(10);
});

/** How many map entries are read while `act` runs. */
function workOf(act: () => unknown): number {
  const { values } = Map.prototype;
  let work = 0;
  Map.prototype.values = function (this: Map<unknown, unknown>) {
    work += this.size;
    return values.call(this);
  };
  try {
    act();
  } finally {
    Map.prototype.values = values;
  }
  return work;
}

const taskId = (n: number) => `T-${String(n).padStart(3, "0")}`;

test.each<[string, (n: number) => TaskInput, object]>([
  ["without a phase", (n) => ({ title: `t${n}` }), BEGINNING],
  ["of a named phase", (n) => ({ title: `t${n}`, phase: "two" }), BEGINNING],
  [
    "that wait for the one before",
    (n) => ({ title: `t${n}`, dependsOn: n === 0 ? [] : [taskId(n)] }),
    { phases: ["one"], tasks: [] },
  ],
])("twice as many tasks %s are not much more than twice the work", async (_which, input, beginning) => {
  const { state } = await goalNow(beginning);
  const work = (count: number) =>
    workOf(() =>
      planningActs.addTasks(
        state,
        human,
        Array.from({ length: count }, (_, n) => input(n)),
      ),
    );
  expect(work(400)).toBeLessThan(3 * work(200) + 200);
});
