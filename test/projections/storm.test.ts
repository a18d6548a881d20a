// Clones that work on one goal and merge each other in random order. The full storm: npm run storm.

import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { sha256 } from "../../src/model/digest.ts";
import { describeStrays, projectGoal } from "../../src/projections/index.ts";
import { quickFolder } from "../quick-folder.ts";
import { Copy, WallClock } from "./copies.ts";
import { Clone, storm } from "./storm.ts";

const SMALL = { clones: 3, operations: 12, seed: 42, skewMs: 10 * 3_600_000 };

test("a storm of three clones: no conflict, no lost record, equal files", async () => {
  const report = await storm(SMALL);
  expect(report.broken).toEqual([]);
  expect(report.renumbered).toBeGreaterThan(0);
  expect(report.merges).toBeGreaterThan(12);
}, 120_000);

const about = (text: string) =>
  ({ type: "constraint", context: `what ${text} is about`, decision: text, reason: text }) as const;

test("a decision that two clones number differently keeps its file, and git merges it", async () => {
  const root = mkdtempSync(join(quickFolder(), "holdfast-names-"));
  const clones = ["a", "b", "c"].map((name) => new Clone(join(root, name)));
  const [a, b, c] = clones as [Clone, Clone, Clone];
  const clock = new WallClock();
  try {
    mkdirSync(a.root);
    a.git("init", "-q", "-b", "main");
    await a.work(clock.now, true);
    await a.commit();
    for (const other of [b, c]) {
      mkdirSync(other.root);
      a.git("clone", "-q", a.root, other.root);
      await other.work(clock.now, false);
    }
    await a.goal.decide(about("one"));
    await c.goal.decide(about("two"));
    await c.goal.decide(about("three"));
    await b.goal.decide(about("zed"));
    await b.commit();
    const [before] = readdirSync(join(b.root, ".planning/decisions"));
    for (const each of [a, c]) expect(await each.merge(b)).toBeNull();
    const numberOf = ({ goal }: Clone) =>
      [...goal.state.decisions.values()].find(({ decision }) => decision === "zed")?.id;
    expect(numberOf(a)).not.toBe(numberOf(c));
    expect(await a.merge(c)).toBeNull();
    const names = readdirSync(join(a.root, ".planning/decisions"));
    expect(names).toHaveLength(4);
    expect(names).toContain(before);
  } finally {
    for (const clone of clones) await clone.close();
    rmSync(root, { recursive: true, force: true });
  }
}, 60_000);

test("a page that git mixed with a rendering of the future is no edit: it is not kept", async () => {
  const root = mkdtempSync(join(quickFolder(), "holdfast-ahead-"));
  const [a, b] = ["a", "b"].map((name) => new Clone(join(root, name))) as [Clone, Clone];
  const DAYS_AHEAD = 3 * 86_400_000;
  try {
    mkdirSync(a.root);
    a.git("init", "-q", "-b", "main");
    await a.work(new WallClock(Date.UTC(2026, 0, 2)).now, true);
    await a.commit();
    a.git("clone", "-q", a.root, b.root);
    await b.work(new WallClock(Date.UTC(2026, 0, 2) + DAYS_AHEAD).now, false);
    await b.goal.decide(about("their future"));
    await a.goal.decide(about("our present"));
    expect(await a.merge(b)).toBeNull();
    // Their decision waits for its time, so that no rendering of this clone has had its line.
    expect([...a.goal.state.decisions.values()].map(({ decision }) => decision)).toEqual(["our present"]);
    expect(a.git("show", "HEAD^:.planning/STATE.md")).toContain("their future");
    expect(Object.keys(a.files()).filter((name) => name.includes(".unread-"))).toEqual([]);
  } finally {
    for (const clone of [a, b]) await clone.close();
    rmSync(root, { recursive: true, force: true });
  }
}, 60_000);

const DIGEST = /^digest: .*\n/m;
const resealed = (text: string) =>
  text.replace(DIGEST, `digest: sha256:${sha256(text.replace(DIGEST, ""))}\n`);

/** A merge commit whose sides have two renderings of each file, and whose own texts are `mixed`. */
async function mergeOfTwo(clone: Clone, mixed: (ours: string, theirs: string) => string): Promise<string[]> {
  const folder = join(clone.root, ".planning/decisions");
  const [record = ""] = readdirSync(folder);
  const paths = [record, "what-is-gone-0123abcd.md"].map((name) => join(folder, name));
  const ours = readFileSync(join(folder, record), "utf8");
  const theirs = resealed(ours.replaceAll("D-001", "D-002"));
  const put = (text: string) => {
    for (const path of paths) writeFileSync(path, text);
  };
  const save = () => {
    clone.git("add", "-A");
    clone.git("commit", "-q", "--allow-empty", "-m", "work");
  };
  put(ours);
  save();
  clone.git("checkout", "-q", "-b", "theirs");
  put(theirs);
  save();
  clone.git("checkout", "-q", "main");
  clone.git("commit", "-q", "--allow-empty", "-m", "work");
  clone.git("merge", "-q", "--no-ff", "--no-commit", "theirs");
  put(mixed(ours, theirs));
  save();
  const shared = { auto: false, human: "ann", onEdit: () => undefined } as const;
  await (await projectGoal(clone.goal, shared)).close();
  return readdirSync(folder).sort();
}

