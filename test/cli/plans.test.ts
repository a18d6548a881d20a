// Plans from the command line and over MCP: phases, plans, edited tasks, and a resume that reads the plan.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Connected, Programs, Project, textOf } from "../mcp/mcp-project.ts";
import type { Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

let project: Project;
let agent: Connected;

const run = (...args: string[]): Promise<Ran> => runInside(project.folder, args);
async function say(...args: string[]): Promise<string> {
  const { code, out, err } = await run(...args);
  expect({ args, code, err }).toEqual({ args, code: 0, err: "" });
  return out;
}

beforeAll(async () => {
  project = new Project();
  await say("init", "--agent", "none");
  await say("goal", "new", "auth", "Users sign in", "--phase", "Tokens");
  const { cli } = await Programs.build();
  agent = await project.connect([cli, "mcp", "--by", "bob", "--role", "architect"]);
});
afterAll(async () => {
  await agent.close();
  project.remove();
});

test("a plan that was made on the command line is what resume reads, there and over MCP", async () => {
  expect(await say("plan", "add", "Tokens", "keys")).toContain("phase 1, plan 1  keys");
  expect(await say("plan", "add", "1", "rotation")).toContain(".planning/1-2-PLAN.md");
  expect(await say("phase", "add", "Launch", "--plan", "rehearsal")).toContain("phase 2  Launch");
  await say("task", "add", "Rotate", "--phase", "1", "--plan", "2");
  await say("task", "add", "Sign", "--phase", "1");
  expect(await say("task", "edit", "2", "--title", "Sign the keys", "--plan", "2")).toContain(
    "Sign the keys",
  );
  await say("built", "a key pair", "--file", "keys.ts");
  mkdirSync(join(project.folder, ".planning"), { recursive: true });
  const plan = "# Rotation\n\n## Sign the keys\nFirst with the old one.\n\n## Rotate\nThen.\n";
  writeFileSync(join(project.folder, ".planning", "1-2-PLAN.md"), plan);
  writeFileSync(join(project.folder, ".planning", "1-1-SUMMARY.md"), "the keys are in keys.ts\n");

  const page = await say("resume", "--session", "night");
  expect(page).toContain("Resuming from Phase 1, Plan 2, Task: Sign the keys");
  expect(page).toContain("Resume at T-002\n## Sign the keys\nFirst with the old one.\n");
  expect(page).toContain("the keys are in keys.ts");
  expect(page).toContain("Built: a key pair keys.ts");

  const answer = await agent.client.callTool({ name: "resume", arguments: {} });
  expect((answer.structuredContent as { data: object }).data).toMatchObject({
    begun: true,
    task: { id: "T-002", section: "## Sign the keys\nFirst with the old one." },
    plan: { path: ".planning/1-2-PLAN.md", text: plan },
    summaries: [{ path: ".planning/1-1-SUMMARY.md", text: "the keys are in keys.ts\n" }],
    implementations: [{ text: "a key pair", files: ["keys.ts"] }],
  });
  expect(textOf(answer)).toContain("First with the old one.");
});

test("an agent adds phases and plans where its role allows, and edits tasks", async () => {
  const call = (name: string, args: Record<string, unknown>) =>
    agent.client.callTool({ name, arguments: args });
  expect(textOf(await call("phase_add", { name: "Docs" }))).toContain('"phase":3');
  expect(textOf(await call("plan_add", { phase: "Docs", name: "guide" }))).toContain("3-1-PLAN.md");
  expect(textOf(await call("task_edit", { task: "1", wave: 2 }))).toContain('"id":"T-001"');
  expect(await run("phase", "add", "Nightly", "--role", "worker")).toMatchObject({ code: 4 });
});

test("a plan that cannot be read stops resume until a person has looked", async () => {
  writeFileSync(join(project.folder, ".planning", "1-2-PLAN.md"), "x".repeat(2_000_000));
  const stopped = await run("resume", "--session", "later");
  expect(stopped.code).toBe(5);
  expect(stopped.out).toContain("1-2-PLAN.md cannot be read");
  expect(await say("resume", "--force", "--session", "later")).toContain("session later started");
});
