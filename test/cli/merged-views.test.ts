// Each clone is told of a merge what became of what it knew, and not of numbers that it never had.

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

/** As git does: files that are new are added, none is changed. */
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

test("only the clone whose task has another number is told so; one that knew it by a later number, that one", async () => {
  const [p, q, r] = (await clones(3)) as [string, string, string];
  await well(q, "task", "add", "fromq");
  await well(r, "task", "add", "fromr");
  await well(p, "task", "add", "fromp");
  pull(p, q);
  pull(q, p);
  expect(await merged(p)).toEqual(['T-002 "fromp" is now T-003']);
  expect(await merged(q)).toEqual([]);
  expect(await well(q, "task", "list")).toMatch(/T-003.*fromp/);

  // Nobody has written since, so that the number is not final.
  pull(p, r);
  pull(q, r);
  expect(await merged(p)).toEqual(['T-002 "fromp" is now T-004']);
  expect(await merged(q)).toEqual(['T-003 "fromp" is now T-004']);
  expect(await well(q, "status")).not.toContain("T-002");
});
