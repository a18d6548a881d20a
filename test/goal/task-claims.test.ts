import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Goal } from "../../src/goal/index.ts";
import type { Journal } from "../../src/journal/index.ts";
import { storeSubjects } from "../subjects.ts";
import { Bench, by, codeOf, human, orchestrator, supervisor, verifier, worker } from "./bench.ts";

const other = by("worker", "w-2");

describe.each(storeSubjects())("tasks shared by agents on $name", (subject) => {
  let bench: Bench;
  let goal: Goal;
  let elsewhere: Journal;
  let beside: Goal;

  beforeEach(async () => {
    bench = await Bench.open(subject);
    goal = await bench.goal({ phases: ["one"], tasks: [{ title: "a" }, { title: "b" }] });
    elsewhere = await bench.another();
    beside = await bench.goal({}, elsewhere);
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  test("a claimed task is held: the error names the holder and the remaining time", async () => {
    await goal.claim("T-001", { by: worker });
    await expect(beside.claim("T-001", { by: other })).rejects.toMatchObject({
      code: "TASK_HELD",
      retryable: true,
      message: expect.stringMatching(/^task T-001 is held by w-1 \(.*pid \d+\) for another \d+ s$/),
    });
    expect((await beside.next()).tasks.map(({ id }) => id)).toEqual(["T-002"]);
  });

  test("claiming again through the same handle is the same claim", async () => {
    const first = await goal.claim("T-001", { by: worker });
    const commits = await bench.commits(goal);
    expect(await goal.claim("T-001", { by: worker })).toBe(first);
    expect(await bench.commits(goal)).toBe(commits);
  });

  test("after a take-over every write of the zombie is fenced", async () => {
    await goal.startSession({ session: "s-1", by: worker });
    const zombie = await goal.claim("T-001", { by: worker, session: "s-1" });
    await zombie.progress("half of the tokens");
    await bench.crash(bench.journal);
    const heir = await beside.claim("T-001", { by: other, session: "s-2" });
    expect(heir.token).toBe(zombie.token + 1);
    expect(heir.previous).toMatchObject({ ended: "lost", note: "half of the tokens", by: { name: "w-1" } });
    expect(beside.state.history.get("s-1")).toMatchObject({ status: "crashed", workingOn: "T-001" });

    const attempts = [
      () => zombie.submit(),
      () => zombie.progress("still here"),
      () => zombie.fail("no"),
      () => zombie.release(),
      () => zombie.block("no"),
    ];
    for (const attempt of attempts) expect(await codeOf(attempt())).toBe("LEASE_LOST");
    expect(await zombie.heartbeat()).toBe(false);
    expect(zombie.lost.aborted).toBe(true);

    await heir.submit({ summary: "done" });
    expect(await codeOf(zombie.submit())).toBe("LEASE_LOST");
    await beside.verify({ task: "T-001", accept: true, by: verifier });
    expect(await codeOf(zombie.submit())).toBe("LEASE_LOST");
    await goal.refresh();
    expect(goal.task("T-001")).toMatchObject({
      status: "done",
      attempts: 2,
      submission: { by: { name: "w-2" } },
    });
  });

  test("a zombie is fenced as soon as another owner has the lease, before its claim", async () => {
    const zombie = await goal.claim("T-001", { by: worker });
    await bench.crash(bench.journal);
    const taken = await elsewhere.leases.take("goal/checkout/T-001", "x", { label: "x", waitMs: 0 });
    expect(taken).toMatchObject({ token: zombie.token + 1 });
    expect(await codeOf(zombie.submit())).toBe("LEASE_LOST");
  });

  test("an expired lease that no other agent took is still valid: the work is kept", async () => {
    const slow = await goal.claim("T-001", { by: worker });
    await bench.crash(bench.journal);
    expect((await slow.submit()).status).toBe("submitted");
  });

  test("submitting releases the lease; a rejected task is open with the reason", async () => {
    const claim = await goal.claim("T-001", { by: worker });
    const evidence = {
      summary: "it works",
      commands: [{ command: "npm test", exitCode: 0 }],
      files: [{ path: "src/a.ts", hash: "b".repeat(64) }],
    };
    const task = await claim.submit(evidence);
    expect(task).toMatchObject({ status: "submitted", claim: null, submission: { evidence } });
    expect(goal.state.files.get("src/a.ts")).toMatchObject({ hash: "b".repeat(64), task: "T-001" });
    await goal.verify({ task: "T-001", accept: false, why: "no tests", by: verifier });
    const next = await beside.claim("T-001", { by: other });
    expect(next.previous).toMatchObject({ ended: "rejected", why: "no tests", note: "it works" });
  });

  test("a retryable failure is ready again, any other waits for a decision", async () => {
    await (await goal.claim("T-001", { by: worker })).fail("flaky");
    expect((await goal.next()).tasks.map(({ id }) => id)).toEqual(["T-001", "T-002"]);
    await (await goal.claim("T-001", { by: worker })).fail("broken", { retryable: false });
    expect((await goal.next()).tasks.map(({ id }) => id)).toEqual(["T-002"]);
    await expect(goal.claim("T-001", { by: worker })).rejects.toThrow("failed for good: broken");
    await goal.retry({ task: "T-001", why: "fixed the runner", by: orchestrator });
    expect((await goal.next()).tasks.map(({ id }) => id)).toEqual(["T-001", "T-002"]);
  });

  test("after maxAttempts failures a retryable task has failed for good", async () => {
    for (let failures = 0; failures < 3; failures++) {
      await (await goal.claim("T-001", { by: worker })).fail("flaky");
    }
    expect(await codeOf(goal.claim("T-001", { by: worker }))).toBe("TASK_NOT_READY");
    expect(goal.runState().failedTasks).toEqual([{ task: "T-001", error: "flaky", retryable: true }]);
  });

  test("a supervisor resets tasks of dead holders; force also fences living ones", async () => {
    await goal.startSession({ session: "s-1", by: worker });
    const claim = await goal.claim("T-001", { by: worker, session: "s-1" });
    const reset = { task: "T-001", why: "no progress for 30 min", by: supervisor };
    expect(await codeOf(beside.reset(reset))).toBe("TASK_HELD");
    await beside.reset({ ...reset, force: true });
    expect(beside.task("T-001")).toMatchObject({ status: "open", previous: { ended: "reset" } });
    expect(beside.state.history.get("s-1")).toMatchObject({ status: "crashed", notes: [reset.why] });
    expect(await codeOf(claim.submit())).toBe("LEASE_LOST");
    await beside.claim("T-001", { by: other });
  });

  test("a detached claim outlives its process and is continued by the same agent", async () => {
    await goal.claim("T-001", { by: worker, session: "cli", detached: { forMs: 60_000 } });
    expect(await codeOf(beside.claim("T-001", { by: other }))).toBe("TASK_HELD");
    expect(await codeOf(beside.submit({ task: "T-001", by: other }))).toBe("LEASE_LOST");
    await beside.noteProgress({ task: "T-001", by: worker, note: "next command" });
    await beside.submit({ task: "T-001", by: worker, session: "cli" });
    expect(beside.task("T-001").status).toBe("submitted");
    await beside.verify({ task: "T-001", accept: false, by: human });
    await beside.claim("T-001", { by: other });
  });

  test("many agents over many tasks: every task is claimed by exactly one of them", async () => {
    await goal.addTasks({ tasks: Array.from({ length: 10 }, (_, index) => ({ title: `t${index}` })) });
    const agents = [goal, beside, await bench.goal(), await bench.goal({}, elsewhere)];
    const claimed = await Promise.all(
      agents.map(async (agent, index) => {
        const mine: string[] = [];
        for (const { id } of (await agent.next()).tasks) {
          const code = await codeOf(agent.claim(id, { by: by("worker", `agent-${index}`) }));
          if (code === "ok") mine.push(id);
        }
        return mine;
      }),
    );
    expect(claimed.flat().sort()).toEqual([...goal.state.tasks.keys()].sort());
  });

  test("closing a handle releases its tasks", async () => {
    await goal.claim("T-001", { by: worker });
    await goal.close();
    expect(goal.task("T-001")).toMatchObject({ status: "open", previous: { ended: "released" } });
    await beside.claim("T-001", { by: other });
  });

  test("a task can be claimed by its alias", async () => {
    await goal.aliasTask({ alias: "T-100", task: "T-001" });
    await goal.claim("T-100", { by: worker });
    expect((await goal.submit({ task: "T-100", by: worker })).status).toBe("submitted");
    expect(await codeOf(beside.refresh().then(() => beside.claim("T-100", { by: other })))).toBe(
      "TASK_TRANSITION",
    );
  });

  test("closing a handle that lost its task throws nothing", async () => {
    await goal.claim("T-001", { by: worker });
    await beside.reset({ task: "T-001", why: "stuck", force: true, by: supervisor });
    await goal.close();
    expect((await goal.refresh()).task("T-001").previous).toMatchObject({ ended: "reset" });
  });

  test("a dropped task accepts no submission", async () => {
    const claim = await goal.claim("T-001", { by: worker });
    await beside.drop({ task: "T-001", why: "not wanted" });
    expect(await codeOf(claim.submit())).toBe("LEASE_LOST");
    expect(await codeOf(beside.claim("T-001", { by: other }))).toBe("TASK_TRANSITION");
  });
});
