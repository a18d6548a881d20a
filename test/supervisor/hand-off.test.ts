import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Goal, goalCore } from "../../src/goal/index.ts";
import { Holdfast } from "../../src/index.ts";
import { Bench, by, worker } from "../goal/bench.ts";
import { storeSubjects } from "../subjects.ts";

describe.each(storeSubjects())("session history on $name", (subject) => {
  let bench: Bench;
  let goal: Goal;

  beforeEach(async () => {
    bench = await Bench.open(subject);
    goal = await bench.goal({ phases: ["one"], tasks: [{ title: "schema" }, { title: "rotation" }] });
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  test("shows the chain over hand-off and crash, as it happened", async () => {
    const holdfast = new Holdfast(bench.journal);
    const first = await holdfast.session("session-002", { goal: "checkout" });
    await goal.startSession({ session: first.id, by: worker });
    await goal.claim("T-001", { by: worker, session: first.id });
    bench.passMs(60_000);
    await goal.handoff({
      session: first,
      reason: "Context limit reached",
      contextUsage: 0.62,
      issues: ["Context exceeded 50%, quality may have degraded"],
      notes: "the tables are there, the indexes are not",
      next: "T-001",
      by: worker,
    });
    await first.close();
    expect(goal.task("T-001")).toMatchObject({ status: "open", previous: { ended: "released" } });

    const dying = await bench.goal({}, await bench.another());
    const third = by("worker", "w-3");
    await dying.startSession({ session: "session-003", by: third });
    await dying.claim("T-001", { by: third, session: "session-003" });
    await bench.crash(goalCore(dying).journal);
    await holdfast.superviseOnce();

    await goal.refresh();
    const fourth = by("worker", "w-4");
    const entry = await goal.startSession({ session: "session-004", by: fourth });
    expect(entry).toMatchObject({
      status: "active",
      resumes: "session-003",
      notes: ["Resuming from session-003 crash"],
    });
    expect(goal.chain("session-004").map(({ id, status, agent }) => [id, status, agent])).toEqual([
      ["session-002", "ended", "w-1"],
      ["session-003", "crashed", "w-3"],
      ["session-004", "active", "w-4"],
    ]);
    expect(goal.chain("session-003")[0]).toMatchObject({
      handoffReason: "Context limit reached",
      contextUsage: 0.62,
      issues: ["Context exceeded 50%, quality may have degraded"],
    });
    expect(goal.chain("session-003")[1]).toMatchObject({
      notes: [
        "Continuing from session-002: Context limit reached",
        "Agent unresponsive, task reset: its process is gone in T-001",
      ],
      workingOn: "T-001",
    });
    expect((await goal.next()).tasks[0]?.id).toBe("T-001");
  });

  test("a session is resumed by one other session, or by none if requested", async () => {
    await goal.startSession({ session: "a", by: worker });
    await goal.handoff({ session: "a", reason: "lunch", by: worker });
    expect((await goal.startSession({ session: "own", resumes: null, by: worker })).resumes).toBeNull();
    expect((await goal.startSession({ session: "b", by: worker })).resumes).toBe("a");
    expect((await goal.startSession({ session: "c", by: worker })).resumes).toBeNull();
    await goal.endSession({ session: "c", by: worker });
    expect((await goal.startSession({ session: "d", by: worker })).resumes).toBeNull();
    expect((await goal.startSession({ session: "a", by: worker })).resumes).toBeNull();
    expect(goal.state.history.get("a")).toMatchObject({ status: "active", restarts: 1 });
  });
});
