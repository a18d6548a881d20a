/** A project for a real coding agent: a repository with Holdfast, a goal and three tasks, in a folder of its own. */

import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { Driver, How, Setting } from "./drivers.ts";
import { type ModelRequest, ScriptedModel, type Step } from "./scripted-model.ts";

const LIMIT_MS = 120_000;
const repository = resolve(".");
const folder = mkdtempSync(join(tmpdir(), "holdfast-agents-"));
const running = new Set<ChildProcess>();

process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
  removeFolder();
});

/** Background processes of hooks may still write for a moment. */
function removeFolder(): void {
  for (let left = 40; ; left--) {
    try {
      rmSync(folder, { recursive: true, force: true });
      return;
    } catch (error) {
      if (left === 0) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 250);
    }
  }
}

/** The `node_modules` with this agent, or why there is none. */
export function install({ package: name, version }: Driver): { packages: string } | { why: string } {
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

/** The program of the package, for a project: it keeps the input of every hook, then runs. */
const keepingInput = (folder: string): string => `#!/bin/sh
cli=$(dirname "$0")/../holdfast/dist/cli.js
if [ "$1" = hook ] && [ -n "$3" ]; then
  input=$(mktemp "${folder}/$2.$3.XXXXXX")
  cat >"$input"
  exec node "$cli" "$@" <"$input"
fi
exec node "$cli" "$@"
`;

/** A repository with Holdfast, a goal and three tasks. */
export class Project {
  readonly root: string;
  readonly home: string;
  /** A file for each hook that ran, `<agent>.<event>.<random>`: the JSON that it read. */
  readonly recorded: string;
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
    this.recorded = join(place, "recorded");
    mkdirSync(this.home);
    mkdirSync(this.recorded);
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

  /** Installs this repository's build, as npm would, without copying it. Its program keeps what hooks read. */
  private link(root: string): void {
    mkdirSync(join(root, "node_modules/.bin"), { recursive: true });
    symlinkSync(repository, join(root, "node_modules/holdfast"));
    const program = join(root, "node_modules/.bin/holdfast");
    writeFileSync(program, keepingInput(this.recorded), { mode: 0o755 });
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
    if (this.driver.isInstalledPerWorktree) this.link(path);
    return path;
  }

  holdfast(...args: string[]): string {
    return this.holdfastIn(this.root, ...args);
  }

  holdfastIn(cwd: string, ...args: string[]): string {
    const cli = join(this.root, "node_modules/holdfast/dist/cli.js");
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
    const { cwd = this.root, session = randomUUID(), stop, ...given } = options;
    const { driver } = this;
    const model = new ScriptedModel(driver.shell("sleep 1"));
    await model.listen(driver.wire);
    let child: ChildProcess | null = null;
    const kill = (): void => void child?.kill("SIGKILL");
    model.script(steps.map((step) => (step === KILL ? { run: kill } : step)));
    const none = { isResumed: false, isKnownModel: false, isSandboxed: false, isServerRequired: false };
    const how: How = { ...none, ...given };
    const { program, args, env } = driver.command(this.setting(model.url), session, how);
    child = spawn(program, args, {
      cwd,
      env: { ...environment(this.home), PWD: cwd, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    running.add(child);
    stop?.addEventListener("abort", kill, { once: true });
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

  /** Installs the plugin for the user. */
  installPlugin(): void {
    const home = environment(this.home);
    for (const { program, args, env } of this.driver.plugin?.(this.setting(""), repository) ?? []) {
      const options = { cwd: this.root, env: { ...home, ...env }, encoding: "utf8" } as const;
      const { status, stdout, stderr } = spawnSync(program, args, options);
      if (status !== 0) throw new Error(`${args.join(" ")}: ended with ${status}\n${stdout}${stderr}`);
    }
  }

  /** What hooks have read, as `{"event": …, "input": …}` without the folders of this machine. */
  hookInputs(): string[] {
    const named = [
      [this.root, "/project"],
      [this.home, "/home/agent"],
      [dirname(this.root), "/worktrees"],
    ] as const;
    return readdirSync(this.recorded).map((name) => {
      let input = readFileSync(join(this.recorded, name), "utf8").trim();
      for (const [folder, shown] of named) {
        input = input
          .replaceAll(folder, shown)
          .replaceAll(folder.replaceAll("/", "-"), shown.replaceAll("/", "-"));
      }
      return `{"event":${JSON.stringify(name.split(".")[1])},"input":${input}}`;
    });
  }

  private setting(model: string): Setting {
    const { packages, home } = this;
    return { packages, home, model };
  }
}

export const KILL = "kill";

interface RunOptions extends Partial<How> {
  readonly cwd?: string;
  readonly session?: string;
  /** Kills the agent. */
  readonly stop?: AbortSignal;
}

export interface Ran {
  readonly requests: readonly ModelRequest[];
  readonly first: string;
  readonly last: string;
  readonly said: string;
}
