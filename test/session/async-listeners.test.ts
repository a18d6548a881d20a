/** Listeners of a run that return a rejected promise: they must not end the process. */

import { expect, test } from "vitest";
import { Holdfast, Journal } from "../../src/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { callBlock, counting, script, type World } from "../ledger/bench.ts";

test("a listener that fails is a warning, and the run continues", async () => {
  const warnings = new Set<string>();
  const warn = (error: unknown): void => {
    warnings.add(String(error));
  };
  const told = new Set<string>();
  const session = await new Holdfast(new Journal({ store: openMemory(), warn })).session("alpha");
  const world: World = { effects: [] };
  const result = await session.run({
    model: script([callBlock("c1", "pay")], "paid"),
    tools: [counting(world, "pay")],
    prompt: "go",
    on: async ({ type }) => {
      told.add(`Error: no screen for ${type}`);
      throw new Error(`no screen for ${type}`);
    },
  });
  expect(result).toMatchObject({ status: "done", text: "paid" });
  expect(world.effects).toHaveLength(1);
  await new Promise((resolve) => setImmediate(resolve));
  expect([...warnings].sort()).toEqual([...told].sort());
});
