// After a merge each clone learns the new numbers of tasks it knew, and no numbers that it never had.

import { cpSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

async function well(root: string, ...args: string[]): Promise<string> {
  const { code, out, err } = await runInside(root, args);
  expect(code, err).toBe(0);
  return out;
}

/** Copies like git: new files are added, existing ones stay unchanged. */
function pull(to: string, from: string): void {
  cpSync(join(from, ".planning/events"), join(to, ".planning/events"), { recursive: true });
}

async function clones(count: number): Promise<string[]> {
  const all = Array.from({ length: count }, () => line.newProject());
  const [first, ...others] = all as [string, ...string[]];
  await well(first, "init", "--agent", "none");
  await well(first, "goal", "new", "shop", "Ship the shop");
  await well(first, "task", "add", "build the cart");
  for (const other of others) {
    cpSync(join(first, ".planning"), join(other, ".planning"), { recursive: true });
    await well(other, "status");
  }
  return all;
}

const merged = async (root: string): Promise<string[]> =>
  JSON.parse(await well(root, "rebuild", "--json")).data.merged;

test("only a clone that knew a renumbered task learns its new number, from the number it knew", async () => {
  const [p, q, r] = (await clones(3)) as [string, string, string];
  await well(q, "task", "add", "fromq");
  await well(r, "task", "add", "fromr");
  await well(p, "task", "add", "fromp");
  pull(p, q);
  pull(q, p);
  expect(await merged(p)).toEqual(['T-002 "fromp" is now T-003']);
  expect(await merged(q)).toEqual([]);
  expect(await well(q, "task", "list")).toMatch(/T-003.*fromp/);

  // No clone has written since, so the number is not final.
  pull(p, r);
  pull(q, r);
  expect(await merged(p)).toEqual(['T-002 "fromp" is now T-004']);
  expect(await merged(q)).toEqual(['T-003 "fromp" is now T-004']);
  expect(await well(q, "status")).not.toContain("T-002");
});
