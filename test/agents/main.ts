/**
 * Real coding agents against a scripted model: `npm run agents`, or `npm run agents -- codex crash` for one
 * agent or some scenarios. It installs exact versions of the agents from npm into a temporary folder, packs
 * nothing and needs no key. An agent that cannot be installed is skipped with the reason.
 *
 * `--record` writes the JSON that the hooks of these agents read to `test/hooks/recorded/`, where tests of the
 * hooks use it.
 *
 * `npm test` leaves it out, because it downloads 1.2 GB. `HOLDFAST_AGENTS=<folder>` uses the `node_modules` of
 * that folder instead.
 */

import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { DRIVERS, type Driver } from "./drivers.ts";
import { install, KILL, Project } from "./project.ts";

const SHOWN = 1_500;

function check(isTrue: boolean, what: string, shown = ""): void {
  if (!isTrue) throw new Error(`${what}\n${shown.slice(-SHOWN)}`);
}

async function appears(file: string): Promise<void> {
  for (let left = 600; !existsSync(file); left--) {
    check(left > 0, `${file} did not appear`);
    await pause(100);
  }
}

/** The briefing in a request, for the message of a failed check. */
function briefingIn(request: string): string {
  const from = request.lastIndexOf("<holdfast-state");
  return from < 0 ? "no briefing" : request.slice(Math.max(0, from - 400), from + SHOWN);
}

function includes(text: string, wanted: string): void {
  check(text.includes(wanted), `the model did not read: ${wanted}`, briefingIn(text));
}

function isClean(project: Project, cwd = project.root): void {
  const changed = project.gitIn(cwd, "status", "--porcelain");
  check(changed === "", "git is not clean", changed);
}

const GUIDE = "docs/guides/coding-agents.md";

/** The lines of the page that quote what a model or a shell got. */
function linesOfGuide(): string[] {
  const blocks = readFileSync(GUIDE, "utf8").matchAll(/```text\n([\s\S]*?)```/g);
  return [...blocks].flatMap(([, block = ""]) => block.split("\n").filter((line) => line !== ""));
}

/** Without times, positions and sizes, which differ from run to run. A project of the harness needs no npx. */
function comparable(text: string): string {
  return text
    .replaceAll("\\n", "\n")
    .replaceAll("npx holdfast", "holdfast")
    .replaceAll(/\d+ (s|min) ago|\d{4}-\d\d-\d\dT[\d:.]+Z|(seq|tokens)="\d+"/g, "…");
}

interface Scenario {
  /** All agents, unless named. */
  readonly only?: readonly string[];
  run(project: Project): Promise<void>;
}

