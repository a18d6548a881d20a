import { mkdirSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect } from "vitest";
import { resumeGoal } from "../../src/projections/index.ts";
import { storeSubjects } from "../subjects.ts";
import { FolderBench } from "./folder-bench.ts";
import { testsInTurn } from "./in-turn.ts";

const HOUR = 3_600_000;

describe.each(storeSubjects())("resuming a goal on $name", (subject) => {
  const inTurn = testsInTurn(subject);
  afterAll(() => subject.dispose());
  let bench: FolderBench;
  const file = (path: string, text: string): void => {
    mkdirSync(join(bench.root, path, ".."), { recursive: true });
    writeFileSync(join(bench.root, path), text);
  };
  beforeEach(async () => {
    bench = await FolderBench.open(subject, {
      phases: ["Schema", { name: "JWT", plans: ["keys", "tokens", "rotation"] }],
      tasks: [{ title: "Implement rotation", phase: 2, plan: 3 }],
    });
    await bench.goal.completePhase({ phase: 1 });
    file("src/auth.ts", "v1");
    file("src/gone.ts", "v1");
    await bench.goal.recordFiles({
      files: [
        { path: "src/auth.ts", act: "modified" },
        { path: "src/gone.ts", act: "examined" },
      ],
    });
    await bench.goal.implementation({ text: "Rotation invalidates old tokens", files: ["src/auth.ts"] });
    await bench.goal.decide({
      type: "technology",
      context: "JWT library",
      decision: "jose",
      reason: "typed",
    });
    await bench.goal.block({ description: "No OAuth keys", affects: ["goal"] });
  });
  afterEach(() => bench.dispose());

  inTurn("shows the three lines, with the plan and the summaries of the phase's earlier plans", async () => {
    file(".planning/2-3-PLAN.md", "the plan");
    file(".planning/2-1-SUMMARY.md", "keys are made");
    file(".planning/02-02-SUMMARY.md", "tokens are made");
    file(".planning/1-1-SUMMARY.md", "another phase");
    const resumed = await resumeGoal(bench.goal);
    expect(resumed.status).toBe("ready");
    expect(resumed.display).toEqual([
      "Resuming from Phase 2, Plan 3, Task: Implement rotation",
      "Decisions made: D-001 jose",
      "Active blockers: B-001 No OAuth keys",
    ]);
    expect(resumed.plan?.text).toBe("the plan");
    expect(resumed.summaries.map(({ text }) => text)).toEqual(["keys are made", "tokens are made"]);
    expect(resumed.files.files.map(({ path, verdict }) => [path, verdict])).toEqual([
      ["src/auth.ts", "OK"],
      ["src/gone.ts", "OK"],
    ]);
  });

  inTurn("a mismatch needs a review, unless `proceed` is set", async () => {
    file("src/auth.ts", "v2");
    unlinkSync(join(bench.root, "src/gone.ts"));
    const stopped = await resumeGoal(bench.goal);
    expect(stopped.status).toBe("review");
    expect(stopped.review).toEqual([
      "src/auth.ts DRIFTED",
      "src/gone.ts MISSING",
      '"Rotation invalidates old tokens" was built in src/auth.ts',
    ]);
    expect(await resumeGoal(bench.goal, { proceed: true })).toMatchObject({
      status: "ready",
      review: stopped.review,
    });
  });

  inTurn("resumes at the task that the plan names first, with its part of the plan", async () => {
    const { goal } = bench;
    await goal.resolve({ blocker: "B-001", resolution: "they came" });
    await goal.addTask({ title: "Revoke old tokens", phase: 2, plan: 3 });
    const plan = ["# Rotation", "- revoke OLD tokens", "  in one transaction", "- T-001: rotate", "# Later"];
    file(".planning/2-3-PLAN.md", plan.join("\n"));
    const first = await resumeGoal(goal);
    expect(first.task).toEqual({
      id: "T-002",
      title: "Revoke old tokens",
      section: "- revoke OLD tokens\n  in one transaction",
    });
    expect(first.display[0]).toBe("Resuming from Phase 2, Plan 3, Task: Revoke old tokens");
    await goal.setNext({ next: "T-001" });
    expect((await resumeGoal(goal)).task).toMatchObject({ id: "T-001", section: "- T-001: rotate" });
    const claim = await goal.claim("T-002");
    expect((await resumeGoal(goal)).task).toMatchObject({ id: "T-002" });
    await claim.release();
  });

  inTurn("a stale state needs a review, which says its age", async () => {
    bench.bench.passMs(80 * HOUR);
    const stopped = await resumeGoal(bench.goal);
    expect(stopped).toMatchObject({ status: "stale", ageMs: 80 * HOUR });
    expect(stopped.review).toEqual(["the state is 3 d 8 h old: check that it still says what is true"]);
    expect((await resumeGoal(bench.goal, { proceed: true })).status).toBe("ready");
  });

  inTurn("a plan that is no text is reported, not read", async () => {
    file(".planning/2-3-PLAN.md", "x".repeat(2_000_000));
    const resumed = await resumeGoal(bench.goal);
    expect(resumed).toMatchObject({ status: "review", plan: null });
    expect(resumed.review).toEqual([
      "2-3-PLAN.md cannot be read: it has 2000000 bytes, the limit is 1048576",
    ]);
  });
});
