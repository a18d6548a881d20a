/**
 * The package on other runtimes and in bundles: `npm run runtimes`, or `npm run runtimes -- deno webpack` for
 * some of them. It packs this repository, installs it into a temporary folder beside exact versions of the
 * runtimes and bundlers, and runs one agent with each: kill inside its tool, start again.
 *
 * `npm test` leaves it out, because it downloads 700 MB.
 */

import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { freePort, PASSWORD, PostgresServer, USER } from "../stores/postgres/server.ts";

const node = (version: string): string => `npm:node-${process.platform}-${process.arch}@${version}`;
const PACKAGES = {
  node20: node("20.20.2"),
  node24: node("24.21.0"),
  bun: "1.4.4",
  deno: "2.9.6",
  esbuild: "0.28.2",
  webpack: "5.112.2",
  next: "16.4.6",
  react: "19.3.1",
  "react-dom": "19.3.1",
  zod: "4.6.7",
};
const NODES = ["node20", "node24"] as const;
const STORES = ["sqlite", "files", "postgres"] as const;
const LIMIT_MS = 300_000;
/** The end of an error: a bundle prints a line of itself before it. */
const SHOWN = 600;
const DONE = "done: paid";
/** A bundle that Postgres cannot work in must say which driver to leave out, and how. */
const WITHOUT_PG = /^STORE_DRIVER_MISSING: the Postgres driver pg .*--external:pg/;

interface Case {
  readonly name: string;
  /** Starts the agent, and resolves to what it said. Null if it was killed. */
  run(address: string, world: string, mustDie: string): Promise<string | null>;
  readonly expected?: Partial<Record<(typeof STORES)[number], RegExp>>;
}

const folder = mkdtempSync(join(tmpdir(), "holdfast-runtimes-"));
const packages = join(folder, "node_modules");
const started = new Set<ChildProcess>();

function install(): void {
  const run = (command: string, args: string[], cwd: string): void => {
    const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: "utf8" });
    if (status !== 0) throw new Error(`${command} ${args.join(" ")} failed\n${stdout}${stderr}`);
  };
  run("npm", ["run", "build"], ".");
  run("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], ".");
  const tarball = readdirSync(folder).find((name) => name.endsWith(".tgz")) as string;
  cpSync("test/runtimes/app", folder, { recursive: true });
  const dependencies = { ...PACKAGES, holdfast: `file:./${tarball}` };
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, dependencies }));
  // Without scripts, because programs are started by the path of their native file.
  run("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund"], folder);
}

/** The one file that npm chose for this machine: `@oven/bun-linux-x64/bin/bun`. */
function nativeFile(scope: string, file: string): string {
  const found = readdirSync(join(packages, scope)).map((name) => join(packages, scope, name, file));
  return found.find((path) => existsSync(path) && spawnSync(path, ["--version"]).status === 0) as string;
}

const programOf = (name: (typeof NODES)[number]): string => join(packages, name, "bin", "node");

function plain(name: string, command: string, ...args: string[]): Case {
  return {
    name,
    run: async (...agentArgs) => {
      const options = { cwd: folder, encoding: "utf8", timeout: LIMIT_MS } as const;
      const { stdout, stderr, signal } = spawnSync(command, [...args, ...agentArgs], options);
      return signal === "SIGKILL" ? null : `${stdout}${stderr.slice(-SHOWN)}`.trim();
    },
  };
}

