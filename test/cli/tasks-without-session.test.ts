// Commands without a session or token: claim, hand off, release, reopen.

import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { open } from "../../src/open.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
let root: string;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());
beforeEach(async () => {
  root = line.newProject();
  const holdfast = await open(join(root, ".holdfast"));
  const goal = await holdfast.goal("shop", { statement: "Ship the shop" });
  await goal.addTasks({ tasks: ["one", "two", "three"].map((title) => ({ title })) });
  await holdfast.close();
});

const run = (...args: string[]) => runInside(root, args);

async function well(...args: string[]): Promise<string> {
  const { code, out, err } = await run(...args);
  expect(code, `${args.join(" ")}: ${err}`).toBe(0);
  return out;
}

async function refused(...args: string[]): Promise<string> {
  const { code, err } = await run(...args);
  expect(code, args.join(" ")).not.toBe(0);
  return err;
}

const task = async (id: string) => JSON.parse(await well("task", "show", id, "--json")).data;
const claimOf = async (id: string) => (await task(id)).claim;

test("a hand-off of the user's only session releases its claims, without naming the session", async () => {
  await well("resume", "--by", "ann", "--session", "mon");
  await well("task", "claim", "1", "--by", "ann");
  await well("task", "start", "2", "--by", "ann");
  expect(await claimOf("1")).toMatchObject({ by: { name: "ann" }, session: "mon" });
  await well("task", "claim", "1", "--by", "ann");
  await well("task", "submit", "2", "--by", "ann", "--summary", "done");
  await well("handoff", "--reason", "lunch", "--by", "ann");
  expect(await task("1")).toMatchObject({ status: "open", claim: null });
  await well("task", "claim", "1", "--by", "bob");
});

test("a claim made before the session stays with the claimant and can be claimed again", async () => {
  await well("task", "claim", "1", "--by", "ann");
  await well("resume", "--by", "ann", "--session", "mon");
  await well("task", "claim", "1", "--by", "ann");
  await well("task", "claim", "2", "--by", "ann");
  expect(await claimOf("1")).toMatchObject({ session: null });
  await well("handoff", "--reason", "lunch", "--by", "ann");
  expect(await task("1")).toMatchObject({ status: "in_progress" });
  expect(await task("2")).toMatchObject({ status: "open" });
});

test("of two sessions with one name none is guessed, and neither gets the other's claims", async () => {
  await well("resume", "--by", "ann", "--session", "mon");
  await well("task", "claim", "1", "--by", "ann");
  await well("resume", "--by", "ann", "--session", "tue");
  await well("task", "claim", "2", "--by", "ann");
  expect(await claimOf("2")).toMatchObject({ session: null });
  const err = await refused("task", "claim", "1", "--by", "ann");
  expect(err).toMatch(/held by ann \(.+\) in session mon/);
  await well("task", "claim", "3", "--by", "ann", "--session", "tue");
  await well("resume", "--by", "bob", "--session", "bobs");
  await well("handoff", "--reason", "lunch", "--by", "ann", "--session", "tue");
  expect(await claimOf("1")).toMatchObject({ session: "mon" });
  expect(await task("3")).toMatchObject({ status: "open" });
});

test("a claim that outlives its command names no process", async () => {
  await well("task", "claim", "1", "--by", "ann");
  const err = await refused("task", "claim", "1", "--by", "bob");
  expect(err).toMatch(/T-001 is held by ann \(.+\) for another/);
  expect(err).not.toMatch(/pid|process/);
});

test("an error names the requested act, and its hint works", async () => {
  expect(await refused("task", "release", "1")).toMatch(
    /T-001 is open: it cannot release\n.*No agent holds it/,
  );
  expect(await refused("task", "fail", "1", "no disk")).toMatch(/it cannot fail\n.*Claim it first/);
  await well("task", "claim", "1", "--by", "ann");
  await well("task", "submit", "1", "--by", "ann", "--summary", "done");
  await well("task", "verify", "1");
  const err = await refused("task", "release", "1", "--by", "ann");
  expect(err).toContain("T-001 is done: it cannot release");
  expect(err).toContain("holdfast task reopen T-001 --why");
  expect(await well("task", "reopen", "T-001", "--why", "it broke")).toContain("open");
  await well("task", "drop", "1", "--why", "nobody wants it");
  expect(await refused("task", "claim", "1")).toContain("holdfast task reopen T-001 --why");
  await well("task", "claim", "2", "--by", "ann");
  await well("task", "fail", "2", "no disk", "--final", "--by", "ann");
  await well("task", "retry", "2", "--why", "there is one now");
  expect(await task("2")).toMatchObject({ status: "open" });
});

test.each([
  [["--", "true"], "-- command"],
  [["--notify", "true"], "--notify"],
  [["--parallel", "3"], "--parallel"],
])("supervise --once rejects options that it would ignore: %j", async (said, named) => {
  const { code, out, err } = await run("supervise", "--once", ...said);
  expect({ code, out }).toEqual({ code: 2, out: "" });
  expect(err).toContain(`cannot be combined with ${named}`);
  expect(err).toContain("Leave out --once");
});

test("two phases with one name are rejected, and no goal is created", async () => {
  expect(await refused("goal", "new", "n1", "s", "--phase", "api", "API")).toContain(
    'phase "API" is there twice',
  );
  expect(await well("goal", "list")).not.toContain("n1");
});
