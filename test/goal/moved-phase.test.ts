// Where somebody moved the goal is where new tasks go, also while a blocker sends the work elsewhere; and the reader hears why.

import { afterAll, expect, test } from "vitest";
import { type Goal, makeBriefing } from "../../src/goal/index.ts";
import { renderGoal } from "../../src/projections/index.ts";
import { storeSubjects } from "../subjects.ts";
import { Bench, human, worker } from "./bench.ts";

const [memory] = storeSubjects();
if (!memory) throw new Error("there is no memory store to test on");
afterAll(() => memory.dispose());

const TASKS = [
  { title: "a1", phase: 1 },
  { title: "a2", phase: 1 },
  { title: "u1", phase: 2 },
];

async function moved(check: (goal: Goal, bench: Bench) => Promise<void>): Promise<void> {
  const bench = await Bench.open(memory as NonNullable<typeof memory>);
  try {
    const goal = await bench.goal({ phases: ["API", "UI"], tasks: TASKS });
    await goal.move({ to: 2, by: human });
    await goal.block({ description: "mine", affects: { tasks: ["T-003"] } });
    await check(goal, bench);
  } finally {
    await bench.dispose();
  }
}

const lines = (goal: Goal, bench: Bench, word: string): string[] =>
  makeBriefing(goal.state, goal.seq, bench.now)
    .text.split("\n")
    .filter((line) => line.startsWith(word));

test("a blocker sends the work elsewhere, the briefing says why, and new tasks go where the goal was moved", async () => {
  await moved(async (goal, bench) => {
    expect(lines(goal, bench, "AT ")[0]).toMatch(/^AT phase 1\/2 API/);
    expect(lines(goal, bench, "MOVED")).toEqual([
      "MOVED to phase 2/2 UI, which is paused: the work goes on elsewhere, new tasks go there",
    ]);
    expect((await goal.addTask({ title: "q" })).phase).toBe(2);
    expect(lines(goal, bench, "AT ")[0]).toMatch(/^AT phase 2\/2 UI/);
    expect(lines(goal, bench, "MOVED")).toEqual([]);
  });
});

test("many at once go there too, and after the phase is complete new tasks go where the work is", async () => {
  await moved(async (goal, bench) => {
    const made = await goal.addTasks({ tasks: [{ title: "q" }, { title: "r" }] });
    expect(made.map(({ phase }) => phase)).toEqual([2, 2]);
    for (const id of ["T-003", "T-004", "T-005"]) await goal.drop({ task: id, why: "w" });
    expect((await goal.addTask({ title: "s" })).phase).toBe(1);
    expect(lines(goal, bench, "MOVED")).toEqual([]);
  });
});

test("STATE.md names blocked and active tasks of other phases", async () => {
  await moved(async (goal) => {
    const page = (): string =>
      renderGoal(goal.state, goal.revision).files.find(({ path }) => path === "STATE.md")?.text ?? "";
    expect(page()).toContain("T-003 [blocked] u1");
    await goal.addTask({ title: "q" });
    await goal.claim("T-001", { by: worker });
    expect(page()).toContain("T-001 [in_progress] a1");
    expect(page()).not.toMatch(/T-002 \[/);
  });
});
