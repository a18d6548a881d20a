import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Goal } from "../../src/goal/index.ts";
import {
  type Actor,
  type GoalOperation,
  type GoalRole,
  MAY,
  mayDo,
  ROLES,
} from "../../src/model/goal/index.ts";
import { storeSubjects } from "../subjects.ts";
import { Bench, by, codeOf, human, verifier, worker } from "./bench.ts";

/** Written out by hand, so that a slip in the table of the model shows. w a o v h s */
const EXPECTED: Readonly<Record<GoalOperation, string>> = {
  create: "-ao-h-",
  describe: "-ao-h-",
  addPhase: "-ao-h-",
  addPlan: "-ao-h-",
  addTask: "waovh-",
  editTask: "-ao-h-",
  aliasTask: "--o-hs",
  claim: "w--vh-",
  progress: "w--vh-",
  submit: "w--vh-",
  fail: "w--vh-",
  release: "w--vh-",
  verify: "---vh-",
  reset: "--o-hs",
  retry: "-ao-hs",
  drop: "-ao-h-",
  reopen: "-aovh-",
  move: "-ao-h-",
  completePhase: "-aovh-",
  decide: "waovh-",
  supersede: "-ao-h-",
  block: "waovhs",
  identify: "-aovh-",
  bypass: "-ao-h-",
  resolve: "waovhs",
  fact: "waovh-",
  forget: "waovh-",
  recordFiles: "waovh-",
  implementation: "waovh-",
  ask: "waovh-",
  assume: "waovh-",
  settle: "waovh-",
  answer: "-ao-h-",
  setNext: "waovhs",
  recordError: "waovhs",
  startSession: "waovhs",
  noteSession: "waovhs",
  endSession: "waovhs",
  crashSession: "--o-hs",
  handoff: "waovhs",
  retract: "----h-",
  confirm: "----h-",
};

test.each(Object.entries(EXPECTED))("roles that may %s", (operation, allowed) => {
  const mark = (role: GoalRole): string =>
    mayDo(role, operation as GoalOperation) ? (role[0] as string) : "-";
  expect(ROLES.map(mark).join("")).toBe(allowed);
});

test("the table above names every operation", () => {
  expect(Object.keys(EXPECTED).sort()).toEqual(Object.keys(MAY).sort());
});

const decision = { type: "constraint", context: "c", decision: "d", reason: "r" } as const;

/** One call of each operation on a goal that has one of everything. */
const CALLS: Readonly<Record<Exclude<GoalOperation, "create">, (goal: Goal, by: Actor) => Promise<unknown>>> =
  {
    describe: (goal, who) => goal.describe({ title: "t", by: who }),
    addPhase: (goal, who) => goal.addPhase({ name: "p", by: who }),
    addPlan: (goal, who) => goal.addPlan({ phase: 1, name: "p", by: who }),
    addTask: (goal, who) => goal.addTask({ title: "t", by: who }),
    editTask: (goal, who) => goal.editTask({ task: "T-001", change: { title: "t" }, by: who }),
    aliasTask: (goal, who) => goal.aliasTask({ alias: "T-900", task: "T-001", by: who }),
    claim: (goal, who) => goal.claim("T-003", { by: who }),
    progress: (goal, who) => goal.noteProgress({ task: "T-004", by: who }),
    submit: (goal, who) => goal.submit({ task: "T-004", by: who }),
    fail: (goal, who) => goal.fail({ task: "T-004", error: "e", by: who }),
    release: (goal, who) => goal.release({ task: "T-004", by: who }),
    verify: (goal, who) => goal.verify({ task: "T-002", accept: true, by: who }),
    reset: (goal, who) => goal.reset({ task: "T-004", why: "w", force: true, by: who }),
    retry: (goal, who) => goal.retry({ task: "T-005", why: "w", by: who }),
    drop: (goal, who) => goal.drop({ task: "T-001", why: "w", by: who }),
    reopen: (goal, who) => goal.reopen({ task: "T-006", why: "w", by: who }),
    move: (goal, who) => goal.move({ to: 2, by: who }),
    completePhase: (goal, who) => goal.completePhase({ phase: 2, by: who }),
    decide: (goal, who) => goal.decide({ ...decision, by: who }),
    supersede: (goal, who) => goal.supersede({ ...decision, supersedes: "D-001", by: who }),
    block: (goal, who) => goal.block({ description: "d", affects: [], by: who }),
    identify: (goal, who) => goal.identify({ blocker: "B-001", by: who }),
    bypass: (goal, who) => goal.bypass({ blocker: "B-002", workaround: "w", by: who }),
    resolve: (goal, who) => goal.resolve({ blocker: "B-003", resolution: "r", by: who }),
    fact: (goal, who) => goal.fact({ key: "k", value: 1, source: "s", by: who }),
    forget: (goal, who) => goal.forget({ key: "known", why: "w", by: who }),
    recordFiles: (goal, who) => goal.recordFiles({ files: [{ path: "a", act: "deleted" }], by: who }),
    implementation: (goal, who) => goal.implementation({ text: "t", by: who }),
    ask: (goal, who) => goal.ask({ text: "t", by: who }),
    assume: (goal, who) => goal.assume({ text: "t", by: who }),
    settle: (goal, who) => {
      const status = goal.state.assumptions.get("A-001")?.status === "confirmed" ? "refuted" : "confirmed";
      return goal.settle({ assumption: "A-001", status, evidence: "e", by: who });
    },
    answer: (goal, who) => goal.answer({ question: "Q-001", answer: "a", by: who }),
    setNext: (goal, who) => goal.setNext({ next: "n", by: who }),
    recordError: (goal, who) => goal.recordError({ message: "m", by: who }),
    startSession: (goal, who) => goal.startSession({ session: "new", by: who }),
    noteSession: (goal, who) => goal.noteSession({ session: "s-1", notes: "n", by: who }),
    endSession: (goal, who) => goal.endSession({ session: "s-1", by: who }),
    crashSession: (goal, who) => goal.crashSession({ session: "s-1", by: who }),
    handoff: (goal, who) => goal.handoff({ session: "s-1", reason: "r", by: who }),
    retract: (goal, who) => goal.retract({ event: "D-001", why: "w", by: who }),
    confirm: (goal, who) => goal.confirm({ events: "all", by: who }),
  };

