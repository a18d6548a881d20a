// A goal that saves much at once: its event files stay small enough to be read, and a clone has everything.

import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openGoal } from "../../src/goal/index.ts";
import { Journal } from "../../src/journal/index.ts";
import { mergeEventFolder, projectGoal } from "../../src/projections/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { human } from "../goal/bench.ts";
import { quickFolder } from "../quick-folder.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(quickFolder(), "holdfast-large-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const MOST = 8 * 1024 * 1024;

test("many unsaved events become several files, and these hold the whole goal", async () => {
  const planning = join(root, ".planning");
  const journal = new Journal({ store: await openMemory() });
  const goal = await openGoal(journal, "ship", { statement: "Ship it", by: human, root });
  const value = "v".repeat(32_000);
  for (let count = 0; count < 300; count++) await goal.fact({ key: "k", value: value + count, source: "me" });

  const folder = await projectGoal(goal, { auto: false });
  const sizes = (): number[] =>
    readdirSync(join(planning, "events")).map((name) => statSync(join(planning, "events", name)).size);
  const first = sizes();
  expect(first.length).toBeGreaterThan(1);
  expect(Math.max(...first)).toBeLessThanOrEqual(MOST);
  expect(first.reduce((sum, size) => sum + size)).toBeGreaterThan(MOST);

  await goal.fact({ key: "last", value: 1, source: "me" });
  await folder.sync();
  expect(sizes(), "one more for what is new").toHaveLength(first.length + 1);
  await folder.sync();
  expect(sizes()).toHaveLength(first.length + 1);

  const clone = new Journal({ store: await openMemory() });
  await mergeEventFolder(clone, planning);
  const theirs = await openGoal(clone, "ship", { by: human, root });
  expect(theirs.state.facts.get("k")?.value === `${value}299`).toBe(true);
  expect(theirs.state.facts.get("last")?.value).toBe(1);
  expect(theirs.state.known.size).toBe(goal.state.known.size);
  await folder.close();
  await goal.close();
});
