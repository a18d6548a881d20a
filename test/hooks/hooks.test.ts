// Hooks as agents run them: real processes, real stores, real kills. A hook never stops its agent.

import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { type Goal, open } from "../../src/index.ts";
import { withFileLock } from "../../src/state-files/index.ts";
import { Connection } from "../../src/stores/sqlite/index.ts";
import { CommandLine, environment, type RunOptions } from "../cli/command-line.ts";
import { runInside } from "../cli/inside.ts";
import { start as beginning } from "./hooked-project.ts";

let line: CommandLine;
let project: string;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

beforeEach(() => {
  project = line.newProject();
});

/** Hooks only spool. This process waits for the lock, so all lines are in the goal when it has ended. */
async function ingest(): Promise<void> {
  expect(await line.run(["hook", "ingest"], { cwd: project })).toEqual({ code: 0, out: "", err: "" });
}

async function inGoal<Result>(act: (goal: Goal) => Promise<Result> | Result): Promise<Result> {
  if (existsSync(join(project, ".holdfast/hooks"))) await ingest();
  return asItIs(act);
}

async function asItIs<Result>(act: (goal: Goal) => Promise<Result> | Result): Promise<Result> {
  const holdfast = await open(join(project, ".holdfast/store.db"));
  try {
    const goal = await holdfast.goal("checkout", { statement: "Ship the checkout", root: project });
    return await act(goal);
  } finally {
    await holdfast.close();
  }
}

function hook(agent: string, event: string, input: object | string = {}, options: RunOptions = {}) {
  const text = typeof input === "string" ? input : JSON.stringify({ cwd: project, ...input });
  return line.run(["hook", agent, event], { cwd: project, input: text, ...options });
}

const spoolLines = (session: string): { type: string; files?: object[] }[] =>
  readFileSync(join(project, ".holdfast/hooks", `${session}.jsonl`), "utf8")
    .split("\n")
    .filter(Boolean)
    .map((each) => JSON.parse(each));

/** Moves the time of briefings back, because a second start within 10 s counts as the same start. */
function briefedAt(ms: number): void {
  const folder = join(project, ".holdfast/hooks");
  for (const name of readdirSync(folder).filter((each) => each.endsWith(".briefed"))) {
    utimesSync(join(folder, name), ms / 1_000, ms / 1_000);
  }
}

// Starts a dozen processes in sequence, each of which takes seconds on a busy machine.
const LONG = { timeout: 300_000 };

