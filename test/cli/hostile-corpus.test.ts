// Hooks and the commonest commands as processes, in a clone full of hostile files: each of them ends.
//
// HOSTILE_FIGURES=1 prints the processor time of each, for the table in docs/guides/security.md.

import { execFileSync } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fileOf, forge, headOf, nameOf } from "../projections/forged-events.ts";
import { CommandLine, type Ran } from "./command-line.ts";

const MB = 1_000_000;
const FILES = 4_000;

/** Each is planted into a sound project of its own kind of files. */
const CORPUS: Readonly<Record<string, (planning: string) => void>> = {
  "STATE.md of 1 MB of conflict markers": (planning) =>
    appendFileSync(join(planning, "STATE.md"), "<<<<<<< a\n=======\n".repeat(MB / 18)),
  "a task board of 1 MB of brackets": (planning) =>
    writeFileSync(join(planning, "task_board.json"), "[".repeat(MB)),
  "an event line of 900 KB that does not end": (planning) =>
    plantText(planning, `${headOf("checkout", 1)}\n"${"\\".repeat(0.9 * MB)}\n`),
  "an event line nested 400,000 deep": (planning) =>
    plantText(planning, `${headOf("checkout", 1)}\n${'{"a":['.repeat(400_000 / 2)}\n`),
  "an event file of 1 MB in one head": (planning) => plantText(planning, `{"goal":"${"x".repeat(MB)}`),
  "an event file of 1 MB of empty lines": (planning) => plantText(planning, "\n".repeat(MB)),
  "4,000 refused event files": (planning) => {
    for (let index = 0; index < FILES; index++)
      plantText(planning, `${headOf("checkout", 1)}\n{"nothing":${index}}\n`);
  },
  "2,000 sound facts in one file": (planning) => {
    const entries = Array.from({ length: 2_000 }, (_, index) => {
      const data = { by: { name: "mallory", role: "human" }, key: `k${index}`, value: 1, source: "s" };
      return forge({ c: index, data: { ...data, expiresAt: null } });
    });
    plantText(planning, fileOf(entries).text);
  },
};

function plantText(planning: string, text: string): void {
  writeFileSync(join(planning, "events", nameOf(text)), text);
}

/** `#` is another session in each run. */
const HOOK = JSON.stringify({ session_id: "7f2a91b#", source: "startup" });
/** 1 MB of brackets instead of the agent's JSON. */
const BRACKETS = "[".repeat(MB);
const COMMANDS: readonly (readonly [words: string, input?: string])[] = [
  ["hook claude session-start", HOOK],
  ["hook claude session-start", BRACKETS],
  ["hook claude touched", BRACKETS],
  ["status"],
  ["next"],
  ["brief"],
  ["task list"],
  ["doctor"],
];

let line: CommandLine;
let preload: string;
beforeAll(async () => {
  line = await CommandLine.build();
  preload = join(line.project, "cpu.mjs");
  // The time of the process itself; a background process that a hook starts has another parent.
  writeFileSync(
    preload,
    `import { writeFileSync } from "node:fs";
    process.on("exit", () => {
      if (process.ppid !== ${process.pid}) return;
      const { user, system } = process.cpuUsage();
      writeFileSync(process.env.CPU_FILE, String((user + system) / 1000));
    });`,
  );
});
afterAll(() => line.remove());

interface Measured extends Ran {
  readonly ms: number;
}

async function runAll(cwd: string, session: string): Promise<Measured[]> {
  const all: Measured[] = [];
  for (const [words, input] of COMMANDS) {
    const CPU_FILE = join(cwd, ".git", "cpu");
    rmSync(CPU_FILE, { force: true });
    const env = { NODE_OPTIONS: `--import=${preload}`, CPU_FILE };
    const ran = await line.run(words.split(" "), {
      cwd,
      env,
      ...(input && { input: input.replace("#", session) }),
    });
    // A process that was killed or hung has left no time.
    expect(existsSync(CPU_FILE), `${words} has ended by itself: ${ran.err}`).toBe(true);
    all.push({ ...ran, ms: Number(readFileSync(CPU_FILE, "utf8")) });
  }
  return all;
}

async function project(): Promise<string> {
  const root = line.newProject();
  execFileSync("git", ["init", "-q"], { cwd: root });
  for (const words of [["init", "--agent", "none"], ["goal", "new", "checkout", "Ship it"], ["rebuild"]]) {
    const { code, err } = await line.run(words, { cwd: root });
    if (code !== 0) throw new Error(err);
  }
  mkdirSync(join(root, ".planning/events"), { recursive: true });
  return root;
}

/** The promise is 300 ms more. A ratio to the plain run holds on a slow or busy machine as well. */
const MOST_TIMES = 8;

test("every hook and command ends, on the first look and later, and says what it refused", async () => {
  const plain = await runAll(await project(), "1");
  const root = await project();
  for (const plant of Object.values(CORPUS)) plant(join(root, ".planning"));
  const first = await runAll(root, "2");
  const later = await runAll(root, "3");
  const rows = COMMANDS.map(([words, input], index) => {
    const ms = [plain, first, later].map((runs) => Math.round(runs[index]?.ms ?? 0));
    return [input === BRACKETS ? `${words}, brackets as input` : words, ...ms] as const;
  });
  if (process.env["HOSTILE_FIGURES"]) console.table(rows);
  for (const { err } of [...first, ...later]) expect(err).not.toContain("This is a bug");
  // Hooks must not disturb the agent, whatever they find.
  for (const runs of [first, later]) expect(runs.slice(0, 3).map(({ code }) => code)).toEqual([0, 0, 0]);
  const slow = rows.filter(([, base = 0, , again = 0]) => again > MOST_TIMES * base);
  expect(slow, "slow at every look").toEqual([]);
  expect(later[0]?.out).toContain("NOT MERGED");
  // 4,000 bad files are named by a few and counted, rather than a line for each.
  for (const { out, err } of [...first, ...later])
    expect(`${out}${err}`.split("\n").length).toBeLessThan(120);
  expect(first.map(({ out, err }) => out + err).join("")).toMatch(/not merged|NOT MERGED/);
});
