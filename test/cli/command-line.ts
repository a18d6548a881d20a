// Runs the real command line as a process, in its own project.

import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { commandOfOther, type OTHER_USER } from "../other-user.ts";
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
  /** Runs as another user. */
  readonly as?: typeof OTHER_USER;
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

  /** An empty repository, removed with the others at the end. */
  newProject(): string {
    const project = mkdtempSync(join(quickFolder(), "holdfast-cli-"));
    // A `.git` folder is enough for Holdfast to treat this as a repository.
    mkdirSync(join(project, ".git"));
    this.projects.push(project);
    return project;
  }

  run(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
    const [node, cli] = options.as ? commandOfOther(this.cli) : [process.execPath, this.cli];
    return new Promise((resolve) => {
      const child = execFile(
        node,
        [cli, ...args],
        {
          cwd: options.cwd ?? this.project,
          env: environment(options.env),
          maxBuffer: 64 << 20,
          ...options.as,
        },
        (_error, out, err) => resolve({ code: child.exitCode ?? -1, out, err }),
      );
      // A process that does not read its input closes the pipe.
      child.stdin?.on("error", () => undefined);
      child.stdin?.end(options.input ?? "");
    });
  }

  /** Standard output of a command that must succeed. */
  async say(...args: string[]): Promise<string> {
    const { code, out, err } = await this.run(args);
    if (code !== 0) throw new Error(`holdfast ${args.join(" ")} ended with ${code}: ${err}`);
    return out;
  }

  /** `data` of the envelope. */
  async json<Data>(...args: string[]): Promise<Data> {
    return (JSON.parse(await this.say(...args, "--json")) as { data: Data }).data;
  }

  /** Runs an agent to its end, or kills it with SIGKILL as soon as it prints `dieAt`. */
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

/** The file of the command line, or of a test program beside it. */
export function commandFile(name: keyof typeof PROGRAMS): string {
  return programFile(join(root, PROGRAMS[name]));
}

/** An environment without the variables of the test run. */
export function environment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(HOLDFAST_|FORCE_COLOR|NO_COLOR|CURSOR_|CLAUDE|CODEX_|GEMINI_|OPENCODE)/.test(name),
  );
  return { ...Object.fromEntries(kept), ...more };
}
