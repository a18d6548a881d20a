// A verdict that came from another clone is about what was handed in there, and about nothing else.

import { afterEach, expect, test } from "vitest";
import { type Actor, mergeNoteText, recentMergeNotes } from "../../src/model/goal/index.ts";
import { readStatus } from "../../src/operations/index.ts";
import { Copy, WallClock } from "./copies.ts";

const ann: Actor = { name: "ann", role: "worker" };
const bob: Actor = { name: "bob", role: "worker" };
const vera: Actor = { name: "vera", role: "verifier" };
const pm: Actor = { name: "pm", role: "human" };

const copies: Copy[] = [];
afterEach(async () => {
  for (const copy of copies.splice(0)) await copy.dispose();
});

async function twoCopies(
  title = "Pay module",
): Promise<{ clock: WallClock; anns: Copy; bobs: Copy; task: string }> {
  const clock = new WallClock();
  const anns = await Copy.make(clock);
  copies.push(anns);
  const { id: task } = await anns.goal.addTask({ title, by: pm });
  await anns.folder.sync();
  const bobs = await Copy.make(clock, anns);
  copies.push(bobs);
  return { clock, anns, bobs, task };
}

async function handIn({ goal }: Copy, task: string, by: Actor): Promise<void> {
  await goal.claim(task, { by, detached: true });
  await goal.submit({ task, by, summary: `by ${by.name}` });
}

/** Both have everything, and a clone of either too. */
async function meet(clock: WallClock, one: Copy, other: Copy): Promise<Copy[]> {
  await one.pull(other);
  await other.pull(one);
  const fresh = await Copy.make(clock, one);
  copies.push(fresh);
  expect(other.agreed()).toEqual(one.agreed());
  expect(fresh.agreed()).toEqual(one.agreed());
  return [one, other, fresh];
}

function news({ goal }: Copy): string[] {
  return recentMergeNotes(goal.state, goal.state.updatedAt).map(mergeNoteText);
}

test.each([
  ["accepted", true],
  ["rejected", false],
])("work that nobody looked at is not %s by a verdict on the work of another clone", async (said, accept) => {
  const { clock, anns, bobs, task } = await twoCopies();
  await handIn(anns, task, ann);
  await handIn(bobs, task, bob);
  await bobs.goal.verify({ task, accept, why: "looked at bob's", by: vera });
  for (const { goal } of await meet(clock, anns, bobs))
    expect(goal.task(task)).toMatchObject({
      status: "submitted",
      submission: { by: ann },
      verdict: null,
      rejections: 0,
    });
  for (const copy of [anns, bobs]) {
    expect(news(copy)).toEqual([
      expect.stringMatching(/not applied: task claimed, task submitted T-\d+ "Pay module" by bob: /),
      expect.stringMatching(
        new RegExp(`not applied: task ${said}.* T-\\d+ "Pay module" by vera: .*submission of "ann"`),
      ),
    ]);
  }

  await anns.goal.verify({ task, accept: true, by: vera });
  const both = await meet(clock, anns, bobs);
  for (const { goal } of both)
    expect(goal.task(task)).toMatchObject({ status: "done", verdict: { by: vera, accepted: true } });
  expect(news(bobs).join("\n"), "what bob handed in counts for nothing, and that stays news").toMatch(
    /task submitted .* by bob: /,
  );
});

test("a verdict counts for the submission it was given on, not for one of another clone", async () => {
  const { clock, anns, bobs, task } = await twoCopies();
  await handIn(anns, task, ann);
  await handIn(bobs, task, bob);
  await anns.goal.verify({ task, accept: true, by: vera });
  for (const { goal } of await meet(clock, anns, bobs))
    expect(goal.task(task)).toMatchObject({ status: "done", submission: { by: ann } });
  const told = [expect.stringMatching(/task claimed, task submitted .* by bob: /)];
  expect(news(bobs)).toEqual(told);
  const now = bobs.goal.state.updatedAt;
  const { goals } = await readStatus(bobs.journal.store, { now, goal: "checkout" });
  expect(goals[0]?.merged, "whoever only looks at lists is told as well").toEqual(told);
});

test("without verification, the second submission of a task finishes nothing", async () => {
  const { clock, anns, bobs, task } = await twoCopies();
  await bobs.goal.describe({ verification: "self", by: pm });
  await handIn(anns, task, ann);
  await handIn(bobs, task, bob);
  expect(bobs.goal.task(task).status).toBe("done");
  for (const { goal } of await meet(clock, anns, bobs))
    expect(goal.task(task)).toMatchObject({ status: "submitted", submission: { by: ann }, verdict: null });
});
