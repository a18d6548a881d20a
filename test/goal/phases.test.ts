// Phases: their names, moving between them, and where new tasks go.

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { type Goal, makeBriefing } from "../../src/goal/index.ts";
import { type Holdfast, open } from "../../src/index.ts";
import { renderGoal } from "../../src/projections/index.ts";
import { runInside } from "../cli/inside.ts";
import { quickFolder } from "../quick-folder.ts";
import { storeSubjects } from "../subjects.ts";
import { Bench, human, worker } from "./bench.ts";

const phases = ["Look", "Plan", "Build"];
let holdfast: Holdfast;
beforeEach(async () => {
  holdfast = await open("memory:");
});
afterEach(() => holdfast.close());

test("a second phase of the same name, in any case, is rejected and nothing is written", async () => {
  const goal = await holdfast.goal("shop", { statement: "Ship the shop", phases: ["Schema"] });
  expect(await goal.addPhase({ name: "API" })).toBe(2);
  const { seq } = goal;
  for (const name of ["API", "api", "schema"]) {
    await expect(goal.addPhase({ name })).rejects.toMatchObject({
      code: "INPUT_INVALID",
      message: expect.stringContaining(
        `goal shop already has a phase "${name === "schema" ? "Schema" : "API"}"`,
      ),
      hint: expect.stringContaining("name of its own"),
    });
  }
  expect(goal.seq).toBe(seq);
  expect(goal.state.phases.map(({ name }) => name)).toEqual(["Schema", "API"]);
});

test("moving back to a phase without tasks opens it again", async () => {
  const goal = await holdfast.goal("shop", { statement: "Ship the shop", phases });
  await goal.move({ to: "Plan" });
  await goal.move({ to: "Build" });
  expect(goal.progress().phasesCompleted).toBe(2);
  expect(await goal.move({ to: "Look" })).toBe(1);
  expect(goal.position()).toMatchObject({ phase: 1, status: "unplanned" });
  expect(goal.progress().phasesCompleted).toBe(1);
  await goal.addTask({ title: "read the code" });
  expect(goal.task("T-001").phase).toBe(1);
});

test("moving to the only phase opens it again; moving there twice writes nothing", async () => {
  const goal = await holdfast.goal("shop", { statement: "Ship the shop", phases: ["Look"] });
  await goal.completePhase({ phase: 1 });
  expect(goal.progress().percent).toBe(100);
  await goal.move({ to: 1 });
  expect(goal.progress().percent).toBe(0);
  const { seq } = goal;
  await goal.move({ to: 1 });
  expect(goal.seq, "the goal is already in that phase").toBe(seq);
});

test("a phase with finished or dropped tasks stays complete", async () => {
  const goal = await holdfast.goal("shop", { statement: "Ship the shop", phases });
  await goal.addTask({ title: "read the code", phase: "Look" });
  await goal.drop({ task: "T-001", why: "not wanted" });
  await goal.move({ to: "Build" });
  await expect(goal.move({ to: "Look" })).rejects.toMatchObject({
    code: "INPUT_INVALID",
    hint: expect.stringContaining("reopen or add a task"),
  });
});

test("the move command names the phase that it completed", async () => {
  const root = mkdtempSync(join(quickFolder(), "holdfast-left-"));
  const run = async (...args: string[]): Promise<string> => {
    const { code, out, err } = await runInside(root, args);
    expect(code, err).toBe(0);
    return out;
  };
  const named = phases.flatMap((name) => ["--phase", name]);
  await run("init", "--agent", "none");
  await run("goal", "new", "shop", "Ship the shop", ...named);
  const first = await run("goal", "move", "Build");
  expect(first).toContain("shop is in phase 3 Build");
  expect(first).toContain("phase 1 Look had no tasks and counts as complete; go back: holdfast goal move 1");
  expect(JSON.parse(await run("goal", "move", "Look", "--json")).data.closed).toBeNull();
  expect(JSON.parse(await run("goal", "move", "2", "--json")).data.closed).toEqual({
    number: 1,
    name: "Look",
  });
  rmSync(root, { recursive: true, force: true });
});

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

test("new tasks go to the current phase while a blocker pauses it", async () => {
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

test("so do several tasks at once, until that phase is complete", async () => {
  await moved(async (goal, bench) => {
    const made = await goal.addTasks({ tasks: [{ title: "q" }, { title: "r" }] });
    expect(made.map(({ phase }) => phase)).toEqual([2, 2]);
    for (const id of ["T-003", "T-004", "T-005"]) await goal.drop({ task: id, why: "w" });
    expect((await goal.addTask({ title: "s" })).phase).toBe(1);
    expect(lines(goal, bench, "MOVED")).toEqual([]);
  });
});

test("STATE.md lists blocked and active tasks of other phases", async () => {
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
