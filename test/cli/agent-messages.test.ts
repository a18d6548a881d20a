// Errors and notes for an agent: a rejected request names the next step, and a phase move names the tasks
// left behind.

import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandLine, type Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
const here = (...args: string[]): Promise<Ran> => runInside(line.project, args);
const ann = ["--by", "ann", "--role", "worker"];
const bob = ["--by", "bob", "--role", "worker"];

beforeAll(async () => {
  line = await CommandLine.build();
  await here("init", "--agent", "none");
  await here("goal", "new", "shop", "Ship the shop", "--phase", "build", "ship");
  await here("task", "add", "Build the cart", "--wanted", "a cart can be filled");
  await here("task", "add", "Sweep the floor");
});
afterAll(() => line.remove());

test("a handoff ends the caller's own session, and another's only if it is named", async () => {
  expect((await here("resume", "--session", "morning", ...ann)).code).toBe(0);
  const stranger = await here("handoff", "--reason", "tired", ...bob);
  expect(stranger.code).not.toBe(0);
  expect(stranger.err).toContain("bob has no active session. 1 active: morning of ann");
  expect(stranger.err).toContain("--session");
  expect(JSON.parse((await here("goal", "show", "--json")).out).data.history).toMatchObject([
    { session: "morning", status: "active" },
  ]);
  expect((await here("handoff", "--reason", "tired", ...ann)).code).toBe(0);
  expect((await here("resume", "--session", "noon", ...ann)).code).toBe(0);
  expect((await here("handoff", "--reason", "hers", "--session", "noon", ...bob)).code).toBe(0);
});

test("an error for a task the agent never held names its holder and the claim command", async () => {
  await here("task", "claim", "1", ...ann);
  const { code, err } = await here("task", "submit", "1", ...bob);
  expect(code).not.toBe(0);
  expect(err).toContain("task T-001 is held by ann, not by bob");
  expect(err).toContain("holdfast task claim T-001");
  expect((await here("task", "submit", "2", ...bob)).err).toContain("Claim it first");
  await here("task", "release", "1", ...ann);
});

test("a review needs no checklist: it checks the acceptance criteria of its tasks", async () => {
  const wanted = async (...args: string[]) =>
    JSON.parse((await here("task", "add", "Look at it", ...args, "--json")).out).data.wanted;
  expect(await wanted("--reviews", "1", "2")).toEqual([
    "a cart can be filled",
    "T-002 does what its title says",
  ]);
  expect(await wanted("--reviews", "1", "--wanted", "it is fast")).toEqual(["it is fast"]);
  const unknown = await here("task", "add", "Look at it", "--reviews", "99");
  expect(unknown.err).toContain("T-099");
});

test("a move to the next phase names the unfinished tasks it leaves behind", async () => {
  const { code, out } = await here("goal", "move", "ship");
  expect(code).toBe(0);
  expect(out).toContain("shop is in phase 2 ship");
  expect(out).toContain("stays in the old phase: T-001 open  Build the cart");
  expect(JSON.parse((await here("goal", "move", "ship", "--json")).out).data.left).toEqual([]);
});