/** Agents whose hooks tell of calls before they start. */
const WITH_TOOL_START = ["claude", "codex", "gemini", "opencode"];

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "briefing: the first request has the briefing and the tools": {
    async run(project) {
      const { requests, first, said } = await project.run([{ text: "hello" }]);
      check(requests.length > 0, "the model was not asked", said);
      includes(first, "Apply a percentage");
      includes(first, "You are session");
      const { tools = [] } = requests[0] ?? {};
      const wanted = project.driver.mcp("task_claim");
      check(tools.includes(wanted), "the first request has no MCP tools", tools.join());
    },
  },

  "quiet: a session that did nothing leaves git clean": {
    async run(project) {
      await project.run([{ text: "hello" }]);
      project.settled();
      isClean(project);
    },
  },

  "crash: the next start has the task back and is told the files": {
    async run(project) {
      const { driver } = project;
      await project.run([
        { tool: driver.mcp("task_claim"), input: { task: "T-003" } },
        { tool: driver.mcp("task_progress"), input: { task: "T-003", note: "half of the entry" } },
        driver.write(join(project.root, "CHANGELOG.md"), "Discounts, half"),
        KILL,
      ]);
      const status = project.holdfast("status");
      check(/crashed/.test(status), "status does not say crashed", status);
      const { first } = await project.run([{ text: "hello" }]);
      includes(first, "crashed in T-003");
      includes(first, "half of the entry");
      includes(first, "CHANGELOG.md");
      check(!/TAKEN T-003/.test(first), "T-003 is still taken", briefingIn(first));
    },
  },

  "resume: a killed conversation keeps its claim and is told that it crashed": {
    async run(project) {
      const { driver } = project;
      const session = randomUUID();
      const claim = { tool: driver.mcp("task_claim"), input: { task: "T-002" } };
      const file = driver.write(join(project.root, "cents.js"), "export const cents = 1;");
      await project.run([claim, file, KILL], { session });
      const submit = { tool: driver.mcp("task_submit"), input: { task: "T-002", summary: "rounded" } };
      const { requests, first, last } = await project.run([submit], { session, isResumed: true });
      includes(first, "YOU crashed in T-002");
      includes(first, "cents.js");
      check(requests.length > 1 && !/LEASE_LOST|TASK_HELD/.test(last), "its claim was lost", last);
      const task = project.holdfast("task", "show", "T-002");
      check(/submitted|done/.test(task), "T-002 was not submitted", task);
    },
  },

  "worktrees: two agents contend for a task, one wins, and the merges are clean": {
    async run(project) {
      const { driver } = project;
      const claim = { tool: driver.mcp("task_claim"), input: { task: "T-001" } };
      const places = ["wt-a", "wt-b"].map((name) => project.worktree(name));
      const ran = await Promise.all(
        places.map((cwd) => {
          const submit = { tool: driver.mcp("task_submit"), input: { task: "T-001", summary: "done" } };
          return project.run([claim, driver.shell("sleep 4"), submit], { cwd });
        }),
      );
      const losers = ran.filter(({ last }) => /TASK_HELD|TASK_TRANSITION|LEASE_LOST/.test(last));
      check(
        losers.length === 1,
        `${losers.length} of 2 agents were refused`,
        ran.map(({ said }) => said).join("\n"),
      );
      project.settled();
      isClean(project);
      for (const cwd of places) project.commit("Work", cwd);
      for (const name of ["wt-a", "wt-b"]) project.git("merge", "-q", "--no-edit", name);
      project.holdfast("status");
      const task = project.holdfast("task", "show", "T-001");
      check(/submitted|done/.test(task), "T-001 was not submitted", task);
    },
  },

  "commit: a commit after the work has everything, and the end of the session changes nothing": {
    async run(project) {
      const { driver } = project;
      project.git("config", "user.name", "test");
      project.git("config", "user.email", "test@example.com");
      await project.run([
        { tool: driver.mcp("task_claim"), input: { task: "T-001" } },
        driver.write(join(project.root, "percent.js"), "export const percent = 1;"),
        { tool: driver.mcp("task_submit"), input: { task: "T-001", summary: "written" } },
        driver.shell("git add -A && git commit -q -m 'Apply a percentage'"),
        { text: "done" },
      ]);
      project.settled();
      check(/percent\.js/.test(project.git("show", "--stat", "HEAD")), "the agent did not commit");
      isClean(project);
    },
  },

  "push: a command that died on the way is named to the next session": {
    only: WITH_TOOL_START,
    async run(project) {
      const started = join(project.root, "../started");
      const remote = join(project.root, "../remote.sh");
      writeFileSync(remote, `#!/bin/sh\necho started >"${started}"\nsleep 20\n`, { mode: 0o755 });
      project.git("config", "protocol.ext.allow", "always");
      project.git("remote", "add", "origin", `ext::${remote}`);
      const stop = new AbortController();
      const running = project.run([project.driver.shell("git push origin main")], { stop: stop.signal });
      await appears(started);
      stop.abort();
      await running;
      const { first } = await project.run([{ text: "hello" }]);
      includes(first, 'started, outcome unknown: "git push origin main"; check before repeating');
    },
  },

  "warning: an edit of a file that another live agent works on is noticed": {
    only: ["claude", "codex"],
    async run(project) {
      const { driver } = project;
      const file = join(project.root, "total.js");
      const edit = (text: string) => driver.write(file, text);
      project.holdfast("task", "edit", "T-002", "--file", "total.js");
      const stop = new AbortController();
      let waits = (): void => undefined;
      const isWaiting = new Promise<void>((done) => (waits = done));
      const claim = { tool: driver.mcp("task_claim"), input: { task: "T-002" } };
      const other = project.run([claim, { run: waits }], { stop: stop.signal });
      await Promise.race([isWaiting, other]);
      const { last } = await project.run([edit("export const total = 0;"), { text: "done" }]);
      stop.abort();
      await other;
      includes(last, "its edit and yours may overwrite each other");
      includes(last, "T-002: Round to cents");
    },
  },

  "patch: a file that the agent's own tool for patches has made is named to the next session": {
    only: ["codex"],
    async run(project) {
      const patch = project.driver.patch?.(join(project.root, "CHANGELOG.md"), "Discounts, half");
      await project.run([...(patch ? [patch] : []), KILL], { isKnownModel: true });
      const { first } = await project.run([{ text: "hello" }]);
      includes(first, "edited CHANGELOG.md");
    },
  },

  "sandbox: a command that cannot write says so, and the MCP tool can": {
    only: ["codex"],
    async run(project) {
      const { driver } = project;
      const cwd = project.worktree("wt-a");
      const cli = join(project.root, "node_modules/.bin/holdfast");
      const claim = `${cli} task claim T-002 --by codex --role worker`;
      const { requests } = await project.run(
        [driver.shell(claim), { tool: driver.mcp("task_claim"), input: { task: "T-002" } }, { text: "done" }],
        { cwd, isSandboxed: true },
      );
      const [, refused = { text: "" }, claimed = { text: "" }] = requests;
      includes(refused.text, "In a sandbox: use the MCP tools of the server holdfast");
      check(
        /"status":"in_progress"/.test(claimed.text.replaceAll("\\", "")),
        "T-002 was not claimed",
        claimed.text,
      );
    },
  },

  "walk: the texts of the guide are those that the agent gets": {
    only: ["claude"],
    async run(project) {
      const { driver } = project;
      const session = "7f2a91bc-0001-4000-8000-000000000001";
      const file = join(project.root, "percent.js");
      const claim = { tool: driver.mcp("task_claim"), input: { task: "T-001" } };
      const decision = {
        decision: "Discounts are whole percents",
        context: "prices",
        reason: "no rounding twice",
      };
      const note = "percent.js is half written; rounding is missing";
      const killed = await project.run(
        [
          claim,
          { tool: driver.mcp("decide"), input: decision },
          driver.write(file, "export const percent = (price, share) =>"),
          { tool: driver.mcp("task_progress"), input: { task: "T-001", note } },
          KILL,
        ],
        { session },
      );
      const seen = [killed.first, project.holdfast("status")];
      seen.push((await project.run([{ text: "hello" }])).first);
      const submit = { task: "T-001", summary: "percent() with rounding" };
      const done = driver.write(file, "export const percent = (price, share) => price * share;");
      const steps = [done, claim, { tool: driver.mcp("task_submit"), input: submit }, { text: "done" }];
      seen.push((await project.run(steps, { session, isResumed: true })).first);
      seen.push(project.holdfast("task", "show", "T-001"));
      const all = comparable(seen.join("\n"));
      // The scenario "push" shows the block about calls.
      for (const line of linesOfGuide().filter((each) => !each.startsWith("UNKNOWN")))
        check(all.includes(comparable(line)), `the guide says what the agent does not get: ${line}`, seen[2]);
    },
  },

  "plugin: it is valid, it installs, and it briefs a project that init has not wired": {
    only: ["claude", "codex", "gemini"],
    async run(project) {
      project.holdfast("init", "--remove");
      project.installPlugin();
      const { driver } = project;
      const status = driver.pluginMcp?.("status") ?? driver.mcp("status");
      const { requests, first, last, said } = await project.run([
        { tool: status, input: {} },
        { text: "done" },
      ]);
      check(requests.length > 0, "the model was not asked", said);
      includes(first, "You are session");
      check(last.includes('"needs"'), "the plugin's server did not answer", said);
    },
  },
};

