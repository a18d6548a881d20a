import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Goal, loadGoal, runWithCheckpoints, type TaskAgent } from "../../src/goal/index.ts";
import { Journal } from "../../src/journal/index.ts";
import type { GoalCheckpoint, GoalState, Task } from "../../src/model/goal/index.ts";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import { programFile } from "../program.ts";
import { skipWaits } from "../skip-waits.ts";
import { storeSubjects } from "../subjects.ts";
import { Bench, by, worker } from "./bench.ts";

describe.each(storeSubjects())("runWithCheckpoints on $name", (subject) => {
  let bench: Bench;

  beforeEach(async () => {
    bench = await Bench.open(subject);
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  const tasks = [
    { title: "look", phase: 1 },
    { title: "build", phase: 2 },
    { title: "test", phase: 2, dependsOn: ["T-002"] },
  ];
  const open = (options = {}): Promise<Goal> =>
    bench.goal({ phases: ["exploration", "implementation"], tasks, verification: "self", ...options });
  const quick = { retry: { backoffMs: 0 }, waitMs: 0 };

  test("executes ready tasks in order, and reports as text and data", async () => {
    const goal = await open();
    const done: string[] = [];
    const agent: TaskAgent = {
      async executeTask(task, { briefing, attempt }) {
        expect(briefing).toContain(`NEXT ${task.id}`);
        expect(attempt).toBe(1);
        done.push(task.id);
      },
    };
    const report = await runWithCheckpoints(agent, goal, quick);
    expect(done).toEqual(["T-001", "T-002", "T-003"]);
    expect(report).toMatchObject({
      status: "done",
      attempts: 3,
      progress: { percent: 100 },
      state: { completedTasks: done, remainingTasks: [], failedTasks: [], iterationCount: 3, errorCount: 0 },
    });
    expect(report.text).toContain("checkout: done");
    expect(report.text).toContain("3/3 tasks, 2/2 phases");
    expect(JSON.parse(JSON.stringify(report))).toEqual(report);
    expect([...goal.state.history.values()]).toMatchObject([{ status: "ended", completed: done }]);
    expect(await runWithCheckpoints(agent, goal, quick)).toMatchObject({ status: "done", attempts: 0 });
  });

  test("checkpoints at completed tasks, changed phases, findings and errors", async () => {
    const goal = await open();
    const heard: GoalCheckpoint[] = [];
    let failures = 0;
    const agent: TaskAgent = {
      async executeTask(task, { finding }) {
        if (task.id === "T-001") await finding("language", "typescript");
        if (task.id === "T-002" && failures++ === 0) throw new Error("flaky");
      },
    };
    await runWithCheckpoints(agent, goal, { ...quick, onCheckpoint: (each) => heard.push(each) });
    expect(heard.map(({ kind, about }) => `${kind} ${about}`)).toEqual([
      "significant_finding language",
      "task_completed T-001",
      "phase_changed phase 1 completed",
      "error_occurred T-002",
      "task_completed T-002",
      "task_completed T-003",
      "phase_changed phase 2 completed",
    ]);
    const types: string[] = [];
    for await (const [, event] of bench.journal.events("goal/checkout")) types.push(event.type);
    expect(types).toEqual(
      expect.arrayContaining(["fact.set", "task.failed", "task.accepted", "phase.completed"]),
    );
    expect(goal.runState()).toMatchObject({ confirmedFacts: { language: "typescript" }, errorCount: 1 });
  });

  test("retries retryable failures up to maxAttempts, and continues with the rest", async () => {
    const goal = await open({
      tasks: [{ title: "flaky" }, { title: "broken" }, { title: "good" }],
      phases: ["x"],
    });
    const attempts: string[] = [];
    const agent: TaskAgent = {
      async executeTask(task) {
        attempts.push(task.title);
        if (task.title === "flaky") throw new Error("try again");
        if (task.title === "broken") throw Object.assign(new Error("never"), { retryable: false });
      },
    };
    const report = await runWithCheckpoints(agent, goal, quick);
    expect(attempts.sort()).toEqual(["broken", "flaky", "flaky", "flaky", "good"]);
    expect(report).toMatchObject({
      status: "failed",
      state: {
        completedTasks: ["T-003"],
        failedTasks: [
          { task: "T-001", error: "try again", retryable: true },
          { task: "T-002", error: "never", retryable: false },
        ],
      },
    });
    expect(report.text).toContain('failed T-002: "never"');
  });

  test("waits for the backoff between attempts, by the clock of the log", async () => {
    const goal = await open({ tasks: [{ title: "flaky" }], phases: ["x"] });
    const at: number[] = [];
    const agent: TaskAgent = {
      async executeTask() {
        at.push(bench.now);
        if (at.length < 3) throw new Error("again");
      },
    };
    // It polls again after this long at the latest.
    skipWaits([250], (ms) => bench.passMs(ms));
    const report = await runWithCheckpoints(agent, goal, { retry: { backoffMs: 1_000 } });
    expect(report.status).toBe("done");
    expect((at[1] ?? 0) - (at[0] ?? 0)).toBeGreaterThanOrEqual(1_000);
    expect((at[2] ?? 0) - (at[1] ?? 0)).toBeGreaterThanOrEqual(2_000);
  });

  test("verifies with the agent, or leaves submitted tasks waiting", async () => {
    const goal = await open({ verification: "separate" });
    const agent: TaskAgent = { executeTask: async () => undefined };
    expect(await runWithCheckpoints(agent, goal, quick)).toMatchObject({
      status: "waiting",
      why: "waiting for a verifier: T-001",
    });
    let isStrict = true;
    agent.verifyTask = async (task) => {
      if (task.id !== "T-002" || !isStrict) return true;
      isStrict = false;
      return { accept: false, why: "no tests" };
    };
    const report = await runWithCheckpoints(agent, goal, quick);
    expect(report.status).toBe("done");
    expect(goal.task("T-002")).toMatchObject({ rejections: 1, verdict: { by: { role: "verifier" } } });
  });

  test("gives up on tasks that are rejected repeatedly or cannot be verified", async () => {
    const goal = await open({ verification: "separate" });
    const executeTask = async (): Promise<void> => undefined;
    const rejecting: TaskAgent = { executeTask, verifyTask: async () => false };
    expect(await runWithCheckpoints(rejecting, goal, quick)).toMatchObject({ status: "failed", attempts: 3 });
    await goal.retry({ task: "T-001", why: "x" }).catch(() => undefined);
    await (await goal.claim("T-001", { by: worker })).submit();
    const throwing: TaskAgent = {
      executeTask,
      verifyTask: async () => {
        throw new Error("no verifier today");
      },
    };
    expect(await runWithCheckpoints(throwing, goal, quick)).toMatchObject({ status: "waiting" });
    expect(goal.state.checkpoint).toMatchObject({ kind: "error_occurred", about: "T-001" });
  });

  test("ends when only a person can continue, and names the blocker", async () => {
    const goal = await open();
    await goal.block({ description: "no credentials", affects: { goal: true } });
    const report = await runWithCheckpoints({ executeTask: async () => undefined }, goal, quick);
    expect(report).toMatchObject({ status: "blocked", attempts: 0, blockers: [{ id: "B-001" }] });
    expect(report.text).toContain('blocked B-001: "no credentials"');
  });

  test("stops when asked to, and releases the task", async () => {
    const goal = await open();
    const stop = new AbortController();
    const agent: TaskAgent = {
      async executeTask(_task, { signal }) {
        stop.abort();
        signal.throwIfAborted();
      },
    };
    const report = await runWithCheckpoints(agent, goal, { ...quick, signal: stop.signal });
    expect(report.status).toBe("stopped");
    expect(goal.task("T-001")).toMatchObject({
      status: "open",
      failures: 0,
      previous: { ended: "released" },
    });
  });

  test("two runs share the work: every task is executed by one of them", async () => {
    const many = Array.from({ length: 8 }, (_, index) => ({ title: `t${index}` }));
    const goal = await open({ tasks: many, phases: ["x"] });
    const beside = await bench.goal({}, await bench.another());
    const executed: string[] = [];
    const agent: TaskAgent = {
      async executeTask(task) {
        executed.push(task.id);
        await new Promise(setImmediate);
      },
    };
    const run = (on: Goal, name: string): Promise<{ status: string }> =>
      runWithCheckpoints(agent, on, { retry: { backoffMs: 0 }, by: by("worker", name) });
    const reports = await Promise.all([run(goal, "w-1"), run(beside, "w-2")]);
    expect(reports.map(({ status }) => status)).toEqual(["done", "done"]);
    expect(executed.sort()).toEqual([...goal.state.tasks.keys()].sort());
  });

  test("a run that lost its task leaves it to the new holder", async () => {
    const goal = await open({ tasks: [{ title: "slow" }], phases: ["x"] });
    const beside = await bench.goal({}, await bench.another());
    const agent: TaskAgent = {
      async executeTask() {
        await beside.reset({ task: "T-001", why: "too slow", force: true });
        await (await beside.claim("T-001", { by: by("worker", "w-2") })).submit({ summary: "by the other" });
        throw new Error("my own late failure");
      },
    };
    const report = await runWithCheckpoints(agent, goal, quick);
    expect(report).toMatchObject({ status: "done", state: { errorCount: 0, failedTasks: [] } });
    expect(goal.task("T-001").submission?.evidence.summary).toBe("by the other");
  });

  test("two live runs cannot share a name", async () => {
    const goal = await open();
    const beside = await bench.goal({}, await bench.another());
    const inner: unknown[] = [];
    const agent: TaskAgent = {
      async executeTask() {
        const second = runWithCheckpoints(agent, beside, { ...quick, session: "nightly" });
        inner.push(await second.catch((error: unknown) => error));
      },
    };
    await runWithCheckpoints(agent, goal, { ...quick, session: "nightly" });
    expect(inner[0]).toMatchObject({ code: "SESSION_HELD" });
    expect(goal.state.history.get("nightly")).toMatchObject({ status: "ended", restarts: 0 });
  });

  test("an actor that may not work on tasks is rejected at once", async () => {
    const goal = await open();
    const run = runWithCheckpoints({ executeTask: async () => undefined }, goal, {
      by: by("architect"),
      ...quick,
    });
    await expect(run).rejects.toMatchObject({ code: "ROLE_REFUSED" });
  });
});

describe.concurrent("a run that is killed", () => {
  /**
   * Runs the child until it has printed `lines` lines, waits a moment, and kills it. Null lines: lets it end.
   */
  async function runOnce(
    folder: string,
    verification: string,
    killAfter: { lines: number; delayMs: number } | null,
  ): Promise<string> {
    const script = programFile(new URL("./run-child.ts", import.meta.url));
    const args = [script, join(folder, "store.db"), join(folder, "world"), verification];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    let last = "";
    let said = 0;
    const reader = createInterface({ input: child.stdout });
    reader.on("line", (line) => {
      last = line;
      said += 1;
      if (said === killAfter?.lines) setTimeout(() => child.kill("SIGKILL"), killAfter.delayMs);
    });
    await new Promise((resolve) => child.once("close", resolve));
    return last;
  }

  async function look(folder: string): Promise<{ state: GoalState; accepted: Map<string, number[]> }> {
    const journal = new Journal({ store: await openSqlite({ path: join(folder, "store.db") }) });
    const { state } = await loadGoal(journal, "checkout");
    const accepted = new Map<string, number[]>();
    for await (const [, event] of journal.events("goal/checkout")) {
      if (event.type !== "task.accepted") continue;
      const { task } = event.data as { task: string };
      accepted.set(task, [...(accepted.get(task) ?? []), event.at]);
    }
    await journal.store.close();
    return { state, accepted };
  }

  /** HOLDFAST_FULL=1: twice as many. */
  const MOST_KILLS = process.env["HOLDFAST_FULL"] ? 8 : 4;

  async function killAgainAndAgain(folder: string, verification: string): Promise<void> {
    let kills = 0;
    for (; kills < MOST_KILLS; kills++) {
      const killAfter = { lines: 1 + Math.floor(Math.random() * 4), delayMs: Math.random() * 12 };
      if ((await runOnce(folder, verification, killAfter)).startsWith("report")) break;
    }
    expect(await runOnce(folder, verification, null)).toBe("report done");
    const { state, accepted } = await look(folder);
    const all: Task[] = [...state.tasks.values()];
    expect(all.map(({ status }) => status)).toEqual(all.map(() => "done"));
    for (const { id } of all) expect(accepted.get(id)).toHaveLength(1);

    const lines = (await readFile(join(folder, "world"), "utf8")).trim().split("\n");
    const world = lines.map((line) => JSON.parse(line) as { task: string; attempt: number; at: number });
    for (const { id } of all) {
      const executions = world.filter(({ task }) => task === id);
      const [doneAt = 0] = accepted.get(id) ?? [];
      expect(executions.length).toBeGreaterThanOrEqual(1);
      for (const { at } of executions) expect(at).toBeLessThanOrEqual(doneAt);
      const attempts = executions.map(({ attempt }) => attempt);
      expect(new Set(attempts).size).toBe(attempts.length);
    }
    const history = [...state.history.values()].map(({ status }) => status);
    expect(history.at(-1)).toBe("ended");
    expect(history).not.toContain("active");
    expect(history.filter((status) => status === "crashed").length).toBeLessThanOrEqual(kills);
  }

  test.each(["self", "separate"])(
    "at random points, again and again, ends with every task done exactly once (%s)",
    { timeout: 180_000 },
    async (verification) => {
      const folder = await mkdtemp(join(tmpdir(), "holdfast-run-"));
      try {
        await killAgainAndAgain(folder, verification);
      } finally {
        await rm(folder, { recursive: true });
      }
    },
  );
});
