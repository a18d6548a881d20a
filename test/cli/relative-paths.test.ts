// Paths on the command line are relative to the current folder, as in a shell.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandLine, type Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
let src: string;

beforeAll(async () => {
  line = await CommandLine.build();
  src = join(line.project, "src");
  mkdirSync(src);
  mkdirSync(join(line.project, ".planning"));
  for (const path of ["a.ts", "src/a.ts", "src/b.ts", "src/..c.ts", "..c.ts", ".git/config", ".planning/x"]) {
    writeFileSync(join(line.project, path), path);
  }
  for (const words of [
    ["init", "--agent", "none"],
    ["goal", "new", "g", "Ship it"],
  ])
    expect(await runInside(line.project, words)).toMatchObject({ code: 0 });
});
afterAll(() => line.remove());

const remember = (cwd: string, ...words: string[]): Promise<Ran> => runInside(cwd, ["remember", ...words]);

test("a path is relative to the current folder and recorded relative to the root", async () => {
  const typed: readonly (readonly [cwd: string, path: string, recorded: string])[] = [
    [src, "a.ts", "src/a.ts"],
    [src, "./b.ts", "src/b.ts"],
    [src, "../a.ts", "a.ts"],
    [src, "..c.ts", "src/..c.ts"],
    [src, "../..c.ts", "..c.ts"],
    [line.project, "./src/a.ts", "src/a.ts"],
    [line.project, join(src, "b.ts"), "src/b.ts"],
  ];
  for (const [cwd, path, recorded] of typed) {
    expect(await remember(cwd, path), path).toMatchObject({ code: 0, out: `recorded ${recorded}\n` });
  }
  expect(
    await runInside(src, ["check"]),
    "paths that are already relative to the root stay unchanged",
  ).toMatchObject({ code: 0 });
});

test("an impossible path is rejected with an accurate reason", async () => {
  const refused: readonly (readonly [words: readonly string[], says: string, hint: string])[] = [
    [["../../etc.ts"], "is not below", "the project's root"],
    [["/etc/hostname"], "/etc/hostname is not below", "the project's root"],
    [["nothere.ts"], "there is no file src/nothere.ts", "--deleted"],
    [["."], "src is a folder", "Name the files"],
    [["a.ts", "--deleted"], "src/a.ts still exists", "--deleted"],
    [["../.git/config"], ".git/config is not a file of the project's work", "git"],
    [["../.planning/x"], ".planning/x is not a file of the project's work", ".planning"],
    [["../.holdfast/store.db"], ".holdfast/store.db is not a file of the project's work", ".holdfast"],
  ];
  for (const [words, says, hint] of refused) {
    const { code, err } = await remember(src, ...words);
    expect(code, err).toBe(2);
    expect(err).toContain(says);
    expect(err).toContain(hint);
  }
  expect(await remember(src, "gone.ts", "--deleted"), "a removed file").toMatchObject({ code: 0 });
});

test("so are the files of tasks, evidence and decisions", async () => {
  const inSrc = (...words: string[]): Promise<Ran> => runInside(src, [...words, "--json"]);
  const dataOf = ({ out }: Ran): unknown => JSON.parse(out).data;
  const added = await inSrc("task", "add", "Build it", "--file", "new.ts", "../a.ts");
  expect(dataOf(added)).toMatchObject({ files: ["src/new.ts", "a.ts"] });
  expect(await inSrc("task", "claim", "T-001")).toMatchObject({ code: 0 });
  const handedIn = await inSrc("task", "submit", "T-001", "--file", "b.ts");
  expect(dataOf(handedIn)).toMatchObject({ submission: { files: [{ path: "src/b.ts" }] } });
  const why = ["--context", "shape", "--reason", "it is short"];
  const decided = await inSrc("decide", "one file", ...why, "--file", "./b.ts");
  expect(dataOf(decided)).toMatchObject({ files: ["src/b.ts"] });
  for (const [cwd, file] of [
    [src, "b.ts"],
    [line.project, "src/b.ts"],
  ] as const) {
    const { out } = await runInside(cwd, ["decisions", "--file", file]);
    expect(out).toContain("one file");
  }
  const outside = await runInside(src, ["task", "add", "No", "--file", "../../out.ts"]);
  expect(outside).toMatchObject({ code: 2, err: expect.stringContaining("is not below the project's root") });
});
