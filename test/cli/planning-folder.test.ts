// `.planning/` follows the goal, whether a command, an MCP agent or a hook writes. Edits of its files are
// ingested.

import { existsSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { Project } from "../mcp/mcp-project.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
let project: string;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());
afterEach(() => {
  vi.useRealTimers();
});

/** Runs as a process, because a person waits for its end. */
const over = (...args: string[]) => line.run(args, { cwd: project });
const here = (...args: string[]) => runInside(project, args);
const planning = (file: string) => join(project, ".planning", file);
const page = () => readFileSync(planning("STATE.md"), "utf8");

beforeEach(async () => {
  project = line.newProject();
  await here("init", "--agent", "none");
});

async function begun(): Promise<void> {
  expect(await here("goal", "new", "checkout", "Ship the checkout")).toMatchObject({ code: 0, err: "" });
}

/** Saves a file as a person does, with a modification time in the past. */
function edit(from: string, to: string, agoMs: number): void {
  const text = page();
  expect(text).toContain(from);
  writeFileSync(planning("STATE.md"), text.replaceAll(from, to));
  const at = (Date.now() - agoMs) / 1_000;
  utimesSync(planning("STATE.md"), at, at);
}

test("a goal, a task and a fact are in the files when the command ends", async () => {
  expect(await over("goal", "new", "checkout", "Ship the checkout")).toMatchObject({ code: 0, err: "" });
  expect(page()).toContain("Ship the checkout");
  await here("task", "add", "Build the cart");
  expect(page()).toContain("Build the cart");
  await over("fact", "currency", "EUR", "--source", "the contract");
  expect(readFileSync(planning("agent_state.json"), "utf8")).toContain("EUR");
  expect(await here("rebuild")).toMatchObject({ code: 0, err: "" });
});

test("a person's edit is ingested before an agent writes; a fresh edit makes the agent wait", async () => {
  await begun();
  await here("task", "add", "Build the cart");
  edit("[open] Build the cart", "[open] Build the basket", 60_000);
  const agent = ["--role", "worker", "--by", "agent-1"];
  expect(await here("fact", "a", "1", "--source", "x", ...agent)).toMatchObject({ code: 0 });
  expect((await here("task", "list")).out).toContain("Build the basket");
  // The wall clock is frozen, because a busy machine may take longer to reach the next line.
  vi.useFakeTimers({ toFake: ["Date"] });
  edit("[open] Build the basket", "[open] Build the trolley", 0);
  const refused = await here("fact", "b", "2", "--source", "x", ...agent);
  expect(refused.err).toContain("a person edited STATE.md a moment ago");
  expect(refused.code).not.toBe(0);
  vi.useRealTimers();
  expect((await here("task", "list")).out).toContain("Build the trolley");
  expect((await here("fact", "b", "2", "--source", "x")).code).toBe(0);
});

test("the folder keeps showing its goal while other goals or stores are written", async () => {
  await begun();
  const before = page();
  const made = await here("goal", "new", "search", "Find things");
  expect(made.code).toBe(0);
  expect(made.err).toMatch(
    /^holdfast: note: .*still shows goal checkout.*\n.*holdfast rebuild --goal search\n$/,
  );
  expect(await here("fact", "a", "1", "--source", "x", "--goal", "search")).toMatchObject({
    code: 0,
    err: "",
  });
  expect(page()).toBe(before);
  const env = { HOLDFAST_STORE: join(project, "elsewhere.db") };
  const there = (...args: string[]) => runInside(project, args, env);
  expect(await there("init", "--agent", "none")).toMatchObject({ code: 0 });
  expect(await there("goal", "new", "checkout", "Another of that name")).toMatchObject({ code: 0, err: "" });
  expect(page()).toBe(before);
});

test("an unwritable folder is reported and blocks no command; a missing one is not created", async () => {
  await begun();
  rmSync(planning(""), { recursive: true });
  expect(await here("fact", "a", "1", "--source", "x")).toMatchObject({ code: 0, err: "" });
  expect(existsSync(planning(""))).toBe(false);
  writeFileSync(planning(""), "a file");
  const told = await here("fact", "a", "2", "--source", "x");
  expect(told).toMatchObject({ code: 0, out: "a = 2\n" });
  expect(told.err).toMatch(/^holdfast: note: \.planning\/ is not up to date: .*\n.*holdfast rebuild/);
  const asJson = await here("fact", "a", "3", "--source", "x", "--json");
  expect(JSON.parse(asJson.err)).toMatchObject({ kind: "warning", data: { hint: expect.any(String) } });
});

test("the files contain the writes of an MCP agent and the events of its hooks", async () => {
  const served = new Project();
  const at = (args: string[], input = "") => line.run(args, { cwd: served.folder, input });
  await runInside(served.folder, ["init", "--agent", "none"]);
  await runInside(served.folder, ["goal", "new", "checkout", "Ship the checkout"]);
  const there = (file: string) => readFileSync(join(served.folder, ".planning", file), "utf8");
  const { client, close } = await served.connect([line.cli, "mcp", "--by", "alice"]);
  try {
    const fact = { key: "currency", value: "EUR", source: "the contract" };
    const answer = await client.callTool({ name: "fact", arguments: fact });
    expect(answer.isError, JSON.stringify(answer)).toBeFalsy();
    expect(there("agent_state.json")).toContain("the contract");
  } finally {
    await close();
  }
  const begun = JSON.stringify({ cwd: served.folder, session_id: "7f2a91bc-1", source: "startup" });
  await at(["hook", "claude", "session-start"], begun);
  // A session that only started changes no file.
  writeFileSync(join(served.folder, "pay.ts"), "1");
  const input = { file_path: join(served.folder, "pay.ts") };
  const edit = { cwd: served.folder, session_id: "7f2a91bc-1", tool_name: "Write", tool_input: input };
  await at(["hook", "claude", "touched"], JSON.stringify(edit));
  expect(await at(["hook", "ingest"])).toEqual({ code: 0, out: "", err: "" });
  expect(there("STATE.md")).toContain("claude-7f2a91bc");
  served.remove();
});
