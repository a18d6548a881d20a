// The real command line as a process: bundled once for the sources as they are, run in a project of its own.

import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
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
  readonly input?: string;
  /** As another user; for root only. */
  readonly as?: { readonly uid?: number; readonly gid?: number };
}

export class CommandLine {
  readonly project: string;
  private readonly folder: string;
  private readonly projects: string[] = [];

  private constructor(folder: string) {
    this.folder = folder;
    this.project = this.newProject();
  }

  static async build(): Promise<CommandLine> {
    return new CommandLine(await bundled());
  }

  /** An empty repository, which goes with the others at the end. */
  newProject(): string {
    const project = mkdtempSync(join(tmpdir(), "holdfast-cli-"));
    // A folder of that name is all that makes it a repository for us.
    mkdirSync(join(project, ".git"));
    this.projects.push(project);
    return project;
  }

  get cli(): string {
    return join(this.folder, "cli.js");
  }

  get agent(): string {
    return join(this.folder, "agent.js");
  }

  get forgetful(): string {
    return join(this.folder, "forgetful.js");
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
    for (const project of this.projects) rmSync(project, { recursive: true, force: true });
  }
}

const PROGRAMS = {
  agent: "test/cli/programs/paying-agent.ts",
  forgetful: "test/cli/programs/forgetful-agent.ts",
};
const KEPT = join(root, "node_modules", ".cache", "holdfast-cli");

/**
 * All test files, and the next run as long as nothing changed, share one bundle. Whoever comes first makes it under another
 * name and puts it into place whole; bundles of other sources go.
 */
async function bundled(): Promise<string> {
  const name = sourcesName();
  const folder = join(KEPT, name);
  if (existsSync(folder)) return folder;
  mkdirSync(KEPT, { recursive: true });
  for (const old of readdirSync(KEPT)) {
    const isOld = Date.now() - statSync(join(KEPT, old)).mtimeMs > 3_600_000;
    if (isOld) rmSync(join(KEPT, old), { recursive: true, force: true });
  }
  const made = mkdtempSync(join(KEPT, "making-"));
  chmodSync(made, 0o755);
  copyFileSync(join(root, "package.json"), join(made, "package.json"));
  await build({
    entryPoints: { cli: join(root, "src/cli/main.ts"), ...PROGRAMS },
    absWorkingDir: root,
    outdir: made,
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node20",
    tsconfig: join(root, "tsconfig.json"),
    external: [
      "@photostructure/sqlite",
      "pg",
      "ajv",
      "yaml",
      "commander",
      "picocolors",
      "@clack/prompts",
      "@modelcontextprotocol/*",
    ],
    logLevel: "warning",
  });
  try {
    renameSync(made, folder);
  } catch (error) {
    // Somebody was faster, with the same sources.
    if (!existsSync(folder)) throw error;
    rmSync(made, { recursive: true, force: true });
  }
  return folder;
}

function sourcesName(): string {
  const paths = readdirSync(join(root, "src"), { recursive: true }).map((each) => join("src", String(each)));
  const sums = createHash("sha256");
  for (const path of [
    ...paths,
    ...Object.values(PROGRAMS),
    "package.json",
    "test/cli/command-line.ts",
  ].sort()) {
    const { size, mtimeMs } = statSync(join(root, path));
    sums.update(`${path} ${size} ${mtimeMs}\n`);
  }
  return sums.digest("hex").slice(0, 16);
}

/** Nothing of the surroundings in which the tests run. */
export function environment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(HOLDFAST_|FORCE_COLOR|NO_COLOR|CURSOR_|CLAUDE_|GEMINI_)/.test(name),
  );
  return { ...Object.fromEntries(kept), ...more };
}
