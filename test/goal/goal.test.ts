import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Goal, goalCore, makeBriefing, openGoal, type TaskInput } from "../../src/goal/index.ts";
import { DECISION_TYPES } from "../../src/model/goal/index.ts";
import { storeSubjects } from "../subjects.ts";
import { Bench, codeOf, human, orchestrator, START, verifier, worker } from "./bench.ts";

const JOSE = {
  type: "technology",
  context: "JWT library",
  decision: "jose over jsonwebtoken",
  reason: "Better TypeScript support",
} as const;

describe.each(storeSubjects())("a goal on $name", (subject) => {
  let bench: Bench;
  let goal: Goal;

  beforeEach(async () => {
    bench = await Bench.open(subject);
    goal = await bench.goal({ phases: ["Schema", "JWT", "OAuth"], title: "Checkout" });
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  const add = (task: TaskInput): Promise<{ id: string }> => goal.addTask({ by: human, ...task });

  const finish = async (id: string): Promise<void> => {
    await (await goal.claim(id, { by: worker })).submit();
    await goal.verify({ task: id, accept: true, by: verifier });
  };

  describe("opening", () => {
    test("an existing goal keeps its statement, phases and first createdAt", async () => {
      bench.passMs(1_000);
      const again = await bench.goal({ statement: "Something else", phases: ["Other"] });
      expect(again.state).toMatchObject({
        statement: "Ship the checkout",
        createdAt: START,
        updatedAt: START,
      });
      expect(again.state.phases.map(({ name }) => name)).toEqual(["Schema", "JWT", "OAuth"]);
    });

    test("its initial content is one commit", async () => {
      const whole = await openGoal(bench.journal, "whole", {
        statement: "All at once",
        phases: [
          "exploration",
          "planning",
          "implementation",
          "verification",
          { name: "after", plans: ["a", "b"] },
        ],
        tasks: [
          { title: "look", phase: "exploration" },
          { title: "plan", phase: "planning", dependsOn: ["T-001"] },
        ],
      });
      const page = await bench.journal.store.read({ namespace: "default", stream: "goal/whole", after: 0 });
      expect(page.writes).toHaveLength(1);
      expect(whole.state.tasks.get("T-002")).toMatchObject({ phase: 2, dependsOn: ["T-001"] });
      expect(whole.state.phases.at(-1)?.plans).toHaveLength(2);
    });

    test("a missing goal is not created", async () => {
      await expect(openGoal(bench.journal, "nothing")).rejects.toMatchObject({
        code: "GOAL_NOT_FOUND",
        hint: expect.stringContaining("statement"),
      });
    });

    test("a program that names no actor can plan, claim and submit", async () => {
      const plain = await openGoal(bench.journal, "plain", { statement: "Try it" });
      const task = await plain.addTask({ title: "first" });
      await (await plain.claim(task.id)).submit({ summary: "done" });
      expect(plain.task(task.id)).toMatchObject({
        status: "submitted",
        submission: { by: { role: "worker" } },
      });
    });

    test("stale state must be requested explicitly, and reports its age", async () => {
      bench.passMs(72 * 3_600_000);
      await bench.goal();
      bench.passMs(5 * 3_600_000);
      await expect(bench.goal()).rejects.toMatchObject({
        code: "STATE_STALE",
        message: "goal checkout was last touched 3 d 5 h ago (stale after 3 d)",
        data: { ageMs: 77 * 3_600_000 },
      });
      const used = await bench.goal({ stale: "use" });
      await used.fact({ key: "checked", value: true, source: "ann" });
      expect((await bench.goal()).runState().confirmedFacts).toEqual({ checked: true });
    });

    test("notes of hooks and of the supervisor do not make a stale goal fresh", async () => {
      bench.passMs(77 * 3_600_000);
      const watched = await bench.goal({ stale: "use" });
      goalCore(watched).isObserver = true;
      await watched.startSession({ session: "claude-1", by: worker });
      await watched.recordFiles({
        files: [{ path: "a.ts", act: "modified", hash: "a".repeat(64) }],
        session: "claude-1",
      });
      goalCore(watched).isObserver = false;
      await watched.crashSession({ session: "claude-1", by: { name: "holdfast", role: "supervisor" } });
      await expect(bench.goal()).rejects.toMatchObject({ code: "STATE_STALE" });
      const { rows } = await bench.journal.list<"streams">({
        of: "streams",
        kind: "goal",
        limit: 9,
        expiredAt: bench.now,
      });
      expect(rows).toHaveLength(1);
      const { text } = makeBriefing(watched.state, watched.seq, bench.now);
      expect(text.split("\n")[1]).toBe(
        "STALE goal checkout is stale: last touched 3 d 5 h ago (limit 3 d). Check that it still holds, " +
          "then: holdfast resume --force",
      );
      await watched.startSession({ session: "ann-1", by: worker });
      expect((await bench.goal()).briefing()).not.toContain("STALE");
    });

    test("a goal without a time to live never becomes stale, and the list shows when others do", async () => {
      const listed = async (): Promise<number> => {
        const at = { expiredAt: bench.now } as const;
        return (await bench.journal.list<"streams">({ of: "streams", kind: "goal", limit: 9, ...at })).rows
          .length;
      };
      bench.passMs(73 * 3_600_000);
      expect(await listed()).toBe(1);
      await goal.describe({ ttlMs: null });
      bench.passMs(1_000 * 3_600_000);
      expect(await listed()).toBe(0);
      expect((await bench.goal()).id).toBe("checkout");
    });
  });

  describe("each row of the seed's update table is one operation and one commit", () => {
    const commitsOf = async (act: () => Promise<unknown>): Promise<number> => {
      const before = await bench.commits(goal);
      await act();
      return (await bench.commits(goal)) - before;
    };

    beforeEach(async () => {
      for (const title of ["users table", "tokens table"]) await add({ title, phase: 1 });
      await add({ title: "rotation endpoint", phase: 2, wave: 1 });
    });

    test("task started: position.task and position.status", async () => {
      expect(goal.position()).toMatchObject({ task: "T-001", status: "open" });
      expect(await commitsOf(() => goal.claim("T-002", { by: worker }))).toBe(1);
      expect(goal.position()).toMatchObject({
        phase: 1,
        phaseName: "Schema",
        task: "T-002",
        taskTitle: "tokens table",
        wave: 1,
        status: "in_progress",
      });
    });

    test("task completed: progress, and position to the next task", async () => {
      await (await goal.claim("T-001", { by: worker })).submit();
      const accept = () => goal.verify({ task: "T-001", accept: true, by: verifier });
      expect(await commitsOf(accept)).toBe(1);
      expect(goal.progress()).toMatchObject({ currentPhaseTasks: 2, currentPhaseCompleted: 1, percent: 16 });
      expect(goal.progress().bar).toBe("██░░░░░░░░░░░░░░ 16%");
      expect(goal.position()).toMatchObject({ task: "T-002", status: "open" });
    });

    test("decision made: added to decisions", async () => {
      expect(await commitsOf(() => goal.decide({ ...JOSE, by: worker }))).toBe(1);
      expect(goal.decisions()).toMatchObject([{ id: "D-001", date: "2024-01-14", ...JOSE }]);
    });

    test("blocker encountered: added to blockers; resolved: removed from the active ones", async () => {
      const report = () =>
        goal.block({ description: "no OAuth credentials", affects: ["Phase 3: OAuth"], by: worker });
      expect(await commitsOf(report)).toBe(1);
      expect([...goal.state.blockers.values()]).toMatchObject([{ id: "B-001", status: "active" }]);
      const resolve = () => goal.resolve({ blocker: "B-001", resolution: "they came" });
      expect(await commitsOf(resolve)).toBe(1);
      expect(goal.state.blockers.get("B-001")).toMatchObject({ status: "resolved", resolution: "they came" });
    });

    test("session start and end: added to sessions, then ended and completed", async () => {
      expect(await commitsOf(() => goal.startSession({ session: "s-1", by: worker }))).toBe(1);
      const claim = await goal.claim("T-001", { by: worker, session: "s-1" });
      expect(goal.state.history.get("s-1")).toMatchObject({ status: "active", workingOn: "T-001" });
      await claim.submit();
      await goal.verify({ task: "T-001", accept: true, by: verifier });
      const end = () =>
        goal.endSession({ session: "s-1", contextUsage: 0.45, completed: ["docs"], by: worker });
      expect(await commitsOf(end)).toBe(1);
      expect(goal.state.history.get("s-1")).toMatchObject({
        agent: "w-1",
        status: "ended",
        endedAt: START,
        contextUsage: 0.45,
        completed: ["T-001", "docs"],
        workingOn: null,
      });
    });

    test("phase completed: phases_completed, and the task counters restart", async () => {
      await finish("T-001");
      await (await goal.claim("T-002", { by: worker })).submit();
      expect(await commitsOf(() => goal.verify({ task: "T-002", accept: true, by: verifier }))).toBe(1);
      expect(goal.progress()).toMatchObject({
        phasesTotal: 3,
        phasesCompleted: 1,
        currentPhaseTasks: 1,
        currentPhaseCompleted: 0,
      });
      expect(goal.position()).toMatchObject({ phase: 2, task: "T-003" });
      expect(goal.state.checkpoint).toMatchObject({ kind: "phase_changed", about: "phase 1 completed" });
    });
  });

  describe("planning", () => {
    test("a task before any phase makes the first phase in the same commit", async () => {
      const bare = await openGoal(bench.journal, "bare", { statement: "x" });
      expect(bare.position()).toMatchObject({ phase: null, task: null, status: "unplanned" });
      await bare.addTask({ title: "one" });
      expect(bare.position()).toMatchObject({ phase: 1, phaseName: "implementation", task: "T-001" });
    });

    test("dependencies, waves and reviews decide what is ready", async () => {
      await add({ title: "a", phase: 1 });
      await add({ title: "b", phase: 1, dependsOn: ["T-001"] });
      await add({ title: "later", phase: 1, wave: 2 });
      await add({ kind: "review", title: "look", phase: 1, reviews: ["T-001"], checklist: ["tests pass"] });
      const ready = async (): Promise<string[]> => (await goal.next()).tasks.map(({ id }) => id);
      expect(await ready()).toEqual(["T-001"]);
      await expect(goal.claim("T-002", { by: worker })).rejects.toThrow("task T-002 waits for T-001");
      await expect(goal.claim("T-003", { by: worker })).rejects.toThrow("waits for the waves before wave 2");
      await (await goal.claim("T-001", { by: worker })).submit();
      expect(await ready()).toEqual(["T-004"]);
      await goal.verify({ task: "T-001", accept: true, by: verifier });
      expect(await ready()).toEqual(["T-002", "T-004"]);
      await finish("T-002");
      await (await goal.claim("T-004", { by: verifier })).submit();
      await goal.verify({ task: "T-004", accept: true, by: human });
      expect(await ready()).toEqual(["T-003"]);
    });

    test("a task cannot depend on itself, by dependency or by wave", async () => {
      await add({ title: "a", phase: 1 });
      await add({ title: "b", phase: 1, dependsOn: ["T-001"] });
      const circle = goal.editTask({ task: "T-001", change: { dependsOn: ["T-002"] } });
      await expect(circle).rejects.toThrow("task T-001 would wait for itself");
      await add({ title: "c", phase: 1, wave: 2 });
      const wave = goal.editTask({ task: "T-001", change: { dependsOn: ["T-003"] } });
      await expect(wave).rejects.toThrow("would wait for itself");
      expect(goal.task("T-001").dependsOn).toEqual([]);
    });

    test("moving to a phase continues the work there and completes an empty phase", async () => {
      await add({ title: "jwt", phase: "JWT" });
      await add({ title: "oauth", phase: "oauth" });
      await goal.move({ to: "OAuth" });
      expect(goal.position()).toMatchObject({ phase: 3, task: "T-002" });
      await finish("T-002");
      expect(goal.position()).toMatchObject({ phase: 2, task: "T-001" });
      expect(await codeOf(goal.move({ to: 3 }))).toBe("INPUT_INVALID");
      await goal.move({ to: 1 });
      expect(goal.position()).toMatchObject({ phase: 1, task: null, status: "unplanned" });
      await goal.move({ to: 2 });
      expect(goal.progress().phasesCompleted).toBe(2);
    });

    test("a phase with unfinished tasks cannot be completed", async () => {
      await add({ title: "a", phase: 1 });
      await expect(goal.completePhase({ phase: 1 })).rejects.toMatchObject({ code: "PHASE_UNFINISHED" });
      await goal.drop({ task: "T-001", why: "not wanted" });
      expect(goal.progress().phasesCompleted).toBe(1);
    });

    test("a task is found by its alias, and the alias' number is not reused", async () => {
      await add({ title: "a", phase: 1 });
      await goal.aliasTask({ alias: "T-007", task: "T-001", by: orchestrator });
      expect(goal.task("T-007").id).toBe("T-001");
      expect((await add({ title: "b", phase: 1 })).id).toBe("T-008");
    });
  });

  describe("decisions", () => {
    beforeEach(async () => {
      await goal.decide({
        ...JOSE,
        files: ["src/auth"],
        alternatives: [{ option: "jwt", whyNot: "old API" }],
      });
      await goal.decide({
        ...JOSE,
        type: "trade-off",
        context: "lifetime",
        decision: "7 days",
        reversible: false,
      });
    });

    test("are found by words, type and file", () => {
      const ids = (query: Parameters<Goal["decisions"]>[0]): string[] =>
        goal.decisions(query).map(({ id }) => id);
      expect(ids({})).toEqual(["D-002", "D-001"]);
      expect(ids({ text: "TYPESCRIPT old" })).toEqual(["D-001"]);
      expect(ids({ type: "trade-off" })).toEqual(["D-002"]);
      expect(ids({ file: "src/auth/jwt.ts" })).toEqual(["D-001"]);
      expect(ids({ file: "src/author.ts" })).toEqual([]);
    });

    test.each(DECISION_TYPES)("can be of type %s", async (type) => {
      expect(await goal.decide({ ...JOSE, type, by: worker })).toMatchObject({ type, by: worker });
    });

    test("are superseded, not changed", async () => {
      const next = await goal.supersede({ ...JOSE, decision: "our own", supersedes: "D-001" });
      expect(next).toMatchObject({ id: "D-003", supersedes: "D-001" });
      expect(goal.decisions().map(({ id }) => id)).toEqual(["D-003", "D-002"]);
      expect(goal.decisions({ superseded: true })).toHaveLength(3);
      expect(goal.state.decisions.get("D-001")).toMatchObject({
        supersededBy: "D-003",
        decision: JOSE.decision,
      });
      await expect(goal.supersede({ ...JOSE, supersedes: "D-001" })).rejects.toThrow(
        "is already superseded by D-003",
      );
    });
  });

  describe("blockers", () => {
    beforeEach(async () => {
      await add({ title: "a", phase: 1 });
      await add({ title: "b", phase: 1 });
      await add({ title: "c", phase: 2 });
    });

    test("escalate from task to phase to goal, and then a person is asked", async () => {
      const impact = (): unknown => goal.survey().impact;
      await goal.block({ description: "x", affects: { tasks: ["T-001"] } });
      expect(impact()).toMatchObject({ level: "task", tasks: ["T-001"], pausedPhases: [], escalate: false });
      expect((await goal.next()).tasks.map(({ id }) => id)).toEqual(["T-002"]);
      await goal.block({ description: "y", affects: { tasks: ["T-002"] } });
      expect(impact()).toMatchObject({ level: "phase", pausedPhases: [1] });
      expect(goal.position()).toMatchObject({ phase: 2, task: "T-003" });
      await goal.block({ description: "z", affects: { phases: ["JWT"] } });
      expect(impact()).toMatchObject({ level: "goal", pausedPhases: [1, 2], escalate: true });
      expect(await goal.next()).toMatchObject({ tasks: [], outlook: "blocked" });
      const row = await bench.journal.row("goal/checkout");
      expect(row.facets.status).toBe("blocked");
    });

    test("resolving names the unblocked tasks and frees the claim", async () => {
      const claim = await goal.claim("T-001", { by: worker });
      expect(await claim.block("no credentials")).toBe("B-001");
      expect(goal.task("T-001")).toMatchObject({ status: "open", previous: { ended: "released" } });
      await expect(goal.claim("T-001", { by: worker })).rejects.toThrow("task T-001 is blocked by B-001");
      expect(await goal.resolve({ blocker: "B-001", resolution: "came" })).toEqual({
        blocker: "B-001",
        unblocked: ["T-001"],
      });
      await goal.claim("T-001", { by: worker });
    });

    test("a bypass adds its follow-up tasks in the same commit", async () => {
      await goal.block({ description: "mockups", affects: { phases: [1] } });
      const before = await bench.commits(goal);
      const followUps = [{ title: "final styles", phase: 3 }];
      const bypassed = await goal.bypass({ blocker: "B-001", workaround: "placeholders", followUps });
      expect((await bench.commits(goal)) - before).toBe(1);
      expect(bypassed).toMatchObject({ status: "bypassed", followUps: ["T-004"] });
      expect(goal.survey().impact.level).toBe("none");
      expect(await codeOf(goal.bypass({ blocker: "B-001", workaround: "again" }))).toBe("BLOCKER_TRANSITION");
    });

    test("a blocker that is only reported blocks nothing before it is identified", async () => {
      await goal.block({ description: "maybe", affects: ["goal", "the weather"], identified: false });
      expect(goal.state.blockers.get("B-001")).toMatchObject({
        status: "new",
        affects: { other: ["the weather"] },
      });
      expect(goal.survey().impact.level).toBe("none");
      expect(await codeOf(goal.resolve({ blocker: "B-001", resolution: "no" }))).toBe("BLOCKER_TRANSITION");
      await goal.identify({ blocker: "B-001" });
      expect(goal.survey().impact).toMatchObject({ level: "goal", escalate: true });
    });
  });

  describe("memory", () => {
    test("all fields of structured run state follow from the goal", async () => {
      await goal.addTasks({ tasks: ["a", "b", "c"].map((title) => ({ title, phase: 1 })) });
      await finish("T-001");
      await (await goal.claim("T-002", { by: worker })).fail("no disk", { retryable: false });
      await goal.fact({ key: "db", value: { kind: "sqlite" }, source: "package.json" });
      await goal.fact({ key: "gone", value: 1, source: "x", expiresAt: bench.now + 10 });
      await goal.decide(JOSE);
      await goal.recordFiles({ files: [{ path: "src/a.ts", act: "examined", hash: "a".repeat(64) }] });
      bench.passMs(10);
      expect(goal.runState()).toEqual({
        runId: "checkout",
        createdAt: START,
        updatedAt: START,
        originalGoal: "Ship the checkout",
        currentPhase: "Schema",
        completedTasks: ["T-001"],
        failedTasks: [{ task: "T-002", error: "no disk", retryable: false }],
        remainingTasks: ["T-003"],
        confirmedFacts: { db: { kind: "sqlite" } },
        decisionsMade: [JOSE.decision],
        filesExamined: ["src/a.ts"],
        iterationCount: 2,
        errorCount: 1,
        lastSuccessfulOp: "complete T-001",
      });
    });

    test("a hand-off ends the session, releases its task and names the next one, in one commit", async () => {
      await add({ title: "a", phase: 1 });
      await goal.startSession({ session: "s-1", by: worker });
      const claim = await goal.claim("T-001", { by: worker, session: "s-1" });
      const before = await bench.commits(goal);
      await goal.handoff({
        session: "s-1",
        reason: "context 80%",
        notes: "half done",
        next: "T-001",
        by: worker,
      });
      expect((await bench.commits(goal)) - before).toBe(1);
      expect(goal.state.history.get("s-1")).toMatchObject({ status: "ended", handoffReason: "context 80%" });
      expect(goal.state.next).toMatchObject({ task: "T-001", text: null });
      expect(goal.task("T-001")).toMatchObject({
        status: "open",
        previous: { why: "handed off: context 80%" },
      });
      expect(await codeOf(claim.submit())).toBe("LEASE_LOST");
      await goal.claim("T-001", { by: worker });
    });

    test("questions, implementations and the next action are kept", async () => {
      expect(await goal.ask({ text: "which region?" })).toBe("Q-001");
      await goal.answer({ question: "Q-001", answer: "eu" });
      expect(await codeOf(goal.answer({ question: "Q-001", answer: "us" }))).toBe("INPUT_INVALID");
      await goal.implementation({ text: "rotation invalidates the old token", files: ["src/a.ts"] });
      await goal.setNext({ next: "run the verification" });
      await goal.forget({ key: "nope", why: "x" }).catch(() => undefined);
      expect(goal.state.next).toMatchObject({ text: "run the verification", task: null });
      expect(goal.state.implementations).toHaveLength(1);
    });
  });

  test("two processes writing at the same time lose nothing", async () => {
    const other = await bench.goal({}, await bench.another());
    const each = Array.from({ length: 40 }, (_, index) => index);
    await Promise.all(
      each.map(async (index) => {
        const writer = index % 2 === 0 ? goal : other;
        await writer.addTask({ title: `task ${index}`, phase: 1 });
        await writer.fact({ key: `fact-${index}`, value: index, source: "test" });
      }),
    );
    await goal.refresh();
    await other.refresh();
    expect(new Set([...goal.state.tasks.values()].map(({ title }) => title)).size).toBe(40);
    expect([...goal.state.tasks.keys()].sort()).toEqual(
      each.map((n) => `T-${String(n + 1).padStart(3, "0")}`),
    );
    expect(goal.state.facts.size).toBe(40);
    expect(goal.state).toEqual(other.state);
  });

  test("lists show tasks, decisions, blockers and history with their status", async () => {
    await add({ title: "a", phase: 1 });
    await goal.decide(JOSE);
    await goal.supersede({ ...JOSE, supersedes: "D-001" });
    await goal.block({ description: "no keys", affects: { phases: [1] } });
    await goal.startSession({ session: "s-1", by: worker });
    expect(await bench.items("task")).toMatchObject([
      { id: "T-001", name: "a", status: "blocked", doneAt: null },
    ]);
    await goal.resolve({ blocker: "B-001", resolution: "came" });
    await finish("T-001");
    expect(await bench.items("task")).toMatchObject([{ id: "T-001", status: "done", doneAt: START }]);
    expect(await bench.items("decision")).toMatchObject([
      { id: "D-001", status: "superseded" },
      { id: "D-002", status: "current", doneAt: null },
    ]);
    expect(await bench.items("blocker")).toMatchObject([
      { id: "B-001", name: "no keys", status: "resolved" },
    ]);
    expect(await bench.items("history")).toMatchObject([{ id: "s-1", name: "w-1", status: "active" }]);
  });
});