describe.each(storeSubjects())("roles on $name", (subject) => {
  let bench: Bench;
  let goal: Goal;

  beforeEach(async () => {
    bench = await Bench.open(subject);
    goal = await bench.goal({
      phases: ["one", "two"],
      tasks: [
        { title: "open", phase: 1 },
        { title: "submitted", phase: 1 },
        { kind: "review", title: "review", phase: 1, reviews: ["T-002"], checklist: ["look"] },
        { kind: "review", title: "claimed", phase: 1, reviews: ["T-002"], checklist: ["look"] },
        { title: "failed", phase: 1 },
        { title: "dropped", phase: 1 },
      ],
    });
    await (await goal.claim("T-002", { by: worker })).submit();
    await (await goal.claim("T-005", { by: worker })).fail("e", { retryable: false });
    await goal.drop({ task: "T-006", why: "w" });
    await goal.decide(decision);
    await goal.block({ description: "new", affects: [], identified: false });
    await goal.block({ description: "active", affects: [] });
    await goal.block({ description: "own", affects: [], by: by("worker", "me") });
    await goal.fact({ key: "known", value: 1, source: "s" });
    await goal.ask({ text: "q" });
    await goal.assume({ text: "a" });
    await goal.startSession({ session: "s-1" });
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  test.each(ROLES)(
    "a %s may do exactly what the table says, and a rejected act writes nothing",
    async (role) => {
      for (const [operation, call] of Object.entries(CALLS)) {
        const claimant = role === "verifier" || role === "human" ? by(role, "me") : by("worker", "me");
        await goal.refresh();
        if (goal.task("T-004").status === "open") await goal.claim("T-004", { by: claimant });
        if (goal.state.history.get("s-1")?.status !== "active") await goal.startSession({ session: "s-1" });
        const before = goal.seq;
        const code = await codeOf(call(goal, by(role, "me")));
        const isAllowed = mayDo(role, operation as GoalOperation);
        const wanted = isAllowed ? expect.not.stringMatching(/^ROLE_REFUSED$/) : "ROLE_REFUSED";
        expect({ operation, code }).toEqual({ operation, code: wanted });
        if (!isAllowed) expect(goal.seq).toBe(before);
      }
    },
  );

  test("a verifier accepts work, but claims reviews only", async () => {
    await expect(goal.claim("T-001", { by: verifier })).rejects.toThrow("a verifier claims reviews only");
    await goal.claim("T-003", { by: verifier });
  });

  test("agents that do not plan resolve only their own blockers", async () => {
    for (const role of ["worker", "verifier", "supervisor"] as const) {
      const resolving = goal.resolve({ blocker: "B-002", resolution: "r", by: by(role, "me") });
      await expect(resolving).rejects.toMatchObject({
        code: "ROLE_REFUSED",
        message: `"me", a ${role}, may not resolve: B-002 was reported by "ann"`,
        hint: expect.stringContaining("architect, orchestrator, human"),
      });
    }
    await goal.resolve({ blocker: "B-003", resolution: "r", by: by("worker", "me") });
    expect(goal.state.blockers.get("B-003")?.status).toBe("resolved");
  });

  test("agents cannot accept their own work in any role; a person can", async () => {
    const disguised = by("verifier", worker.name);
    await expect(goal.verify({ task: "T-002", accept: true, by: disguised })).rejects.toMatchObject({
      code: "ROLE_REFUSED",
      message: '"w-1", a verifier, may not verify: T-002 is its own work',
    });
    await goal.verify({ task: "T-002", accept: true, by: human });
    expect(goal.task("T-002").status).toBe("done");
  });

  test("with self verification, submitting completes the task", async () => {
    await goal.describe({ verification: "self" });
    await goal.verify({ task: "T-002", accept: true, by: worker });
    const claim = await goal.claim("T-001", { by: worker });
    expect((await claim.submit()).status).toBe("done");
  });

  test("the error names the roles that may do it", async () => {
    await expect(goal.addPhase({ name: "x", by: worker })).rejects.toMatchObject({
      code: "ROLE_REFUSED",
      message: '"w-1", a worker, may not add a phase',
      hint: expect.stringContaining("architect, orchestrator, human"),
    });
    const steering = { name: "o-1", role: "orchestrator" } as const;
    await expect(goal.claim("T-001", { by: steering })).rejects.toThrow(
      '"o-1", an orchestrator, may not claim',
    );
  });
});
