/**
 * Real coding agents against a scripted model: `npm run agents`, or `npm run agents -- codex crash` for one
 * agent or some scenarios. It installs exact versions of the agents from npm into a temporary folder, packs
 * nothing and needs no key. An agent that cannot be installed is skipped with the reason. A table at the end
 * has one row per scenario and one column per agent.
 *
 *     the model gets the briefing, and our tools in its first request      briefing
 *     a killed agent loses its task to the next one, which is told why     crash
 *     a resumed conversation keeps its claim                               resume
 *     two worktrees contend for one task, one wins, merges are clean       worktrees
 *     git stays clean                                                      quiet, commit
 *
 * `--record` writes the JSON that the hooks of these agents read to `test/hooks/recorded/`, where tests of the
 * hooks use it, and the texts of the walk to its guide.
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
import { ResultTable } from "./result-table.ts";

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
const QUOTE = /```text\n([\s\S]*?)```/g;

/** Compares the texts that the guide quotes with those that a model or a shell got; `record` replaces them. */
function compareWithGuide(texts: readonly string[], isRecording: boolean): void {
  const page = readFileSync(GUIDE, "utf8");
  const quoted = [...page.matchAll(QUOTE)].map(([, text = ""]) => text);
  check(quoted.length === texts.length, `the guide quotes ${quoted.length} texts of ${texts.length}`);
  if (isRecording) {
    let index = 0;
    writeFileSync(
      GUIDE,
      page.replaceAll(QUOTE, () => `\`\`\`text\n${texts[index++]?.trim()}\n\`\`\``),
    );
    return;
  }
  for (const [index, text] of texts.entries()) {
    const shown = comparable(quoted[index] ?? "");
    check(
      shown === comparable(text),
      `text ${index + 1} of the guide differs: npm run agents -- claude walk --record`,
      `in the guide:\n${shown}\nnow:\n${comparable(text)}`,
    );
  }
}

/** Without times, positions and sizes, which differ from run to run. */
function comparable(text: string): string {
  return text
    .trim()
    .replaceAll(/ +/g, " ")
    .replaceAll(/\d+ (s|min) ago|\d{4}-\d\d-\d\dT[\d:.]+Z|(seq|tokens)="\d+"/g, "…");
}

/** The briefing that a request has last. */
function briefingOf({ text }: { readonly text: string } = { text: "" }): string {
  const all = text.replaceAll("\\n", "\n");
  const from = all.lastIndexOf("You are session");
  const end = "</holdfast-state>";
  const to = all.indexOf(end, from);
  check(from >= 0 && to > from, "the request has no briefing", all);
  return all.slice(from, to + end.length);
}

/** A server needs a shell, git and Node; its first answers cost less than a start of Node more. */
const SERVER_STARTS = 5;

/** How long a Node that does nothing takes on this machine now. */
function nodeStartMs(): number {
  const started = performance.now();
  for (let run = 0; run < 3; run++) execFileSync(process.execPath, ["-e", "0"]);
  return (performance.now() - started) / 3;
}

interface Scenario {
  /** All agents, unless named; `why` the others are left out. */
  readonly only?: { readonly agents: readonly string[]; readonly why: string };
  run(project: Project, isRecording: boolean): Promise<void>;
}

