// A store whose file was emptied is not a new store: commands report it, and reading does not initialise it.

import { statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
let store: string;
const run = (...words: string[]) => runInside(line.project, words);

beforeAll(async () => {
  line = await CommandLine.build();
  store = join(line.project, ".holdfast", "store.db");
  // The files of a goal lie beside it. A store rebuilt from them would not equal the lost one.
  for (const words of [
    ["init", "--agent", "none"],
    ["goal", "new", "g", "Ship it"],
  ]) {
    expect(await run(...words)).toMatchObject({ code: 0 });
  }
});
afterAll(() => line.remove());
beforeEach(() => truncateSync(store));

test.each([
  ["check"],
  ["status", "--by", "me"],
  ["session", "list"],
  ["goal", "new", "h", "Another"],
  ["migrate"],
  ["move", "--yes", ".holdfast", "elsewhere.db"],
  ["status", "--by", "me", "--store", ".holdfast/store.db"],
])("%s %s reports the empty file and leaves it empty", async (...words) => {
  const { code, err } = await run(...words);
  expect(code).toBe(1);
  expect(err).toContain(`${store}: the file is empty`);
  expect(err).toContain("backup");
  expect(err).toContain("remove");
  expect(statSync(store).size).toBe(0);
});

test("the fast path of status and doctor report it too", async () => {
  const { code, err } = await line.run(["status"]);
  expect(code).toBe(1);
  expect(err).toContain(`${store}: the file is empty`);
  const examined = await run("doctor");
  expect(examined.code).toBe(5);
  expect(examined.out).toContain(`${store}: the file is empty`);
  expect(statSync(store).size).toBe(0);
});

test("a hook reports it too and starts no background process", async () => {
  const input = JSON.stringify({ cwd: line.project, session_id: "7f2a" });
  const { code, out, err } = await line.run(["hook", "gemini", "session-start"], { input });
  expect({ code, out }).toEqual({ code: 0, out: "{}\n" });
  expect(err).toContain(`${store}: the file is empty`);
  expect(statSync(store).size).toBe(0);
});

test("init fills it, as after a crash between creating and filling the file", async () => {
  expect(await run("init", "--agent", "none")).toMatchObject({ code: 0 });
  expect(await run("check")).toMatchObject({ code: 0 });
});
