// Each spooled line reaches the goal once, whatever else lies in the spool and whenever ingestion is killed.

import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { type CommandLine, environment } from "../cli/command-line.ts";
import { commandOfOther, hasOtherUser, OTHER_USER } from "../other-user.ts";
import { type HookedProject, inHookedProjects, start } from "./hooked-project.ts";

let line: CommandLine;
let project: HookedProject;
inHookedProjects((made, by) => {
  [project, line] = [made, by];
});

const at = Date.now();
const HOUR = 3_600_000;
const touched = (path: string) => ({ at, type: "touched", files: [{ path, stamp: "1-1" }] });

test("an unreadable spool blocks neither the other spools nor the briefing", async () => {
  mkdirSync(join(project.folder, "claude-a.jsonl"));
  const odd = [
    "null",
    "7",
    "[]",
    '"text"',
    "{}",
    '{"at":1}',
    '{"at":1,"type":"touched"}',
    '{"at":1,"type":7}',
  ];
  project.spool("claude-b", ...odd, { at, type: "touched", files: [null, { path: 7 }] }, start());
  project.spool("claude-b", { at, type: "failed" }, { at, type: "start", process: {} }, touched("b.ts"));
  project.spool("claude-c", start(), touched("c.ts"));
  const { out } = await project.hook("codex", "session-start", { session_id: "next" });
  expect(
    JSON.parse(out).hookSpecificOutput.additionalContext.match(/^LAST claude-[bc] active/gm),
  ).toHaveLength(2);
  const { code, err } = await project.ingest();
  expect(code).toBe(0);
  expect(err).toMatch(/^holdfast hook ingest: claude-a: EISDIR/);
  const { history, files } = await project.state();
  expect([...history.values()].map(({ id, status }) => [id, status]).sort()).toEqual([
    ["claude-b", "active"],
    ["claude-c", "active"],
    ["codex-next", "active"],
  ]);
  expect([...files.keys()].sort()).toEqual(["b.ts", "c.ts"]);
});

test("a file that somebody changed after the agent is not taken for the agent's", async () => {
  const write = (name: string, text: string) => writeFileSync(join(project.root, name), text);
  const drifted = () =>
    project.inGoal(async (goal) => {
      const { files } = await goal.checkFiles();
      return files.filter(({ verdict }) => verdict !== "OK").map(({ path }) => path);
    });
  const edit = (file_path: string) =>
    project.hook("claude", "touched", { session_id: "a", tool_name: "Edit", tool_input: { file_path } });
  for (const name of ["kept.ts", "changed.ts", "twice.ts"]) {
    write(name, "by the agent");
    await edit(name);
  }
  write("changed.ts", "by a person");
  write("twice.ts", "by a person, then by the agent");
  await edit("twice.ts");
  await project.ingest();
  expect(await drifted()).toEqual(["changed.ts"]);
  expect((await project.state()).files.get("changed.ts")?.session).toBe("claude-a");

  await edit("kept.ts");
  write("kept.ts", "by a person");
  await project.ingest();
  expect((await drifted()).sort(), "and once it is recorded").toEqual(["changed.ts", "kept.ts"]);
});

test.skipIf(!hasOtherUser)("ingestion works for an agent that already runs at a low priority", async () => {
  project.spool("claude-a", start());
  const { uid, gid } = OTHER_USER;
  if (uid !== undefined && gid !== undefined) {
    // Root has rights that other users lack.
    const all = [project.root, ...readdirSync(project.root, { recursive: true, encoding: "utf8" })];
    for (const each of all) chownSync(join(project.root, each.replace(project.root, "")), uid, gid);
    chmodSync(project.root, 0o755);
  }
  const ran = spawnSync("nice", ["-n", "15", ...commandOfOther(line.cli), "hook", "ingest"], {
    cwd: project.root,
    env: environment({ HOME: project.root }),
    encoding: "utf8",
    ...OTHER_USER,
  });
  expect(ran).toMatchObject({ status: 0, stderr: "" });
  expect((await project.state()).history.get("claude-a")?.status).toBe("active");
});

