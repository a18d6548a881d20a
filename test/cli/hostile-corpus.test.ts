// Hooks and the commonest commands as processes, in a clone full of hostile files: each of them ends, and costs
// little more than in a plain clone.
//
// The bar is 300 ms more. A busy machine takes several times as long for everything, so the test compares
// processor times with a floor in the same run: a program that only reads the same files, hashes them and parses their lines. On a
// machine with nothing else to do, 300 ms are about three floors.
//
// HOSTILE_FIGURES=1 prints the processor time and the wall time of each, for the table in docs/guides/security.md.

import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BY, fileOf, forge, headOf, nameOf } from "../projections/forged-events.ts";
import { removeProject } from "../remove-project.ts";
import { CommandLine } from "./command-line.ts";

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
      // After the goal's beginning: earlier ones would have no effect.
      const at = Date.now();
      return forge({ at, t: at, c: index, data: { ...data, expiresAt: null } });
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
  // The time of the process itself; a background process that a hook starts has another parent. If Node can
  // tell, the time of its main thread: nobody waits for the threads that compile or collect garbage beside it.
  writeFileSync(
    preload,
    `import { writeFileSync } from "node:fs";
    process.on("exit", () => {
      if (process.ppid !== ${process.pid}) return;
      const { user, system } = (process.threadCpuUsage ?? process.cpuUsage).call(process);
      writeFileSync(process.env.CPU_FILE, String((user + system) / 1000));
    });`,
  );
});
afterAll(() => line.remove());

async function measured(cwd: string, words: string, input: string | undefined, session: string) {
  const CPU_FILE = join(cwd, ".git", "cpu");
  rmSync(CPU_FILE, { force: true });
  const env = { NODE_OPTIONS: `--import=${preload}`, CPU_FILE };
  const begun = performance.now();
  const ran = await line.run(words.split(" "), {
    cwd,
    env,
    ...(input && { input: input.replace("#", session) }),
  });
  const wallMs = Math.round(performance.now() - begun);
  // A process that was killed or hung has left no time.
  expect(existsSync(CPU_FILE), `${words} has ended by itself: ${ran.err}`).toBe(true);
  return { ...ran, wallMs, ms: Number(readFileSync(CPU_FILE, "utf8")) };
}

/** Only reads: what any program would have to do that looks at these files. */
const FLOOR = `
  import { hash } from "node:crypto";
  import { readdirSync, readFileSync } from "node:fs";
  let length = 0;
  for (const name of process.argv[2] ? readdirSync(process.argv[2]) : []) {
    const text = readFileSync(process.argv[2] + "/" + name, "utf8");
    length += hash("sha256", text, "hex").length;
    for (const line of text.split("\\n", 2_001)) {
      try {
        length += hash("sha256", JSON.stringify(JSON.parse(line)), "hex").length;
      } catch {
        length += 1;
      }
    }
  }`;

