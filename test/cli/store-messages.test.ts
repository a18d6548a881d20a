// Messages of doctor, copy and import on stores and disks.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { open } from "../../src/open.ts";
import { canMount, needs } from "../stores/sqlite/processes.ts";
import { CommandLine, type Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

interface Examined {
  readonly findings: readonly { name: string; ok: boolean; what: string; hint: string | null }[];
}

let line: CommandLine;
const run = (words: string, env: Record<string, string> = {}): Promise<Ran> =>
  runInside(line.project, words.split(" "), env);
const data = async <Data>(words: string, env: Record<string, string> = {}): Promise<Data> =>
  (JSON.parse((await run(`${words} --json`, env)).out) as { data: Data }).data;

beforeAll(async () => {
  line = await CommandLine.build();
  const holdfast = await open(join(line.project, "mine.db"));
  const session = await holdfast.session("order", { title: "Pay" });
  await session.checkpoint();
  await session.close();
  await holdfast.close();
});
afterAll(() => line.remove());

describe.skipIf(!canMount)(needs("a small disk of its own", "mounting", canMount), () => {
  let disk: string;

  beforeAll(() => {
    disk = join(line.project, "disk");
    mkdirSync(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", disk]);
  });
  afterAll(() => {
    execFileSync("umount", ["-l", disk]);
  });

  test("doctor reports low disk space, for a file and for a folder", async () => {
    for (const address of [join(disk, "a.db"), `${join(disk, "folder")}/`]) {
      await (await open(address)).close();
      const { findings } = await data<Examined>(`doctor --store ${address}`);
      const found = findings.find(({ name }) => name === "disk");
      expect(found).toMatchObject({ ok: false, hint: expect.stringContaining("space") });
      expect(found?.what).toMatch(/^[0-2]\.\d MB are left on the disk of /);
    }
  });

  test("an unwritable folder can still be read, as the hint says", async () => {
    const folder = `${join(disk, "folder")}/`;
    expect(await run(`goal new kept Ship --store ${folder}`)).toMatchObject({ code: 0 });
    execFileSync("mount", ["-o", "remount,ro", disk]);
    const refused = await run(`task add more --store ${folder} --goal kept`);
    expect(refused.code).toBe(1);
    expect(refused.err).toContain("cannot be written");
    expect(refused.err).toContain("It can still be read");
    for (const words of ["goal list", "status --by me", "session list", "calls", "check", "doctor"]) {
      const { code, err } = await run(`${words} --store ${folder}`);
      expect({ words, code: words === "doctor" ? 0 : code }, err).toEqual({ words, code: 0 });
    }
    expect((await run(`goal show kept --store ${folder}`)).out).toContain("Ship");
    expect((await line.run(["status", "--store", folder])).out, "on the fast path too").toContain("kept");
  });
});

test("doctor does not mention a disk with enough space", async () => {
  const { findings } = await data<Examined>("doctor --store mine.db");
  expect(findings.map(({ name }) => name)).toEqual(["node", "folder", "store", "goals", "calls"]);
});

test("doctor does not take the name of a server for a folder", async () => {
  const { findings } = await data<Examined>("doctor", { HOLDFAST_STORE: "postgres://127.0.0.1:1/none" });
  expect(findings.map(({ name, ok }) => [name, ok])).toEqual([
    ["node", true],
    ["store", false],
  ]);
});

test("a file that is not a store is not reported as missing", async () => {
  const file = join(line.project, "passwd");
  writeFileSync(file, "root:x:0:0\n");
  const { findings } = await data<Examined>("doctor", { HOLDFAST_STORE: file });
  const found = findings.find(({ name }) => name === "store");
  expect(found?.what).toContain(`${file}: this file is not a store`);
  expect(found?.hint).not.toContain("init");
  expect((await run("session list", { HOLDFAST_STORE: file })).err).toContain("this file is not a store");
});

test("copy says that .planning/ does not follow a store in another place", async () => {
  const project = line.newProject();
  for (const words of ["init --agent none", "goal new g Ship"]) {
    expect(await runInside(project, words.split(" "))).toMatchObject({ code: 0 });
  }
  const { code, out } = await runInside(project, ["move", "--yes", ".holdfast", "moved.db"]);
  expect(code).toBe(0);
  expect(out).toMatch(/\.planning\/ .*holdfast rebuild/);
  const other = await runInside(project, ["move", "--yes", "moved.db", "again.db"]);
  expect(other.code).toBe(0);
  expect(other.out, "no folder followed that store").not.toContain(".planning/");
});

test("an import counts new and existing records", async () => {
  const file = join(line.project, "all.jsonl");
  const { writes } = await data<{ writes: number }>(`export ${file} --store mine.db`);
  const first = await data<object>(`import ${file} --store taken.db`);
  expect(first).toMatchObject({ writes, added: writes });
  const second = await data<object>(`import ${file} --store taken.db`);
  expect(second).toMatchObject({ writes, added: 0 });
  expect((await run(`import ${file} --store taken.db`)).out).toContain("nothing new");
});

test("a rejected import leaves no store behind", async () => {
  const file = join(line.project, "other.jsonl");
  writeFileSync(file, "{}\n");
  const { code, err } = await run(`import ${file} --store fresh/new.db`);
  expect(code).toBe(2);
  expect(err).toContain("Nothing was written");
  expect(existsSync(join(line.project, "fresh"))).toBe(false);
});