describe("ingestion killed between the goal's commit and the mark writes each line once", () => {
  /** Ends the process as SIGKILL does, before or after the n-th call of a function on a file of that name. */
  const KILL = `
    const fs = require("node:fs"), { FN, NAME, NTH, AFTER } = process.env;
    let count = 0;
    const real = fs[FN];
    fs[FN] = function (...args) {
      const isIt = args.some((each) => String(each).endsWith(NAME)) && ++count === Number(NTH);
      if (isIt && !AFTER) process.kill(process.pid, "SIGKILL");
      const result = real.apply(this, args);
      if (isIt) process.kill(process.pid, "SIGKILL");
      return result;
    };
    require("node:module").syncBuiltinESMExports();`;

  const KILLS: Readonly<Record<string, Record<string, string>>> = {
    "before it is noted": { FN: "renameSync", NAME: ".ingested", NTH: "1" },
    "before the first act": { FN: "writeFileSync", NAME: ".ingesting", NTH: "1", AFTER: "1" },
    "after the first act": { FN: "writeFileSync", NAME: ".ingesting", NTH: "2" },
  };

  test.each(Object.entries(KILLS))("%s", async (_, env) => {
    project.spool("claude-a", start(), touched("a.ts"), { at, type: "checkpoint", contextUsage: 0.5 });
    project.spool(
      "claude-a",
      { at, type: "failed", reason: "rate_limit" },
      { at, type: "end", reason: null },
    );
    project.spool("claude-a", start({ source: "resume" }), touched("b.ts"));
    const kill = join(project.root, "kill.cjs");
    writeFileSync(kill, KILL);
    const NODE_OPTIONS = `--require ${kill}`;
    await project.ingest({ env: { ...env, NODE_OPTIONS } });
    expect(existsSync(join(project.folder, "claude-a.ingested")), "the fault fired").toBe(false);
    // Files of processes killed long ago, when each process used its own file name.
    const before = join(project.folder, "claude-a.ingested.1.tmp");
    writeFileSync(before, "1");
    utimesSync(before, 1, 1);
    expect(await project.ingest()).toEqual({ code: 0, out: "", err: "" });
    const { history, files } = await project.state();
    expect(history.get("claude-a")).toMatchObject({
      status: "active",
      restarts: 1,
      issues: ["the agent stopped: rate_limit"],
      notes: ["its context was compacted"],
    });
    expect([...files.keys()].sort()).toEqual(["a.ts", "b.ts"]);
    expect(project.spoolFiles().sort()).toEqual(["claude-a.ingested", "claude-a.jsonl"]);
  });
});

test("a mark of an earlier spool of the same name is ignored", async () => {
  project.mark("claude-a", "99999");
  project.spool("claude-a", start());
  project.mark("claude-b", "20");
  await project.hook("claude", "touched", { session_id: "b" });
  expect(project.spoolFiles(), "the writer of the new file removes it").not.toContain("claude-b.ingested");
  await project.ingest();
  expect((await project.state()).history.get("claude-a")?.status).toBe("active");
});

describe.runIf(process.platform === "linux")(
  "a session whose process cannot be seen counts as crashed only after an hour without a line",
  () => {
    test.each([
      ["in another container", { pidNamespace: "pid:[1]" }],
      ["in another time namespace", { timeNamespace: "time:[1]", started: "1" }],
      ["on another machine", { host: "next-door", boot: "another" }],
    ])("%s", async (_, place) => {
      const { process: above } = start() as { process: object };
      const elsewhere = { ...above, ...place };
      project.spool("claude-silent", start({ at: at - 2 * HOUR, process: elsewhere }));
      project.spool("claude-alive", start({ at: at - 2 * HOUR, process: elsewhere }), { at, type: "stop" });
      project.spool("claude-here", start({ at: at - 2 * HOUR }));
      project.spool("claude-before", start({ at, process: { ...above, boot: "the one before" } }));
      await project.ingest();
      const { history } = await project.state();
      const status = (name: string) => history.get(name)?.status;
      expect([status("claude-silent"), status("claude-alive")]).toEqual(["crashed", "active"]);
      expect([status("claude-here"), status("claude-before")]).toEqual(["active", "crashed"]);
    });
  },
);

