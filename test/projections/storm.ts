// A storm: several clones of a repository work on one goal and merge each other with the real git, in random
// order. All of it follows from a seed. Each clone has a store of its own and a clock of its own.

import { execFileSync, spawnSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { type Goal, openGoal } from "../../src/goal/index.ts";
import { Journal } from "../../src/journal/index.ts";
import { isHoldfastError } from "../../src/model/errors.ts";
import { encodeGoal } from "../../src/model/goal/index.ts";
import { canonicalJson } from "../../src/model/json.ts";
import {
  describeStrays,
  type GoalFolder,
  mergeEventFolder,
  projectGoal,
} from "../../src/projections/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { human } from "../goal/bench.ts";
import { anySteps, BEGINNING, type Step, take } from "../goal/random-operations.ts";
import { quickFolder } from "../quick-folder.ts";

const WHO = { NAME: "t", EMAIL: "t@t" };
const env = {
  ...process.env,
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  ...Object.fromEntries(
    ["AUTHOR", "COMMITTER"].flatMap((who) =>
      Object.entries(WHO).map(([key, value]) => [`GIT_${who}_${key}`, value]),
    ),
  ),
};

export interface StormOptions {
  readonly clones: number;
  /** Operations of each clone. */
  readonly operations: number;
  readonly seed: number;
  /**
   * Clocks of the clones differ by up to so much, in both directions. The first clone has the earliest one, so
   * that the goal has begun everywhere. Events that are dated more than a day ahead wait, in some clones.
   */
  readonly skewMs: number;
}

export interface StormReport {
  readonly merges: number;
  readonly applied: number;
  readonly records: number;
  readonly renumbered: number;
  /** Anything that must not happen, in words. */
  readonly broken: readonly string[];
}

/** Numbers from 0 to `below`, the same for the same seed (mulberry32). */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

/** A clone with a store of its own. */
export class Clone {
  readonly root: string;
  journal = null as unknown as Journal;
  goal = null as unknown as Goal;
  folder = null as unknown as GoalFolder;

  constructor(root: string) {
    this.root = root;
  }

  git(...args: string[]): string {
    return execFileSync("git", args, {
      cwd: this.root,
      env,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
  }

  async work(now: () => number, isFirst: boolean): Promise<void> {
    const warn = (error: unknown): void => {
      const isWaiting = isHoldfastError(error, "EVENT_FILE_REFUSED") && error.data["until"] !== undefined;
      if (!isWaiting) throw error;
    };
    this.journal = new Journal({ store: await openMemory(), now, warn });
    if (!isFirst) await mergeEventFolder(this.journal, join(this.root, ".planning"), "checkout");
    const made = isFirst ? { statement: "Ship it", ...BEGINNING } : {};
    this.goal = await openGoal(this.journal, "checkout", {
      by: human,
      root: this.root,
      stale: "use",
      ...made,
    });
    const shared = { auto: false, human: "ann", pulled: "trust", onEdit: () => undefined } as const;
    this.folder = await projectGoal(this.goal, shared);
  }

  async commit(): Promise<void> {
    await this.folder.sync();
    this.git("add", "-A");
    if (this.git("status", "--porcelain") !== "") this.git("commit", "-q", "-m", "work");
  }

  /** As documented: merge, rebuild, add, commit. Returns the conflict, or null. */
  async merge(other: Clone): Promise<string | null> {
    await this.commit();
    await other.commit();
    this.git("fetch", "-q", other.root, "HEAD");
    const args = ["merge", "--no-edit", "FETCH_HEAD"];
    const { status, stdout } = spawnSync("git", args, { cwd: this.root, env, encoding: "utf8" });
    await this.commit();
    return status === 0 ? null : stdout;
  }

  /** A person adds a task to the page. The time is long past, so that git cannot have written it. */
  async edit(text: string): Promise<void> {
    await this.folder.sync();
    const path = join(this.root, ".planning/STATE.md");
    const page = readFileSync(path, "utf8");
    const edited = page.replace(/^- \[ \] T-\d+.*\n/m, (line) => `${line}- [ ] by hand ${text}\n`);
    if (edited === page) return;
    writeFileSync(path, edited);
    utimesSync(path, 1_000_000_000, 1_000_000_000);
    await this.folder.sync();
  }

  files(): Record<string, string> {
    const folder = join(this.root, ".planning");
    const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
      /\.(md|json)(\.|$)/.test(name),
    );
    return Object.fromEntries(names.sort().map((name) => [name, readFileSync(join(folder, name), "utf8")]));
  }

  agreed(): string {
    const {
      origins: _origins,
      sources: _sources,
      merges: _merges,
      known,
      ...rest
    } = encodeGoal(this.goal.state) as Record<string, unknown>;
    return canonicalJson(JSON.parse(JSON.stringify({ ...rest, known: [...(known as string[])].sort() })));
  }

  made(): string[] {
    return [...this.goal.state.names].filter(([name]) => /^[TDBQA]-/.test(name)).map(([, uid]) => uid);
  }

  async close(): Promise<void> {
    await this.goal.close();
    await this.folder.close();
    await this.journal.store.close();
  }
}

/** Titles that break naive renderings: marks, combining characters, lines that look like a task. */
const WORDS = [
  "plain",
  "\u202Ertl",
  "e\u0301",
  "- [ ] T-001 fake",
  "a\u2028b",
  "## Heading",
  "---",
  "<<<<<<< x",
];

export async function storm(options: StormOptions): Promise<StormReport> {
  const root = mkdtempSync(join(quickFolder(), "holdfast-storm-"));
  const clones: Clone[] = [];
  try {
    return await rage(root, clones, options);
  } finally {
    for (const clone of clones) await clone.close();
    rmSync(root, { recursive: true, force: true });
  }
}

async function rage(root: string, clones: Clone[], options: StormOptions): Promise<StormReport> {
  const { seed, operations, skewMs } = options;
  const random = randomNumbers(seed);
  const steps = stepsOf(options);
  const report = { merges: 0, applied: 0, records: 0, renumbered: 0, broken: [] as string[] };
  let at = Date.UTC(2026, 0, 2);
  const clockWith = (skew: number) => (): number => {
    at += 7;
    return at + skew;
  };
  const skews = Array.from({ length: options.clones }, () =>
    skewMs === 0 ? 0 : random(2 * skewMs) - skewMs,
  );
  for (const [index, skew] of skews.sort((one, other) => one - other).entries()) {
    const clone = new Clone(join(root, `c${index}`));
    const [first] = clones;
    mkdirSync(clone.root);
    if (first) first.git("clone", "-q", first.root, clone.root);
    else clone.git("init", "-q", "-b", "main");
    await clone.work(clockWith(skew), !first);
    if (!first) await clone.commit();
    clones.push(clone);
  }
  const made = new Set<string>();
  const merge = async (into: Clone, from: Clone): Promise<void> => {
    const conflict = await into.merge(from);
    report.merges += 1;
    if (conflict !== null) report.broken.push(`merge ${report.merges}: ${conflict}`);
  };
  for (let step = 0; step < operations * clones.length; step++) {
    const clone = pick(clones, random);
    const next = steps[clones.indexOf(clone)]?.pop();
    if (!next) continue;
    if (random(12) === 0) await clone.edit(next.text);
    if ((await take(clone.goal, next)) === "ok") report.applied += 1;
    for (const uid of clone.made()) made.add(uid);
    if (random(4) === 0) await clone.commit();
    if (random(6) === 0) await merge(clone, pick(clones, random));
  }
  // The time of every event has come.
  at += 2 * skewMs;
  // Twice in any order is enough to bring everything everywhere, and the numbers that the first round gave.
  for (let round = 0; round < 2; round++)
    for (const [into, from] of shuffled(allPairs(clones), random)) await merge(into, from);
  for (const [into, from] of allPairs(clones)) await merge(into, from);
  const fresh = new Clone(join(root, "fresh"));
  clones[0]?.git("clone", "-q", clones[0].root, fresh.root);
  await fresh.work(clockWith(0), false);
  await compare([...clones, fresh], made, report.broken);
  clones.push(fresh);
  report.records = made.size;
  report.renumbered = fresh.goal.state.aliases.size;
  return report;
}

function stepsOf({ clones, operations, seed }: StormOptions): Step[][] {
  let count = 0;
  const text = fc.constantFrom(...WORDS).map((word) => `${word} ${count++}`);
  return fc.sample(anySteps(text, operations, operations), { seed, numRuns: clones });
}

async function compare(clones: readonly Clone[], made: ReadonlySet<string>, broken: string[]): Promise<void> {
  const [first] = clones;
  for (const [index, clone] of clones.entries()) {
    const known = new Set(clone.made());
    const lost = [...made].filter((uid) => !known.has(uid));
    if (lost.length > 0) broken.push(`clone ${index} lost ${lost.length} records`);
    if (clone.agreed() !== first?.agreed()) broken.push(`clone ${index} has another state`);
    const files = clone.files();
    const theirs = first?.files() ?? {};
    const names = new Set([...Object.keys(files), ...Object.keys(theirs)]);
    for (const name of names)
      if (files[name] !== theirs[name]) broken.push(`clone ${index}: ${name} differs`);
    for (const name of names) if (name.includes(".unread-")) broken.push(`clone ${index}: ${name}`);
    const { decisions, blockers, history } = clone.goal.state;
    const records = Object.keys(files).filter((name) => name.includes("/")).length;
    if (records !== decisions.size + blockers.size + history.size)
      broken.push(`clone ${index} has ${records} record files`);
    broken.push(...(await describeStrays(clone.folder.path, clone.goal.state)));
    if (clone.git("status", "--porcelain") !== "") broken.push(`clone ${index} is not clean`);
  }
}

const pick = <Value>(values: readonly Value[], random: (below: number) => number): Value =>
  values[random(values.length)] as Value;

function allPairs(clones: readonly Clone[]): [Clone, Clone][] {
  return clones.flatMap((into) =>
    clones.filter((from) => from !== into).map((from): [Clone, Clone] => [into, from]),
  );
}

function shuffled<Value>(values: readonly Value[], random: (below: number) => number): Value[] {
  const left = [...values];
  return values.map(() => left.splice(random(left.length), 1)[0] as Value);
}
