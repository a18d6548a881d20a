// Every check of the project in one command. A step prints one line; only a failing step shows its output.
// All steps run even after a failure, so one run shows everything that is wrong. The last line counts tests
// over all suite runs; a failed step that is not a test run counts as one failure, so red never reads green.

import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism, constants, setPriority, tmpdir } from "node:os";
import { delimiter, dirname, isAbsolute, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const STEP_LIMIT_MS = 30 * 60_000;
const FAILURE_LENGTH = 4_000;
const OUTPUT_LINES = 200;
const SECOND_NODE_MAJOR = 24;
/**
 * The two Nodes differ in the SQLite driver. Tests of the driver run on both, in a short form on the first.
 */
const ON_BOTH = [
  "stores/conformance/sqlite.",
  "stores/conformance/model.",
  "stores/sqlite/",
  "crash/random-kills.",
  "stores/files/locks.",
  "stores/files/leases.",
];
/**
 * Tests of a user's first steps run on the Node that runs this script. All others run on the second Node,
 * which starts in a third of the time. The driver of Node 20 collects all garbage whenever a connection
 * closes, which takes longer than most tests. HOLDFAST_FULL=1 runs everything on both.
 */
const ON_FIRST = ["demo/demo.", "examples/quickstart."];

/** Workers for the first Node, which runs a sixth of the tests. */
const SHORT_WORKERS = Math.max(1, Math.floor(availableParallelism() / 4));
/**
 * Workers for the second Node. Most of the time they wait for their child processes; with one less,
 * processors idle.
 */
const LONG_WORKERS = Math.floor(availableParallelism() / 2) + 3;

/**
 * GOGC for the two tools in Go, compiler and bundler. By default a quarter of their time is garbage
 * collection.
 */
const LAZY_COLLECTOR = "400";

/** The file system in memory, and how much of it must be free. A container often has only a few megabytes. */
const MEMORY = "/dev/shm";
const ENOUGH_BYTES = 4_000_000_000;

const root = fileURLToPath(new URL("..", import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), "holdfast-check-"));
const quick = quickFolder();
const programs = realpathSync(mkdtempSync(join(quick, "holdfast-programs-")));
const leftovers = quick === tmpdir() ? [scratch, programs] : [scratch, quick];
const running = new Set();
const total = { passed: 0, failed: 0, skipped: 0 };

const packages = join(root, "node_modules");
const tool = (name) => join(packages, ".bin", name);
/** Both are called tsc, so neither can be found by name. */
const NATIVE_COMPILER = join(packages, "typescript-native", "bin", "tsc");
const OLD_COMPILER = join(packages, "typescript", "bin", "tsc");

/**
 * The folder for temporary files of the tests: in memory if there is enough, because each sync costs a disk
 * milliseconds. Tests of disks use HOLDFAST_DISK. With HOLDFAST_FULL=1 all files are on the disk.
 */
function quickFolder() {
  if (process.env.HOLDFAST_FULL || !existsSync(MEMORY)) return tmpdir();
  const { bavail, bsize } = statfsSync(MEMORY);
  if (bavail * bsize < ENOUGH_BYTES) return tmpdir();
  try {
    const folder = mkdtempSync(join(MEMORY, "holdfast-check-"));
    // Some tests run processes as another user.
    chmodSync(folder, 0o1777);
    return folder;
  } catch {
    return tmpdir();
  }
}

