// A claim that came from another clone: its token is one of that clone's store, and both count from 1.

import { afterEach, expect, test } from "vitest";
import { type Goal, openGoal } from "../../src/goal/index.ts";
import type { Actor } from "../../src/model/goal/index.ts";
import { Copy, WallClock } from "./copies.ts";

const ann: Actor = { name: "ann", role: "worker" };
const bob: Actor = { name: "bob", role: "worker" };
const evidence = { summary: "done", files: [] };

const copies: Copy[] = [];
afterEach(async () => {
  for (const copy of copies.splice(0)) await copy.dispose();
});

/** A clone of a copy in which ann has claimed a task. */
async function clonedAfterClaim(): Promise<{ there: Copy; here: Copy; task: string }> {
  const clock = new WallClock();
  const there = await Copy.make(clock);
  copies.push(there);
  const { id: task } = await there.goal.addTask({ title: "Pay module", by: { name: "pm", role: "human" } });
  const claim = await there.goal.claim(task, { by: ann, detached: true });
  expect(claim.token).toBe(1);
  await there.folder.sync();
  const here = await Copy.make(clock, there);
  copies.push(here);
  expect(here.goal.task(task).claim).toMatchObject({ by: ann, token: 1 });
  return { there, here, task };
}

/** The goal as another process of this clone has it. */
function openedBy(by: Actor, { journal, root }: Copy): Promise<Goal> {
  return openGoal(journal, "checkout", { by, root, stale: "use" });
}

test("a claim of another clone is taken over by a claim here, and the log says so", async () => {
  const { here, task } = await clonedAfterClaim();
  const claim = await here.goal.claim(task, { by: bob, detached: true });
  expect(claim.token, "the same number, of another store").toBe(1);
  expect(here.goal.task(task).claim).toMatchObject({ by: bob });
  const anns = await openedBy(ann, here);
  await expect(anns.submit({ task, ...evidence })).rejects.toMatchObject({ code: "LEASE_LOST" });
  const bobs = await openedBy(bob, here);
  await bobs.submit({ task, ...evidence });
  expect(bobs.task(task).submission).toMatchObject({ by: bob });
});

test("a claim of another clone gives no rights here, neither by its token nor by its name", async () => {
  const { here, task } = await clonedAfterClaim();
  for (const by of [ann, bob]) {
    await expect(here.goal.submit({ task, by, ...evidence })).rejects.toMatchObject({
      code: "LEASE_LOST",
      message: expect.stringContaining("in another clone"),
      hint: expect.stringContaining(`holdfast task claim ${task}`),
    });
    await expect(here.goal.submit({ task, by, token: 1, ...evidence })).rejects.toMatchObject({
      code: "LEASE_LOST",
    });
  }
  expect(here.goal.task(task)).toMatchObject({ status: "in_progress", submission: null });
  const again = await here.goal.claim(task, { by: ann, detached: true });
  await here.goal.submit({ task, by: ann, token: again.token, ...evidence });
  expect(here.goal.task(task).submission).toMatchObject({ by: ann });
});
