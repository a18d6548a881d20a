/**
 * Real coding agents against a scripted model: `npm run agents`, or `npm run agents -- codex crash` for one
 * agent or some scenarios. It installs exact versions of the agents from npm into a temporary folder, packs
 * nothing and needs no key. An agent that cannot be installed is skipped with the reason.
 *
 * `npm test` leaves it out, because it downloads 600 MB. `HOLDFAST_AGENTS=<folder>` uses the `node_modules` of
 * that folder instead.
 */

import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { DRIVERS, type Driver } from "./drivers.ts";
import { type ModelRequest, ScriptedModel, type Step } from "./scripted-model.ts";

const LIMIT_MS = 120_000;
const SHOWN = 1_500;
const repository = resolve(".");
const folder = mkdtempSync(join(tmpdir(), "holdfast-agents-"));
const running = new Set<ChildProcess>();

process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

/** The `node_modules` with this agent, or why there is none. */
function install({ package: name, version }: Driver): { packages: string } | { why: string } {
  const given = process.env["HOLDFAST_AGENTS"];
  if (given !== undefined) return { packages: join(given, "node_modules") };
  const home = join(folder, "packages", name.replaceAll("/", "-"));
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, "package.json"), "{}");
  const args = ["install", "--ignore-scripts", "--no-audit", "--no-fund", `${name}@${version}`];
  const { status, stderr } = spawnSync("npm", args, { cwd: home, encoding: "utf8" });
  if (status !== 0) return { why: `npm cannot install ${name}@${version}: ${stderr.trim().slice(-300)}` };
  return { packages: join(home, "node_modules") };
}

/** An environment without the settings of the user and of the agent that may run this. */
function environment(home: string): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(HOLDFAST_|ANTHROPIC|CURSOR_|CLAUDE|CODEX_|GEMINI_|OPENAI|npm_|NODE_)/i.test(name),
  );
  return {
    ...Object.fromEntries(kept),
    HOME: home,
    PATH: `${dirname(process.execPath)}:${process.env["PATH"]}`,
  };
}

/** A repository with Holdfast, a goal and three tasks. */
class Project {
  readonly root: string;
  readonly home: string;
  readonly driver: Driver;
  private readonly packages: string;
  private readonly name: string;

  constructor(name: string, driver: Driver, packages: string) {
    const place = mkdtempSync(join(folder, "project-"));
    this.name = name;
    this.driver = driver;
    this.packages = packages;
    this.root = join(place, "shop");
    this.home = join(place, "home");
    mkdirSync(this.home);
    mkdirSync(this.root);
    writeFileSync(join(this.root, ".gitignore"), "node_modules\n");
    writeFileSync(join(this.root, "total.js"), "export const total = (all) => all.length;\n");
    this.git("init", "-q", "-b", "main");
    this.link(this.root);
    this.holdfast("init", "--agent", this.name);
    this.holdfast("goal", "new", "discounts", "Add discounts to the shop");
    for (const title of ["Apply a percentage", "Round to cents", "Write the changelog"])
      this.holdfast("task", "add", title);
    this.commit("Set up");
    driver.trust(this.home, [this.root, join(place, "wt-a"), join(place, "wt-b")]);
  }

  /** Installs this repository's build, as npm would, without copying it. */
  private link(root: string): void {
    mkdirSync(join(root, "node_modules/.bin"), { recursive: true });
    symlinkSync(repository, join(root, "node_modules/holdfast"));
    symlinkSync("../holdfast/dist/cli.js", join(root, "node_modules/.bin/holdfast"));
  }

  git(...args: string[]): string {
    return this.gitIn(this.root, ...args);
  }

  gitIn(cwd: string, ...args: string[]): string {
    const who = ["-c", "user.name=test", "-c", "user.email=test@example.com"];
    return execFileSync("git", [...who, ...args], { cwd, encoding: "utf8" });
  }

  commit(message: string, cwd = this.root): void {
    this.gitIn(cwd, "add", "-A");
    this.gitIn(cwd, "commit", "-q", "--allow-empty", "-m", message);
  }

  worktree(name: string): string {
    const path = join(dirname(this.root), name);
    this.git("worktree", "add", "-q", "-b", name, path);
    return path;
  }