test("a session gets a briefing, records touched files and ends in the goal's history", LONG, async () => {
  await inGoal((goal) => goal.addTask({ title: "users table" }));
  const id = { session_id: "7f2a91bc-0001" };
  const begun = await hook("claude", "session-start", { ...id, source: "startup" });
  expect(begun).toMatchObject({ code: 0, err: "" });
  const said = JSON.parse(begun.out);
  expect(Object.keys(said)).toEqual(["hookSpecificOutput"]);
  expect(said.hookSpecificOutput).toMatchObject({ hookEventName: "SessionStart" });
  expect(said.hookSpecificOutput.additionalContext).toMatch(
    /^You are session claude-7f2a91bc0001 of the goal below/,
  );
  expect(said.hookSpecificOutput.additionalContext).toContain("NEXT T-001");

  briefedAt(Date.now() + 9_000);
  expect((await hook("claude", "session-start", { ...id, source: "startup" })).out, "once per start").toBe(
    "",
  );
  briefedAt(0);
  const again = await hook("claude", "session-start", { ...id, source: "compact" });
  expect(again.out, "and again after a compaction").toContain("NEXT T-001");

  await ingest();
  writeFileSync(join(project, "users.sql"), "create table users ()");
  const others = [join(project, "gone.sql"), "/etc/hostname", ".git/config", "../outside"];
  const patch = ["*** Begin Patch", ...others.map((each) => `*** Update File: ${each}`)].join("\n");
  // The processes that the starts above have spawned may run late; under this lock they ingest nothing.
  await withFileLock(join(project, ".holdfast/hooks/ingest"), async () => {
    for (const tool_input of [{ file_path: "users.sql" }, { patch }]) {
      const ran = await hook("claude", "touched", { ...id, tool_name: "Write", tool_input });
      expect(ran).toEqual({ code: 0, out: "", err: "" });
    }
    const touched = spoolLines("claude-7f2a91bc0001").flatMap(({ files = [] }) => files);
    expect(touched).toEqual([
      { path: "users.sql", stamp: expect.stringMatching(/^21-\d+(\.\d+)?$/) },
      { path: "gone.sql", stamp: null },
    ]);
    await asItIs(({ state }) => expect(state.files.size, "nothing is written while tools run").toBe(0));
  });

  expect(await hook("claude", "stop", id)).toEqual({ code: 0, out: "", err: "" });
  await inGoal(async (goal) => {
    expect(goal.state.files.get("users.sql")).toMatchObject({ session: "claude-7f2a91bc0001" });
    expect((await goal.checkFiles()).files).toMatchObject([{ verdict: "OK" }, { verdict: "OK" }]);
    expect(goal.state.history.get("claude-7f2a91bc0001")).toMatchObject({ status: "active", restarts: 0 });
  });
  const before = await inGoal(({ seq }) => seq);
  await hook("claude", "stop-failure", { ...id, error: "rate_limit" });
  await hook("claude", "session-end", { ...id, reason: "other" });
  await inGoal(({ state, seq }) => {
    const entry = state.history.get("claude-7f2a91bc0001");
    expect(entry).toMatchObject({ status: "ended", issues: ["the agent stopped: rate_limit"] });
    expect(seq - before, "one for the failure, one for the end").toBe(2);
  });
});

test("the next start notices an agent that died without a session-end", async () => {
  await inGoal((goal) => goal.addTask({ title: "users table" }));
  // The agent is a process of its own that runs its hook and is killed.
  const agent = `require("node:child_process").spawnSync(process.execPath, [${JSON.stringify(line.cli)}, "hook", "codex", "session-start"],
    { input: JSON.stringify({ session_id: "dead", source: "startup" }) }); process.kill(process.pid, "SIGKILL");`;
  const died = spawnSync(process.execPath, ["-e", agent], { cwd: project, env: environment() });
  expect(died.signal, "the fault fired").toBe("SIGKILL");
  await inGoal((goal) => {
    const by = { name: "codex-dead", role: "worker" } as const;
    return goal.claim("T-001", { by, session: "codex-dead", detached: true });
  });
  writeFileSync(join(project, "half.ts"), "half");
  await hook("codex", "touched", {
    session_id: "dead",
    tool_name: "apply_patch",
    tool_input: { command: "*** Begin Patch\n*** Update File: half.ts\n*** End Patch" },
  });
  const next = await hook("gemini", "session-start", { session_id: "next", source: "startup" });
  const context = JSON.parse(next.out).hookSpecificOutput.additionalContext as string;
  expect(context).toContain("crashed");
  await inGoal(({ state }) => {
    const status = (name: string) => state.history.get(name)?.status;
    const expected = process.platform === "linux" ? "crashed" : "active";
    expect(status("codex-dead")).toBe(expected);
    expect(status("gemini-next")).toBe("active");
    expect(state.history.get("gemini-next")?.resumes).toBe(
      process.platform === "linux" ? "codex-dead" : null,
    );
    expect(state.tasks.get("T-001")?.status, "its task is free again").toBe(
      process.platform === "linux" ? "open" : "in_progress",
    );
    expect(state.files.get("half.ts"), "the files it had touched are recorded").toMatchObject({
      session: "codex-dead",
    });
  });
});

