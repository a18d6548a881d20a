import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import type { Goal } from "../../src/goal/index.ts";
import {
  Holdfast,
  landed,
  never,
  notYet,
  type SupervisorEvent,
  type SweepOptions,
  tool,
  type Verdict,
} from "../../src/index.ts";
import { Journal } from "../../src/journal/index.ts";
import { Sweeper } from "../../src/supervisor/index.ts";
import { Bench, by, codeOf, worker } from "../goal/bench.ts";
import { storeSubjects } from "../subjects.ts";

const MINUTE = 60_000;
const WAIT = { timeout: 50_000, interval: 5 };
const other = by("worker", "w-2");

describe.each(storeSubjects())("a sweep on $name", (subject) => {
  let bench: Bench;
  let goal: Goal;
  let elsewhere: Journal;
  let holdfast: Holdfast;
  let events: SupervisorEvent[];

  beforeEach(async () => {
    bench = await Bench.open(subject);
    goal = await bench.goal({ phases: ["one"], tasks: [{ title: "a" }, { title: "b" }, { title: "c" }] });
    elsewhere = await bench.another();
    holdfast = new Holdfast(elsewhere);
    events = [];
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  const sweep = (options: SweepOptions = {}) =>
    holdfast.superviseOnce({ name: "super", onEvent: (event) => events.push(event), ...options });
  const types = () => events.map(({ type }) => type);
  const look = () => bench.goal({}, elsewhere);

  describe("tasks", () => {
    test("of a dead agent are reset with its last note, and its session is marked crashed", async () => {
      await goal.startSession({ session: "s-1", by: worker });
      const claim = await goal.claim("T-001", { by: worker, session: "s-1" });
      await claim.progress("half of the tokens");
      await bench.crash(bench.journal);
      const { reset, ready, errors } = await sweep();
      expect(errors).toEqual([]);
      expect(reset).toEqual([
        expect.objectContaining({ goal: "checkout", task: "T-001", session: "s-1", agent: "w-1" }),
      ]);
      expect(ready).toContainEqual({ kind: "task", goal: "checkout", task: "T-001" });
      const seen = await look();
      expect(seen.task("T-001")).toMatchObject({
        status: "open",
        claim: null,
        previous: { ended: "reset", note: "half of the tokens" },
      });
      expect(seen.state.history.get("s-1")).toMatchObject({
        status: "crashed",
        workingOn: "T-001",
        notes: [
          "Agent unresponsive, task reset: its process is gone in T-001; last note: half of the tokens",
        ],
      });
      expect(seen.briefing()).toContain("half of the tokens");
      expect(await codeOf(claim.submit())).toBe("LEASE_LOST");
    });

    test("of a living agent are reset only without progress for too long", async () => {
      await goal.startSession({ session: "s-1", by: worker });
      const claim = await goal.claim("T-001", { by: worker, session: "s-1" });
      bench.passMs(29 * MINUTE);
      expect((await sweep()).reset).toEqual([]);
      await claim.progress("further");
      bench.passMs(29 * MINUTE);
      expect((await sweep()).reset).toEqual([]);
      bench.passMs(2 * MINUTE);
      expect((await sweep()).reset).toHaveLength(1);
      expect(await codeOf(claim.progress("too late"))).toBe("LEASE_LOST");
      expect((await look()).state.history.get("s-1")?.status).toBe("crashed");
    });

    test("of an agent whose session progresses stay with it", async () => {
      const session = await new Holdfast(bench.journal).session("s-1", { goal: "checkout" });
      await goal.claim("T-001", { by: worker, session: "s-1" });
      bench.passMs(31 * MINUTE);
      await session.append({ role: "user", text: "still thinking" });
      expect((await sweep()).reset).toEqual([]);
      bench.passMs(31 * MINUTE);
      expect((await sweep()).reset).toHaveLength(1);
      await session.close();
    });

    test("are reset once, however many supervisors sweep", async () => {
      await goal.startSession({ session: "s-1", by: worker });
      for (const task of ["T-001", "T-002"]) await goal.claim(task, { by: worker, session: "s-1" });
      await bench.crash(bench.journal);
      const supervisors = await Promise.all([1, 2, 3].map(async () => new Holdfast(await bench.another())));
      const reports = await Promise.all(supervisors.map((each) => each.superviseOnce()));
      expect(reports.flatMap(({ errors }) => errors)).toEqual([]);
      const later = await sweep();
      const resets = [...reports, later].flatMap(({ reset }) => reset.map(({ task }) => task)).sort();
      expect(resets).toEqual(["T-001", "T-002"]);
      const written = [];
      for await (const [, { type }] of (await look()).events()) written.push(type);
      expect(written.filter((type) => type === "session.crashed")).toHaveLength(1);
      expect(written.filter((type) => type === "task.reset")).toHaveLength(2);
    });

    test("of dead agents are also reset when another task is claimed, without a supervisor", async () => {
      await goal.startSession({ session: "s-1", by: worker });
      await goal.claim("T-001", { by: worker, session: "s-1" });
      await bench.crash(bench.journal);
      const beside = await look();
      await beside.claim("T-002", { by: other });
      expect(beside.task("T-001")).toMatchObject({ status: "open", previous: { ended: "reset" } });
      expect(beside.state.history.get("s-1")?.status).toBe("crashed");
      expect((await beside.next()).tasks.map(({ id }) => id)).toContain("T-001");
    });

    test("of living agents are not, however slow they are", async () => {
      const claim = await goal.claim("T-001", { by: worker });
      bench.passMs(10 * 60 * MINUTE);
      await (await look()).claim("T-002", { by: other });
      await claim.progress("slow but there");
    });
  });

  describe("sessions", () => {
    test("that died get their entry in the goal's history, once", async () => {
      await new Holdfast(bench.journal).session("s-9", { goal: "checkout", label: "web-3" });
      expect((await sweep()).crashed).toEqual([]);
      await bench.crash(bench.journal);
      const second = new Holdfast(await bench.another());
      const reports = await Promise.all([
        sweep(),
        second.superviseOnce({ onEvent: (event) => events.push(event) }),
      ]);
      expect(reports.flatMap(({ crashed }) => crashed)).toEqual(["s-9"]);
      expect((await sweep()).crashed).toEqual([]);
      expect((await look()).state.history.get("s-9")).toMatchObject({
        status: "crashed",
        agent: "web-3",
        notes: [expect.stringMatching(/^Agent unresponsive: web-3 \(.*\) is gone$/)],
      });
      expect(types()).toContain("session.crashed");
    });

    test("that closed, ended or continue are not marked", async () => {
      const crashing = new Holdfast(bench.journal);
      await (await crashing.session("closed", { goal: "checkout" })).close();
      const done = await crashing.session("done", { goal: "checkout" });
      await done.complete();
      await bench.crash(bench.journal);
      const living = await holdfast.session("living", { goal: "checkout" });
      expect((await sweep()).crashed).toEqual([]);
      expect([...(await look()).state.history.keys()]).toEqual([]);
      await living.close();
    });

    test("that only the goal knows are marked after a long silence", async () => {
      await goal.startSession({ session: "hook", by: worker });
      bench.passMs(20 * MINUTE);
      await goal.noteSession({ session: "hook", notes: "a sign", by: worker });
      bench.passMs(20 * MINUTE);
      await sweep();
      expect((await look()).state.history.get("hook")?.status).toBe("active");
      bench.passMs(11 * MINUTE);
      await Promise.all([sweep(), sweep()]);
      expect((await look()).state.history.get("hook")).toMatchObject({
        status: "crashed",
        notes: ["a sign", "Agent unresponsive: no sign of it for 31 min"],
      });
    });
  });

  describe("calls", () => {
    let charged: string[];
    let isUnderWay: () => void;
    let verdict: () => Verdict<unknown>;
    const charge = () =>
      tool({
        name: "charge",
        description: "Charge the card",
        input: z.object({ order: z.string() }),
        effect: "mutate",
        execute: ({ order }, { signal }) => {
          charged.push(order);
          isUnderWay();
          // Charged, but the answer never comes.
          return new Promise<never>((_, reject) =>
            signal.addEventListener("abort", () => reject(signal.reason)),
          );
        },
        verify: () => verdict(),
      });

    beforeEach(async () => {
      charged = [];
      verdict = () => landed("paid");
      const session = await new Holdfast(bench.journal).session("order", { goal: "checkout" });
      const underWay = new Promise<void>((resolve) => {
        isUnderWay = resolve;
      });
      const never = session.call({ callId: "c1", tool: charge(), args: { order: "4711" } });
      never.catch(() => undefined);
      await underWay;
      await bench.crash(bench.journal);
    });

    test("are settled by their verify, without their agent, and without a second effect", async () => {
      const { settled, open } = await sweep({ tools: [charge()] });
      expect(settled).toEqual([{ session: "order", callId: "c1" }]);
      expect(open).toEqual([]);
      expect(charged).toEqual(["4711"]);
      const [call] = (await holdfast.sessions.get("order")).calls;
      expect(call).toMatchObject({ status: "completed", settledBy: "verify", attempt: 1 });
      expect((await holdfast.sessions.get("order")).heldBy).toBeNull();
    });

    test("are settled once by several supervisors", async () => {
      const second = new Holdfast(await bench.another());
      const reports = await Promise.all([
        sweep({ tools: [charge()] }),
        second.superviseOnce({ tools: [charge()] }),
      ]);
      expect(reports.flatMap(({ errors }) => errors)).toEqual([]);
      expect(reports.flatMap(({ settled }) => settled)).toHaveLength(1);
      expect(charged).toEqual(["4711"]);
    });

    test("that never happened are run once more, by one of several supervisors", async () => {
      const input = z.object({ order: z.string() });
      const base = { name: "refund", description: "Pay back", input, effect: "mutate" } as const;
      const paidBack: string[] = [];
      const underWay = new Promise<void>((resolve) => {
        isUnderWay = resolve;
      });
      const hanging = tool({
        ...base,
        execute: (_args, { signal }) => {
          isUnderWay();
          return new Promise<never>((_, reject) =>
            signal.addEventListener("abort", () => reject(signal.reason)),
          );
        },
      });
      const refund = tool({
        ...base,
        execute: ({ order }) => {
          paidBack.push(order);
          return "paid back";
        },
        verify: ({ order }) => (paidBack.includes(order) ? landed("paid back") : never()),
      });
      const dying = await bench.another();
      const session = await new Holdfast(dying).session("back");
      session.call({ callId: "c2", tool: hanging, args: { order: "4711" } }).catch(() => undefined);
      await underWay;
      await bench.crash(dying);
      const second = new Holdfast(await bench.another());
      const tools = [refund, charge()];
      await Promise.all([sweep({ tools }), second.superviseOnce({ tools })]);
      await sweep({ tools });
      expect(paidBack).toEqual(["4711"]);
      expect((await holdfast.sessions.get("back")).calls[0]).toMatchObject({
        status: "completed",
        attempt: 2,
      });
    });

    test("of an unknown tool are left to their agent and listed", async () => {
      const { settled, open } = await sweep();
      expect(settled).toEqual([]);
      expect(open).toEqual([
        {
          session: "order",
          callId: "c1",
          tool: "charge",
          person: false,
          why: "no tool charge here: its agent settles it",
        },
      ]);
      expect((await holdfast.sessions.get("order")).calls[0]?.status).toBe("issued");
    });

    test("of an unknown tool wait for a person with unknownTools: ask", async () => {
      const { open } = await sweep({ unknownTools: "ask" });
      expect(open).toEqual([expect.objectContaining({ callId: "c1", person: true })]);
      await holdfast.calls.resolve("c1", {
        outcome: "landed",
        result: "paid",
        by: "ann",
        why: "on the statement",
      });
      expect((await sweep()).open).toEqual([]);
      expect(charged).toEqual(["4711"]);
    });

    test("that may still arrive are verified again when due, not at every sweep", async () => {
      let asked = 0;
      verdict = () => {
        asked += 1;
        return notYet({ againInMs: 40_000 });
      };
      const controller = new AbortController();
      const looks = vi.spyOn(Sweeper.prototype, "sweep");
      const options = { tools: [charge()], everyMs: 20, signal: controller.signal };
      const supervising = holdfast.supervise(options);
      await expect.poll(() => asked, WAIT).toBe(1);
      const before = looks.mock.calls.length;
      await expect.poll(() => looks.mock.calls.length, WAIT).toBeGreaterThan(before + 4);
      expect(asked).toBe(1);
      verdict = () => landed("paid");
      bench.passMs(41_000);
      await expect
        .poll(async () => (await holdfast.sessions.get("order")).calls[0]?.status, WAIT)
        .toBe("completed");
      controller.abort();
      await supervising;
      expect(charged).toEqual(["4711"]);
    });
  });

  test("notifies a person, and survives listeners that fail", async () => {
    const warnings: unknown[] = [];
    const warn = (error: unknown): void => {
      warnings.push(error);
    };
    holdfast = new Holdfast(new Journal({ store: await bench.opened.another(), now: () => bench.now, warn }));
    await goal.startSession({ session: "s-1", by: worker });
    await goal.claim("T-001", { by: worker, session: "s-1" });
    await bench.crash(bench.journal);
    const { reset, errors } = await sweep({
      onEvent: () => {
        throw new Error("a broken display");
      },
      notify: async () => {
        throw new Error("no network");
      },
      notifyCommand: { command: ["/no/such/program"] },
    });
    expect([reset.length, errors]).toEqual([1, []]);
    const told = warnings.map((error) => (error as Error).message);
    expect(told).toEqual(expect.arrayContaining(["a broken display", "no network"]));
    expect(told.some((text) => text.includes("ENOENT"))).toBe(true);
  });

  test("sends each notice to a program as a line of JSON", async () => {
    const folder = await mkdtemp(join(tmpdir(), "holdfast-notices-"));
    try {
      await goal.startSession({ session: "s-1", by: worker });
      await goal.claim("T-001", { by: worker, session: "s-1" });
      await bench.crash(bench.journal);
      const file = join(folder, "notices");
      const code = `process.stdin.on("data", (text) => require("fs").appendFileSync(${JSON.stringify(file)}, text))`;
      await sweep({ notifyCommand: { command: [process.execPath, "-e", code] } });
      const lines = readFileSync(file, "utf8").trim().split("\n");
      expect(lines.map((line) => JSON.parse(line))).toContainEqual(
        expect.objectContaining({ type: "task.reset", task: "T-001", agent: "w-1" }),
      );
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test("reports when a blocker stops the goal, and when tasks are unblocked", async () => {
    const controller = new AbortController();
    const heard: SupervisorEvent[] = [];
    const notify = (event: SupervisorEvent): void => {
      heard.push(event);
    };
    const blocker = await goal.block({ description: "no keys", affects: { goal: true } });
    const supervising = holdfast.supervise({ everyMs: 20, signal: controller.signal, notify });
    await expect.poll(() => heard.map(({ type }) => type), WAIT).toContain("goal.blocked");
    await goal.resolve({ blocker: blocker.id, resolution: "they came" });
    await expect
      .poll(() => heard.find(({ type }) => type === "task.unblocked"), WAIT)
      .toMatchObject({ goal: "checkout", tasks: ["T-001", "T-002", "T-003"] });
    controller.abort();
    await supervising;
    expect(heard.filter(({ type }) => type === "goal.blocked")).toHaveLength(1);
  });
});
