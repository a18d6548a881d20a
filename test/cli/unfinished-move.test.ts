// A killed move leaves two stores that reject writes, one of them incomplete. Both say so and name the
// commands that end it.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { finishMoveHint } from "../../src/model/stream/index.ts";
import { programFile } from "../program.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

const mover = programFile(new URL("../journal/move/programs/mover.ts", import.meta.url));

function killedMove(project: string, from: string, to: string): Promise<string> {
  return new Promise((resolve) => {
    execFile(process.execPath, [mover, join(project, from), join(project, to), "1"], (error) =>
      resolve(String(error?.signal)),
    );
  });
}

/** The command of a hint, split like a shell does. */
const wordsOf = (command: string): string[] => command.replace("holdfast ", "").split(" ");

describe.each([
  ["old.db", "new.db"],
  ["old/", "new/"],
])("from %s to %s", (from, to) => {
  let project: string;
  let finish: string;
  let abandon: string;
  const run = (...words: string[]) => runInside(project, words);

  const leave = async (): Promise<void> => {
    project = line.newProject();
    expect(await run("init", "--agent", "none", "--store", from)).toMatchObject({ code: 0 });
    expect(await run("goal", "new", "n1", "Ship it", "--store", from)).toMatchObject({ code: 0 });
    expect(await killedMove(project, from, to)).toBe("SIGKILL");
    finish = `holdfast move --yes ${join(project, from)} ${join(project, to)}`;
    abandon = `holdfast move --abandon ${join(project, from)}`;
  };
  // The tests up to the finishing command leave the move unfinished.
  beforeAll(leave);

  test("an incomplete store is neither exported nor moved", async () => {
    for (const words of [
      ["export", "e.hf", "--store", to],
      ["move", "--yes", to, "third.db"],
    ]) {
      const { code, err } = await run(...words);
      expect(code).toBe(4);
      expect(err).toContain(finish);
      expect(err).toContain(abandon);
    }
    expect(existsSync(join(project, "e.hf"))).toBe(false);
    expect(existsSync(join(project, "third.db"))).toBe(false);
    expect(await run("export", "whole.hf", "--store", from)).toMatchObject({ code: 0 });
  });

  test.each(["session list", "goal list", "supervise --once", "status"])(
    "%s names both stores",
    async (words) => {
      for (const [store, what] of [
        [from, `a move of this store to .*${to.slice(0, 3)}.* is unfinished`],
        [to, `a move into this store from .*${from.slice(0, 3)}.* is unfinished`],
      ] as const) {
        const { code, err } = await run(...words.split(" "), "--store", store);
        expect(code).toBe(0);
        expect(err.match(/holdfast: note: .*/g)).toEqual([expect.stringMatching(what)]);
        expect(err).toContain(finish);
        expect(err).toContain(abandon);
      }
    },
  );

  test("doctor and status report it, and a rejected write names the same commands", async () => {
    for (const store of [from, to]) {
      const doctor = await run("doctor", "--json", "--store", store);
      expect(doctor.code).toBe(5);
      const { findings } = JSON.parse(doctor.out).data;
      const found = findings.find(({ name }: { name: string }) => name === "store");
      expect(found).toMatchObject({ ok: false, what: expect.stringContaining("is unfinished") });
      expect(found.hint).toContain(finish);
      const status = await line.run(["status", "--store", store], { cwd: project });
      expect(status.out).toContain("is unfinished");
      expect(status.err).toContain(finish);
      const refused = await run("goal", "new", "n2", "Another", "--store", store);
      expect(refused.code).toBe(4);
      expect(refused.err).toContain(finish);
      expect(refused.err).not.toContain("open the other store");
      expect(refused.err).not.toContain("note: ");
    }
  });

  test("the first command finishes the move", async () => {
    expect(await run(...wordsOf(finish))).toMatchObject({ code: 0 });
    expect(await run("goal", "new", "n2", "Another", "--store", to)).toMatchObject({ code: 0, err: "" });
    expect((await run("goal", "list", "--store", from)).err).toContain("has moved to");
  });

  test("the second command gives up the move: the source accepts writes again", async () => {
    await leave();
    const { code, out } = await run(...wordsOf(abandon));
    expect(code).toBe(0);
    expect(out).toMatch(/takes writes\n.* is incomplete: remove it/);
    expect(await run("goal", "new", "n2", "Another", "--store", from)).toMatchObject({ code: 0, err: "" });
    expect((await run(...wordsOf(abandon))).out).toContain("There was no move to give up");
    expect(await run("export", "e.hf", "--store", to)).toMatchObject({ code: 4 });
  });
});

test("a move asks first: without a terminal it needs --yes, and changes nothing without", async () => {
  const project = line.newProject();
  const run = (...words: string[]) => runInside(project, words);
  await run("init", "--agent", "none", "--store", "a.db");
  await run("goal", "new", "n1", "Ship it", "--store", "a.db");
  const { code, err } = await run("move", "a.db", "b.db");
  expect(code).toBe(2);
  expect(err).toContain("needs --yes");
  expect(err).toContain("holdfast backup");
  expect(existsSync(join(project, "b.db"))).toBe(false);
  expect(await run("goal", "new", "n2", "Another", "--store", "a.db")).toMatchObject({ code: 0 });
});

test("move --undo reopens the old store until something is written to the new one", async () => {
  const project = line.newProject();
  const run = (...words: string[]) => runInside(project, words);
  await run("init", "--agent", "none", "--store", "a.db");
  await run("goal", "new", "n1", "Ship it", "--store", "a.db");
  expect(await run("move", "--yes", "a.db", "b.db")).toMatchObject({ code: 0 });
  const { out } = await run("move", "--undo", "a.db", "b.db");
  expect(out).toContain("a.db takes writes");
  expect(await run("goal", "new", "n2", "Another", "--store", "a.db")).toMatchObject({ code: 0 });
  expect(await run("goal", "new", "n2", "Another", "--store", "b.db")).toMatchObject({ code: 4 });
  expect(await run("move", "--yes", "a.db", "b.db")).toMatchObject({ code: 0 });
  expect(await run("goal", "new", "n3", "Later", "--store", "b.db")).toMatchObject({ code: 0 });
  const refused = await run("move", "--undo", "a.db", "b.db");
  expect(refused.code).toBe(4);
  expect(refused.err).toContain("has new writes");
});

test("finishing a move needs both stores, and cancelling it only the source", async () => {
  const project = line.newProject();
  expect(await runInside(project, ["move", "--yes", "a.db"])).toMatchObject({ code: 2 });
  expect(await runInside(project, ["move", "a.db", "b.db", "--abandon"])).toMatchObject({ code: 2 });
});

test.each([
  ["sqlite /srv/my store.db", "'/srv/my store.db'"],
  ["files /srv/state", "/srv/state/"],
  ["postgres db.example:5432/app agents", "'postgres://db.example:5432/app?schema=agents'"],
  ["postgres /run/postgresql/app agents", "'postgres:///app?host=/run/postgresql&schema=agents'"],
])("%s is quoted as %s", (address, typed) => {
  expect(finishMoveHint(address, "sqlite /b.db")).toContain(
    `holdfast move --yes ${typed} /b.db; or give it up: holdfast move --abandon ${typed}`,
  );
  expect(finishMoveHint(address, "memory:"), "no command can name it").not.toContain("holdfast move");
});
