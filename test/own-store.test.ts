// A store that the caller names is its own world: it does not read the goal of the folder it stands in.

import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { open, projectGoal } from "../src/index.ts";

let root: string;
const cwd = process.cwd();
beforeEach(async () => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-own-")));
  mkdirSync(join(root, ".git"));
  mkdirSync(join(root, "src"));
  process.chdir(root);
  const holdfast = await open();
  const goal = await holdfast.goal("g", { statement: "of the repository", root });
  await projectGoal(goal);
  await holdfast.close();
});
afterEach(() => {
  process.chdir(cwd);
  rmSync(root, { recursive: true, force: true });
});

async function statement(address: string | undefined, options: { root?: string } = {}): Promise<string> {
  const holdfast = await open(address);
  try {
    return (await holdfast.goal("g", { statement: "mine", ...options })).state.statement;
  } finally {
    await holdfast.close();
  }
}

test.each(["memory:", "./other.db", "./plain/"])("%s does not take in the folder's goal", async (address) => {
  expect(await statement(address)).toBe("mine");
});

test("the project's own store takes it in, from every folder of the project and by its address", async () => {
  for (const folder of [".", "src"]) {
    rmSync(join(root, ".holdfast"), { recursive: true });
    process.chdir(join(root, folder));
    expect(await statement(undefined)).toBe("of the repository");
  }
  process.chdir(root);
  rmSync(join(root, ".holdfast"), { recursive: true });
  expect(await statement("./.holdfast/store.db")).toBe("of the repository");
  expect(await statement("memory:", { root })).toBe("of the repository");
});
