// A goal's past: its state at any position or time; and the end of a goal, with its files.

import { existsSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { Goals } from "../../src/goal/index.ts";
import { runInside } from "../cli/inside.ts";
import { quickFolder } from "../quick-folder.ts";
import { removeProject } from "../remove-project.ts";
import { storeSubjects } from "../subjects.ts";
import { Bench, START, worker } from "./bench.ts";

const DAY = 86_400_000;

describe.each(storeSubjects())("a goal's past on $name", (subject) => {
  afterAll(() => subject.dispose());
  let bench: Bench;
  beforeEach(async () => {
    bench = await Bench.open(subject);
  });
  afterEach(() => bench.dispose());

  test("every earlier state can be read, by position and by time", async () => {
    const goal = await bench.goal();
    await goal.addTask({ title: "users table" });
    const then = goal.seq;
    bench.passMs(DAY);
    await goal.drop({ task: "T-001", why: "not needed" });
    expect((await goal.at(then)).state.tasks.get("T-001")?.status).toBe("open");
    expect((await goal.at(goal.seq)).state.tasks.get("T-001")?.status).toBe("dropped");
    const noon = await goal.at(new Date(START + DAY / 2));
    expect({ seq: noon.seq, at: noon.at }).toEqual({ seq: then, at: new Date(START) });
    expect((await goal.at(new Date(START + 2 * DAY))).seq).toBe(goal.seq);
    await expect(goal.at(goal.seq + 1)).rejects.toThrow(/has no event/);
    await expect(goal.at(new Date(START - 1))).rejects.toThrow(/did not exist at 2024-01-14T08:59:59.999Z/);
  });

  test("prune and erase remove goals, files first, and spare one that an agent works on", async () => {
    const files: string[] = [];
    const goals = new Goals(bench.journal, async (id) => {
      expect((await bench.journal.row(`goal/${id}`)).state).toBe("live");
      files.push(id);
    });
    const goal = await bench.goal();
    await goal.addTask({ title: "users table" });
    const claim = await goal.claim("T-001", { by: worker });
    expect((await goals.list()).map(({ id }) => id)).toEqual(["checkout"]);
    bench.passMs(100 * DAY);
    const old = { olderThanMs: 90 * DAY };
    expect(await goals.prune(old)).toMatchObject({
      removed: [],
      spared: [{ id: "checkout", why: "needed" }],
    });
    await expect(goals.erase("checkout")).rejects.toThrow(/an agent works on it/);
    await claim.release();
    bench.passMs(100 * DAY);
    expect(await goals.prune({ ...old, dryRun: true })).toMatchObject({ removed: ["checkout"] });
    expect(files).toEqual([]);
    expect(await goals.prune(old)).toMatchObject({ removed: ["checkout"], spared: [] });
    await bench.goal();
    await goals.erase("checkout");
    expect(files).toEqual(["checkout", "checkout"]);
    expect(await goals.list()).toEqual([]);
    await expect(goals.erase("checkout")).rejects.toMatchObject({ code: "GOAL_NOT_FOUND" });
    await expect(goals.prune({})).rejects.toThrow(/no condition/);
  });
});

test("on the command line: a log, an earlier state, and an erased goal that its files do not bring back", async () => {
  const project = mkdtempSync(join(quickFolder(), "holdfast-past-"));
  const say = async (typed: string): Promise<string> => {
    const { code, out, err } = await runInside(project, typed.split(" "));
    expect({ typed, code, err }).toEqual({ typed, code: 0, err: "" });
    return out;
  };
  await say("init --agent none");
  await say("goal new secret Hide-it");
  await say("task add users-table");
  await say("decide jose --context JWT --reason typed");
  const log = await say("goal log");
  expect(log).toMatch(/^1 .* goal\.created .* Hide-it$/m);
  expect(log).toMatch(/ decision\.made .* D-001 jose$/m);
  const [, seq] = /^(\d+) .* task\.added .* users-table$/m.exec(log) ?? [];
  const { data } = JSON.parse(await say(`goal show --at ${seq} --json`));
  expect(data).toMatchObject({ seq: Number(seq), decisions: [], asOf: expect.any(String) });
  expect(await say("goal show --at 2999-01-01")).toContain("jose");
  expect((await runInside(project, ["goal", "show", "--at", "2001-01-01"])).err).toContain("did not exist");
  expect((await runInside(project, ["goal", "new", "other", "Keep-it"])).code).toBe(0);
  const planned = join(project, ".planning");
  expect(readFileSync(join(planned, "STATE.md"), "utf8")).toContain("goal: secret");
  expect((await runInside(project, ["goal", "erase", "secret"])).code).toBe(2);
  await say("goal erase secret --yes");
  expect(existsSync(join(planned, "STATE.md"))).toBe(false);
  const left = readdirSync(planned, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  for (const file of left) {
    const text = readFileSync(join(file.parentPath, file.name), "utf8");
    expect(text, file.name).not.toMatch(/Hide-it|users-table|jose/);
  }
  expect(await say("goal list")).not.toContain("secret");
  expect(await say("goal list")).toContain("other");
  removeProject(project);
});
