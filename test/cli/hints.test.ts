// Hints work as given, for a person at the command line and for an agent that calls tools.

import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { open } from "../../src/open.ts";
import { Context, OPERATIONS, perform } from "../../src/operations/index.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
  const holdfast = await open(join(line.project, ".holdfast"));
  const goal = await holdfast.goal("g", { statement: "Ship it" });
  for (const title of ["one", "two", "three"]) await goal.addTask({ title });
  const session = await holdfast.session("s");
  await session.spend({ turns: 1 });
  await holdfast.close();
});
afterAll(() => line.remove());

const TABLE: readonly (readonly [words: string, says: string, not?: string])[] = [
  ["task claim 99", "holdfast task list", "Did you mean"],
  ["task claim 4", "Did you mean T-001"],
  ["prune --older-than 1d", "--dry-run"],
  ["session diff s 1 2", "holdfast session versions s"],
  ["session fork s t --at 7", "holdfast session versions s"],
  ["goal new more words --by bob --role worker", "--role"],
];

test.each(TABLE)("holdfast %s prints %s", async (words = "", says = "", not) => {
  const { code, err } = await runInside(line.project, words.split(" "));
  expect(code).not.toBe(0);
  expect(err).toContain(says);
  if (not !== undefined) expect(err).not.toContain(not);
});

test("a count of one is singular", async () => {
  expect((await runInside(line.project, ["session", "show", "s"])).out).toMatch(/spent 1 turn$/m);
  expect((await runInside(line.project, ["session", "log", "s"])).out).toMatch(/spent +1 turn$/m);
});

test("an agent is asked for the field `goal`, not for an option", async () => {
  await runInside(line.project, ["goal", "new", "h", "Another"]);
  const by = { name: "bob", role: "worker" } as const;
  const context = await Context.of({ cwd: line.project, by, caller: "agent" });
  const next = OPERATIONS.get("next");
  if (!next) throw new Error("there is no next");
  const refused = perform(next, context, {}).catch((error: unknown) => error);
  expect(await refused).toMatchObject({ code: "GOAL_NOT_FOUND", hint: "Pass `goal`. One of: h, g" });
  await context.close();
});
