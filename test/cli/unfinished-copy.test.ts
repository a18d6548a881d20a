// A killed copy leaves two stores that reject writes, one of them incomplete. Both say so and name the
// commands that end it.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { finishCopyHint } from "../../src/model/stream/index.ts";
import { programFile } from "../program.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

const copier = programFile(new URL("../journal/copy/programs/copier.ts", import.meta.url));

function killedCopy(project: string, from: string, to: string): Promise<string> {
  return new Promise((resolve) => {
    execFile(process.execPath, [copier, join(project, from), join(project, to), "1"], (error) =>
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
    expect(await killedCopy(project, from, to)).toBe("SIGKILL");
    finish = `holdfast copy ${join(project, from)} ${join(project, to)}`;
    abandon = `holdfast copy --abandon ${join(project, from)}`;
  };
  // The tests up to the finishing command leave the copy unfinished.
  beforeAll(leave);

  test("an incomplete store is neither exported nor copied", async () => {
    for (const words of [
      ["export", "e.hf", "--store", to],
      ["copy", to, "third.db"],
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
        [from, `a copy of this store to .*${to.slice(0, 3)}.* is unfinished`],
        [to, `a copy into this store from .*${from.slice(0, 3)}.* is unfinished`],
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
      expect(refused.err).not.toContain("Open the other store");
      expect(refused.err).not.toContain("note: ");
    }
  });

  test("the first command finishes the copy", async () => {
    expect(await run(...wordsOf(finish))).toMatchObject({ code: 0 });
    expect(await run("goal", "new", "n2", "Another", "--store", to)).toMatchObject({ code: 0, err: "" });
    expect((await run("goal", "list", "--store", from)).err).toContain("has moved to");
  });

  test("the second command cancels the copy: the source accepts writes again", async () => {
    await leave();
    const { code, out } = await run(...wordsOf(abandon));
    expect(code).toBe(0);
    expect(out).toMatch(/takes writes\n.* is incomplete: remove it/);
    expect(await run("goal", "new", "n2", "Another", "--store", from)).toMatchObject({ code: 0, err: "" });
    expect((await run(...wordsOf(abandon))).out).toContain("There was no copy to abandon");
    expect(await run("export", "e.hf", "--store", to)).toMatchObject({ code: 4 });
  });
});

test("finishing a copy needs both stores, and cancelling it only the source", async () => {
  const project = line.newProject();
  expect(await runInside(project, ["copy", "a.db"])).toMatchObject({ code: 2 });
  expect(await runInside(project, ["copy", "a.db", "b.db", "--abandon"])).toMatchObject({ code: 2 });
});

test.each([
  ["sqlite /srv/my store.db", "'/srv/my store.db'"],
  ["files /srv/state", "/srv/state/"],
  ["postgres db.example:5432/app agents", "'postgres://db.example:5432/app?schema=agents'"],
  ["postgres /run/postgresql/app agents", "'postgres:///app?host=/run/postgresql&schema=agents'"],
])("%s is quoted as %s", (address, typed) => {
  expect(finishCopyHint(address, "sqlite /b.db")).toContain(
    `holdfast copy ${typed} /b.db; or give it up: holdfast copy --abandon ${typed}`,
  );
  expect(finishCopyHint(address, "memory:"), "no command can name it").not.toContain("holdfast copy");
});
