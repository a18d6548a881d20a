// Events in the name of a person that somebody pushed: what they may not do until a person confirms them.

import { afterEach, describe, expect, test } from "vitest";
import { makeBriefing } from "../../src/goal/index.ts";
import type { Entry } from "../../src/model/goal/index.ts";
import { worker } from "../goal/bench.ts";
import { Copy, WallClock } from "./copies.ts";
import { forge, plant } from "./forged-events.ts";

const copies: Copy[] = [];
afterEach(async () => {
  for (const copy of copies.splice(0)) await copy.dispose();
});

async function make(clock: WallClock, from?: { readonly root: string }): Promise<Copy> {
  const copy = await Copy.make(clock, from, undefined, "review");
  copies.push(copy);
  return copy;
}

const AT = Date.UTC(2026, 0, 2) + 3_600_000;
const by = { name: "ann", role: "human" } as const;
const decision = {
  type: "constraint",
  context: "money",
  decision: "Payments need a person",
  reason: "r",
} as const;
const made = { type: "constraint", date: "2026-01-02", reversible: true, files: [], alternatives: [] };

/** A goal with everything that an attacker wants to change. */
async function victim(clock: WallClock): Promise<Copy> {
  const copy = await make(clock);
  const { goal } = copy;
  await goal.decide(decision);
  await goal.block({
    description: "security review pending",
    affects: { tasks: [], phases: [], goal: true },
  });
  await goal.ask({ text: "May we ship?" });
  const [task] = await goal.addTasks({ tasks: [{ title: "pay" }] });
  await goal.resolve({ blocker: "B-001", resolution: "for the claim" });
  const claim = await goal.claim(task?.id ?? "", { by: worker });
  await claim.submit({ summary: "built" });
  await goal.block({ description: "still pending", affects: { tasks: [], phases: [], goal: true } });
  await copy.folder.sync();
  return copy;
}

function forgeries(copy: Copy): Entry[] {
  const { state } = copy.goal;
  const task = [...state.tasks.values()].find(({ status }) => status === "submitted");
  const id = task?.id ?? "";
  const refs = Object.fromEntries(
    [id, "D-001", "B-002", "Q-001"].map((name) => [name, state.names.get(name) ?? ""]),
  );
  const acts: [string, object, string?][] = [
    ["goal.described", { change: { statement: "Sell it", verification: "self" } }],
    [
      "decision.made",
      { ...made, id: "D-002", context: "c", decision: "Nobody", reason: "r", supersedes: "D-001" },
      "D-001",
    ],
    ["blocker.resolved", { blocker: "B-002", resolution: "reviewed" }, "B-002"],
    ["task.accepted", { task: id, submission: task?.submission?.uid, why: null }, id],
    ["question.answered", { question: "Q-001", answer: "yes, ship" }, "Q-001"],
    ["event.retracted", { event: state.names.get("B-002"), why: "gone" }],
    [
      "goal.created",
      { id: "checkout", statement: "Mine", title: null, ttlMs: null, verification: "self", maxAttempts: 9 },
    ],
  ];
  return acts.map(([type, data, name], c) => {
    // The second beginning is older than the first one.
    const t = type === "goal.created" ? Date.UTC(2026, 0, 1) : AT;
    const used = name === undefined ? {} : { [name]: refs[name] ?? "" };
    return forge({ t, c, at: t, type, refs: used, data: { by, ...data } });
  });
}

const effects = ({ goal: { state } }: Copy): unknown => ({
  statement: state.statement,
  verification: state.verification,
  superseded: state.decisions.get("D-001")?.supersededBy,
  blocker: state.blockers.get("B-002")?.status,
  answer: state.questions.get("Q-001")?.answer,
  done: [...state.tasks.values()].filter(({ status }) => status === "done").length,
});