const RECORDED = "test/hooks/recorded";

/** One input of each event and tool. */
function saveRecordings(name: string, { title, version }: Driver, texts: readonly string[]): void {
  const inputs = new Map<string, object>();
  for (const text of texts) {
    const { event, input } = JSON.parse(text) as { event: string; input: Record<string, unknown> };
    const key = `${event} ${input["tool_name"] ?? input["toolName"] ?? input["source"] ?? ""}`;
    if (!inputs.has(key)) inputs.set(key, { event, input });
  }
  const sorted = [...inputs.keys()].sort().map((key) => inputs.get(key));
  const file = { agent: `${title} ${version}`, inputs: sorted };
  mkdirSync(RECORDED, { recursive: true });
  writeFileSync(join(RECORDED, `${name}.json`), `${JSON.stringify(file, null, 2)}\n`);
}

async function runAll(given: readonly string[]): Promise<boolean> {
  const isRecording = given.includes("--record");
  const wanted = given.filter((each) => each !== "--record");
  if (!existsSync("dist/cli.js")) execFileSync("npm", ["run", "build"], { stdio: "ignore" });
  const agents = Object.keys(DRIVERS).filter(
    (name) => !wanted.some((each) => each in DRIVERS) || wanted.includes(name),
  );
  const words = wanted.filter((each) => !(each in DRIVERS));
  let failed = 0;
  for (const name of agents) {
    const driver = DRIVERS[name] as Driver;
    const installed = install(driver);
    if ("why" in installed) {
      console.log(`skip ${driver.title}: ${installed.why}`);
      continue;
    }
    const recordings: string[] = [];
    for (const [title, scenario] of Object.entries(SCENARIOS)) {
      if (words.length > 0 && !words.some((word) => title.startsWith(word))) continue;
      if (scenario.only && !scenario.only.includes(name)) continue;
      const started = Date.now();
      const project = new Project(name, driver, installed.packages);
      const wrong = await tryScenario(scenario, project);
      recordings.push(...project.hookInputs());
      if (wrong !== null) failed += 1;
      const seconds = ((Date.now() - started) / 1_000).toFixed(1);
      console.log(
        `${wrong === null ? "ok  " : "FAIL"} ${driver.title} ${driver.version}, ${title} (${seconds} s)`,
      );
      if (wrong !== null) console.log(wrong.replaceAll(/^/gm, "       "));
    }
    if (isRecording) saveRecordings(name, driver, recordings);
  }
  return failed === 0;
}

async function tryScenario(scenario: Scenario, project: Project): Promise<string | null> {
  try {
    await scenario.run(project);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

process.exitCode = (await runAll(process.argv.slice(2))) ? 0 : 1;
