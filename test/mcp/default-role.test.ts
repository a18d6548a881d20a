// The rights of a worker, the role that `init` gives an MCP agent, and hints on who may do the rest.

import { afterAll, beforeAll, expect, test } from "vitest";
import { commandFile } from "../cli/command-line.ts";
import { runInside } from "../cli/inside.ts";
import { type Connected, Project } from "./mcp-project.ts";

type Data = Record<string, unknown>;

let project: Project;
let agent: Connected;
beforeAll(async () => {
  project = new Project();
  await runInside(project.folder, ["init", "--agent", "none"]);
  agent = await project.connect([commandFile("cli"), "mcp", "--by", "bob"]);
});
afterAll(async () => {
  await agent.close();
  project.remove();
});

async function call(name: string, args: Data = {}): Promise<Data> {
  const answer = await agent.client.callTool({ name, arguments: args });
  expect(answer.isError, JSON.stringify(answer)).toBeFalsy();
  return (answer.structuredContent as { data: Data }).data;
}

async function refusal(name: string, args: Data = {}): Promise<Data> {
  const answer = await agent.client.callTool({ name, arguments: args });
  expect(answer.isError, name).toBe(true);
  return (answer._meta as { "holdfast/error": Data })["holdfast/error"];
}

test("without a goal, an error names who can create one, and no hint names a rejected tool", async () => {
  const person = expect.stringContaining("sk a person");
  const command = expect.stringContaining("holdfast goal new");
  const none = await refusal("next");
  expect(none).toMatchObject({ code: "GOAL_NOT_FOUND", hint: person });
  expect(none).toMatchObject({ hint: command });
  expect(none["hint"]).not.toContain("goal_new");
  const refused = await refusal("goal_new", { id: "app", statement: "Ship it" });
  expect(refused).toMatchObject({ code: "ROLE_REFUSED", hint: person });
  expect(refused["hint"]).toContain("holdfast mcp --role architect | orchestrator");
  expect(refused["hint"]).not.toContain("in code");
});

test("a worker adds a task and resolves its own blocker but no other", async () => {
  await runInside(project.folder, ["goal", "new", "app", "Ship it", "--phase", "API"]);
  expect(await call("task_add", { title: "the form needs a label" })).toMatchObject({ id: "T-001" });
  await call("block", { description: "no network", everything: true });
  expect(await call("block_resolve", { blocker: "B-001", resolution: "it is back" })).toMatchObject({
    status: "resolved",
  });
  await runInside(project.folder, ["block", "add", "no licence", "--task", "T-001"]);
  const refused = await refusal("block_resolve", { blocker: "B-002", resolution: "we do not need one" });
  expect(refused["message"]).toMatch(/^"bob", a worker, may not resolve: B-002 was reported by "/);
  expect(refused["hint"]).toContain("holdfast block resolve");
  expect(refused["hint"]).toContain("holdfast mcp --role architect | orchestrator");
});

test("a hint for an act that a worker may not do names a person or a verifier", async () => {
  const refused = await refusal("task_verify", { task: "T-001", accept: true });
  expect(refused["hint"]).toContain("holdfast task verify");
  expect(refused["hint"]).toContain("holdfast mcp --role verifier");
});

test("a hint names the tool instead of the command", async () => {
  expect((await refusal("task_show", { task: "T-900" }))["hint"]).toContain(
    "List them: task_list with all: true",
  );
  expect((await refusal("next", { goal: "nowhere" }))["hint"]).toContain("List them: goal_list");
});
