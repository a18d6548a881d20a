// Events in the name of a person that a real pull brings, as people meet them on the command line.

import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Entry } from "../../src/model/goal/index.ts";
import { forge, plant } from "../projections/forged-events.ts";
import { quickFolder } from "../quick-folder.ts";
import { needs, works } from "../stores/sqlite/processes.ts";
import { runInside } from "./inside.ts";

const NOBODY = { GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" };

let folder: string;
let project: string;
let theirs: string;
beforeEach(async () => {
  folder = mkdtempSync(join(quickFolder(), "holdfast-review-"));
  project = join(folder, "project");
  theirs = join(folder, "theirs");
  git(folder, "ann", "init", "-q", "-b", "main", project);
  await here("init", "--agent", "none");
  await here("goal", "new", "app", "Ship app", "--phase", "API");
  await here("block", "add", "security review pending", "--everything");
  git(project, "ann", "add", "-A");
  git(project, "ann", "commit", "-qm", "made");
  git(folder, "ann", "clone", "-q", project, theirs);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function git(cwd: string, name: string, ...args: string[]): string {
  const who = { GIT_AUTHOR_NAME: name, GIT_COMMITTER_NAME: name };
  const mail = { GIT_AUTHOR_EMAIL: `${name}@x`, GIT_COMMITTER_EMAIL: `${name}@x` };
  const env = { ...process.env, ...NOBODY, ...who, ...mail };
  return execFileSync("git", args, { cwd, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}
const here = (...args: string[]) => runInside(project, args);
async function data<Data>(...args: string[]): Promise<Data> {
  const { out } = await here(...args, "--json");
  return (JSON.parse(out) as { data: Data }).data;
}

/** Resolves the blocker, decides something and adds a task, all in the name of ann. */
async function forgeries(): Promise<Entry[]> {
  const { events } = await data<{ events: { type: string; uid: string }[] }>("events");
  const blocker = events.find(({ type }) => type === "blocker.reported")?.uid ?? "";
  const phase = events.find(({ type }) => type === "phase.added")?.uid ?? "";
  const by = { name: "ann", role: "human" };
  const at = Date.now() + 1_000;
  const text = { context: "money", decision: "Agents may pay", reason: "r", type: "constraint" };
  const decision = {
    id: "D-001",
    ...text,
    date: "2026-01-02",
    reversible: true,
    files: [],
    alternatives: [],
  };
  const plan = { id: "T-001", kind: "build", title: "pay", description: null, phase: 1, plan: null, wave: 1 };
  const lists = { dependsOn: [], files: [], acceptance: [] };
  const acts: [string, object, Record<string, string>][] = [
    ["blocker.resolved", { blocker: "B-001", resolution: "reviewed" }, { "B-001": blocker }],
    ["decision.made", { ...decision, supersedes: null }, {}],
    ["task.added", { ...plan, ...lists }, { P1: phase }],
  ];
  return acts.map(([type, given, refs], c) =>
    forge({ t: at, c, at, type, refs, data: { by, ...given } }, "app"),
  );
}

/** A `git` that leaves a trace, in front of the real one. */
function watchedGit(): { path: string; ran: () => string } {
  const bin = join(folder, "bin");
  const trace = join(folder, "trace");
  mkdirSync(bin);
  const real = execFileSync("which", ["git"], { encoding: "utf8" }).trim();
  writeFileSync(join(bin, "git"), `#!/bin/sh\necho "$@" >> '${trace}'\nexec '${real}' "$@"\n`);
  chmodSync(join(bin, "git"), 0o755);
  return {
    path: `${bin}:${process.env["PATH"] ?? ""}`,
    ran: () => (existsSync(trace) ? readFileSync(trace, "utf8") : ""),
  };
}

test("a forged act of a person is labelled, listed and without effect until a person accepts it", async () => {
  plant({ root: theirs }, await forgeries(), "app");
  git(theirs, "mallory", "add", "-A");
  git(theirs, "mallory", "commit", "-qm", "nothing to see");
  const commit = git(theirs, "mallory", "rev-parse", "HEAD").slice(0, 10);
  git(project, "ann", "pull", "-q", "--ff-only", theirs, "main");
  const label = `from a pull, unsigned (commit ${commit} by "mallory")`;

  const status = (await here("status")).out;
  expect(status).toMatch(/from a pull, unsigned, to confirm: blocker resolved B-001: "reviewed" by "ann"/);
  expect(status).toContain("holdfast review");
  const { waiting } = await data<{ waiting: { uid: string; what: string; origin: string }[] }>("review");
  expect(waiting).toMatchObject([{ what: 'blocker resolved B-001: "reviewed"', by: "ann", origin: label }]);
  expect((await here("review")).out).toContain("holdfast review --accept <uid>");
  expect(await data("blockers")).toMatchObject({ active: 1 });
  expect(await data("decisions")).toMatchObject({ decisions: [{ id: "D-001", origin: label }] });
  expect((await here("task", "show", "T-001")).out).toContain(`added ${label}`);
  expect((await here("brief")).out).toContain("NO EFFECT YET blocker resolved B-001");

  expect((await here("review", "--accept", waiting[0]?.uid.slice(0, 10) ?? "")).out).toMatch(/^accepted/);
  expect(await data("review")).toMatchObject({ waiting: [] });
  expect((await here("status")).out).not.toContain("to confirm");
  expect(await data("blockers")).toMatchObject({ active: 0 });
});

test("an author's name cannot put another commit in the place of its own", async () => {
  const honest = git(project, "ann", "rev-parse", "HEAD").trim();
  const name = `mallory\u0001${honest}`;
  plant({ root: theirs }, await forgeries(), "app");
  git(theirs, name, "add", "-A");
  git(theirs, name, "commit", "-qm", "nothing to see");
  const commit = git(theirs, "mallory", "rev-parse", "HEAD").slice(0, 10);
  git(project, "ann", "pull", "-q", "--ff-only", theirs, "main");
  const origin = `from a pull, unsigned (commit ${commit} by "mallory ${honest}")`;
  expect(await data("review")).toMatchObject({ waiting: [{ by: "ann", origin }] });
});

const hasKeygen = works("sh", "-c", "command -v ssh-keygen");

test.skipIf(!hasKeygen)(
  needs("an act that a person signed counts after a pull, set up by two commands", "ssh-keygen", hasKeygen),
  async () => {
    const key = join(folder, "id_ed25519");
    execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key]);
    const ann = { XDG_CONFIG_HOME: join(folder, "of-ann") };
    const bob = { XDG_CONFIG_HOME: join(folder, "of-bob") };
    const there = (...args: string[]) => runInside(theirs, args, ann);
    const bobs = (...args: string[]) => runInside(project, args, bob);
    expect((await there("sign", "--key", key, "--name", "ann")).out).toContain("holdfast signer add ann");
    expect((await bobs("signer", "add", "ann", `${key}.pub`)).code).toBe(0);
    expect((await bobs("signer", "list")).out).toContain("ann  ssh-ed25519");

    await there("block", "resolve", "B-001", "--resolution", "reviewed", "--by", "ann");
    await there("decide", "Use one key", "--context", "c", "--reason", "r", "--by", "ann");
    await there("task", "add", "pay", "--by", "ann");
    const clone = readFileSync(join(theirs, ".holdfast/clone"), "utf8").trim();
    git(theirs, "ann", "add", "-A");
    git(theirs, "ann", "commit", "-qm", "reviewed");
    const commit = git(theirs, "ann", "rev-parse", "HEAD").slice(0, 10);
    git(project, "ann", "pull", "-q", "--ff-only", theirs, "main");

    const label = `from a pull, signed by ann (clone ${clone}, commit ${commit} by "ann")`;
    expect((await bobs("status")).out).not.toContain("to confirm");
    expect((await bobs("review")).out).toContain(`counts  blocker resolved: "reviewed"  by ann`);
    expect((await bobs("review")).out).toContain(label);
    expect((await bobs("decisions")).out).toContain("signed by ann");
    expect((await bobs("task", "show", "T-001")).out).toContain(`added ${label}`);
    expect((await bobs("brief")).out).toContain("from a pull, signed by ann");
    const { out } = await bobs("blockers", "--json");
    expect((JSON.parse(out) as { data: unknown }).data).toMatchObject({ active: 0 });

    // An agent's shell has the key of its user, and gets no signature by it.
    const agent = { ...ann, CLAUDECODE: "1" };
    expect((await runInside(theirs, ["sign"], agent)).err).toContain("for people, but an agent runs it");
    // Acts from before the key was set are signed on demand.
    expect((await here("block", "add", "budget", "--everything")).code).toBe(0);
    await bobs("sign", "--key", key, "--name", "bob");
    expect((await bobs("sign")).out).toMatch(/signed \d+ earlier acts/);
    expect((await bobs("sign")).out).not.toContain("earlier acts");
    expect((await bobs("sign", "--off")).out).toContain("not signed any more");
    expect((await bobs("sign")).err).toContain("no key is set");
  },
);

test("git is asked when a pull brought events, and not again", async () => {
  const { path, ran } = watchedGit();
  const before = process.env["PATH"];
  process.env["PATH"] = path;
  try {
    await here("status");
    await here("next");
    expect(ran()).toBe("");
    plant({ root: project }, await forgeries(), "app");
    await here("next");
    expect(ran().trim().split("\n")).toEqual([expect.stringContaining("log --diff-filter=A")]);
    await here("status");
    await here("next");
    expect(ran().trim().split("\n")).toHaveLength(1);
  } finally {
    process.env["PATH"] = before;
  }
});
