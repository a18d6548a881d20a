// Errors are short for an agent, and single lines on stderr.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { open } from "../../src/open.ts";
import { type Connected, Programs, Project, textOf } from "./mcp-project.ts";

let project: Project;
let agent: Connected;

beforeAll(async () => {
  const programs = await Programs.build();
  project = new Project();
  const holdfast = await open(join(project.folder, ".holdfast"));
  await holdfast.goal("g", { statement: "Ship it" });
  await holdfast.close();
  mkdirSync(join(project.folder, ".planning", "events"), { recursive: true });
  writeFileSync(
    join(project.folder, ".planning", "events", `${"0".repeat(32)}.jsonl`),
    "{ this is no event\n",
  );
  agent = await project.connect([programs.cli, "mcp", "--by", "bob"]);
});
afterAll(async () => {
  await agent.close();
  project.remove();
});

test("an error is cut to a few hundred words, however long the input", async () => {
  const long = "x".repeat(100_000);
  const asked = [
    ["task_show", { task: long }],
    ["facts", { key: long }],
    ["brief", { goal: long }],
    ["task_list", { [long]: 1 }],
  ] as const;
  for (const [name, args] of asked) {
    const answer = await agent.client.callTool({ name, arguments: args });
    expect(answer.isError, name).toBe(true);
    expect(JSON.stringify(answer).length, name).toBeLessThan(8_000);
    expect(textOf(answer), "a cut text says so").toContain("…");
  }
  const uri = `holdfast://decisions/${long}`;
  const refused = await agent.client.readResource({ uri }).catch((error: unknown) => error);
  expect(String((refused as Error).message).length).toBeLessThan(8_000);
});

test("a warning beside the answer is one line on stderr", async () => {
  await agent.client.callTool({ name: "brief", arguments: {} });
  await expect
    .poll(() => project.said(), { timeout: 50_000 })
    .toMatch(/^holdfast mcp: note: .* was not merged/m);
  expect(project.said()).not.toContain("(node:");
});
