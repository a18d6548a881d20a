// The JSON that hooks of real agents read, recorded by `npm run agents -- --record`.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { HOOK_AGENTS, HOOK_EVENTS, readAgentEvent } from "../../src/hooks/index.ts";

interface Recorded {
  readonly agent: string;
  readonly inputs: readonly { readonly event: string; readonly input: Readonly<Record<string, unknown>> }[];
}

const folder = fileURLToPath(new URL("./recorded", import.meta.url));

function eventsOf(name: string) {
  const { inputs } = JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8")) as Recorded;
  return inputs.map(({ event: word, input }) => {
    const agent = HOOK_AGENTS.find((each) => each === name);
    const event = HOOK_EVENTS.find((each) => each === word);
    if (!agent || !event) throw new Error(`${name} ${word}: no such hook`);
    const tool = String(input["tool_name"] ?? input["toolName"] ?? "");
    return { tool, ...readAgentEvent(agent, event, JSON.stringify(input), {}) };
  });
}

const names = readdirSync(folder).map((each) => each.replace(".json", ""));

describe.each(names)("%s", (name) => {
  test("every event names its conversation and its folder", () => {
    const events = eventsOf(name);
    expect(events.length).toBeGreaterThan(3);
    for (const { agent, conversation, cwd } of events) {
      expect(agent).toBe(name);
      expect(cwd).toMatch(/^\/(project|worktrees\/wt-[ab])$/);
      expect(conversation).toMatch(/^[\w-]{20,}$/);
    }
  });

  test("a shell command is known before it starts and after it ended", () => {
    const calls = eventsOf(name).filter(
      ({ call }) => call?.command === "sleep 1" || call?.command === "sleep 4",
    );
    expect(calls.map(({ event, call }) => [event, call?.outcome])).toEqual([
      ["tool-start", null],
      ["touched", name === "codex" ? "ended" : "done"],
    ]);
  });
});

test("a file that the agent edited is named, and a new one is new", () => {
  const touched = (name: string, tool: string) =>
    eventsOf(name).find((each) => each.event === "touched" && each.tool === tool);
  expect(touched("claude", "Write")).toMatchObject({ files: ["/project/total.js"], created: [] });
  const patched = { files: ["/project/CHANGELOG.md"], created: ["/project/CHANGELOG.md"] };
  expect(touched("codex", "apply_patch")).toMatchObject(patched);
});
