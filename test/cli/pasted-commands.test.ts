// Printed commands work when pasted, also if Holdfast is installed in the project and not on the PATH.

import { execFile } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { COMMANDS } from "../../src/cli/commands.ts";
import { typedName, withTypedCommands } from "../../src/wiring/index.ts";
import { CommandLine, environment, type Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
let local: string;
beforeAll(async () => {
  line = await CommandLine.build();
  const bin = join(line.project, "node_modules/.bin");
  mkdirSync(bin, { recursive: true });
  local = join(bin, "holdfast");
  symlinkSync(line.cli, local);
  await runInside(line.project, ["init", "--agent", "none"]);
});
afterAll(() => line.remove());

function runLocal(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ran> {
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [local, ...args],
      { cwd: line.project, env: environment(env) },
      (_error, out, err) => resolve({ code: child.exitCode ?? -1, out, err }),
    );
    child.stdin?.end();
  });
}

test("pages, errors, help and briefings of a project's own copy say npx, and JSON does not", async () => {
  const begun = await runLocal(["goal", "new", "g", "Ship it"], { FORCE_COLOR: "1" });
  expect(begun.out).toContain('npx holdfast task add "what to do" --goal g');
  expect((await runLocal(["status"])).out).toContain("npx holdfast task add");
  const { err } = await runLocal(["task", "claim", "9"]);
  expect(err).toContain("List them: npx holdfast task list --all");
  expect(err).toMatch(/^holdfast: /);
  expect((await runLocal(["nonsense"])).err).toContain("npx holdfast --help");
  expect((await runLocal(["status", "--help"])).out).toContain("Usage: npx holdfast status");
  const input = ["hook", "claude", "session-start"];
  expect((await runLocal(input)).out).toContain("npx holdfast task show");
  expect((await runLocal(["status", "--json"])).out).not.toContain("npx");
  expect((await runLocal(["task", "claim", "9", "--json"])).err).not.toContain("npx");
});

test("npx is added only for a project's copy that is not on the PATH or was started by npx", () => {
  const folder = line.newProject();
  writeFileSync(join(folder, "holdfast"), "");
  const nowhere = { PATH: ["/nowhere", join(line.project, "node_modules/.bin")].join(delimiter) };
  const installed = { PATH: folder };
  for (const program of ["/p/node_modules/.bin/holdfast", "C:\\p\\node_modules\\holdfast\\dist\\cli.js"]) {
    expect(typedName({ program, env: nowhere })).toBe("npx holdfast");
    expect(typedName({ program, env: installed })).toBe("holdfast");
    expect(typedName({ program, env: { ...installed, npm_command: "exec" } })).toBe("npx holdfast");
  }
  for (const program of ["/usr/bin/holdfast", "/src/holdfast/dist/cli.js", "/p/node_modules/vitest/x.js"])
    expect(typedName({ program, env: { ...nowhere, npm_command: "exec" } })).toBe("holdfast");
});

test("every command is recognised once, and prose stays unchanged", () => {
  const how = { program: "/p/node_modules/.bin/holdfast", env: {} };
  for (const { words } of COMMANDS) {
    const said = withTypedCommands(`See \`holdfast ${words}\`; or: holdfast ${words} --all`, how);
    expect(said).toBe(`See \`npx holdfast ${words}\`; or: npx holdfast ${words} --all`);
    expect(withTypedCommands(said, how)).toBe(said);
  }
  for (const prose of ["holdfast: no", "Bring holdfast to it", "holdfast next-door", "./holdfast status"])
    expect(withTypedCommands(prose, how)).toBe(prose);
});