  holdfast(...args: string[]): string {
    return this.holdfastIn(this.root, ...args);
  }

  holdfastIn(cwd: string, ...args: string[]): string {
    const cli = join(this.root, "node_modules/.bin/holdfast");
    const options = { cwd, encoding: "utf8", env: environment(this.home) } as const;
    const { status, stdout, stderr } = spawnSync(process.execPath, [cli, ...args], options);
    if (status !== 0) throw new Error(`holdfast ${args.join(" ")}: ${stdout}${stderr}`);
    return stdout;
  }

  /** Waits until the background processes of hooks are done. */
  settled(): void {
    this.holdfast("hook", "ingest");
  }

  /** Runs the agent by a script. `KILL` in it kills the agent while it waits for its model. */
  async run(steps: readonly (Step | typeof KILL)[], options: RunOptions = {}): Promise<Ran> {
    const { cwd = this.root, session = randomUUID(), isResumed = false } = options;
    const { driver, packages, home } = this;
    const model = new ScriptedModel(driver.shell("sleep 1"));
    await model.listen(driver.wire);
    let child: ChildProcess | null = null;
    const kill = (): void => void child?.kill("SIGKILL");
    model.script(steps.map((step) => (step === KILL ? { run: kill } : step)));
    const { program, args, env } = driver.command({ packages, home, model: model.url }, session, isResumed);
    child = spawn(program, args, {
      cwd,
      env: { ...environment(home), ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    running.add(child);
    let said = "";
    child.stdout?.on("data", (chunk) => (said += String(chunk)));
    child.stderr?.on("data", (chunk) => (said += String(chunk)));
    const timer = setTimeout(kill, LIMIT_MS);
    await new Promise((done) => child?.on("exit", done));
    clearTimeout(timer);
    running.delete(child);
    model.close();
    const requests = [...model.requests];
    return { requests, first: requests[0]?.text ?? "", last: requests.at(-1)?.text ?? "", said };
  }
}

const KILL = "kill";

interface RunOptions {
  readonly cwd?: string;
  readonly session?: string;
  readonly isResumed?: boolean;
}

interface Ran {
  readonly requests: readonly ModelRequest[];
  readonly first: string;
  readonly last: string;
  readonly said: string;
}

function check(isTrue: boolean, what: string, shown = ""): void {
  if (!isTrue) throw new Error(`${what}\n${shown.slice(-SHOWN)}`);
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

type Scenario = (project: Project) => Promise<void>;

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  async "briefing: the first request has the briefing and the tools"(project) {
    const { requests, first, said } = await project.run([{ text: "hello" }]);
    check(requests.length > 0, "the model was not asked", said);
    includes(first, "Apply a percentage");
    includes(first, "You are session");
    const { tools = [] } = requests[0] ?? {};
    check(
      tools.includes(project.driver.mcp("task_claim")),
      "the first request has no MCP tools",
      tools.join(),
    );
  },

  async "quiet: a session that did nothing leaves git clean"(project) {
    await project.run([{ text: "hello" }]);
    project.settled();
    isClean(project);
  },

  async "crash: the next start has the task back and is told the files"(project) {
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

  async "resume: a killed conversation keeps its claim and is told that it crashed"(project) {
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

  async "worktrees: two agents contend for a task, one wins, and the merges are clean"(project) {
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
};

async function runAll(wanted: readonly string[]): Promise<boolean> {
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
    for (const [title, scenario] of Object.entries(SCENARIOS)) {
      if (words.length > 0 && !words.some((word) => title.startsWith(word))) continue;
      const started = Date.now();
      const wrong = await tryScenario(scenario, new Project(name, driver, installed.packages));
      if (wrong !== null) failed += 1;
      const seconds = ((Date.now() - started) / 1_000).toFixed(1);
      console.log(
        `${wrong === null ? "ok  " : "FAIL"} ${driver.title} ${driver.version}, ${title} (${seconds} s)`,
      );
      if (wrong !== null) console.log(wrong.replaceAll(/^/gm, "       "));
    }
  }
  return failed === 0;
}

async function tryScenario(scenario: Scenario, project: Project): Promise<string | null> {
  try {
    await scenario(project);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

process.exitCode = (await runAll(process.argv.slice(2))) ? 0 : 1;