/** Runs one command in its own process group, and ends every process of that group. */
function execute({ command, args, env = {}, priority = 0 }) {
  return new Promise((resolve) => {
    const { FORCE_COLOR: _, ...inherited } = process.env;
    const child = spawn(command, args, {
      cwd: root,
      env: { ...inherited, NO_COLOR: "1", GOGC: LAZY_COLLECTOR, ...env },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    running.add(child);
    if (child.pid && priority > 0) setPriority(child.pid, priority);
    const output = [];
    child.stdout.on("data", (chunk) => output.push(chunk));
    child.stderr.on("data", (chunk) => output.push(chunk));
    const limit = setTimeout(() => {
      output.push(Buffer.from(`\nstopped after ${STEP_LIMIT_MS / 60_000} minutes\n`));
      endGroup(child);
    }, STEP_LIMIT_MS);
    child.on("error", (error) => output.push(Buffer.from(`${command}: ${error.message}\n`)));
    child.on("exit", () => endGroup(child));
    child.on("close", (code) => {
      clearTimeout(limit);
      running.delete(child);
      resolve({ ok: code === 0, output: Buffer.concat(output).toString() });
    });
  });
}

function endGroup(child) {
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

function removeLeftovers() {
  for (const path of leftovers) rmSync(path, { recursive: true, force: true });
}

function report(mark, name, detail, output = "") {
  console.log(`${mark.padEnd(5)} ${name.padEnd(24)} ${detail}`);
  if (output !== "") console.log(`\n${output.trim()}\n`);
}

const seconds = (since) => `${((performance.now() - since) / 1000).toFixed(1)} s`;

async function step(name, what) {
  const start = performance.now();
  const { ok, output } = await execute(what);
  report(ok ? "ok" : "FAIL", name, seconds(start), ok ? "" : output);
  if (!ok) total.failed += 1;
  return ok;
}

async function suite(name, node, only = [], env = {}) {
  const start = performance.now();
  const file = join(scratch, `${name}.json`);
  const { ok, output } = await execute({
    command: node,
    args: [
      tool("vitest"),
      "run",
      ...only,
      "--reporter=default",
      "--reporter=json",
      `--outputFile.json=${file}`,
    ],
    env: {
      ...env,
      TMPDIR: quick,
      HOLDFAST_DISK: tmpdir(),
      HOLDFAST_COMPILED: join(scratch, "compiled"),
      HOLDFAST_TEST_PROGRAMS: programs,
      PATH: `${dirname(node)}${delimiter}${process.env.PATH}`,
    },
  });
  const result = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
  const { numPassedTests: passed = 0, numPendingTests: pending = 0, numTodoTests: todo = 0 } = result;
  // A file that does not load, or an unhandled error, fails the run without failing a test.
  const failed = Math.max(result.numFailedTests ?? 0, ok ? 0 : 1);
  total.passed += passed;
  total.failed += failed;
  total.skipped += pending + todo;
  report(
    ok ? "ok" : "FAIL",
    name,
    `${seconds(start)}, ${passed} tests`,
    ok ? "" : whatFailed(result, output),
  );
}

/** Every failed test with its message, then the errors outside of tests, or else the end of the output. */
function whatFailed({ testResults = [] }, output) {
  const failed = testResults.flatMap(({ name, message, assertionResults = [] }) => {
    const tests = assertionResults.filter(({ status }) => status === "failed");
    if (tests.length === 0 && message) return [`${relative(root, name)}\n${message}`];
    return tests.map(
      ({ fullName, failureMessages = [] }) =>
        `${relative(root, name)}: ${fullName}\n${failureMessages.join("\n").slice(0, FAILURE_LENGTH)}`,
    );
  });
  const lines = output.trim().split("\n");
  const outside = lines.findIndex((line) => line.includes("Unhandled Error"));
  const end = lines.slice(outside < 0 ? -OUTPUT_LINES : outside);
  return [...failed, end.join("\n")].join("\n\n");
}

/** The package of the second Node. Null if this is that Node already, or npm has none for this machine. */
function secondNode() {
  const home = join(root, "test", `node${SECOND_NODE_MAJOR}`);
  const { optionalDependencies } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
  const name = `node-${process.platform}-${process.arch}`;
  if (process.version.startsWith(`v${SECOND_NODE_MAJOR}.`) || !(name in optionalDependencies)) return null;
  const { packages: locked } = JSON.parse(readFileSync(join(home, "package-lock.json"), "utf8"));
  const { version, integrity } = locked[`node_modules/${name}`];
  return { name, folder: join(home, "node_modules", name), version, integrity };
}

/**
 * Installs the second Node, or returns null if that fails. It has its own folder, so that its bin cannot
 * shadow `node` for npm scripts. It is fetched during the first tests, because only tests need it. Only the
 * program is unpacked: `npm ci` would also write 2,800 headers and take twice the time.
 */
async function fetched({ name, folder, version, integrity }) {
  const program = join(folder, "bin", "node");
  const manifest = join(folder, "package.json");
  const there = existsSync(manifest) ? JSON.parse(readFileSync(manifest, "utf8")).version : null;
  if (there === version) return program;
  const label = `Node ${SECOND_NODE_MAJOR}`;
  const packed = join(scratch, "node");
  mkdirSync(packed);
  const args = ["pack", `${name}@${version}`, "--pack-destination", packed, "--loglevel=error"];
  if (!(await step(label, { command: "npm", args }))) return null;
  try {
    unpack(join(packed, `${name}-${version}.tgz`), integrity, folder);
    return program;
  } catch (error) {
    total.failed += 1;
    report("FAIL", label, "unpacking", String(error));
    return null;
  }
}

/** Its program and manifest, if they match the lockfile. Both exist, or neither does. */
function unpack(tarball, integrity, folder) {
  const sum = createHash("sha512").update(readFileSync(tarball)).digest("base64");
  if (integrity !== `sha512-${sum}`) throw new Error(`${tarball} is not what the lockfile says`);
  const unpacking = `${folder}-${process.pid}`;
  leftovers.push(unpacking);
  mkdirSync(unpacking, { recursive: true });
  const wanted = ["package/bin/node", "package/package.json"];
  execFileSync("tar", ["-xzf", tarball, "-C", unpacking, "--strip-components=1", ...wanted]);
  rmSync(folder, { recursive: true, force: true });
  renameSync(unpacking, folder);
}

/** The tests of the AI SDK once more, with version 7, which needs Node 22. */
async function aiSdk7(node) {
  await suite("tests with AI SDK 7", node, ["test/integrations/ai-sdk"], { HOLDFAST_AI_SDK: "7" });
}

/** Every test file, on the Node that runs this, on the second one, or on both. */
async function allSuites(fetching) {
  const here = `tests on Node ${process.versions.node.split(".")[0]}`;
  const there = `tests on Node ${SECOND_NODE_MAJOR}`;
  if (process.env.HOLDFAST_FULL || fetching === null) {
    await suite(here, process.execPath);
    const second = await fetching;
    if (second) await suite(there, second);
    if (second) await aiSdk7(second);
    return;
  }
  const files = readdirSync(join(root, "test"), { recursive: true }).filter((file) =>
    file.endsWith(".test.ts"),
  );
  const isIn = (list) => (file) => list.some((name) => file.startsWith(name));
  const paths = (some) => some.map((file) => `test/${file}`);
  const [onBoth, onFirst] = [isIn(ON_BOTH), isIn(ON_FIRST)];
  const onSecond = async () => {
    const second = await fetching;
    if (!second) return;
    const some = paths(files.filter((file) => onBoth(file) || !onFirst(file)));
    await suite(there, second, [...some, `--maxWorkers=${LONG_WORKERS}`], { HOLDFAST_REST: "1" });
    await aiSdk7(second);
  };
  // Both run at once, because each waits for processes and disks a quarter of its time.
  await Promise.all([
    suite(
      here,
      process.execPath,
      [...paths(files.filter((file) => onBoth(file) || onFirst(file))), `--maxWorkers=${SHORT_WORKERS}`],
      { HOLDFAST_SHORT: "1" },
    ),
    onSecond(),
  ]);
}

/** Checks the tarball that would be published. No test needs it. */
async function checkPackage(aside) {
  if (!(await step("build", aside("tsdown")))) return;
  const pack = { command: "npm", args: ["pack", "--ignore-scripts", "--pack-destination", scratch] };
  if (!(await step("pack", pack))) return;
  const tarball = join(scratch, readdirSync(scratch).find((file) => file.endsWith(".tgz")) ?? "");
  const user = installed(tarball);
  await Promise.all([
    step("package manifest", aside("publint", "run", "--strict", tarball)),
    step("package types", aside("attw", "--no-definitely-typed", "--profile", "esm-only", tarball)),
    checkTypes("package in a program", aside, "-p", user),
    step("package cold start", {
      command: process.execPath,
      args: [join(user, "cold-start.mjs"), join(user, "node_modules", "holdfast")],
    }),
  ]);
}

/**
 * Uses the native compiler on one processor: it takes a quarter of the time, and a second checker would
 * repeat half of the work. HOLDFAST_FULL=1 also runs the JavaScript compiler, which most users still have.
 */
async function checkTypes(name, aside, ...args) {
  await step(name, aside(NATIVE_COMPILER, "--singleThreaded", ...args));
  if (process.env.HOLDFAST_FULL) await step(`${name}, old`, aside(OLD_COMPILER, ...args));
}

/** A user's program beside the package. The dependencies of the package are found in a folder above. */
function installed(tarball) {
  const user = join(packages, `.user-${process.pid}`);
  const home = join(user, "node_modules", "holdfast");
  mkdirSync(home, { recursive: true });
  leftovers.push(user);
  execFileSync("tar", ["-xzf", tarball, "-C", home, "--strip-components=1"]);
  cpSync(join(root, "test", "package"), user, { recursive: true });
  writeFileSync(join(user, "package.json"), JSON.stringify({ type: "module" }));
  return user;
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.once(signal, () => {
    for (const child of running) endGroup(child);
    removeLeftovers();
    process.exit(1);
  });
}

try {
  // The suites wait for disks and processes a quarter of the time. Steps that only read files run meanwhile,
  // at a low priority.
  const second = secondNode();
  const fetching = second && fetched(second);
  const on =
    (node) =>
    (program, ...args) => ({
      command: node,
      args: [isAbsolute(program) ? program : tool(program), ...args],
      priority: constants.priority.PRIORITY_LOW,
    });
  // Two tools are native programs that Node only starts. The others give the same result on any Node, so they
  // run on the faster one: knip and attw take a third less processor time.
  const look = async () => {
    const here = on(process.execPath);
    const natives = [
      step("format and lint", here("biome", "ci", "--colors=off", ".")),
      checkTypes("types", here, "--noEmit"),
      checkTypes("types with AI SDK 7", here, "-p", "test/integrations/ai-sdk"),
      // The page sees a browser's globals, and the rest must not.
      checkTypes("types of the page", here, "--noEmit", "-p", "ui"),
    ];
    const aside = on((await fetching) ?? process.execPath);
    await Promise.all([...natives, step("unused code", aside("knip")), checkPackage(aside)]);
  };
  await Promise.all([allSuites(fetching), look()]);
} finally {
  removeLeftovers();
}

const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : "";
console.log(`${total.passed} passed, ${total.failed} failed${skipped}`);
process.exitCode = total.failed > 0 ? 1 : 0;
