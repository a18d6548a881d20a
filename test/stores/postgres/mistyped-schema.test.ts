// A schema that does not exist is reported, not shown as an empty store, and nothing is created.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { move } from "../../../src/index.ts";
import { CommandLine } from "../../cli/command-line.ts";
import { runInside } from "../../cli/inside.ts";
import { TestSchema } from "./schema.ts";

let line: CommandLine;
let schema: TestSchema;
let address: string;

beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());
beforeEach(() => {
  schema = new TestSchema();
  address = `${schema.url}${schema.url.includes("?") ? "&" : "?"}schema=${schema.name}`;
});
afterEach(() => schema.dispose());

async function isThere(): Promise<boolean> {
  const found = await schema.query("SELECT 1 FROM pg_namespace WHERE nspname = $1", [schema.name]);
  return found.length > 0;
}

test("reading commands find no store and create none", async () => {
  const env = { HOLDFAST_STORE: address };
  const looked = [
    await line.run(["status"], { env }),
    await line.run(["watch"], { env }),
    ...(await oneByOne(
      ["status", "--by", "me"],
      ["task", "list"],
      ["check"],
      ["calls"],
      ["prune", "--older-than", "30d", "--dry-run"],
      ["task", "add", "One"],
      ["migrate", "--dry-run"],
      ["init", "--check"],
    )),
  ];
  for (const { code, out, err } of looked) {
    expect({ code, out }).toEqual({ code: 3, out: "" });
    expect(err).toMatch(new RegExp(`${schema.name}: there is no store\\n.*schema.*holdfast init`));
  }
  const doctor = await runInside(line.project, ["doctor"], env);
  expect(doctor.code).toBe(5);
  expect(doctor.out).toMatch(/!! store .*there is no store/);
  expect(await isThere()).toBe(false);
});

async function oneByOne(...commands: string[][]) {
  const ran = [];
  for (const words of commands) ran.push(await runInside(line.project, words, { HOLDFAST_STORE: address }));
  return ran;
}

test.each([[["init", "--agent", "none"]], [["goal", "new", "checkout", "Ship it"]]])(
  "%j creates it",
  async (words) => {
    expect(await runInside(line.project, words, { HOLDFAST_STORE: address })).toMatchObject({ code: 0 });
    expect(await isThere()).toBe(true);
  },
);

test.each([[["init", "--agent", "none"]], [["goal", "new", "checkout", "Ship it"]]])(
  "%j by a user without the right to create it names the missing right",
  async (words) => {
    const role = `visitor_${schema.name.slice(-12)}`;
    await schema.query(`CREATE ROLE ${role} LOGIN PASSWORD 'visitor'`);
    try {
      const visited = new URL(address.replace("@/", "@localhost/"));
      Object.assign(visited, { username: role, password: "visitor" });
      const { code, err } = await runInside(line.project, words, { HOLDFAST_STORE: visited.href });
      expect(err).toMatch(/this user may not do that \(permission denied for database/);
      expect(err).toContain("Open the store once as a user who may create schemas");
      expect(err).not.toContain("holdfast init");
      expect(code).toBe(1);
      expect(await isThere()).toBe(false);
    } finally {
      await schema.query(`DROP ROLE ${role}`);
    }
  },
);

test("a move from it creates neither source nor target", async () => {
  const { code, err } = await runInside(line.project, ["move", "--yes", address, "copied.db"]);
  expect(code).toBe(3);
  expect(err).toContain("there is no store");
  expect(existsSync(join(line.project, "copied.db"))).toBe(false);
  expect(await isThere()).toBe(false);
});

test("a rejected move creates no target", async () => {
  const project = line.newProject();
  const say = (...words: string[]) => runInside(project, words);
  await say("init", "--agent", "none");
  const nothing = await say("move", "--yes", ".holdfast", address);
  expect(nothing).toMatchObject({ code: 3, err: expect.stringContaining("holds nothing") });
  await say("goal", "new", "checkout", "Ship it");
  await say("task", "add", "One");
  await say("task", "claim", "1", "--by", "ann");
  const held = await say("move", "--yes", ".holdfast", address);
  expect(held).toMatchObject({ code: 4, err: expect.stringContaining("is in use") });
  await expect(move(join(project, ".holdfast"), address)).rejects.toMatchObject({ code: "STREAM_BUSY" });
  await say("task", "release", "1", "--by", "ann");
  expect(await isThere()).toBe(false);
  expect(await say("move", "--yes", ".holdfast", "moved.db")).toMatchObject({ code: 0 });
  const left = await say("move", "--yes", ".holdfast", address);
  expect(left).toMatchObject({ code: 4, err: expect.stringContaining("has moved to") });
  expect(await say("move", "--yes", ".holdfast", "another.db")).toMatchObject({ code: 4 });
  expect(existsSync(join(project, "another.db"))).toBe(false);
  expect(await isThere()).toBe(false);
  const again = await say("move", "--yes", ".holdfast", "moved.db");
  expect(again, "a repeated move says that it is done").toMatchObject({ code: 0 });
});
