// The session lines of a briefing: the last hand-off stays, sessions without work and the reader are left
// out.

import { afterAll, expect, test } from "vitest";
import type { Goal } from "../../src/goal/index.ts";
import { storeSubjects } from "../subjects.ts";
import { Bench, by, supervisor, worker } from "./bench.ts";
import { BEGINNING } from "./random-operations.ts";

const [memory] = storeSubjects();
if (!memory) throw new Error("there is no memory store to test on");
afterAll(() => memory.dispose());

async function on(check: (goal: Goal, bench: Bench) => Promise<void>): Promise<void> {
  const bench = await Bench.open(memory as NonNullable<typeof memory>);
  try {
    await check(await bench.goal(BEGINNING), bench);
  } finally {
    await bench.dispose();
  }
}

const lastLines = (text: string): string[] => text.split("\n").filter((line) => line.startsWith("LAST "));

async function openedAndClosed(goal: Goal, bench: Bench, session: string): Promise<void> {
  await goal.startSession({ session, agent: "claude", by: by("worker", session) });
  bench.passMs(1_000);
  await goal.endSession({ session, by: by("worker", session) });
}

const HANDED_OFF = '"end of day", note "NEVER run migrate.sh, it wipes prod"';

async function handedOff(goal: Goal, bench: Bench): Promise<void> {
  await goal.startSession({ session: "w1", by: by("worker", "w") });
  bench.passMs(60_000);
  const notes = "NEVER run migrate.sh, it wipes prod";
  await goal.handoff({ session: "w1", reason: "end of day", notes, by: by("worker", "w") });
  bench.passMs(60_000);
}

test("the last hand-off stays after sessions without work, which are not listed", async () => {
  await on(async (goal, bench) => {
    await handedOff(goal, bench);
    for (const each of ["claude-1", "claude-2", "claude-3"]) await openedAndClosed(goal, bench, each);
    await goal.startSession({ session: "claude-4", agent: "claude", by: by("worker", "claude-4") });
    await goal.crashSession({ session: "claude-4", notes: "it never ended", by: supervisor });
    expect(lastLines(goal.briefing())).toEqual([
      `LAST w1 of w ended 1 min 3 s ago, handed off: ${HANDED_OFF}`,
    ]);
    expect(goal.briefing()).not.toContain("sessions");
  });
});

test("the last hand-off comes first until another replaces it; other sessions are counted", async () => {
  await on(async (goal, bench) => {
    await handedOff(goal, bench);
    for (const session of ["s-1", "s-2", "s-3", "s-4"]) {
      await goal.startSession({ session, by: by("worker", session) });
      const files = [{ path: `${session}.ts`, act: "modified", hash: "a".repeat(64) }] as const;
      await goal.recordFiles({ files, session, by: by("worker", session) });
      bench.passMs(1_000);
      await goal.endSession({ session, by: by("worker", session) });
    }
    const said = goal.briefing();
    expect(lastLines(said).map((line) => line.split(" ")[1])).toEqual(["w1", "s-4", "s-3"]);
    expect(said).toMatch(/not shown: 2 sessions$/m);
    await goal.startSession({ session: "s-5", by: worker });
    await goal.handoff({ session: "s-5", reason: "lunch", by: worker });
    expect(lastLines(goal.briefing())[0]).toContain('handed off: "lunch"');
    expect(goal.briefing()).not.toContain("migrate.sh");
  });
});

test("a session that only recorded a decision is listed", async () => {
  await on(async (goal, bench) => {
    await goal.startSession({ session: "s-1", by: worker });
    bench.passMs(1_000);
    const decision = { type: "technology", context: "c", decision: "d", reason: "r" } as const;
    await goal.decide({ ...decision, by: worker });
    await goal.endSession({ session: "s-1", by: worker });
    expect(lastLines(goal.briefing())).toEqual(["LAST s-1 of w-1 ended 0 s ago"]);
  });
});

test("sessions of one agent have different names, and the reader is left out", async () => {
  await on(async (goal) => {
    for (const session of ["claude-1", "claude-2"])
      await goal.startSession({ session, agent: "claude", by: by("worker", session) });
    expect(lastLines(goal.briefing())).toEqual([
      "LAST claude-1 active 0 s ago",
      "LAST claude-2 active 0 s ago",
    ]);
    expect(lastLines(goal.briefing({ session: "claude-2" }))).toEqual(["LAST claude-1 active 0 s ago"]);
  });
});

test("a session that continues after its crash is not shown with the task that was released", async () => {
  await on(async (goal) => {
    const claude = by("worker", "claude-1");
    await goal.startSession({ session: "claude-1", agent: "claude", by: claude });
    await goal.claim("T-001", { by: claude, session: "claude-1" });
    await goal.crashSession({ session: "claude-1", notes: "it never ended", by: supervisor });
    await goal.reset({ task: "T-001", why: "session claude-1 crashed", force: true, by: supervisor });
    expect(lastLines(goal.briefing())[0]).toBe(
      'LAST claude-1 crashed in T-001 0 s ago, note "it never ended"',
    );
    await goal.startSession({ session: "claude-1", agent: "claude", by: claude });
    expect(lastLines(goal.briefing())).toEqual([
      'LAST claude-1 active 0 s ago, note "Resuming after its own crash"',
    ]);
    expect(lastLines(goal.briefing({ session: "claude-1" }))).toEqual([]);
    await goal.claim("T-001", { by: claude, session: "claude-1" });
    expect(lastLines(goal.briefing())[0]).toMatch(/^LAST claude-1 active in T-001/);
  });
});
