// A worktree or clone before npm install: hooks that are wired by the project's own copy do no harm there.

import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AGENTS } from "../../src/wiring/index.ts";
import { CommandLine, environment } from "../cli/command-line.ts";
import { runInside } from "../cli/inside.ts";

const HOOK_FILES = {
  claude: ".claude/settings.json",
  codex: ".codex/hooks.json",
  cursor: ".cursor/hooks.json",
  gemini: ".gemini/settings.json",
  copilot: ".github/hooks/holdfast.json",
} as const;

/** All but opencode, whose plugin is a part of the package itself. */
const WITH_HOOKS = AGENTS.filter((agent) => agent !== "opencode");

let line: CommandLine;
let project: string;
let copy: string;
beforeAll(async () => {
  line = await CommandLine.build();
  project = line.newProject();
  rmSync(join(project, ".git"), { recursive: true });
  spawnSync("git", ["init", "-q"], { cwd: project });
  mkdirSync(join(project, "deep"));
  mkdirSync(join(project, "node_modules/.bin"), { recursive: true });
  copy = join(project, "node_modules/.bin/holdfast");
  writeFileSync(copy, '#!/bin/sh\ncat\necho "$@"\necho oops >&2\nexit 3\n');
  chmodSync(copy, 0o755);
  await runInside(project, ["init", "--agent", "all"]);
});
afterAll(() => line.remove());

/** Runs a hook as an agent does, in some folder of the project. */
function runStop(agent: (typeof WITH_HOOKS)[number]): { code: number | null; out: string; err: string } {
  const text = readFileSync(join(project, HOOK_FILES[agent]), "utf8");
  const written = /"command": ("(?:[^"\\]|\\.)* stop")/.exec(text)?.[1] ?? "null";
  const folder = ["CLAUDE", "CURSOR", "GEMINI"].map((each) => [`${each}_PROJECT_DIR`, project] as const);
  const { status, stdout, stderr } = spawnSync("sh", ["-c", JSON.parse(written) as string], {
    cwd: join(project, "deep"),
    env: environment(Object.fromEntries(folder)),
    input: "heard ",
    encoding: "utf8",
  });
  return { code: status, out: stdout, err: stderr };
}

test.each(WITH_HOOKS)(
  "the hook of %s runs with input, output and exit code if Holdfast is installed",
  (agent) => {
    expect(runStop(agent)).toEqual({ code: 3, out: `heard hook ${agent} stop\n`, err: "oops\n" });
  },
);

test.each(WITH_HOOKS)("the hook of %s ends silently with 0 if it is not", (agent) => {
  rmSync(copy, { force: true });
  expect(runStop(agent)).toEqual({ code: 0, out: "", err: "" });
});