/** Bundles the program, and runs the bundle on both Nodes. */
function bundled(
  name: string,
  command: string,
  args: string[],
  file: string,
  expected: Case["expected"] = {},
): Case[] {
  execFileSync(command, args, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  return NODES.map((each) => ({ ...plain(`${name} on ${each}`, programOf(each), file), expected }));
}

function esbuild(format: "cjs" | "esm", ...more: string[]): Case[] {
  const file = `esbuild${more.length}.${format === "cjs" ? "cjs" : "mjs"}`;
  const command = nativeFile("@esbuild", "bin/esbuild");
  const args = ["program.mjs", "--bundle", "--platform=node", "--log-level=error", `--format=${format}`];
  return bundled(
    ["esbuild", format, ...more].join(" "),
    command,
    [...args, `--outfile=${file}`, ...more],
    file,
    format === "esm" && more.length === 0 ? { postgres: WITHOUT_PG } : {},
  );
}

function webpack(): Case[] {
  const config = { mode: "production", target: "node", entry: "./program.mjs", context: folder };
  const output = { path: folder, filename: "webpack.cjs" };
  const script = `require("webpack")(${JSON.stringify({ ...config, output })}, (error, stats) => {
    if (error || stats.hasErrors()) throw error ?? new Error(stats.toString("errors-only"));
  });`;
  return bundled("webpack", programOf("node24"), ["-e", script], "webpack.cjs");
}

/** Without a next.config, as a user begins. The agent runs in a route, and the whole server dies. */
function next(on: (typeof NODES)[number]): Case {
  const file = join(packages, "next/dist/bin/next");
  const env = { ...process.env, NEXT_TELEMETRY_DISABLED: "1" };
  rmSync(join(folder, ".next"), { recursive: true, force: true });
  execFileSync(programOf(on), [file, "build"], { cwd: folder, env, stdio: ["ignore", "ignore", "inherit"] });
  return {
    name: `Next on ${on}`,
    run: async (address, world, mustDie) => {
      const port = await freePort();
      const server = spawn(programOf(on), [file, "start", "-p", String(port)], { cwd: folder, env });
      started.add(server);
      const ended = once(server, "exit");
      try {
        await untilReady(server);
        const query = new URLSearchParams({ address, world, mustDie });
        const answer = await fetch(`http://127.0.0.1:${port}/api/pay?${query}`);
        return await answer.text();
      } catch (error) {
        if (server.exitCode === null && server.signalCode === null) await ended;
        if (server.signalCode !== "SIGKILL" || mustDie === "") throw error;
        return null;
      } finally {
        server.kill("SIGKILL");
        await ended;
        started.delete(server);
      }
    },
  };
}

async function untilReady(server: ChildProcess): Promise<void> {
  let said = "";
  for await (const chunk of server.stdout ?? []) {
    said += String(chunk);
    if (said.includes("Ready")) return;
  }
  throw new Error(`next ended: ${said}`);
}

/** What is wrong, or null. */
async function tryOn(one: Case, store: (typeof STORES)[number], address: string): Promise<string | null> {
  const world = join(folder, `world-${Math.random()}`);
  const first = await one.run(address, world, "die");
  const expected = one.expected?.[store];
  if (expected) return expected.test(first ?? "") ? null : `said ${first}`;
  if (first !== null) return `was not killed, but said ${first}`;
  const second = await one.run(address, world, "");
  if (second !== DONE) return `said ${second} after the kill`;
  const keys = readFileSync(world, "utf8").trim().split("\n");
  return keys.length === 2 && keys[0] === keys[1] ? null : `sent the keys ${keys.join(", ")}`;
}

/** Each is built only when it is its turn. */
const CASES: Readonly<Record<string, () => Case[]>> = {
  node: () => NODES.map((each) => plain(each, programOf(each), "program.mjs")),
  bun: () => [plain("bun", nativeFile("@oven", "bin/bun"), "program.mjs")],
  deno: () => [plain("deno", nativeFile("@deno", "deno"), "run", "--allow-all", "program.mjs")],
  esbuild: () => [...esbuild("cjs"), ...esbuild("esm"), ...esbuild("esm", "--external:pg")],
  webpack,
  "next-20": () => [next("node20")],
  "next-24": () => [next("node24")],
};

async function runAll(wanted: readonly string[]): Promise<boolean> {
  install();
  const server = await PostgresServer.start();
  const database = `postgres://${USER}:${encodeURIComponent(PASSWORD)}@127.0.0.1:${server.port}/postgres`;
  let failed = 0;
  let count = 0;
  try {
    for (const [name, make] of Object.entries(CASES)) {
      if (wanted.length > 0 && !wanted.some((each) => name.startsWith(each))) continue;
      for (const one of make()) {
        for (const store of STORES) {
          const place = join(folder, `store-${++count}`);
          const local = store === "sqlite" ? `${place}.db` : `${place}/`;
          const address = store === "postgres" ? `${database}?schema=s${count}` : local;
          const wrong = await tryOn(one, store, address);
          if (wrong !== null) failed += 1;
          console.log(
            `${wrong === null ? "ok  " : "FAIL"} ${one.name}, ${store}${wrong ? `: ${wrong}` : ""}`,
          );
        }
      }
    }
  } finally {
    await server.stop();
  }
  console.log(`${count - failed} of ${count} passed`);
  return failed === 0;
}

process.on("exit", () => {
  for (const child of started) child.kill("SIGKILL");
  rmSync(resolve(folder), { recursive: true, force: true });
});
process.exitCode = (await runAll(process.argv.slice(2))) ? 0 : 1;
