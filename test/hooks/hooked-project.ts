// A project with a goal in which agents run hooks as processes, and readers for the results.

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach } from "vitest";
import { type Goal, open } from "../../src/index.ts";
import type { GoalState } from "../../src/model/goal/index.ts";
import { CommandLine, type Ran, type RunOptions } from "../cli/command-line.ts";

/** One command line for the tests of a file, and a new project for each of them. */
export function inHookedProjects(use: (project: HookedProject, line: CommandLine) => void): void {
  let line: CommandLine;
  beforeAll(async () => {
    line = await CommandLine.build();
  });
  afterAll(() => line.remove());
  beforeEach(async () => use(await HookedProject.make(line), line));
}

export class HookedProject {
  readonly root: string;
  readonly folder: string;
  private readonly line: CommandLine;

  private constructor(line: CommandLine) {
    this.line = line;
    this.root = line.newProject();
    this.folder = join(this.root, ".holdfast/hooks");
  }

  static async make(line: CommandLine): Promise<HookedProject> {
    const project = new HookedProject(line);
    await project.inGoal(() => undefined);
    mkdirSync(project.folder);
    return project;
  }

  hook(agent: string, event: string, input: object = {}, options: RunOptions = {}): Promise<Ran> {
    const text = JSON.stringify({ cwd: options.cwd ?? this.root, ...input });
    return this.line.run(["hook", agent, event], { cwd: this.root, input: text, ...options });
  }

  ingest(options: RunOptions = {}): Promise<Ran> {
    return this.line.run(["hook", "ingest"], { cwd: this.root, ...options });
  }

  async inGoal<Result>(act: (goal: Goal) => Promise<Result> | Result, name = "checkout"): Promise<Result> {
    const holdfast = await open(join(this.root, ".holdfast/store.db"));
    try {
      return await act(await holdfast.goal(name, { statement: "Ship the checkout", root: this.root }));
    } finally {
      await holdfast.close();
    }
  }

  state(name?: string): Promise<GoalState> {
    return this.inGoal(({ state }) => state, name);
  }

  /** Appends lines to a spool, as a hook does. */
  spool(session: string, ...lines: readonly unknown[]): void {
    const texts = lines.map((each) => `${typeof each === "string" ? each : JSON.stringify(each)}\n`);
    appendFileSync(join(this.folder, `${session}.jsonl`), texts.join(""));
  }

  mark(session: string, text: string): void {
    writeFileSync(join(this.folder, `${session}.ingested`), text);
  }

  spoolFiles(): string[] {
    return readdirSync(this.folder);
  }

  log(): string {
    const log = join(this.folder, "log.txt");
    return existsSync(log) ? readFileSync(log, "utf8") : "";
  }
}

/** A session start, by a process that lives as long as the test. */
export function start(more: object = {}): object {
  return { at: Date.now(), type: "start", source: "startup", process: thisProcess(), ...more };
}

/** Null if the system does not provide it. */
export function thisProcess(): object | null {
  if (process.platform !== "linux") return null;
  const stat = readFileSync("/proc/self/stat", "utf8");
  const started = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  return {
    pid: process.pid,
    started,
    boot,
    pidNamespace: readlinkSync("/proc/self/ns/pid"),
    timeNamespace: existsSync("/proc/self/ns/time") ? readlinkSync("/proc/self/ns/time") : "none",
    host: hostname(),
  };
}

/** A process that is gone, as a hook recorded it while it ran. */
export async function goneProcess(): Promise<object> {
  const child = spawn("sleep", ["60"]);
  const stat = readFileSync(`/proc/${child.pid}/stat`, "utf8");
  const started = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  child.kill("SIGKILL");
  await once(child, "exit");
  return { ...thisProcess(), pid: child.pid, started };
}
