// A store that has moved still answers, with a note that its data is outdated.

import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TestSchema } from "../stores/postgres/schema.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

/** A project whose store moved to `new.db`. */
async function moved(kind: "sqlite" | "files"): Promise<string> {
  const project = line.newProject();
  if (kind === "files") mkdirSync(join(project, ".holdfast"));
  for (const words of [
    ["init", "--agent", "none", ...(kind === "files" ? ["--store", ".holdfast/"] : [])],
    ["goal", "new", "n1", "Ship it", ...(kind === "files" ? ["--store", ".holdfast/"] : [])],
  ]) {
    expect(await runInside(project, words)).toMatchObject({ code: 0 });
  }
  const { code, out } = await runInside(project, ["move", "--yes", ".holdfast", "./new.db"]);
  expect(code).toBe(0);
  expect(out).toContain(`moved to sqlite ${project}/new.db`);
  expect(out, "the new store is not found by default").toContain(`HOLDFAST_STORE=${project}/new.db`);
  return project;
}

describe.each(["sqlite", "files"] as const)("%s", (kind) => {
  let project: string;
  beforeAll(async () => {
    project = await moved(kind);
    expect(existsSync(join(project, ".holdfast", kind === "files" ? "journal.jsonl" : "store.db"))).toBe(
      true,
    );
  });

  test.each([
    "check",
    "next",
    "brief",
    "task list",
    "session list",
    "goal show",
    "goal list",
    "facts",
    "calls",
  ])("%s answers and notes the move", async (words) => {
    const { code, out, err } = await runInside(project, words.split(" "));
    expect(code).toBe(0);
    expect(out).not.toBe("");
    expect(err.match(/holdfast: note: .*/g)).toEqual([
      expect.stringMatching(`has moved to sqlite ${project}/new.db.* as of 20`),
    ]);
  });

  test("a rejected command notes the move once, and so does a wrong name", async () => {
    const refused = await runInside(project, ["goal", "new", "n2", "Another"]);
    expect(refused.code).toBe(4);
    expect(refused.err).toContain(`has moved to sqlite ${project}/new.db`);
    expect(refused.err).not.toContain("note: ");
    const unknown = await runInside(project, ["goal", "show", "made-there"]);
    expect(unknown.code).toBe(3);
    expect(unknown.err).toMatch(/note: .*has moved to/);
  });

  test("doctor reports it as a problem", async () => {
    const { code, out } = await runInside(project, ["doctor", "--json"]);
    expect(code).toBe(5);
    const { findings } = JSON.parse(out).data;
    const found = findings.find(({ name }: { name: string }) => name === "store");
    expect(found).toMatchObject({ ok: false, what: expect.stringContaining(`${project}/new.db`) });
    expect(found.hint).toContain(`HOLDFAST_STORE=${project}/new.db`);
  });

  test("status notes it on its page and in its JSON, on both paths", async () => {
    const short = (...words: string[]) => line.run(words, { cwd: project });
    const long = (...words: string[]) => runInside(project, words);
    for (const ask of [short, long]) {
      const page = await ask("status");
      expect(page.code).toBe(0);
      expect(page.out).toMatch(`this store has moved to sqlite ${project}/new.db`);
      expect(page.err).toMatch(/^holdfast: note: .*has moved to/);
      const json = await ask("status", "--json");
      const { data } = JSON.parse(json.out);
      expect(data.moved).toEqual({
        to: `sqlite ${project}/new.db`,
        asOf: expect.stringMatching(/^20.*Z$/),
      });
      expect(JSON.parse(json.err)).toMatchObject({ kind: "warning", data: { code: "STORE_MOVED" } });
    }
  });

  test("the new store has no note", async () => {
    const { code, out, err } = await runInside(project, [
      "status",
      "--store",
      "new.db",
      "--json",
      "--by",
      "me",
    ]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(JSON.parse(out).data.moved).toBeNull();
  });
});

test("a hook's briefing begins with it", async () => {
  const project = await moved("sqlite");
  const input = JSON.stringify({ cwd: project, session_id: "7f2a", source: "startup" });
  const { out } = await line.run(["hook", "claude", "session-start"], { cwd: project, input });
  const said = JSON.parse(out).hookSpecificOutput.additionalContext as string;
  expect(said).toMatch(
    new RegExp(
      `^Holdfast: this store has moved[\\s\\S]*\\nSTORE ".*has moved to sqlite ${project}/new.db.* as of 20.*"\\n`,
    ),
  );
  expect(said).toContain("Ship it");
});

test("a copy repeated from another folder finds the same store", async () => {
  const project = await moved("sqlite");
  mkdirSync(join(project, "below"));
  const again = await runInside(join(project, "below"), ["move", "--yes", "../.holdfast", "../new.db"]);
  expect(again).toMatchObject({ code: 0 });
});

test("a moved Postgres store notes it, too", async () => {
  const schema = new TestSchema();
  try {
    const project = line.newProject();
    const url = `${schema.url}${schema.url.includes("?") ? "&" : "?"}schema=${schema.name}`;
    const there = ["--store", url];
    expect(await runInside(project, ["init", "--agent", "none", ...there])).toMatchObject({ code: 0 });
    expect(await runInside(project, ["goal", "new", "n1", "Ship it", ...there])).toMatchObject({ code: 0 });
    expect((await runInside(project, ["next", ...there])).err).toBe("");
    expect(await runInside(project, ["move", "--yes", url, "new.db"])).toMatchObject({ code: 0 });
    const { code, err } = await runInside(project, ["next", ...there]);
    expect(code).toBe(0);
    expect(err).toMatch(new RegExp(`has moved to sqlite ${project}/new.db.* as of 20`));
  } finally {
    await schema.dispose();
  }
});
