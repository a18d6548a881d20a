// Rows of lists and views point at events of this log, also after a merge.

import { afterAll, describe, expect, test } from "vitest";
import { type Goal, goalCore, mergeGoal, openGoal } from "../../src/goal/index.ts";
import { Journal } from "../../src/journal/index.ts";
import type { Entry } from "../../src/model/goal/index.ts";
import { Holdfast } from "../../src/open.ts";
import type { ItemRow } from "../../src/store.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { storeSubjects } from "../subjects.ts";
import { human, supervisor, worker } from "./bench.ts";

async function entriesOf(goal: Goal): Promise<Entry[]> {
  const entries: Entry[] = [];
  for await (const entry of goalCore(goal).entries()) entries.push(entry);
  return entries;
}

/** A goal with a finished task, an open one, a decision, a blocker and a session. */
async function workOn(goal: Goal): Promise<void> {
  await goal.addTasks({ tasks: [{ title: "one" }, { title: "two" }] });
  await goal.startSession({ session: "s-1", by: worker });
  const claim = await goal.claim("T-001", { by: worker, session: "s-1" });
  await claim.submit();
  await goal.verify({ task: "T-001", accept: true });
  await goal.decide({ type: "technology", context: "auth", decision: "Use jose", reason: "it is small" });
  await goal.block({ description: "no key yet", affects: { tasks: ["T-002"] } });
}

async function items(journal: Journal, kind: string): Promise<readonly ItemRow[]> {
  return (await journal.list<"items">({ of: "items", kind, stream: "goal/checkout", limit: 100 })).rows;
}

describe.each(storeSubjects())("a goal that merged another copy, on $name", (subject) => {
  afterAll(() => subject.dispose());

  test("every row of a clone points at an existing event, before and after work on it", async () => {
    const there = new Journal({ store: await openMemory() });
    const theirs = await openGoal(there, "checkout", { statement: "Ship it", by: human });
    await workOn(theirs);
    const journal = new Journal({ store: (await subject.open()).store });
    await mergeGoal(journal, "checkout", supervisor, { entries: await entriesOf(theirs) });
    expect(await new Holdfast(journal).check()).toEqual([]);
    for (const kind of ["task", "decision", "blocker", "history"]) {
      const rows = await items(journal, kind);
      expect(rows.length, kind).toBeGreaterThan(0);
      for (const { id, seq, endSeq } of rows) expect([id, seq, endSeq ?? 1]).toEqual([id, 1, 1]);
    }

    const goal = await openGoal(journal, "checkout", { by: human });
    await goal.addTask({ title: "three" });
    await goal.drop({ task: "T-002", why: "not wanted" });
    expect(await new Holdfast(journal).check()).toEqual([]);
    const places = await items(journal, "task");
    expect(places.map(({ id, seq, endSeq }) => [id, seq, endSeq]).sort()).toEqual([
      ["T-001", 1, 1],
      ["T-002", 1, 3],
      ["T-003", 2, null],
    ]);
    await goal.close();
    await there.store.close();
    await journal.store.close();
  });

  test("a merge moves only the rows that it changes", async () => {
    const there = new Journal({ store: await openMemory() });
    const theirs = await openGoal(there, "checkout", { statement: "Ship it", by: human });
    await theirs.addTask({ title: "one" });
    const journal = new Journal({ store: (await subject.open()).store });
    await mergeGoal(journal, "checkout", supervisor, { entries: await entriesOf(theirs) });
    const goal = await openGoal(journal, "checkout", { by: human });
    await goal.addTask({ title: "two" });
    await theirs.addTask({ title: "three" });
    await mergeGoal(journal, "checkout", supervisor, { entries: await entriesOf(theirs) });
    await goal.refresh();
    await goal.drop({ task: "T-001", why: "not wanted" });
    expect(await new Holdfast(journal).check()).toEqual([]);
    const places = await items(journal, "task");
    const { seq } = goal;
    expect(places.map(({ id, endSeq, ...item }) => [id, item.seq, endSeq]).sort()).toEqual([
      ["T-001", 1, seq],
      ["T-002", expect.toSatisfy((place) => place === 2 || place === 3), null],
      ["T-003", 3, null],
    ]);
    await goal.close();
    await there.store.close();
    await journal.store.close();
  });
});
