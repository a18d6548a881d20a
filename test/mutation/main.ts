/**
 * How many small bugs do the tests find? Plants them one at a time, and runs the tests that reach the place:
 *
 *     npm run mutants -- --only src/ledger,src/journal --sample 200 --seed 1
 *
 * 1. A copy of the repository gets sources that hold every mutant, each switched off (`mutate.ts`).
 * 2. One run of the tests records which test reaches which mutant.
 * 3. For each mutant of the sample, the fastest tests that reach it run; then, if it survives, all of them.
 *
 * A test that fails kills the mutant, and so does one that does not end. `docs/mutation.md` has the results.
 */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { quickFolder } from "../quick-folder.ts";
import { PostgresServer } from "../stores/postgres/server.ts";
import { type Mutant, mutate } from "./mutate.ts";
import type { Coverage, Trial } from "./suite.ts";

/** Sources to mutate, and the tests that should find it out. */
const SCOPES: Readonly<Record<string, readonly string[]>> = {
  "src/ledger/": ["test/ledger/", "test/session/"],
  "src/journal/": ["test/journal/", "test/ledger/", "test/session/", "test/scale/"],
  "src/stores/memory/write.ts": ["test/stores/conformance/", "test/journal/"],
  "src/stores/kit/": ["test/stores/"],
  "src/stores/sqlite/": ["test/stores/sqlite/", "test/stores/conformance/", "test/crash/"],
  "src/stores/files/": ["test/stores/files/"],
  "src/stores/postgres/": ["test/stores/postgres/"],
};
/** In `sqlite`, `files` and `postgres`: the append paths. */
const APPEND_PATHS =
  /\/(append|append-fast-path|queue|flush-queue|batch|leases|rows|acts|journal-file|folder-connection|state|write)\.ts$/;
/** Tests of minutes, whose short forms are among the others. */
const LONG_TESTS = /(random-kills|system-call-kills|scale|failover|power-cut)\.test\.ts$/;

/** The first try: tests that end soon. */
const QUICK = { tests: 60, ms: 5_000 };
const THOROUGH = { tests: 150, ms: 90_000 };
const TEST_LIMIT_MS = 20_000;
/** Nothing has ended for so long: an endless loop. */
const STUCK_MS = 60_000;

type Verdict = "killed" | "stuck" | "survived" | "not reached";

interface Options {
  readonly only: readonly string[];
  readonly sample: number;
  readonly seed: number;
  readonly out: string | undefined;
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      only: { type: "string", default: Object.keys(SCOPES).join(",") },
      sample: { type: "string", default: "200" },
      seed: { type: "string", default: "1" },
      out: { type: "string" },
    },
  });
  const { only, sample, seed, out } = values;
  return { only: only.split(","), sample: +sample, seed: +seed, out };
}

const startedAt = performance.now();
const home = mkdtempSync(join(quickFolder(), "holdfast-mutants-"));
// Postgres may run as another user.
chmodSync(home, 0o1777);
const copy = join(home, "copy");
const results = join(home, "results");
const running = new Set<ChildProcess>();

/** The repository with instrumented sources. Returns all mutants. */
function makeCopy(only: readonly string[]): Mutant[] {
  mkdirSync(results, { recursive: true });
  const tracked = execFileSync("git", ["ls-files", "-co", "--exclude-standard"], { encoding: "utf8" });
  const mutants: Mutant[] = [];
  for (const file of tracked
    .trim()
    .split("\n")
    .filter((each) => existsSync(each))) {
    mkdirSync(join(copy, dirname(file)), { recursive: true });
    if (!isMutated(file, only)) {
      cpSync(file, join(copy, file));
      continue;
    }
    const made = mutate(file, readFileSync(file, "utf8"), mutants.length + 1);
    mutants.push(...made.mutants);
    const active = relative(dirname(file), "test/mutation/active.ts");
    writeFileSync(join(copy, file), `import { __m } from "${active}";\n${made.text}`);
  }
  symlinkSync(resolve("node_modules"), join(copy, "node_modules"));
  writeFileSync(join(copy, "mutants.config.ts"), CONFIG);
  return mutants;
}

