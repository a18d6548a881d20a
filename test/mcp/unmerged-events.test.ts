// An agent reads answers, not its server's stderr. So answers report pulled events that could not be merged.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runInside } from "../cli/inside.ts";
import { Programs, Project, textOf } from "./mcp-project.ts";

test("brief, resume, next and status report pulled events that are not merged", async () => {
  const { cli } = await Programs.build();
  const project = new Project();
  await runInside(project.folder, ["init", "--agent", "none"]);
  await runInside(project.folder, ["goal", "new", "checkout", "Ship the checkout"]);
  const agent = await project.connect([cli, "mcp", "--by", "alice"]);
  try {
    const name = `${"0".repeat(32)}.jsonl`;
    mkdirSync(join(project.folder, ".planning/events", name));
    const calls = ["brief", "next", "status", "resume"];
    for (const tool of calls) {
      const answer = await agent.client.callTool({ name: tool, arguments: {} });
      expect(textOf(answer), tool).toContain(name);
    }
  } finally {
    await agent.close();
    project.remove();
  }
});
