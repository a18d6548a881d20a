// The real command line as a process: bundled once per test file, run in a project of its own.

import { execFile, spawn } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../..", import.meta.url));

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** As another user; for root only. */
  readonly as?: { readonly uid?: number; readonly gid?: number };
}

export class CommandLine {
  readonly project: string;
  private readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
    this.project = mkdtempSync(join(tmpdir(), "holdfast-cli-"));
    // A folder of that name is all that makes it a repository for us.
    mkdirSync(join(this.project, ".git"));
  }

  static async build(): Promise<CommandLine> {
    const folder = mkdtempSync(join(root, "node_modules", ".cli-"));
    chmodSync(folder, 0o755);
    copyFileSync(join(root, "package.json"), join(folder, "package.json"));
    await build({
      entryPoints: {
        cli: join(root, "src/cli/main.ts"),
        agent: join(root, "test/cli/programs/paying-agent.ts"),
      },
      outdir: folder,
      bundle: true,
      splitting: true,
      platform: "node",
      format: "esm",
      target: "node20",
      tsconfig: join(root, "tsconfig.json"),
      external: ["@photostructure/sqlite", "pg", "ajv", "yaml", "commander", "picocolors", "@clack/prompts"],
      logLevel: "warning",
    });
    return new CommandLine(folder);
  }

  get cli(): string {
    return join(this.folder, "cli.js");
  }

  get agent(): string {
    return join(this.folder, "agent.js");
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
      child.stdin?.end();
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
    rmSync(this.folder, { recursive: true, force: true });
    rmSync(this.project, { recursive: true, force: true });
  }
}

/** Nothing of the surroundings in which the tests run. */
export function environment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(HOLDFAST_|FORCE_COLOR|NO_COLOR)/.test(name),
  );
  return { ...Object.fromEntries(kept), ...more };
}