function floorOf(folder: string): number {
  const file = join(line.project, "floor.mjs");
  writeFileSync(file, FLOOR);
  const timed = (...args: string[]): number => {
    const CPU_FILE = join(line.project, "floor.cpu");
    const env = { ...process.env, NODE_OPTIONS: `--import=${preload}`, CPU_FILE };
    execFileSync(process.execPath, [file, ...args], { env });
    return Number(readFileSync(CPU_FILE, "utf8"));
  };
  return timed(folder) - timed();
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

test("a committed link in the place of .planning is neither read nor written through", async () => {
  const [root, outside] = [await project(), line.newProject()];
  cpSync(join(root, ".planning"), join(outside, "theirs"), { recursive: true });
  const theirs = join(outside, "theirs");
  plantText(
    theirs,
    fileOf([forge({ data: { by: BY, key: "planted", value: 1, source: "s", expiresAt: null } })]).text,
  );
  const before = readdirSync(theirs, { recursive: true }).sort();
  rmSync(join(root, ".planning"), { recursive: true });
  symlinkSync(theirs, join(root, ".planning"));
  const status = await line.run(["status"], { cwd: root });
  expect(status.out + status.err).toContain("is not read: it is a link");
  expect(status.err).toContain("git checkout -- .planning");
  const brief = await line.run(["brief"], { cwd: root });
  expect(brief.out + brief.err).toContain("is not read: it is a link");
  expect(brief.out).not.toContain("planted");
  for (const words of [["fact", "region", "eu", "--source", "a person"], ["rebuild"]])
    expect((await line.run(words, { cwd: root })).err).toContain("it is a link that leaves the project");
  expect(readdirSync(theirs, { recursive: true }).sort()).toEqual(before);
});

test("a committed file in the place of .planning is named, and every command answers", async () => {
  const root = await project();
  rmSync(join(root, ".planning"), { recursive: true });
  writeFileSync(join(root, ".planning"), "x");
  for (const words of [["status"], ["brief"], ["fact", "region", "eu", "--source", "a person"], ["doctor"]]) {
    const { err, out } = await line.run(words, { cwd: root });
    expect(err + out, words[0]).not.toContain("This is a bug");
  }
  const doctor = await line.run(["doctor"], { cwd: root });
  expect(doctor.out).toContain(".planning is no folder");
  const hook = await line.run(["hook", "claude", "session-start"], { cwd: root, input: HOOK });
  expect([hook.code, hook.out.includes("Ship it")]).toEqual([0, true]);
});

test("thousands of changed records are set aside without a process for each", async () => {
  const root = await project();
  const folder = join(root, ".planning/decisions");
  mkdirSync(folder, { recursive: true });
  for (let index = 0; index < 500; index++) {
    const seal = `goal: checkout\nrevision: 1\ndigest: sha256:${"a".repeat(64)}`;
    writeFileSync(
      join(folder, `D-${index + 100}.md`),
      `---\n${seal}\n---\n# ${index} KEY=abcdefghijkl${index}\n`,
    );
  }
  execFileSync("git", ["add", "-A"], { cwd: root });
  // Git writes a line for each of its processes into this file.
  const trace = join(root, ".git", "processes");
  const { code } = await line.run(["rebuild"], { cwd: root, env: { GIT_TRACE2_EVENT: trace } });
  expect(code).toBe(0);
  expect(readdirSync(folder).filter((name) => name.endsWith(".md"))).toEqual([]);
  const started = readFileSync(trace, "utf8").match(/"event":"start"/g)?.length ?? 0;
  expect(started).toBeGreaterThan(0);
  expect(started).toBeLessThan(150);
  const doctor = await line.run(["doctor"], { cwd: root });
  expect(doctor.out.match(/holds a value of a key/g)?.length).toBe(20);
  expect(doctor.out).toContain("more files of .planning hold secrets");
});

/** Node 20 tells the time of all threads only, with those that compile and collect garbage. */
const MOST_FLOORS = "threadCpuUsage" in process ? 3 : 4;
const ROUNDS = 3;

function clone(root: string): string {
  // A store knows its own path, and notices an older copy there: each copy has a place of its own.
  const copy = line.newProject();
  cpSync(root, copy, { recursive: true });
  return copy;
}

/** Processor times in milliseconds, and for the figures what a person waits. */
interface Cost {
  base: number;
  first: number;
  later: number;
  readonly wallMs: number[];
}

const HANG_MS = 900_000;

test("every hook and command ends, says what it refused, and costs at most a few floors above a plain clone", {
  timeout: HANG_MS,
}, async () => {
  const [plain, hostile] = [await project(), await project()];
  for (const plant of Object.values(CORPUS)) plant(join(hostile, ".planning"));
  const costs = COMMANDS.map((): Cost => ({ base: 0, first: 0, later: 0, wallMs: [] }));
  let slow = [...COMMANDS.keys()];
  const said: string[] = [];
  const floors: number[] = [];
  // A command above the bar is measured again, with a floor of that moment: too much in all rounds is its own.
  for (let round = 0; round < ROUNDS && slow.length > 0; round++) {
    const floor = floorOf(join(hostile, ".planning/events"));
    floors.push(floor);
    for (const index of slow) {
      const [sound, planted] = [clone(plain), clone(hostile)];
      const cost = costs[index] as Cost;
      const look = async (root: string, name: "base" | "first" | "later"): Promise<void> => {
        const [words, input] = COMMANDS[index] as (typeof COMMANDS)[number];
        const { ms, wallMs, code, out, err } = await measured(root, words, input, `${name}${round}`);
        cost[name] = ms;
        cost.wallMs.push(wallMs);
        if (name !== "base") said.push(checkAnswer(words, code, out + err));
      };
      await look(sound, "base");
      await look(planted, "first");
      await look(planted, "later");
      for (const each of [sound, planted]) removeProject(each);
    }
    slow = slow.filter((index) => {
      const { base, first, later } = costs[index] as Cost;
      return Math.max(first, later) - base > MOST_FLOORS * floor;
    });
  }
  const rows = COMMANDS.map(([words, input], index) => ({
    words,
    brackets: input === BRACKETS,
    ...costs[index],
  }));
  if (process.env["HOSTILE_FIGURES"]) console.table([...rows, { words: "floors", floors }]);
  expect(
    slow.map((index) => rows[index]),
    `floors ${floors.join(" ")}`,
  ).toEqual([]);
  expect(said.join("")).toMatch(/not merged|NOT MERGED/);
});

function checkAnswer(words: string, code: number, text: string): string {
  expect(text, words).not.toContain("This is a bug");
  // Hooks must not disturb the agent, whatever they find.
  if (words.startsWith("hook")) expect(code, words).toBe(0);
  // 4,000 bad files are named by a few and counted, rather than a line for each.
  expect(text.match(/\b[0-9a-f]{32}\.jsonl was not merged/g)?.length ?? 0, words).toBeLessThan(60);
  return text;
}
