// Events that arrive before their task: reported as not applied, until the task is there.

import { cpSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { goalCore } from "../../src/goal/index.ts";
import { recentMergeNotes } from "../../src/model/goal/index.ts";
import { by, worker } from "../goal/bench.ts";
import { Copy, WallClock } from "./copies.ts";

const copies: Copy[] = [];
afterEach(() => Promise.all(copies.splice(0).map((copy) => copy.dispose())));

async function make(clock: WallClock, from?: Copy): Promise<Copy> {
  const copy = await Copy.make(clock, from);
  copies.push(copy);
  return copy;
}

const eventFiles = ({ root }: Copy): string[] => readdirSync(join(root, ".planning/events"));

/** Only the files of one commit of the other copy, as after `git cherry-pick`. */
async function pick(to: Copy, from: Copy, write: () => Promise<unknown>): Promise<void> {
  await from.folder.sync();
  const before = new Set(eventFiles(from));
  await write();
  await from.folder.sync();
  for (const name of eventFiles(from).filter((each) => !before.has(each)))
    cpSync(join(from.root, ".planning/events", name), join(to.root, ".planning/events", name));
  await to.folder.sync();
}

const news = ({ goal }: Copy): string[] =>
  recentMergeNotes(goal.state, goalCore(goal).journal.now()).map(
    (note) => `${note.kind} ${"why" in note ? note.why : ""}`,
  );

const merged = async ({ journal }: Copy): Promise<readonly (number | null)[]> => {
  const { rows } = await journal.list<"items">({
    of: "items",
    kind: "merge",
    stream: "goal/checkout",
    limit: 9,
  });
  return (rows as unknown as readonly { doneAt: number | null }[]).map(({ doneAt }) => doneAt);
};

test("an event without its task is reported only until the task is there", async () => {
  const clock = new WallClock();
  const a = await make(clock);
  await a.folder.sync();
  const b = await make(clock, a);
  const { id } = await a.goal.addTask({ title: "late", phase: 1 });
  await pick(b, a, () => a.goal.claim(id, { by: worker, detached: true }));
  expect(news(b)).toEqual([`not applied it names ${id}, whose event is missing`]);
  expect(await merged(b)).toEqual([null]);
  await b.pull(a);
  expect(b.goal.task(id).claim?.by.name).toBe(worker.name);
  expect(news(b)).toEqual([]);
  expect(await merged(b)).toEqual([expect.any(Number)]);
});

test("an event that still does not fit is reported with its current reason", async () => {
  const clock = new WallClock();
  const a = await make(clock);
  await a.folder.sync();
  const b = await make(clock, a);
  const { id } = await a.goal.addTask({ title: "late", phase: 1 });
  await a.folder.sync();
  const c = await make(clock, a);
  await c.goal.claim(id, { by: by("worker", "first"), detached: true });
  await pick(b, a, () => a.goal.claim(id, { by: worker, detached: true }));
  await b.pull(c);
  const [only, other] = news(b);
  expect(only).toMatch(/^not applied /);
  expect(only).not.toContain("event is missing");
  expect(other).toBeUndefined();
});
