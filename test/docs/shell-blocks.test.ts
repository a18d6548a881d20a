// Every `holdfast` line in the documentation names a command that exists, with options that it has. Blocks
// marked `sh run` are run, one after the other, in a new repository.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { COMMANDS } from "../../src/cli/commands.ts";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";
import { removeProject } from "../remove-project.ts";
import { blocksOf, docsPages } from "./pages.ts";

/** Commands that run until they are stopped have no row in the table. */
const ALONE = ["ui", "watch", "mcp", "hook", "demo", "torture", "completion"];
const EVERYWHERE = [
  "--json",
  "--store",
  "--namespace",
  "--goal",
  "--by",
  "--role",
  "--help",
  "--version",
  "--why",
];

const shellBlocks = [...docsPages()]
  .flatMap(([page, text]) => blocksOf(page, text))
  .filter(({ info }) => /^(sh|bash|shell)\b/.test(info));

/** The typed words of a line, without its comment. */
function wordsOf(line: string): string[] {
  const plain = line.replace(/\s#.*$/, "").replace(/^\s*\$ /, "");
  return plain.match(/"[^"]*"|'[^']*'|\S+/g) ?? [];
}

function problemOf(line: string): string | null {
  const words = wordsOf(line);
  const start = words.indexOf("holdfast");
  if (start < 0 || start > 1 || (start === 1 && words[0] !== "npx")) return null;
  const typed = words.slice(start + 1);
  const [verb = "", second = ""] = typed;
  if (verb === "" || verb.startsWith("-") || ALONE.includes(verb)) return null;
  const command =
    COMMANDS.find((each) => each.words === `${verb} ${second}`) ??
    COMMANDS.find((each) => each.words === verb);
  if (command === undefined) return `there is no command ${verb} ${second}`;
  const own = (command.options ?? []).map(([flags]) => flags.split(" ")[0]);
  const end = typed.indexOf("--");
  const unknown = typed
    .slice(0, end < 0 ? typed.length : end)
    .filter((word) => /^--\w/.test(word))
    .map((word) => word.split("=")[0] ?? word)
    .find((word) => !own.includes(word) && !EVERYWHERE.includes(word));
  return unknown === undefined ? null : `${command.words} has no option ${unknown}`;
}

test("every holdfast line names a command and options that exist", () => {
  const lines = shellBlocks.flatMap(({ page, line, code }) =>
    code.split("\n").map((text, index) => ({ at: `${page}:${line + index}`, text })),
  );
  const problems = lines.flatMap(({ at, text }) => {
    const problem = problemOf(text);
    return problem === null ? [] : [`${at} ${problem}`];
  });
  expect(lines.length).toBeGreaterThan(40);
  expect(problems).toEqual([]);
});

test("an unknown command and an unknown option are found", () => {
  expect(problemOf("npx holdfast statsu")).toContain("no command");
  expect(problemOf('holdfast status --urk "x"  # comment')).toContain("no option --urk");
  expect(problemOf("holdfast status --url")).toBeNull();
});

const folder = mkdtempSync(join(quickFolder(), "holdfast-docs-"));
afterAll(() => {
  removeProject(folder);
  rmSync(folder, { recursive: true, force: true });
});

test("the blocks marked `run` run in a new repository", () => {
  const blocks = shellBlocks.filter(({ info }) => info.includes("run") && !info.includes("norun"));
  execFileSync("git", ["init", "-q", folder]);
  const cli = programFile(new URL("../../src/cli/main.ts", import.meta.url));
  const prelude = `set -e\nholdfast() { "${process.execPath}" "${cli}" "$@"; }\nnpx() { "$@"; }\n`;
  for (const { page, line, code } of blocks) {
    const { status, stderr } = spawnSync("bash", ["-c", prelude + code], { cwd: folder, encoding: "utf8" });
    expect({ at: `${page}:${line}`, status, stderr }).toMatchObject({ status: 0 });
  }
  expect(blocks.length).toBeGreaterThan(2);
});