describe("forged acts of a person", () => {
  test("change nothing, are listed with their origin, and stay in the files", async () => {
    const a = await victim(new WallClock());
    const before = effects(a);
    plant(a, forgeries(a));
    const { merged } = await a.folder.sync();
    expect(merged?.waiting).toHaveLength(7);
    expect(effects(a)).toEqual(before);
    expect(a.goal.state.waiting.map(({ type }) => type).sort()).toEqual([
      "blocker.resolved",
      "decision.made",
      "event.retracted",
      "goal.created",
      "goal.described",
      "question.answered",
      "task.accepted",
    ]);
    const { text } = makeBriefing(a.goal.state, 1, AT);
    expect(text).toContain('NO EFFECT YET blocker resolved B-002 "reviewed" by ann, from a pull, unsigned');
    // Work goes on, and the ids of the acts that wait are not given again.
    const next = await a.goal.decide({ ...decision, decision: "Another" });
    expect(next.id).toBe("D-003");
  });

  test("a role of an agent does not begin the goal anew, or change who verifies", async () => {
    const a = await victim(new WallClock());
    const before = effects(a);
    const agent = { name: "bot", role: "orchestrator" } as const;
    const acts = forgeries(a).filter(({ type }) => type.startsWith("goal."));
    plant(
      a,
      acts.map((act) => forge({ ...act, uid: undefined as never, data: { ...act.data, by: agent } })),
    );
    await a.folder.sync();
    expect(effects(a)).toEqual(before);
    expect(a.goal.state.waiting).toHaveLength(2);
  });

  test("two clones that pull them in any order agree, before and after both confirm", async () => {
    const clock = new WallClock();
    const a = await victim(clock);
    const b = await make(clock, a);
    const forged = forgeries(a);
    plant(a, forged.slice(0, 4));
    await a.folder.sync();
    plant(a, forged.slice(4));
    await a.folder.sync();
    plant(b, forged.toReversed());
    await b.folder.sync();
    await b.pull(a);
    await a.pull(b);
    expect(b.agreed()).toEqual(a.agreed());
    for (const copy of [a, b]) await copy.goal.confirm({ events: "all" });
    expect(a.goal.state.waiting).toEqual([]);
    await b.pull(a);
    await a.pull(b);
    expect(b.agreed()).toEqual(a.agreed());
    expect(b.files()).toEqual(a.files());
    expect(effects(a)).toMatchObject({ statement: "Sell it", verification: "self", done: 1 });
  });
});

describe("an honest act of a person in another clone", () => {
  test("counts there, waits here, and counts in both once it is confirmed", async () => {
    const clock = new WallClock();
    const a = await victim(clock);
    const b = await make(clock, a);
    await a.goal.resolve({ blocker: "B-002", resolution: "reviewed" });
    await a.goal.decide({ ...decision, decision: "Adds to the goal, so it counts at once" });
    await b.pull(a);
    expect(b.goal.state.blockers.get("B-002")?.status).toBe("active");
    expect(b.goal.state.decisions.get("D-002")?.decision).toMatch(/^Adds/);
    expect(makeBriefing(b.goal.state, 1, AT).text).toMatch(/DECIDED D-002 .*, from a pull, unsigned$/m);
    expect(makeBriefing(a.goal.state, 1, AT).text).not.toContain("from a pull");
    const [act] = b.goal.state.waiting;
    await expect(b.goal.confirm({ events: ["deadbeef"] })).rejects.toThrow(/no event "deadbeef" waits/);
    await expect(b.goal.confirm({ events: "all", by: worker })).rejects.toMatchObject({
      code: "ROLE_REFUSED",
    });
    await b.goal.confirm({ events: [act?.uid.slice(0, 12) ?? ""] });
    expect(b.goal.state.blockers.get("B-002")?.status).toBe("resolved");
    await a.pull(b);
    expect(b.agreed()).toEqual(a.agreed());
    expect(b.files()).toEqual(a.files());
    // A pull after the confirmation does not take it back.
    await a.goal.addTask({ title: "more" });
    await b.pull(a);
    expect(b.goal.state.waiting).toEqual([]);
    expect(b.goal.state.blockers.get("B-002")?.status).toBe("resolved");
  });

  test("that a person retracts here is not offered again, and waits if the retraction is taken back", async () => {
    const clock = new WallClock();
    const a = await victim(clock);
    const b = await make(clock, a);
    await a.goal.resolve({ blocker: "B-002", resolution: "reviewed" });
    await b.pull(a);
    const uid = b.goal.state.waiting[0]?.uid ?? "";
    const { uid: retracted } = await b.goal.retract({ event: uid, why: "not by ann" });
    expect(retracted).toBe(uid);
    expect(b.goal.state.waiting).toMatchObject([{ uid, isRetracted: true }]);
    await expect(b.goal.confirm({ events: [uid] })).rejects.toMatchObject({ code: "GOAL_ITEM_NOT_FOUND" });
    // The other clone decides for itself whether the retraction counts.
    await a.pull(b);
    expect(a.goal.state.blockers.get("B-002")?.status).toBe("resolved");
    await a.goal.confirm({ events: "all" });
    expect(a.goal.state.blockers.get("B-002")?.status).toBe("active");
  });

  test("a fresh clone takes the history as it is, and labels it", async () => {
    const clock = new WallClock();
    const a = await victim(clock);
    await a.goal.resolve({ blocker: "B-002", resolution: "reviewed" });
    await a.folder.sync();
    const c = await make(clock, a);
    expect(c.goal.state.waiting).toEqual([]);
    expect(c.agreed()).toEqual(a.agreed());
    expect(makeBriefing(c.goal.state, 1, AT).text).toMatch(/DECIDED D-001 .*, from a pull, unsigned$/m);
  });
});
