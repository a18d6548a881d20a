// `backup` copies a store that others write to; a copy that is put back is reported until a person accepts it.

import { cpSync, existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { open, tool } from "../../src/index.ts";
import { TestSchema } from "../stores/postgres/schema.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

const charge = tool({
  name: "charge",
  description: "Charge a card",
  input: z.object({}),
  effect: "mutate",
  execute: () => "charged",
});

const opaque = tool({
  ...charge,
  name: "opaque",
  execute: () => Promise.reject(new Error("the line is dead")),
});

async function call(address: string, session: string, which = charge): Promise<void> {
  const holdfast = await open(address);
  const taken = await holdfast.session(session);
  await taken.call({ callId: `pay-${session}`, tool: which, args: {} });
  await holdfast.close();
}

describe.each([
  ["sqlite", "s.db", "copy.db"],
  ["files", "s/", "copy"],
])("%s", (_, store, file) => {
  test("a backup is whole while a service writes, and is noticed when it is put back", async () => {
    const project = line.newProject();
    const run = (...words: string[]) => runInside(project, [...words, "--store", store]);
    const address = join(project, store);
    await call(address, "before");
    await call(address, "open", opaque);
    const service = await open(address);
    const session = await service.session("service");
    let isDone = false;
    const writing = (async () => {
      for (let n = 0; !isDone; n++) await session.append({ role: "user", text: `message ${n}` });
    })();
    expect(await run("backup", file)).toMatchObject({
      code: 0,
      out: expect.stringContaining("a checked copy"),
    });
    isDone = true;
    await writing;
    await service.close();
    expect(await run("backup", file), "nothing is overwritten").toMatchObject({ code: 4 });
    expect(readdirSync(project).filter((name) => name.includes(".new"))).toEqual([]);
    expect(await runInside(project, ["check", "--store", join(project, file)])).toMatchObject({ code: 0 });

    await call(address, "after");
    rmSync(address, { recursive: true });
    for (const end of ["-wal", "-shm"]) rmSync(address + end, { force: true });
    cpSync(join(project, file), address, { recursive: true });

    const refused = await run("goal", "new", "g1", "Ship it");
    expect(refused).toMatchObject({ code: 4, err: expect.stringContaining("older copy of the store") });
    expect(refused.err).toContain(`holdfast restore --store ${store} --accept`);
    const list = await run("session", "list");
    expect(list).toMatchObject({ code: 0, err: expect.stringContaining("older copy of the store") });
    expect((await line.run(["status", "--store", store], { cwd: project })).out).toContain("older copy");
    expect((await run("doctor")).out).toContain("older copy");

    const shown = await run("restore");
    expect(shown.code).toBe(5);
    expect(shown.out).toContain("charge pay-after of after: completed");
    expect(shown.out).toContain("opaque pay-open of open");
    expect(shown.out).not.toContain("pay-before");
    const { data } = JSON.parse((await run("restore", "--json")).out);
    expect(data).toMatchObject({ rewound: true, accepted: false, isComplete: true });
    expect(await run("restore", "--accept")).toMatchObject({ code: 0 });
    expect(await run("goal", "new", "g1", "Ship it")).toMatchObject({ code: 0, err: "" });
    expect((await run("restore")).out).toContain("nothing to accept");
  });
});

test("a backup after which nothing happened is put back without a word", async () => {
  const project = line.newProject();
  const run = (...words: string[]) => runInside(project, [...words, "--store", "s.db"]);
  await call(join(project, "s.db"), "only");
  writeFileSync(join(project, "copy.db.999999999.new.db"), "left by a killed backup");
  expect(await run("backup", "copy.db")).toMatchObject({ code: 0 });
  expect(existsSync(join(project, "copy.db.999999999.new.db"))).toBe(false);
  cpSync(join(project, "copy.db"), join(project, "s.db"));
  expect(await run("goal", "new", "g1", "Ship it")).toMatchObject({ code: 0, err: "" });
});

test("postgres names the tools of the server", async () => {
  const schema = new TestSchema();
  const address = `${schema.url}${schema.url.includes("?") ? "&" : "?"}schema=${schema.name}`;
  const project = line.newProject();
  await call(address, "one");
  const { code, err } = await runInside(project, ["backup", "copy.db", "--store", address]);
  expect(code).toBe(2);
  expect(err).toContain(`pg_dump --schema=${schema.name}`);
  expect(existsSync(join(project, "copy.db"))).toBe(false);
  await schema.dispose();
});