test("a conversation that starts again without an end counts as crashed", async () => {
  await inGoal(() => undefined);
  await hook("claude", "session-start", { session_id: "same", source: "startup" });
  briefedAt(0);
  await hook("claude", "session-start", { session_id: "same", source: "resume" });
  await inGoal(({ state }) => {
    expect(state.history.get("claude-same")).toMatchObject({ status: "active", restarts: 1 });
    expect(state.history.get("claude-same")?.notes.join()).toContain("without having ended");
  });
});

test("Cursor gets one briefing although it also runs the hooks of Claude Code", async () => {
  await inGoal(() => undefined);
  const input = {
    conversation_id: "c-1",
    cursor_version: "2.1",
    workspace_roots: [project],
    source: "startup",
  };
  const both = await Promise.all([
    hook("cursor", "session-start", input),
    hook("claude", "session-start", input),
  ]);
  const contexts = both.filter(({ out }) => out.includes("holdfast-state"));
  expect(both.map(({ code }) => code)).toEqual([0, 0]);
  expect(contexts, "exactly one answers").toHaveLength(1);
  expect(JSON.parse(both[0].out || "null"), "Cursor always gets JSON").not.toBeNull();
  await inGoal(({ state }) => expect([...state.history.keys()]).toEqual(["cursor-c1"]));
});

test("Copilot CLI's fields are read: its briefing, and the files that it writes but not those it views", async () => {
  await inGoal(() => undefined);
  const input = { sessionId: "b-1", timestamp: 1, cwd: project };
  const { out } = await hook("copilot", "session-start", { ...input, source: "new" });
  expect(JSON.parse(out)).toEqual({
    additionalContext: expect.stringContaining("You are session copilot-b1"),
  });
  for (const [toolName, name] of [
    ["create", "made.ts"],
    ["view", "read.ts"],
  ] as const) {
    writeFileSync(join(project, name), "x\n");
    await hook("copilot", "touched", { ...input, toolName, toolArgs: { path: join(project, name) } });
  }
  const touched = spoolLines("copilot-b1").flatMap(({ files = [] }) => files);
  expect(JSON.stringify(touched)).toMatch(/made\.ts/);
  expect(JSON.stringify(touched)).not.toMatch(/read\.ts/);
});

test("the briefing of a large goal stays within the agent's limit", async () => {
  await inGoal(async (goal) => {
    const long = "very long text ".repeat(25);
    await goal.addTasks({
      tasks: Array.from({ length: 200 }, (_, index) => ({ title: `${index} ${long}` })),
    });
    for (let index = 0; index < 40; index++)
      await goal.fact({ key: `fact-${index}`, value: long, source: long });
  });
  const { out } = await hook("cursor", "session-start", { conversation_id: "big", source: "startup" });
  const { additional_context: context } = JSON.parse(out) as { additional_context: string };
  expect(context).toMatch(/^You are session cursor-big/);
  expect(context).toContain("</holdfast-state>");
  expect(context.length).toBeGreaterThan(1_000);
  expect(context.length).toBeLessThanOrEqual(10_000);
});

test("no hook writes to the store, and the briefing previews the pending lines", async () => {
  await inGoal((goal) => goal.addTask({ title: "users table" }));
  const away = await Connection.open(join(project, ".holdfast/store.db"), false);
  // A writer waits for this lock; a reader does not.
  away.exec("BEGIN IMMEDIATE");
  const start = { session_id: "first", source: "startup" };
  const { out, err } = await hook("claude", "session-start", start);
  expect(err).toBe("");
  // The briefing names the session itself, but not in its list of others.
  const own = JSON.parse(out).hookSpecificOutput.additionalContext as string;
  expect(own).toMatch(/^You are session claude-first/);
  expect(own).not.toMatch(/^LAST/m);
  await hook("claude", "stop-failure", { session_id: "first", error: "overloaded" });
  await hook("claude", "session-end", { session_id: "first", reason: "other" });
  const next = await hook("codex", "session-start", { session_id: "second", source: "startup" });
  const context = JSON.parse(next.out).hookSpecificOutput.additionalContext as string;
  expect(context).toMatch(/^LAST claude-first ended/m);
  away.exec("ROLLBACK");
  await away.close();
  await inGoal((goal) => {
    expect(goal.state.history.get("claude-first")).toMatchObject({ status: "ended" });
    expect(goal.state.history.get("codex-second")).toMatchObject({ status: "active" });
    const lastOf = (text: string) => [...text.matchAll(/^LAST (\S+ \w+)/gm)].map(([, who]) => who).sort();
    const [said, foretold] = [lastOf(goal.briefing({ session: "codex-second" })), lastOf(context)];
    expect(said, "the preview equals the written events").toEqual(foretold);
  });
});

