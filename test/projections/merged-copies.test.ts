// Copies of a goal that were written independently agree once they have merged, in either order.

import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { resetLostClaims } from "../../src/goal/index.ts";
import { goalKind } from "../../src/model/goal/index.ts";
import { renderGoal } from "../../src/projections/index.ts";
import { anySteps, type Step, take } from "../goal/random-operations.ts";
import { Copy, WallClock } from "./copies.ts";

const copies: Copy[] = [];
afterEach(async () => {
  for (const copy of copies.splice(0)) await copy.dispose();
});

async function make(clock: WallClock, from?: Copy): Promise<Copy> {
  const copy = await Copy.make(clock, from);
  copies.push(copy);
  return copy;
}

const words = fc.string({ minLength: 1, maxLength: 8 }).map((text) => `w${text}`);
const decision = (text: string) =>
  ({ type: "constraint", context: text, decision: text, reason: text }) as const;
const FULL = process.env["HOLDFAST_FULL"] === "1";

test("random operations in two copies, merged in either order: the same bytes everywhere", async () => {
  const seen = { merged: 0, renumbered: 0, notApplied: 0 };
  const steps = anySteps(words, FULL ? 60 : 40);
  await fc.assert(
    fc.asyncProperty(steps, steps, steps, async (before: Step[], left: Step[], right: Step[]) => {
      const clock = new WallClock();
      const a = await make(clock);
      for (const step of before.slice(0, 15)) await take(a.goal, step);
      await a.folder.sync();
      const b = await make(clock, a);
      expect(b.agreed()).toEqual(a.agreed());
      expect(b.files()).toEqual(a.files());
      for (let index = 0; index < Math.max(left.length, right.length); index++) {
        const [mine, theirs] = [left[index], right[index]];
        if (mine) await take(a.goal, mine);
        if (theirs) await take(b.goal, theirs);
      }
      await a.folder.sync();
      const inB = await b.pull(a);
      const inA = await a.pull(b);
      expect(a.agreed()).toEqual(b.agreed());
      expect(a.files()).toEqual(b.files());
      // They go on and meet again: what a merge has named stays named.
      for (const step of before.slice(15)) {
        await take(a.goal, step);
        await take(b.goal, { ...step, a: step.b, b: step.a });
      }
      await a.folder.sync();
      await b.pull(a);
      await a.pull(b);
      expect(a.agreed()).toEqual(b.agreed());
      expect(a.files()).toEqual(b.files());
      const clone = await make(clock, a);
      expect(clone.agreed()).toEqual(a.agreed());
      expect(clone.files()).toEqual(a.files());
      for (const copy of [a, b, clone]) {
        expect(await copy.journal.check(goalKind, "goal/checkout")).toEqual([]);
        const loaded = await copy.journal.load(goalKind, "checkout");
        expect(renderGoal(loaded.state, loaded.state.revision).files.map(({ text }) => text)).toEqual(
          renderGoal(copy.goal.state, copy.goal.revision).files.map(({ text }) => text),
        );
      }
      seen.merged += (inA.merged?.events ?? 0) + (inB.merged?.events ?? 0);
      seen.renumbered += (inA.merged?.renumbered.length ?? 0) + (inB.merged?.renumbered.length ?? 0);
      seen.notApplied += inA.merged?.notApplied.length ?? 0;
      for (const copy of copies.splice(0)) await copy.dispose();
    }),
    { numRuns: FULL ? 200 : 4 },
  );
  expect(seen.merged).toBeGreaterThan(0);
  expect(seen.renumbered).toBeGreaterThan(0);
}, 900_000);

