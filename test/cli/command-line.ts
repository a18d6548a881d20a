// The real command line as a process, run in a project of its own.

import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";
import { removeProject } from "../remove-project.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** As another user; for root only. */
  readonly as?: { readonly uid?: number; readonly gid?: number };
}

export class CommandLine {
  readonly project: string;
  readonly cli = commandFile("cli");
  readonly agent = commandFile("agent");
  readonly forgetful = commandFile("forgetful");
  private readonly projects: string[] = [];

  private constructor() {
    this.project = this.newProject();
  }

  static async build(): Promise<CommandLine> {
    return new CommandLine();
  }

  /** An empty repository, which goes with the others at the end. */
  newProject(): string {
    const project = mkdtempSync(join(quickFolder(), "holdfast-cli-"));
    // A folder of that name is all that makes it a repository for us.
    mkdirSync(join(project, ".git"));
    this.projects.push(project);
    return project;
  }

  run(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
    return new Promise((resolve) => {
      const child = execFile(
        process.execPath,
        [this.cli, ...args],
        {
          cwd: options.cwd ?? this.project,
          env: environment(options.env),
          maxBuffer: 64 << 20,
          ...options.as,
        },
        (_error, out, err) => resolve({ code: child.exitCode ?? -1, out, err }),
      );
      // One that does not read its input closes it.
      child.stdin?.on("error", () => undefined);
      child.stdin?.end(options.input ?? "");
    });
  }

  /** Its output, when it went well. */
  async say(...args: string[]): Promise<string> {
    const { code, out, err } = await this.run(args);
    if (code !== 0) throw new Error(`holdfast ${args.join(" ")} ended with ${code}: ${err}`);
    return out;
  }

  /** `data` of the envelope. */
  async json<Data>(...args: string[]): Promise<Data> {
    return (JSON.parse(await this.say(...args, "--json")) as { data: Data }).data;
  }

  /** An agent that is killed with SIGKILL as soon as it says `dieAt`, or runs to its end. */
  runAgent(dieAt: string | null): Promise<string> {
    return new Promise((resolve) => {
      const child = spawn(process.execPath, [this.agent], { cwd: this.project, env: environment() });
      let said = "";
      child.stdout.on("data", (chunk) => {
        said += String(chunk);
        if (dieAt !== null && said.includes(dieAt)) child.kill("SIGKILL");
      });
      child.stderr.on("data", (chunk) => {
        said += String(chunk);
      });
      child.on("close", () => resolve(said));
    });
  }

  remove(): void {
    for (const project of this.projects) removeProject(project);
  }
}

const PROGRAMS = {
  cli: "src/cli/main.ts",
  agent: "test/cli/programs/paying-agent.ts",
  forgetful: "test/cli/programs/forgetful-agent.ts",
  counting: "test/mcp/programs/counting-server.ts",
  faulty: "test/mcp/programs/faulty-proxy.ts",
};

/** The file of the command line, or of a program that some test runs beside it. */
export function commandFile(name: keyof typeof PROGRAMS): string {
  return programFile(join(root, PROGRAMS[name]));
}

/** Nothing of the surroundings in which the tests run. */
export function environment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(HOLDFAST_|FORCE_COLOR|NO_COLOR|CURSOR_|CLAUDE_|GEMINI_)/.test(name),
  );
  return { ...Object.fromEntries(kept), ...more };
}
