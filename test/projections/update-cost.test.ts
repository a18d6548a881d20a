import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Goal } from "../../src/goal/index.ts";
import { open } from "../../src/open.ts";
import { projectGoal } from "../../src/projections/index.ts";

interface Sized {
  update(index: number): Promise<number>;
  close(): Promise<void>;
}

async function sized(tasks: number, decisions: number): Promise<Sized> {
  const root = mkdtempSync(join(tmpdir(), "holdfast-scale-"));
  const holdfast = await open(join(root, "store.db"));
  const goal = await holdfast.goal("checkout", {
    statement: "Ship it",
    root,
    phases: ["one", "two"],
    tasks: Array.from({ length: tasks }, (_, index) => ({
      title: `task ${index}`,
      description: "some words about this task ".repeat(4),
      acceptance: ["it works", "it is tested"],
    })),
  });
  for (let index = 0; index < decisions; index++) {
    await goal.decide({
      type: "technology",
      context: `c ${index}`,
      decision: `d ${index}`,
      reason: `r ${index}`,
    });
  }
  const folder = await projectGoal(goal);
  return {
    update: async (index) => {
      const begun = performance.now();
      await UPDATES[index % UPDATES.length]?.(goal, index);
      return performance.now() - begun;
    },
    close: async () => {
      await folder.close();
      await holdfast.close();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

const UPDATES: readonly ((goal: Goal, index: number) => Promise<unknown>)[] = [
  (goal, index) => goal.fact({ key: "k", value: index, source: "x" }),
  (goal, index) => goal.editTask({ task: "T-005", change: { title: `t ${index}` } }),
  (goal, index) => goal.setNext({ next: `go ${index}` }),
  (goal, index) => goal.decide({ type: "constraint", context: `n ${index}`, decision: "d", reason: "r" }),
];

const median = (numbers: readonly number[]): number =>
  [...numbers].sort((a, b) => a - b)[numbers.length >> 1] ?? 0;

test("an update of a goal with 1,000 tasks and 300 decisions costs under 5 × one of 10 tasks", async () => {
  const small = await sized(10, 3);
  const large = await sized(1_000, 300);
  let ratio = Number.POSITIVE_INFINITY;
  // A cost that grows with the goal does so in every run; a busy machine only in some.
  for (let turn = 0; turn < 4 && ratio >= 5; turn++) {
    const times = { small: [] as number[], large: [] as number[] };
    // In turns, so that other load of the machine falls on both.
    for (let index = 0; index < 60; index++) {
      times.small.push(await small.update(index));
      times.large.push(await large.update(index));
    }
    ratio = median(times.large) / median(times.small);
  }
  await small.close();
  await large.close();
  expect(ratio).toBeLessThan(5);
}, 300_000);