describe("two copies that gave the same number", () => {
  test("the later one gets the next, and the old name still leads to it", async () => {
    const clock = new WallClock();
    const a = await make(clock);
    await a.folder.sync();
    const b = await make(clock, a);
    await a.goal.addTask({ title: "from a" });
    await b.goal.addTask({ title: "from b", dependsOn: ["T-001"] });
    await b.goal.addTask({ title: "after b", dependsOn: ["T-007"] });
    await a.goal.decide(decision("a decides"));
    await b.goal.decide(decision("b decides"));
    await a.goal.block({ description: "a is stuck", affects: { tasks: ["T-007"] } });
    await b.goal.block({ description: "b is stuck", affects: { tasks: ["T-007"] } });
    await a.folder.sync();
    const { merged } = await b.pull(a);
    expect(merged?.notApplied).toEqual([]);
    expect(merged?.renumbered.map(({ was, now }) => [was, now])).toEqual([
      ["T-007", "T-009"],
      ["D-001", "D-002"],
      ["B-001", "B-002"],
    ]);
    const titles = Object.fromEntries([...b.goal.state.tasks.values()].map(({ id, title }) => [id, title]));
    expect(titles).toMatchObject({ "T-007": "from a", "T-008": "after b", "T-009": "from b" });
    // In the other events of b, T-007 is b's own task.
    expect(b.goal.task("T-008").dependsOn).toEqual(["T-009"]);
    expect(
      [...b.goal.state.blockers.values()].map(({ description, affects }) => [description, affects.tasks]),
    ).toEqual([
      ["a is stuck", ["T-007"]],
      ["b is stuck", ["T-009"]],
    ]);
    const [task, made, blocker] = merged?.renumbered ?? [];
    expect(b.goal.task(task?.alias ?? "").title).toBe("from b");
    await b.goal.supersede({ ...decision("again"), supersedes: made?.alias ?? "" });
    expect(b.goal.state.decisions.get("D-002")?.supersededBy).toBe("D-003");
    await b.goal.resolve({ blocker: blocker?.alias ?? "", resolution: "done" });
    expect(b.goal.state.blockers.get("B-002")?.status).toBe("resolved");
    expect((await b.goal.addTask({ title: "next" })).id).toBe("T-010");
    await a.pull(b);
    await b.folder.sync();
    expect(a.files()).toEqual(b.files());
    expect(Object.keys(a.files()).filter((name) => name.startsWith("decisions/"))).toHaveLength(3);
  });

  test("a renumbered task is submitted by its old name, and no other claim changes", async () => {
    const clock = new WallClock();
    const a = await make(clock);
    await a.folder.sync();
    const b = await make(clock, a);
    const worker = { name: "w", role: "worker" } as const;
    await a.goal.addTask({ title: "from a", phase: 1 });
    await b.goal.addTask({ title: "from b", phase: 1 });
    const held = await b.goal.claim("T-007", { by: worker, session: "s" });
    await a.folder.sync();
    await b.pull(a);
    expect(b.goal.task("T-008").claim?.by.name).toBe("w");
    await held.progress("half");
    await held.submit({ summary: "done" });
    expect(b.goal.task("T-008")).toMatchObject({ title: "from b", status: "submitted" });
    expect(b.goal.task("T-007")).toMatchObject({ title: "from a", status: "open" });
    await b.goal.claim("T-007", { by: worker });
  });

  test("a task claimed in two copies belongs to the first; the other session is not crashed", async () => {
    const clock = new WallClock();
    const a = await make(clock);
    await a.folder.sync();
    const b = await make(clock, a);
    const by = (name: string) => ({ name, role: "worker" }) as const;
    await a.goal.startSession({ session: "sa", by: by("wa") });
    await b.goal.startSession({ session: "sb", by: by("wb") });
    await a.goal.claim("T-001", { by: by("wa"), session: "sa" });
    const second = await b.goal.claim("T-001", { by: by("wb"), session: "sb" });
    await second.release("changed my mind");
    await a.folder.sync();
    const { merged } = await b.pull(a);
    expect(merged?.notApplied.map(({ type }) => type)).toEqual(["task.claimed", "task.released"]);
    expect(b.goal.task("T-001").claim).toMatchObject({ by: by("wa") });
    expect(b.goal.state.history.get("sa")?.status).toBe("active");
    // Its lease is in the other store, so nothing here knows that it is gone.
    expect(await resetLostClaims(b.goal, { name: "s", role: "supervisor" }, { staleAfterMs: null })).toEqual(
      [],
    );
  });
});