/** Kills the agent while its `git push` runs. */
async function dieInPush(project: Project, session: string): Promise<void> {
  const started = join(project.root, "../started");
  const remote = join(project.root, "../remote.sh");
  writeFileSync(remote, `#!/bin/sh\necho started >"${started}"\nsleep 20\n`, { mode: 0o755 });
  project.git("config", "protocol.ext.allow", "always");
  project.git("remote", "add", "origin", `ext::${remote}`);
  const stop = new AbortController();
  const push = project.driver.shell("git push origin main");
  const running = project.run([push], { session, stop: stop.signal });
  await appears(started);
  stop.abort();
  await running;
}

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "briefing: the first request has the briefing and the tools": {
    async run(project) {
      const { serverWaitMs, mcp } = project.driver;
      const attempts = serverWaitMs === undefined ? 1 : 3;
      for (let attempt = 1; ; attempt++) {
        const isServerRequired = attempt > attempts;
        const { requests, first, said } = await project.run([{ text: "hello" }], { isServerRequired });
        check(requests.length > 0, "the model was not asked", said);
        includes(first, "Apply a percentage");
        includes(first, "You are session");
        const { tools = [] } = requests[0] ?? {};
        if (tools.includes(mcp("task_claim"))) return;
        const isTooSlow = attempt === attempts && nodeStartMs() * SERVER_STARTS > (serverWaitMs ?? Infinity);
        check(attempt < attempts || isTooSlow, "the first request has no MCP tools", tools.join());
      }
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
      if (driver.isFirstStartAlone) await project.run([{ text: "hello" }]);
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
    only: { agents: ["claude", "codex", "gemini", "opencode"], why: "no hook before a call" },
    async run(project) {
      await dieInPush(project, randomUUID());
      const { first } = await project.run([{ text: "hello" }]);
      includes(first, 'started, outcome unknown: "git push origin main"; check before repeating');
    },
  },

  "warning: an edit of a file that another live agent works on is noticed": {
    only: { agents: ["claude", "codex"], why: "a hook before a call cannot tell the model" },
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
    only: { agents: ["codex"], why: "no tool for patches in Codex's format" },
    async run(project) {
      const patch = project.driver.patch?.(join(project.root, "CHANGELOG.md"), "Discounts, half");
      await project.run([...(patch ? [patch] : []), KILL], { isKnownModel: true });
      const { first } = await project.run([{ text: "hello" }]);
      includes(first, "edited CHANGELOG.md");
    },
  },

  "sandbox: a command that cannot write says so, and the MCP tool can": {
    only: { agents: ["codex"], why: "no sandbox that can be switched on" },
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
    only: { agents: ["claude"], why: "the guide is about Claude Code" },
    async run(project, isRecording) {
      const { driver } = project;
      const session = "7f2a91bc-0001-4000-8000-000000000001";
      const other = "c04d77e2-0002-4000-8000-000000000002";
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
      const status = project.holdfast("status");
      const next = await project.run([{ text: "hello" }], { session: other });
      const submit = { task: "T-001", summary: "percent() with rounding" };
      const done = driver.write(file, "export const percent = (price, share) => price * share;");
      const steps = [done, claim, { tool: driver.mcp("task_submit"), input: submit }, { text: "done" }];
      const resumed = await project.run(steps, { session, isResumed: true });
      const task = project.holdfast("task", "show", "T-001");
      await dieInPush(project, "e15b90a4-0003-4000-8000-000000000003");
      const { requests } = await project.run([{ text: "hello" }]);
      const [unknown = "no line UNKNOWN"] = /^UNKNOWN .*$/m.exec(briefingOf(requests[0])) ?? [];
      const [first, second, third] = [killed, next, resumed].map((ran) => briefingOf(ran.requests[0]));
      compareWithGuide([first ?? "", status, second ?? "", third ?? "", task, unknown], isRecording);
    },
  },

  "plugin: it is valid, it installs, and it briefs a project that init has not wired": {
    only: { agents: ["claude", "codex", "gemini"], why: "not installed by a command" },
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
  const titles = Object.keys(SCENARIOS).filter(
    (title) => words.length === 0 || words.some((word) => title.startsWith(word)),
  );
  const table = new ResultTable(titles, agents);
  for (const name of agents) {
    const driver = DRIVERS[name] as Driver;
    const installed = install(driver);
    if ("why" in installed) {
      for (const title of titles) table.skip(title, name, installed.why);
      continue;
    }
    const recordings: string[] = [];
    for (const title of titles) {
      const { only, run } = SCENARIOS[title] as Scenario;
      if (only && !only.agents.includes(name)) {
        table.skip(title, name, only.why);
        continue;
      }
      const started = Date.now();
      const wrong = await messageOf(async () => {
        const project = new Project(name, driver, installed.packages);
        await run(project, isRecording);
        recordings.push(...project.hookInputs());
      });
      const seconds = (Date.now() - started) / 1_000;
      table.add(title, name, wrong === null, seconds);
      const mark = wrong === null ? "ok  " : "FAIL";
      console.log(`${mark} ${driver.title} ${driver.version}, ${title} (${seconds.toFixed(1)} s)`);
      if (wrong !== null) console.log(wrong.replaceAll(/^/gm, "       "));
    }
    if (isRecording && words.length === 0) saveRecordings(name, driver, recordings);
  }
  console.log(table.text());
  return !table.hasFailed;
}

/** Null if `run` succeeds. */
async function messageOf(run: () => Promise<void>): Promise<string | null> {
  try {
    await run();
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

process.exitCode = (await runAll(process.argv.slice(2))) ? 0 : 1;
