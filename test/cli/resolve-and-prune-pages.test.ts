// Pages that people act on: their commands work as printed, they name the decision, and they stay readable.

import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Paint } from "../../src/cli/screen.ts";
import { prunePage } from "../../src/cli/session-pages.ts";
import { tool } from "../../src/ledger/index.ts";
import { open } from "../../src/open.ts";
import { CommandLine, type Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

const anything = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
} as const;
const LONG = "dead ".repeat(1_000_000);
const charge = tool({
  name: "charge",
  description: "Charge a card",
  effect: "mutate",
  input: anything,
  execute: async (args: unknown) => {
    throw new Error((args as { id: string }).id === "long" ? LONG : "the line went dead");
  },
});
const count = tool({
  name: "count",
  description: "Count",
  effect: "mutate",
  input: anything,
  execute: async () => ({ sum: 1n }) as never,
});
const STORE = "my store.db";
const ann = ["--by", "ann", "--why", "not in the bank"];
let line: CommandLine;

const run = (...words: string[]): Promise<Ran> => runInside(line.project, words);
const say = async (...words: string[]): Promise<string> => {
  const { code, out, err } = await run(...words, "--store", STORE);
  expect(code, err).toBe(0);
  return out;
};

beforeAll(async () => {
  line = await CommandLine.build();
  const holdfast = await open(join(line.project, STORE));
  for (const name of ["one", "two"]) {
    const session = await holdfast.session(name);
    await session.call({ tool: charge, args: { id: "m1" }, callId: "m1" });
    await session.call({ tool: charge, args: { id: name }, callId: `only-${name}` });
    await session.close();
  }
  const third = await holdfast.session("three");
  await third.call({ tool: charge, args: { id: "long" }, callId: "long" });
  await third.call({ tool: count, args: {}, callId: "n1" });
  await third.close();
  const fourth = await holdfast.session("four");
  await fourth.call({ tool: charge, args: { id: "settled" }, callId: "settled" });
  await fourth.close();
  await holdfast.close();
});
afterAll(() => line.remove());

/** The commands that a page offers for a call, split like a shell does. */
function offered(page: string, call: string): string[] {
  const typed = page.split("\n").filter((each) => each.includes(`holdfast resolve ${call} `));
  return typed.map((each) => each.slice(each.indexOf("holdfast ") + "holdfast ".length));
}

const answersTo = (named: string): string[] =>
  ["landed", "retry", "failed"].map((outcome) => `resolve ${named} --store '${STORE}' ${outcome}`);

function words(typed: string): string[] {
  return (typed.match(/'[^']*'|\S+/g) ?? []).map((each) => each.replaceAll("'", ""));
}

test("a command printed by calls resolves that call, also if two sessions use its id", async () => {
  const page = await say("calls");
  expect(page).toMatch(/WAITS FOR YOU, issued \d+ \w+ ago/);
  const ofOne = answersTo("m1 --session one");
  const ofTwo = answersTo("m1 --session two");
  expect(offered(page, "m1").sort()).toEqual([...ofOne, ...ofTwo].sort());
  expect(offered(page, "only-one"), "no option more than needed").toEqual(answersTo("only-one"));
  expect(offered(await say("calls", "--session", "two"), "m1"), "on the page of one session too").toEqual(
    ofTwo,
  );
  const ran = await run(...words(ofOne[1] as string), ...ann);
  expect(ran.code, ran.err).toBe(0);
});

test("a settled call is rejected, and an unknown call is not found", async () => {
  const failed = (...of: string[]) => run("resolve", ...of, "--store", STORE, ...ann);
  expect(await failed("settled", "failed")).toMatchObject({ code: 0 });
  expect(await failed("settled", "failed")).toMatchObject({ code: 4, err: expect.stringContaining("ann") });
  expect(await failed("settled", "failed", "--session", "four")).toMatchObject({ code: 4 });
  expect(await failed("never", "failed")).toMatchObject({ code: 3 });
  expect(await failed("never", "failed", "--session", "four")).toMatchObject({ code: 3 });
});

test("an id used by several sessions is rejected with the option that selects one", async () => {
  const { code, err } = await run("resolve", "m1", "landed", "--store", STORE, ...ann);
  expect(code).toBe(3);
  expect(err).toMatch(/--session (one|two)/);
});

test("a call that may be retried shows who allowed it and the next step", async () => {
  const page = await say("calls", "--session", "one");
  expect(page).toContain("ann allowed another attempt");
  expect(page).toContain("not in the bank");
  expect(page).toContain("the next run");
  expect(page).not.toContain("it waits for you");
  const { data } = JSON.parse(await say("calls", "--session", "one", "--json"));
  expect(
    data.calls.map((each: { callId: string; grantedBy: unknown }) => [each.callId, each.grantedBy]),
  ).toEqual([
    ["m1", "ann"],
    ["only-one", null],
  ]);
});

test.each([
  ["status", "--by", "me"],
  ["goal", "list"],
  ["session", "fork", "two", "two-b"],
])("commands on the page of %s %s name the given store", async (...typed) => {
  const page = await say(...typed);
  const commands = page.split("\n").filter((each) => /holdfast [a-z]/.test(each));
  expect(commands.length).toBeGreaterThan(0);
  for (const each of commands) expect(each).toContain(` --store '${STORE}'`);
});

test("a long error is cut on pages and complete in JSON", async () => {
  for (const typed of [["calls"], ["session", "show", "three"]]) {
    const page = await say(...typed);
    expect(page).toContain("dead dead");
    expect(page.length).toBeLessThan(5_000);
  }
  expect((await say("calls", "--json")).length).toBeGreaterThan(LONG.length);
});

test("a list of sessions may be of any length", async () => {
  const { data } = JSON.parse(await say("session", "list", "--limit", "5000", "--json"));
  expect(data).toMatchObject({ more: false });
  expect(data.sessions.length).toBeGreaterThan(2);
});

test("of many removed sessions some are named and the rest are counted", () => {
  const removed = Array.from({ length: 1_000 }, (_, index) => `s${index}`);
  const report = { dryRun: false, removed, hidden: [], spared: [], artifacts: 0 };
  const page = prunePage(report, { paint: {} as Paint, width: 80, isTerminal: false });
  expect(page).toMatch(/^removed 1000 sessions: s0, s1, .* and 980 more\n$/);
});

test("every page of a call says that its result was changed to fit into JSON", async () => {
  const note = "the result is not plain JSON: $.sum is a bigint, kept as text";
  for (const words of [
    ["session", "show", "three"],
    ["calls", "--session", "three"],
    ["ledger", "count"],
  ]) {
    const { data } = JSON.parse((await run(...words, "--json", "--store", STORE)).out);
    expect(data.calls.find(({ callId }: { callId: string }) => callId === "n1")).toMatchObject({ note });
  }
  expect(await say("session", "show", "three")).toContain(note);
  expect(await say("session", "log", "three")).toContain(note);
  expect(await say("ledger", "count")).toContain(note.slice(0, 50));
});