test("ingestion runs one at a time and is idempotent", async () => {
  await inGoal(() => undefined);
  await hook("claude", "session-start", { session_id: "once", source: "startup" });
  // With the one started by the hook there are three.
  await Promise.all([ingest(), ingest()]);
  const { seq, entry } = await inGoal((goal) => {
    return { seq: goal.seq, entry: goal.state.history.get("claude-once") };
  });
  expect(entry).toMatchObject({ status: "active", restarts: 0 });
  await ingest();
  expect(await asItIs((goal) => goal.seq)).toBe(seq);
});

test("ingestion does not recreate a project that was removed meanwhile", async () => {
  await inGoal(() => undefined);
  const writer = await Connection.open(join(project, ".holdfast/store.db"), false);
  writer.exec("BEGIN IMMEDIATE");
  const hooks = join(project, ".holdfast/hooks");
  mkdirSync(hooks);
  writeFileSync(join(hooks, "claude-last.jsonl"), `${JSON.stringify(beginning())}\n`);
  const taking = line.run(["hook", "ingest"], { cwd: project });
  // It has noted the events that it is about to write, and waits for the writer.
  await vi.waitFor(() => expect(existsSync(join(hooks, "claude-last.ingesting"))).toBe(true), 30_000);
  // Retries, because the waiting process may create a file meanwhile.
  rmSync(project, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  writer.exec("ROLLBACK");
  await writer.close();
  expect((await taking).code).toBe(0);
  expect(existsSync(project)).toBe(false);
});

describe("a hook fails open", () => {
  /** Causes the fault. The returned process is ended afterwards. */
  type Trouble = () => Promise<{ env?: Record<string, string>; end?: () => unknown; silent?: true }>;
  const store = () => join(project, ".holdfast/store.db");
  const TROUBLES: Readonly<Record<string, Trouble>> = {
    "no store": async () => {
      rmSync(join(project, ".holdfast"), { recursive: true, force: true });
      return { silent: true };
    },
    "a newer store": async () => {
      const connection = await Connection.open(store(), false);
      connection.exec("PRAGMA user_version = 99");
      await connection.close();
      return {};
    },
    "no database at all": async () => {
      for (const end of ["", "-wal", "-shm"]) rmSync(store() + end, { force: true });
      writeFileSync(store(), "Dear all, this is no database. ".repeat(50));
      return {};
    },
    "a store that another process keeps locked": async () => {
      const connection = await Connection.open(store(), false);
      connection.exec(
        "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE meta SET value = value WHERE name = 'proof'",
      );
      return { end: () => connection.close() };
    },
    "a server that never answers": async () => {
      const server = createServer();
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as { port: number };
      return { env: { HOLDFAST_STORE: `postgres://a:b@127.0.0.1:${port}/c` }, end: () => server.close() };
    },
  };

  /** Each fault with a start, which reads the store, and one other event; HOLDFAST_FULL=1 runs both. */
  const isFull = Boolean(process.env["HOLDFAST_FULL"]);
  const rows = Object.entries(TROUBLES).map(([name, trouble], index) => ({ name, trouble, index }));

  test.each(rows)("$name", async ({ trouble, index }) => {
    await inGoal(() => undefined);
    const { env = {}, end, silent } = await trouble();
    try {
      const input = { session_id: "x", conversation_id: "x", source: "startup" };
      const used = { ...input, tool_name: "replace", tool_input: {} };
      const others = [
        () => hook("cursor", "stop", input, { env }),
        () => hook("gemini", "touched", used, { env }),
      ];
      const [claude, ...rest] = await Promise.all([
        hook("claude", "session-start", input, { env }),
        ...others.filter((_one, which) => isFull || which === index % 2).map((start) => start()),
      ]);
      expect([claude, ...rest].map(({ code }) => code)).toEqual([0, ...rest.map(() => 0)]);
      expect(rest.map(({ out }) => out)).toEqual(rest.map(() => "{}\n"));
      if (silent) expect(claude).toEqual({ code: 0, out: "", err: "" });
      else {
        const { hookSpecificOutput } = JSON.parse(claude.out);
        expect(hookSpecificOutput.additionalContext).toContain(
          "the store could not be read. Try: holdfast brief",
        );
        expect(claude.err).toMatch(/^holdfast hook claude session-start: .+/);
        expect(readFileSync(join(project, ".holdfast/hooks/log.txt"), "utf8")).toContain(
          "claude session-start",
        );
        expect(spoolLines("claude-x"), "and nothing is lost").toMatchObject([{ type: "start" }]);
      }
    } finally {
      await end?.();
    }
  });

  test("when the store stays locked", async () => {
    await inGoal(() => undefined);
    const timed = async (id: string) => {
      const begun = performance.now();
      const { err } = await hook("claude", "session-start", { session_id: id });
      return { err, tookMs: performance.now() - begun };
    };
    const sound = await timed("a");
    const { end } = await (TROUBLES["a store that another process keeps locked"] as Trouble)();
    // A store waits 30 s for a lock, a hook much less than its start-up time. One machine pause is allowed.
    const limitMs = 5 * sound.tookMs + 5_000;
    let locked = await timed("b");
    if (locked.tookMs > limitMs) locked = await timed("c");
    await end?.();
    expect(locked.err, "the fault fired").not.toBe("");
    expect(locked.tookMs).toBeLessThan(limitMs);
  });

  test("when its input is missing or malformed", async () => {
    await inGoal(() => undefined);
    const silly = await Promise.all([
      hook("claude", "stop", "{ this is no JSON"),
      hook("gemini", "touched", ""),
      hook("gemini", "stop", "[1]"),
      hook("vim", "stop", "{}"),
      hook("cursor", "no-such-event", "{}"),
      hook("claude", "touched", { session_id: "../../../etc", tool_input: { file_path: 7 } }),
    ]);
    expect(silly.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0, 0]);
    expect(silly.map(({ out }) => out)).toEqual(["", "{}\n", "{}\n", "", "{}\n", ""]);
    expect(silly[0].err).toContain("JSON");
    expect(silly[3].err).toContain('unknown hook "vim stop"');
    expect(readdirSync(join(project, ".holdfast/hooks"))).toContain("claude-etc.jsonl");
  });

  test("when the agent never closes stdin, or closes stdout", async () => {
    await inGoal(() => undefined);
    const child = spawn(process.execPath, [line.cli, "hook", "claude", "stop"], {
      cwd: project,
      env: environment(),
    });
    child.stdin.write('{"session_id":');
    child.stdout.destroy();
    const code = await new Promise((resolve) => child.on("exit", resolve));
    child.stdin.destroy();
    expect(code).toBe(0);
  });

  test("when the agent has said everything and never closes stdin", async () => {
    await inGoal(() => undefined);
    const child = spawn(process.execPath, [line.cli, "hook", "claude", "touched"], {
      cwd: project,
      env: environment(),
    });
    // More than a pipe takes at once, with braces at which the object is not complete yet.
    const tool_response = `${"}\n".repeat(150_000)}`;
    child.stdin.write(JSON.stringify({ session_id: "open", cwd: project, tool_response }));
    const code = await new Promise((resolve) => child.on("exit", resolve));
    child.stdin.destroy();
    expect(code).toBe(0);
    expect(spoolLines("claude-open")).toMatchObject([{ type: "touched" }]);
  });

  test.skipIf(process.getuid?.() === 0)(
    "a folder that cannot be written (root may write everywhere)",
    async () => {
      await inGoal(() => undefined);
      chmodSync(join(project, ".holdfast"), 0o500);
      const { code, err } = await hook("claude", "touched", { session_id: "x" });
      chmodSync(join(project, ".holdfast"), 0o700);
      expect(code).toBe(0);
      expect(err).toContain("EACCES");
    },
  );
});