const CONFIG = `import base from "./vitest.config.ts";
export default { test: { ...base.test, include: ["mutants/*.test.ts"], maxWorkers: 1, sequence: {} } };
`;

function isMutated(file: string, only: readonly string[]): boolean {
  if (!file.endsWith(".ts") || !only.some((each) => file.startsWith(each))) return false;
  const scope = Object.keys(SCOPES).find((each) => file.startsWith(each));
  if (scope === undefined || file.endsWith("index.ts")) return false;
  return !scope.startsWith("src/stores/") || APPEND_PATHS.test(file);
}

function testFilesFor(only: readonly string[]): string[] {
  const scopes = Object.entries(SCOPES).filter(([scope]) =>
    only.some((each) => scope.startsWith(each) || each.startsWith(scope)),
  );
  const folders = [...new Set(scopes.flatMap(([, tests]) => tests))];
  const all = execFileSync("git", ["ls-files", "-co", "--exclude-standard", "test"], { encoding: "utf8" });
  return all
    .split("\n")
    .filter((file) => file.endsWith(".test.ts") && folders.some((each) => file.startsWith(each)))
    .filter((file) => !LONG_TESTS.test(file) && existsSync(file));
}

interface Run {
  readonly name: string;
  readonly text: string;
}

/**
 * Runs each as a test file of its own, in one process, and calls `ended` with its verdict. If one does not
 * end, the process is killed, and another one continues with the rest.
 */
async function runAll(runs: readonly Run[], ended: (name: string, verdict: Verdict) => void): Promise<void> {
  let left = [...runs];
  while (left.length > 0) {
    const folder = join(copy, "mutants");
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
    for (const { name, text } of left) writeFileSync(join(folder, `${name}.test.ts`), text);
    const done = await runProcess(ended);
    const before = left.length;
    left = left.filter(({ name }) => !done.has(name));
    if (left.length === before) throw new Error("the tests ended without a result");
  }
}

async function runProcess(ended: (name: string, verdict: Verdict) => void): Promise<Set<string>> {
  const args = ["run", "--config=mutants.config.ts", `--reporter=${resolve("test/mutation/reporter.mjs")}`];
  const limits = [`--testTimeout=${TEST_LIMIT_MS}`, `--hookTimeout=${TEST_LIMIT_MS}`];
  const child = spawn(process.execPath, [resolve("node_modules/vitest/vitest.mjs"), ...args, ...limits], {
    cwd: copy,
    env: { ...process.env, MUTANT_TESTS: copy, MUTANT_RESULTS: results, TMPDIR: home },
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  running.add(child);
  const done = new Set<string>();
  let current: string | null = null;
  let watchdog = setTimeout(() => undefined, 0);
  const watch = (): void => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => {
      if (current !== null) settle(current, "stuck");
      endGroup(child);
    }, STUCK_MS);
  };
  const settle = (name: string, verdict: Verdict): void => {
    done.add(name);
    current = null;
    ended(name, verdict);
  };
  const hear = (line: string): void => {
    const [word, name = "", state] = line.split(" ");
    if (word === "@begin") current = name;
    if (word === "@end") settle(name, state === "failed" ? "killed" : "survived");
    watch();
  };
  watch();
  let rest = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) hear(line);
  });
  await once(child, "close");
  clearTimeout(watchdog);
  endGroup(child);
  running.delete(child);
  return done;
}

function endGroup(child: ChildProcess): void {
  try {
    process.kill(-(child.pid as number), "SIGKILL");
  } catch {
    // It has ended already.
  }
}

async function recordCoverage(files: readonly string[]): Promise<Coverage[]> {
  const runs = files.map((file, index) => ({
    name: `file-${index}`,
    text: `import { recordSuite } from "../test/mutation/suite.ts";\nrecordSuite(${JSON.stringify(file)});\n`,
  }));
  const failed: string[] = [];
  await runAll(runs, (name, verdict) => {
    if (verdict !== "survived") failed.push(files[Number(name.slice(5))] as string);
  });
  if (failed.length > 0) console.log(`not all tests pass without a mutant: ${failed.join(", ")}`);
  const lines = readFileSync(join(results, "coverage.jsonl"), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as Coverage);
}

