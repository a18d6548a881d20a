// A call that only waits for its sub-agent's call needs no answer. Pages name the call that does, and its
// session.

import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { agentTool, open, type Tool, tool } from "../../src/index.ts";
import { callBlock, script } from "../ledger/bench.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

const STORE = "store.db";
let line: CommandLine;
const look = async (...words: string[]): Promise<string> => {
  const { code, out, err } = await runInside(line.project, [...words, "--store", STORE]);
  expect(code, err).toBe(0);
  return out;
};

const input = z.looseObject({});
const search = tool({
  name: "search",
  description: "search",
  input,
  effect: "mutate",
  execute: (): never => {
    throw new Error("the line was cut");
  },
}) as unknown as Tool;

function asking(name: string, id: string, below: Tool): Tool {
  const run = { model: script([callBlock(id, below.name)], "found"), tools: [below], prompt: "go" };
  return tool(agentTool({ name, description: name, input, run: (_args, child) => child.run(run) }));
}

/** Each agent runs until the innermost call waits for a person, and then releases its session. */
async function leave(session: string, tools: readonly Tool[], ...ids: string[]): Promise<void> {
  const holdfast = await open(join(line.project, STORE));
  const own = await holdfast.session(session);
  const blocks = tools.map((each, index) => callBlock(ids[index] ?? "", each.name));
  await own.run({ model: script(blocks), tools, prompt: "go" });
  await own.close();
  await holdfast.close();
}

beforeAll(async () => {
  line = await CommandLine.build();
  await leave("editor", [asking("research", "s1", search)], "r1");
});
afterAll(() => line.remove());

const GOES_ON = /resumes once search s1 of session sub-\w{32} is resolved and its agent runs again/;

test("calls offers no answer for it, and names the call and session that it waits for", async () => {
  const page = await look("calls");
  expect(page).toMatch(GOES_ON);
  expect(page).not.toContain("holdfast resolve r1");
  expect(page).toContain("holdfast resolve s1");
  expect(await look("calls", "--session", "editor"), "on the page of its session too").toMatch(GOES_ON);
  const { calls } = JSON.parse(await look("calls", "--json")).data;
  const inside = { tool: "search", callId: "s1", session: expect.stringMatching(/^sub-/) };
  expect(calls.find(({ callId }: { callId: string }) => callId === "r1")).toMatchObject({
    waitsForSubAgent: true,
    subAgentCalls: [inside],
  });
});

test("status does not ask for an answer to it", async () => {
  const page = await look("status");
  expect(page).toContain("! 1 call waits for you");
  expect(page).toMatch(
    /! research r1 of editor resumes once search s1 of sub-\w{32} is answered and its agent runs again/,
  );
  expect(page).not.toContain("has no outcome");
});

test("with several levels of sub-agents the innermost call is named", async () => {
  await leave("chief", [asking("publish", "m1", asking("ask", "s2", search))], "p1");
  const page = await look("calls");
  expect(page.match(/once search s2 of session sub-\w{32} is resolved/g)).toHaveLength(2);
  expect(page).not.toMatch(/holdfast resolve (p1|m1|r1)/);
  expect(await look("status")).toContain("! 3 calls resume once their sub-agents' calls are answered");
});

test("a call that itself waits for a person can be retried, and names the call to answer first", async () => {
  const model = script([callBlock("s3", "search")]);
  const broken = agentTool({
    name: "broken",
    description: "broken",
    input,
    run: async (_args, child) => {
      await child.run({ model, tools: [search], prompt: "go" });
      throw new Error("it breaks every time");
    },
  });
  await leave("breaker", [tool(broken)], "b1");
  const page = await look("calls", "--session", "breaker");
  expect(page).toContain("WAITS FOR YOU");
  expect(page).toMatch(/landed or failed is possible once search s3 of session sub-\w{32} is resolved/);
  expect(page.match(/holdfast resolve b1 .*/g)).toEqual(["holdfast resolve b1 --store store.db retry"]);
});

test("once that call is answered, the answers are offered again", async () => {
  await look("resolve", "s1", "landed", "--by", "ann", "--why", "seen");
  const page = await look("calls", "--session", "editor");
  expect(page).toContain("holdfast resolve r1");
  expect(page).not.toContain("resumes once");
});
