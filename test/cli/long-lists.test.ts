// A store holds more than one page of a list, and commands reach the second page.

import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { open } from "../../src/index.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

const GOALS = 520;
const SESSIONS = 1_020;

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
  const holdfast = await open(join(line.project, ".holdfast"));
  const begin = async (id: string): Promise<void> => {
    const session = await holdfast.session(id);
    await session.spend({ turns: 1 });
    await session.close();
  };
  await (await holdfast.goal("eldest-of-all", { statement: "first" })).addTask({ title: "one" });
  await begin("first-of-all");
  await atOnce(GOALS, async (index) => void (await holdfast.goal(`goal-${index}`, { statement: "later" })));
  await atOnce(SESSIONS, (index) => begin(`session-${index}`));
  await holdfast.close();
}, 300_000);
afterAll(() => line.remove());

async function atOnce(count: number, act: (index: number) => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: count }, (_, index) => act(index)));
}

async function data(...words: string[]): Promise<Record<string, unknown>> {
  const { code, out, err } = await runInside(line.project, [...words, "--json"]);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  return (JSON.parse(out) as { data: Record<string, unknown> }).data;
}

test("every goal is listed, and the least recently changed one is found by name", async () => {
  expect((await data("goal", "list"))["goals"]).toHaveLength(GOALS + 1);
  expect(await data("task", "list", "--goal", "eldest")).toMatchObject({ goal: "eldest-of-all" });
  const { goals, otherGoals } = await data("status", "--goal", "eldest-of-all");
  expect(goals).toMatchObject([{ goal: "eldest-of-all", tasks: 1 }]);
  expect(otherGoals).toBe(GOALS);
});

test("a session is found by a prefix of its name, however old it is", async () => {
  expect(await data("session", "show", "first-of")).toMatchObject({ session: "first-of-all" });
});

test("status says how many sessions it shows if it does not show all", async () => {
  expect((await data("status"))["sessions"]).toMatchObject({ idle: 500, ofLatest: 500 });
  expect((await runInside(line.project, ["status"])).out).toMatch(
    /^sessions {2}500 idle {3}of the latest 500$/m,
  );
});
