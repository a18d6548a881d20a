/** A phase that was left without a task in it counts as complete: that is said, and it can be gone back to. */

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Holdfast, open } from "../../src/index.ts";
import { runInside } from "../cli/inside.ts";
import { quickFolder } from "../quick-folder.ts";

const phases = ["Look", "Plan", "Build"];
let holdfast: Holdfast;
beforeEach(async () => {
  holdfast = await open("memory:");
});
afterEach(() => holdfast.close());

test("moving back to it opens it again, and the work is there", async () => {
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

test("the last one is opened again too, although the goal is still there", async () => {
  const goal = await holdfast.goal("shop", { statement: "Ship the shop", phases: ["Look"] });
  await goal.completePhase({ phase: 1 });
  expect(goal.progress().percent).toBe(100);
  await goal.move({ to: 1 });
  expect(goal.progress().percent).toBe(0);
  const { seq } = goal;
  await goal.move({ to: 1 });
  expect(goal.seq, "it is there already").toBe(seq);
});

test("one in which work was done or dropped stays complete", async () => {
  const goal = await holdfast.goal("shop", { statement: "Ship the shop", phases });
  await goal.addTask({ title: "read the code", phase: "Look" });
  await goal.drop({ task: "T-001", why: "not wanted" });
  await goal.move({ to: "Build" });
  await expect(goal.move({ to: "Look" })).rejects.toMatchObject({
    code: "INPUT_INVALID",
    hint: expect.stringContaining("reopen or add a task"),
  });
});

test("`move` says which phase it closed", async () => {
  const root = mkdtempSync(join(quickFolder(), "holdfast-left-"));
  const run = async (...args: string[]): Promise<string> => {
    const { code, out, err } = await runInside(root, args);
    expect(code, err).toBe(0);
    return out;
  };
  const named = phases.flatMap((name) => ["--phase", name]);
  await run("init", "--agent", "none");
  await run("goal", "new", "shop", "Ship the shop", ...named);
  const first = await run("move", "Build");
  expect(first).toContain("shop is in phase 3 Build");
  expect(first).toContain("phase 1 Look had no task and counts as complete; to go back: holdfast move 1");
  expect(JSON.parse(await run("move", "Look", "--json")).data.closed).toBeNull();
  expect(JSON.parse(await run("move", "2", "--json")).data.closed).toEqual({ number: 1, name: "Look" });
  rmSync(root, { recursive: true, force: true });
});