test("without a goal, or with several, the agent is given the command to run", async () => {
  const holdfast = await open(join(project, ".holdfast/store.db"));
  const start = async (id: string) => {
    const { out } = await hook("codex", "session-start", { session_id: id });
    return JSON.parse(out).hookSpecificOutput.additionalContext as string;
  };
  expect(await start("a")).toContain("holdfast goal new");
  await holdfast.goal("checkout", { statement: "Ship" });
  await holdfast.goal("search", { statement: "Find" });
  await holdfast.close();
  expect(await start("b")).toMatch(
    /^Holdfast: several goals are open\. .*holdfast goal use[\s\S]*\nOPEN GOAL "(search|checkout)"\n/,
  );
  expect(await runInside(project, ["goal", "use", "search"])).toMatchObject({ code: 0 });
  expect(await start("c")).toContain('goal="search"');
});

test("a stale goal stays stale through a hook, and every surface says so until somebody resumes it", async () => {
  await inGoal(async (goal) => {
    await goal.addTask({ title: "old task", by: { name: "ann", role: "human" } });
    await goal.describe({ ttlMs: 1 });
  });
  const run = (...args: string[]) => runInside(project, args);
  const stale = /goal checkout is stale: last touched .* ago \(limit 0 s\)\. Check that it still holds/;
  const { out } = await hook("codex", "session-start", { session_id: "monday" });
  expect(JSON.parse(out).hookSpecificOutput.additionalContext).toMatch(stale);
  await ingest();
  expect(await run("task", "claim", "T-001", "--by", "w", "--role", "worker")).toMatchObject({ code: 4 });
  for (const command of ["brief", "next", "task list", "goal show"])
    expect((await run(...command.split(" "))).out, command).toMatch(stale);
  expect(JSON.parse((await run("brief", "--json")).out).data.text).toMatch(stale);
  const resumed = await run("resume", "--force", "--json");
  expect(JSON.parse(resumed.out).data).toMatchObject({ begun: true, stale: true });
});

test("an edit of STATE.md that a hook saw an agent make is the agent's, not a person's", LONG, async () => {
  await runInside(project, ["init", "--agent", "none"]);
  await runInside(project, ["goal", "new", "checkout", "Ship the checkout"]);
  await runInside(project, ["block", "add", "security review pending", "--everything"]);
  const page = join(project, ".planning/STATE.md");
  const lines = readFileSync(page, "utf8").split("\n");
  writeFileSync(page, lines.filter((each) => !/^- .*B-001/.test(each)).join("\n"));
  const tool_input = { file_path: page };
  const ran = await hook("claude", "touched", { session_id: "7f2a91bc", tool_name: "Edit", tool_input });
  expect(ran).toEqual({ code: 0, out: "", err: "" });
  await runInside(project, ["rebuild"]);
  const { state } = await asItIs((goal) => goal);
  expect(state.blockers.get("B-001")?.status).toBe("active");
  expect(state.edits.get("STATE.md")?.by).toEqual({ name: "claude-7f2a91bc", role: "worker" });
});
