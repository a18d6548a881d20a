/** Runs test files inside another file, with one mutant active, or to record what each test reaches. */

import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, type TestContext } from "vitest";
import type { Active } from "./active.ts";

/** Where the tests are, and where results go. */
const { MUTANT_TESTS = "", MUTANT_RESULTS = "" } = process.env;

/** What one test file reaches: each test by itself, and its hooks and child processes. */
export interface Coverage {
  readonly file: string;
  readonly tests: readonly { readonly name: string; readonly ms: number; readonly ids: readonly number[] }[];
  readonly ids: readonly number[];
}

/** The tests to run against one mutant. */
export interface Trial {
  readonly id: number;
  readonly files: readonly { readonly file: string; readonly tests: readonly string[] }[];
}

/** `test/ledger/keys.test.ts > on memory > a key is taken once`. */
function nameOf(task: TestContext["task"]): string {
  const names = [task.name];
  for (let { suite } = task; suite; { suite } = suite) names.unshift(suite.name);
  return names.join(" > ");
}

/** A fresh copy of the file's tests. Its imports, the sources among them, are loaded once. */
function load(file: string, id: number): void {
  describe(file, async () => {
    await import(`${MUTANT_TESTS}/${file}?mutant=${id}`);
  });
}

export function trySuite({ id, files }: Trial): void {
  const active = activeNow();
  const wanted = new Map(files.map(({ file, tests }) => [file, new Set(tests)]));
  let isKilled = false;
  beforeAll(() => {
    active.id = id;
    process.env["MUTANT"] = String(id);
  });
  afterAll(() => {
    active.id = 0;
    delete process.env["MUTANT"];
  });
  beforeEach(({ task, skip, onTestFailed }) => {
    const name = nameOf(task);
    const file = name.slice(0, name.indexOf(" > "));
    if (isKilled || !wanted.get(file)?.has(name)) skip();
    onTestFailed(() => {
      isKilled = true;
    });
  });
  for (const { file } of files) load(file, id);
}

export function recordSuite(file: string): void {
  const active = activeNow();
  const hits = `${MUTANT_RESULTS}/${file.replaceAll("/", "-")}.hits`;
  const tests: Coverage["tests"][number][] = [];
  const outside = new Set<number>();
  let began = 0;
  active.reached = new Set();
  process.env["MUTANT_HITS"] = hits;
  writeFileSync(hits, "");
  beforeEach(() => {
    for (const id of active.reached ?? []) outside.add(id);
    active.reached = new Set();
    began = performance.now();
  });
  afterEach(({ task }) => {
    if (task.result?.state === "fail") return;
    tests.push({ name: nameOf(task), ms: performance.now() - began, ids: [...(active.reached ?? [])] });
  });
  afterAll(() => {
    for (const id of active.reached ?? []) outside.add(id);
    active.reached = null;
    delete process.env["MUTANT_HITS"];
    const ofChildren = existsSync(hits)
      ? readFileSync(hits, "utf8").split("\n").filter(Boolean).map(Number)
      : [];
    const coverage: Coverage = { file, tests, ids: [...new Set([...outside, ...ofChildren])] };
    appendFileSync(`${MUTANT_RESULTS}/coverage.jsonl`, `${JSON.stringify(coverage)}\n`);
  });
  load(file, 0);
}

function activeNow(): Active {
  const shared = globalThis as { holdfastMutant?: Active };
  shared.holdfastMutant ??= { id: 0, reached: null };
  return shared.holdfastMutant;
}