test("a page that git mixed from two renderings is no edit: it is not kept", async () => {
  const root = mkdtempSync(join(quickFolder(), "holdfast-mixed-"));
  const clone = new Clone(join(root, "a"));
  try {
    mkdirSync(clone.root);
    clone.git("init", "-q", "-b", "main");
    await clone.work(new WallClock().now, true);
    await clone.goal.decide(about("one"));
    await clone.commit();
    const mixed = (ours: string, theirs: string) => {
      const heading = /^# D-.*$/m.exec(ours)?.[0] ?? "";
      return theirs.replace(/^# D-/m, `${heading}\n# D-`);
    };
    expect(await mergeOfTwo(clone, mixed)).toHaveLength(1);
    clone.git("branch", "-q", "-D", "theirs");
    await clone.commit();
    const edited = (ours: string, theirs: string) => `${mixed(ours, theirs)}\nA line of Ann.\n`;
    const kept = await mergeOfTwo(clone, edited);
    expect(kept.filter((name) => name.includes(".unread-"))).toHaveLength(2);
  } finally {
    await clone.close();
    rmSync(root, { recursive: true, force: true });
  }
}, 60_000);

const copies: Copy[] = [];
afterEach(async () => {
  for (const copy of copies.splice(0)) await copy.dispose();
});

test("a folder that git removed with its last file is made again by a program that goes on", async () => {
  const copy = await Copy.make(new WallClock());
  copies.push(copy);
  const planning = join(copy.root, ".planning");
  for (const folder of ["decisions", "events"]) rmSync(join(planning, folder), { recursive: true });
  await copy.goal.decide(about("one"));
  await copy.folder.sync();
  expect(readdirSync(join(planning, "decisions"))).toHaveLength(1);
  const fresh = await Copy.make(new WallClock(), copy);
  copies.push(fresh);
  expect(fresh.goal.state.decisions.size).toBe(1);
});

test("a record whose events wait for their time stays, so that git merges what its clone does with it", async () => {
  const copy = await Copy.make(new WallClock());
  await copy.folder.sync();
  const ahead = await Copy.make(new WallClock(Date.UTC(2026, 0, 5)), copy);
  copies.push(copy, ahead);
  await ahead.goal.decide(about("later"));
  await ahead.folder.sync();
  for (const folder of ["events", "decisions"])
    cpSync(join(ahead.root, ".planning", folder), join(copy.root, ".planning", folder), { recursive: true });
  // By its revision, the record could be one that this copy had before.
  for (let index = 0; index < 10; index++) await copy.goal.addTask({ title: `task ${index}` });
  const again = await projectGoal(copy.goal, { auto: false });
  await again.close();
  expect(copy.goal.state.decisions.size).toBe(0);
  const records = readdirSync(join(copy.root, ".planning/decisions"));
  expect(records).toEqual(readdirSync(join(ahead.root, ".planning/decisions")));
  expect(records).toHaveLength(1);
});

test("sealed files that are no record are removed or set aside, and `check` names the rest", async () => {
  const copy = await Copy.make(new WallClock());
  copies.push(copy);
  await copy.goal.decide(about("one"));
  await copy.folder.sync();
  const files = copy.files();
  const [name = ""] = Object.keys(files).filter((each) => each.startsWith("decisions/"));
  const text = files[name] ?? "";
  const put = (file: string, content: string) =>
    writeFileSync(join(copy.root, ".planning/decisions", file), content);
  put("D-001-old-name.md", text);
  put("D-002-garbled.md", text.replace(/^(digest: .*)$/m, `$1\ndigest: sha256:${"0".repeat(64)}`));
  put("notes.md", "# my own notes");
  const strays = await describeStrays(join(copy.root, ".planning"), copy.goal.state);
  expect(strays.map((each) => each.split(":")[0])).toEqual([
    "decisions/D-001-old-name.md",
    "decisions/D-002-garbled.md",
  ]);
  const again = await projectGoal(copy.goal, { auto: false });
  await again.close();
  const left = readdirSync(join(copy.root, ".planning/decisions")).sort();
  expect(left).toEqual([
    expect.stringMatching(/^D-002-garbled\.md\.unread-[0-9a-f]{12}$/),
    "notes.md",
    name.slice("decisions/".length),
  ]);
  expect(await describeStrays(join(copy.root, ".planning"), copy.goal.state)).toEqual([]);
});