describe("a line belongs to the goal of its session's start", () => {
  let worktree: string;
  beforeEach(async () => {
    await project.inGoal(() => undefined, "search");
    const git = join(project.root, ".git/worktrees/other");
    mkdirSync(git, { recursive: true });
    writeFileSync(join(git, "commondir"), "../..\n");
    worktree = join(project.root, "other");
    mkdirSync(worktree);
    writeFileSync(join(worktree, ".git"), `gitdir: ${git}\n`);
    writeFileSync(join(git, "gitdir"), `${join(worktree, ".git")}\n`);
    const chosen = { [project.root]: "checkout", [worktree]: "search" };
    writeFileSync(join(project.root, ".holdfast/current-goals.json"), JSON.stringify(chosen));
  });

  test("in each worktree, wherever ingestion runs", async () => {
    writeFileSync(join(worktree, "found.ts"), "found");
    writeFileSync(join(project.root, "paid.ts"), "paid");
    const edit = (file_path: string) => ({ tool_name: "Edit", tool_input: { file_path } });
    // Spools lines without starting an ingestion.
    project.spool("claude-here", start({ root: project.root, goal: "checkout" }));
    project.spool("claude-there", start({ root: worktree, goal: "search" }));
    await project.hook("claude", "touched", { session_id: "here", ...edit("paid.ts") });
    await project.hook("claude", "touched", { session_id: "there", ...edit("found.ts") }, { cwd: worktree });
    await project.hook("claude", "touched", { session_id: "late", ...edit("found.ts") }, { cwd: worktree });
    // An agent that reads another worktree still works on its own goal.
    await project.hook("claude", "touched", { session_id: "here", ...edit("found.ts") }, { cwd: worktree });
    // The environment overrides the goal that is chosen in its folder.
    const env = { HOLDFAST_GOAL: "search" };
    const next = await project.hook("codex", "session-start", { session_id: "next" }, { env });
    const context = JSON.parse(next.out).hookSpecificOutput.additionalContext as string;
    expect(context).toContain('goal="search"');
    expect([...context.matchAll(/^LAST (\S+) active/gm)].map(([, who]) => who).sort()).toEqual([
      "claude-late",
      "claude-there",
    ]);
    expect(await project.ingest()).toEqual({ code: 0, out: "", err: "" });
    const [checkout, search] = [await project.state("checkout"), await project.state("search")];
    expect([...checkout.history.keys()]).toEqual(["claude-here"]);
    expect([...checkout.files.keys()]).toEqual(["paid.ts"]);
    expect([...search.history.keys()].sort()).toEqual(["claude-late", "claude-there", "codex-next"]);
    expect([...search.files.keys()]).toEqual(["found.ts"]);
  });

  test("a conversation that continues in another worktree releases its task in the first", async () => {
    project.spool("claude-a", start({ root: project.root, goal: "checkout" }));
    project.spool("claude-a", start({ root: worktree, goal: "search" }));
    await project.ingest();
    expect((await project.state("checkout")).history.get("claude-a")?.status).toBe("crashed");
    expect((await project.state("search")).history.get("claude-a")).toMatchObject({
      status: "active",
      restarts: 0,
    });
  });

  test("without a chosen goal the lines wait, and the command says so", async () => {
    writeFileSync(join(project.root, ".holdfast/current-goals.json"), "{}");
    project.spool("claude-a", start({ root: project.root, goal: null }));
    project.spool("claude-b", start({ root: project.root, goal: "search" }));
    const { code, err } = await project.ingest();
    expect(code).toBe(0);
    expect(err).toMatch(
      /^holdfast hook ingest: session claude-a: .*several goals are open.*holdfast goal use.*\n$/,
    );
    expect(project.log(), "no goal is not an error").toBe("");
    expect((await project.state("search")).history.has("claude-b")).toBe(true);
    expect(project.spoolFiles()).not.toContain("claude-a.ingested");
  });
});

test("`hook ingest` without a store says so", async () => {
  const empty = line.newProject();
  const { code, err } = await line.run(["hook", "ingest"], { cwd: empty });
  expect(code).toBe(0);
  expect(err).toContain(`no store at ${join(empty, ".holdfast")}`);
});
