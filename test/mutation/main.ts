/**
 * How many small bugs do the tests find? Plants them one at a time, and runs the tests that reach the place:
 *
 *     npm run mutants -- --only src/ledger,src/journal --sample 200 --seed 1 --keep /tmp/mutants
 *     npm run mutants -- --only src/ledger,src/journal --sample 200 --seed 1 --keep /tmp/mutants --again
 *
 * 1. A copy of the repository gets sources that hold every mutant, each switched off (`mutate.ts`).
 * 2. One run of the tests records which test reaches which mutant.
 * 3. For each mutant of the sample, the fastest tests that reach it run; then, if it survives, all of them.
 *
 * A test that fails kills the mutant, and so does one that does not end. `docs/why/mutation.md` has the results.
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
import { tmpdir } from "node:os";
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
/** For suites that run on every store: the two fastest. A store has tests of its own. */
const STORES = process.env["HOLDFAST_STORES"] ?? "memory,sqlite";
/** Tests of minutes, whose short forms are among the others. */
const LONG_TESTS = /(random-kills|system-call-kills|scale|failover|power-cut)\.test\.ts$/;

/** The first try: tests that end soon. */
const QUICK = { tests: 60, ms: 5_000 };
/** The second try. `--thorough` sets its time. */
const THOROUGH = { tests: 1_000, ms: 60_000 };
/** Mutants in one process. */
const BATCH = 25;
const TEST_LIMIT_MS = 20_000;
/** Nothing has ended for so long: an endless loop. */
const STUCK_MS = 60_000;

type Verdict = "killed" | "stuck" | "survived" | "not reached";

interface Options {
  readonly only: readonly string[];
  readonly sample: number;
  readonly seed: number;
  /** How long the tests of a survivor may take, in milliseconds, before it counts as one. */
  readonly thoroughMs: number;
  /** No new mutants are tried after this time. */
  readonly minutes: number;
  readonly out: string | undefined;
  /** Folders of tests, instead of those in `SCOPES`. */
  readonly tests: readonly string[] | undefined;
  /** A folder where coverage and verdicts stay, so that another run with the same options continues. */
  readonly keep: string | undefined;
  /** Only mutants that the kept run did not kill, with the tests of now: to see what new tests find. */
  readonly again: boolean;
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      only: { type: "string", default: Object.keys(SCOPES).join(",") },
      sample: { type: "string", default: "200" },
      seed: { type: "string", default: "1" },
      minutes: { type: "string", default: "60" },
      thorough: { type: "string", default: String(THOROUGH.ms / 1_000) },
      out: { type: "string" },
      tests: { type: "string" },
      keep: { type: "string" },
      again: { type: "boolean", default: false },
    },
  });
  const { only, sample, seed, minutes, thorough, out, tests, keep, again } = values;
  return {
    only: only.split(","),
    sample: +sample,
    seed: +seed,
    minutes: +minutes,
    thoroughMs: +thorough * 1_000,
    out,
    tests: tests?.split(","),
    keep: keep && resolve(keep),
    again,
  };
}

const startedAt = performance.now();
const home = mkdtempSync(join(tmpdir(), "holdfast-mutants-"));
/** Apart from the copy: a mutant may delete more than it should. */
const temporary = mkdtempSync(join(quickFolder(), "holdfast-mutants-"));
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

/** One file after another in one process, by name. */
const CONFIG = `import { BaseSequencer } from "vitest/node";
import base from "./vitest.config.ts";
class ByName extends BaseSequencer {
  async sort(files) {
    return files.sort((one, other) => (one.moduleId < other.moduleId ? -1 : 1));
  }
}
const sequence = { sequencer: ByName };
export default { test: { ...base.test, include: ["mutants/*.test.ts"], maxWorkers: 1, sequence } };
`;