/** The fastest tests that reach it. Null if none does. */
function trialFor(id: number, coverage: readonly Coverage[], limit: typeof QUICK): Trial | null {
  const reaching = coverage
    .flatMap(({ file, tests, ids }) => {
      const isOfFile = ids.includes(id);
      return tests.filter((each) => isOfFile || each.ids.includes(id)).map((each) => ({ ...each, file }));
    })
    .sort((one, other) => one.ms - other.ms);
  const chosen: typeof reaching = [];
  let ms = 0;
  for (const each of reaching) {
    ms += each.ms;
    if (chosen.length >= limit.tests || (chosen.length > 0 && ms > limit.ms)) break;
    chosen.push(each);
  }
  const files = [...new Set(chosen.map(({ file }) => file))].map((file) => ({
    file,
    tests: chosen.filter((each) => each.file === file).map(({ name }) => name),
  }));
  return files.length === 0 ? null : { id, files };
}

async function tryMutants(
  ids: readonly number[],
  coverage: readonly Coverage[],
  limit: typeof QUICK,
  verdicts: Map<number, Verdict>,
): Promise<void> {
  const runs: Run[] = [];
  for (const id of ids) {
    const trial = trialFor(id, coverage, limit);
    if (trial === null) verdicts.set(id, "not reached");
    else {
      const text = `import { trySuite } from "../test/mutation/suite.ts";\ntrySuite(${JSON.stringify(trial)});\n`;
      runs.push({ name: `mutant-${id}`, text });
    }
  }
  await runAll(runs, (name, verdict) => {
    verdicts.set(Number(name.slice(7)), verdict);
    console.log(`${limit === QUICK ? "quick" : "thorough"} ${verdicts.size} ${name} ${verdict}`);
  });
}

/** A sample that a seed repeats (mulberry32). */
function sampleOf<Item>(all: readonly Item[], size: number, seed: number): Item[] {
  let state = seed;
  const random = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const marked = all.map((item) => ({ item, mark: random() }));
  return marked
    .sort((one, other) => one.mark - other.mark)
    .slice(0, size)
    .map(({ item }) => item);
}

function report(sample: readonly Mutant[], verdicts: ReadonlyMap<number, Verdict>): string {
  const of = (...wanted: Verdict[]): Mutant[] =>
    sample.filter(({ id }) => wanted.includes(verdicts.get(id) as Verdict));
  const lines = of("survived", "not reached").map(
    ({ id, file, line, what }) => `${verdicts.get(id)} ${file}:${line} ${what}`,
  );
  const tried = sample.filter(({ id }) => verdicts.has(id)).length;
  const killed = of("killed", "stuck").length;
  const score = tried === 0 ? 0 : (100 * killed) / tried;
  const minutes = Math.round((performance.now() - startedAt) / 60_000);
  const stuck = of("stuck").length;
  return [
    ...lines.sort(),
    `${killed} of ${tried} mutants killed (${score.toFixed(1)} %), ${stuck} of them by a time limit; ${minutes} min`,
  ].join("\n");
}

async function main(): Promise<void> {
  const { only, sample: size, seed, out } = readOptions();
  if (!Reflect.get(process.features, "typescript"))
    throw new Error("mutants need Node 24, which runs TypeScript");
  const server = await PostgresServer.start();
  process.env["HOLDFAST_TEST_POSTGRES"] = server.url;
  const mutants = makeCopy(only);
  const sample = sampleOf(mutants, size, seed);
  console.log(`${mutants.length} mutants, ${sample.length} in the sample`);
  const coverage = await recordCoverage(testFilesFor(only));
  const verdicts = new Map<number, Verdict>();
  const ids = sample.map(({ id }) => id);
  await tryMutants(ids, coverage, QUICK, verdicts);
  const survivors = ids.filter((id) => verdicts.get(id) === "survived");
  await tryMutants(survivors, coverage, THOROUGH, verdicts);
  const text = report(sample, verdicts);
  console.log(text);
  await server.stop();
  if (out !== undefined) writeFileSync(out, `${text}\n`);
}

process.on("exit", () => {
  for (const child of running) endGroup(child);
  rmSync(home, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
await main();