function isMutated(file: string, only: readonly string[]): boolean {
  if (!file.endsWith(".ts") || !only.some((each) => file.startsWith(each))) return false;
  const scope = Object.keys(SCOPES).find((each) => file.startsWith(each));
  if (scope === undefined || file.endsWith("index.ts")) return false;
  return !scope.startsWith("src/stores/") || APPEND_PATHS.test(file);
}

function testFilesFor({ only, tests }: Options): string[] {
  const scopes = Object.entries(SCOPES).filter(([scope]) =>
    only.some((each) => scope.startsWith(each) || each.startsWith(scope)),
  );
  const folders = tests ?? [...new Set(scopes.flatMap(([, each]) => each))];
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
  mkdirSync(temporary, { recursive: true });
  // Tests run processes as another user.
  chmodSync(temporary, 0o1777);
  const sentinel = join(temporary, "there");
  writeFileSync(sentinel, "");
  const args = ["run", "--config=mutants.config.ts", `--reporter=${resolve("test/mutation/reporter.mjs")}`];
  const limits = [`--testTimeout=${TEST_LIMIT_MS}`, `--hookTimeout=${TEST_LIMIT_MS}`];
  const child = spawn(process.execPath, [resolve("node_modules/vitest/vitest.mjs"), ...args, ...limits], {
    cwd: copy,
    env: {
      ...process.env,
      HOLDFAST_STORES: STORES,
      MUTANT_TESTS: copy,
      MUTANT_RESULTS: results,
      TMPDIR: temporary,
    },
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  running.add(child);
  const done = new Set<string>();
  let current: string | null = null;
  let isLate = false;
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
    if (word === "@begin") isLate = false;
    if (word === "@late") isLate = true;
    const failed = isLate ? "stuck" : "killed";
    if (word === "@end") settle(name, state === "failed" ? failed : "survived");
    // A mutant deleted everything: the tests after it would fail without reason.
    if (word === "@end" && !existsSync(sentinel)) endGroup(child);
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
  // The mutant ended the process of the tests.
  if (current !== null) settle(current, "killed");
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

/** Many tests run on each store. A mutant is tried with the fastest of them. */
function withoutStore(name: string): string {
  const [file = "", ...rest] = name.split(" > ");
  return `${file} ${rest.join(" > ").replace(/\b(memory|sqlite|files|postgres)\b/gi, "")}`;
}

/** The fastest tests that reach it. Null if none does. */
function trialFor(id: number, coverage: readonly Coverage[], limit: typeof QUICK): Trial | null {
  const known = new Set<string>();
  const reaching = coverage
    .flatMap(({ file, tests, ids }) => {
      const isOfFile = ids.includes(id);
      return tests.filter((each) => isOfFile || each.ids.includes(id)).map((each) => ({ ...each, file }));
    })
    .sort((one, other) => one.ms - other.ms)
    .filter(({ name }) => {
      const isNew = !known.has(withoutStore(name));
      known.add(withoutStore(name));
      return isNew;
    });
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

/**
 * Tries some mutants in one process. The last trial has none: if it fails, a mutant before it has left
 * something behind, and those that seemed killed are tried again, each in a process of its own.
 */
async function tryMutants(
  ids: readonly number[],
  coverage: readonly Coverage[],
  limit: typeof QUICK,
  verdicts: Map<number, Verdict>,
): Promise<void> {
  const trials = ids.flatMap((id) => trialFor(id, coverage, limit) ?? []);
  for (const id of ids) verdicts.set(id, "not reached");
  let isTainted = false;
  const noted = (name: string, verdict: Verdict): void => {
    if (name === CANARY) isTainted = verdict !== "survived";
    else verdicts.set(Number(name.slice(7)), verdict);
  };
  // Each file once: a second import has no tests, which vitest counts as a failure.
  const firsts = new Map(
    trials.slice(0, 5).flatMap(({ files }) => files.slice(0, 1).map((each) => [each.file, each])),
  );
  const harmless = { id: 0, files: [...firsts.values()] };
  await runAll([...trials.map((each) => runOf(each)), runOf(harmless, CANARY)], noted);
  if (!isTainted) return;
  for (const each of trials) if (isKill(verdicts.get(each.id))) await runAll([runOf(each)], noted);
}

const isKill = (verdict: Verdict | undefined): boolean => verdict === "killed" || verdict === "stuck";

const CANARY = "z-canary";

function runOf(trial: Trial, name = `mutant-${trial.id}`): Run {
  const text = `import { trySuite } from "../test/mutation/suite.ts";\ntrySuite(${JSON.stringify(trial)});\n`;
  return { name, text };
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

const COVERAGE = "coverage.json";
const VERDICTS = "verdicts.json";

/** Kept results count only for the same mutants: another source gives them other numbers. */
async function begin(
  options: Options,
  mutants: readonly Mutant[],
): Promise<{ coverage: Coverage[]; verdicts: Map<number, Verdict>; tried: ReadonlySet<number> }> {
  const { keep, again } = options;
  const [coverageFile, verdictFile] = [join(keep ?? "", COVERAGE), join(keep ?? "", VERDICTS)];
  const isKept = keep !== undefined && existsSync(coverageFile);
  const kept = isKept ? (JSON.parse(readFileSync(coverageFile, "utf8")) as Kept) : null;
  if (kept && JSON.stringify(kept.mutants) !== JSON.stringify(mutants))
    throw new Error(`${keep} holds results of other sources: remove it`);
  const known = again ? null : kept?.coverage;
  const coverage = known ?? (await recordCoverage(testFilesFor(options)));
  if (keep !== undefined && !kept) {
    mkdirSync(keep, { recursive: true });
    writeFileSync(coverageFile, JSON.stringify({ mutants, coverage } satisfies Kept));
  }
  const verdicts = kept && existsSync(verdictFile) ? readFileSync(verdictFile, "utf8") : "[]";
  const all = JSON.parse(verdicts) as [number, Verdict][];
  return {
    coverage,
    verdicts: new Map(again ? all.filter(([, each]) => isKill(each)) : all),
    tried: new Set(all.map(([id]) => id)),
  };
}

interface Kept {
  readonly mutants: readonly Mutant[];
  readonly coverage: Coverage[];
}

async function main(): Promise<void> {
  const options = readOptions();
  const { only, sample: size, seed, minutes, thoroughMs, out, keep, again } = options;
  const thorough = { ...THOROUGH, ms: thoroughMs };
  if (!Reflect.get(process.features, "typescript"))
    throw new Error("mutants need Node 24, which runs TypeScript");
  const server = await PostgresServer.start();
  process.env["HOLDFAST_TEST_POSTGRES"] = server.url;
  const mutants = makeCopy(only);
  const sample = sampleOf(mutants, size, seed);
  console.log(`${mutants.length} mutants, ${sample.length} in the sample`);
  const { coverage, verdicts, tried } = await begin(options, mutants);
  const isMeant = (id: number): boolean => !verdicts.has(id) && (!again || tried.has(id));
  const ids = sample.map(({ id }) => id).filter(isMeant);
  const isOver = (): boolean => performance.now() - startedAt > minutes * 60_000;
  for (let at = 0; at < ids.length && !isOver(); at += BATCH) {
    const batch = ids.slice(at, at + BATCH);
    await tryMutants(batch, coverage, QUICK, verdicts);
    const survivors = batch.filter((id) => verdicts.get(id) === "survived");
    if (survivors.length > 0) await tryMutants(survivors, coverage, thorough, verdicts);
    console.log(report(sample, verdicts));
    if (keep !== undefined) writeFileSync(join(keep, VERDICTS), JSON.stringify([...verdicts]));
  }
  const text = report(sample, verdicts);
  console.log(text);
  await server.stop();
  if (out !== undefined) writeFileSync(out, `${text}\n`);
}

process.on("exit", () => {
  for (const child of running) endGroup(child);
  for (const each of [home, temporary]) rmSync(each, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
await main();
