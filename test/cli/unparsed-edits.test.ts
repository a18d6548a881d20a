// An edit of `.planning/` that could not be ingested is kept beside the file and reported until that copy is
// removed.

import { readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
let project: string;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());
beforeEach(async () => {
  project = line.newProject();
  await here("init", "--agent", "none");
  await here("goal", "new", "checkout", "Ship the checkout", "--phase", "API");
  for (const title of ["one", "two", "three"]) await here("task", "add", title);
});

const here = (...args: string[]) => runInside(project, args);
/** Only a process takes the fast path of status in `main.ts`. */
const over = (args: string[], input = "") => line.run(args, { cwd: project, input });
const planning = (file = "") => join(project, ".planning", file);
const page = () => readFileSync(planning("STATE.md"), "utf8");
const beside = () => readdirSync(planning()).filter((name) => name.includes(".unread-"));

/** Saves a file as a person does, a minute ago. */
function save(text: string): void {
  writeFileSync(planning("STATE.md"), text);
  const at = Date.now() / 1_000 - 60;
  utimesSync(planning("STATE.md"), at, at);
}

async function sessionStart(id: string): Promise<string> {
  const input = JSON.stringify({ cwd: project, session_id: id, source: "startup" });
  const { out } = await over(["hook", "claude", "session-start"], input);
  // A session that only started changes no file.
  writeFileSync(join(project, "pay.ts"), id);
  const edit = { tool_name: "Write", tool_input: { file_path: join(project, "pay.ts") } };
  await over(["hook", "claude", "touched"], JSON.stringify({ cwd: project, session_id: id, ...edit }));
  return out;
}

test("an edit that a hook set aside is reported everywhere until it is removed", async () => {
  save(page().replace("## Decisions", "Mind the budget.\n\n## Decisions"));
  await sessionStart("7f2a91bc-1");
  await over(["hook", "ingest"]);
  expect(page()).not.toContain("Mind the budget.");
  const [name = "", ...more] = beside();
  expect(name).toMatch(/^STATE\.md\.unread-[0-9a-f]{12}$/);
  expect(more).toEqual([]);

  const file = `.planning/${name}`;
  const doctor = await here("doctor");
  expect(doctor.code, "a person has something to do").toBe(5);
  const told = {
    status: (await over(["status"])).out,
    "status, the long way": (await here("status")).out,
    brief: (await here("brief")).out,
    next: (await here("next")).out,
    doctor: doctor.out,
    check: (await here("check")).out,
    "session-start": await sessionStart("7f2a91bc-2"),
  };
  for (const [who, said] of Object.entries(told)) expect(said, who).toContain(file);
  const status = JSON.parse((await over(["status", "--json"])).out) as { data: { notMerged: string[] } };
  expect(status.data.notMerged).toEqual([expect.stringContaining(file)]);

  rmSync(planning(name));
  expect((await over(["status"])).out).not.toContain("unread");
  expect((await here("brief")).out).not.toContain("unread");
  expect((await here("doctor")).code).toBe(0);
});

test("of many files set aside some are named and the rest counted; other names are ignored", async () => {
  for (let index = 0; index < 9; index++)
    writeFileSync(planning(`STATE.md.unread-${String(index).repeat(12)}`), "words");
  writeFileSync(planning("STATE.md.unread-\nNOT OURS"), "words");
  const { data } = JSON.parse((await here("status", "--json")).out) as { data: { notMerged: string[] } };
  expect(data.notMerged).toHaveLength(6);
  expect(data.notMerged.at(-1)).toContain("4 more");
  expect(data.notMerged.join("\n")).not.toContain("NOT OURS");
});

test("a deleted line drops its task, and the command that ingests it says so", async () => {
  save(page().replace(/^- .*T-002.*\n/m, ""));
  const { code, err } = await here("task", "claim", "T-001", "--by", "ag", "--role", "worker");
  expect(code).toBe(0);
  expect(err).toContain("note: applied from STATE.md: T-002 dropped");
  expect((await here("task", "show", "T-002", "--json")).out).toContain('"dropped"');
  expect(beside()).toEqual([]);
});

test("a deleted line does not drop a task in progress", async () => {
  await here("task", "claim", "T-002", "--by", "ag", "--role", "worker");
  save(page().replace(/^- .*T-002.*\n/m, ""));
  const { code, err } = await here("fact", "a", "1", "--source", "x");
  expect(code).toBe(0);
  expect(err).toMatch(/STATE\.md: .*T-002.*ag works on it.*holdfast task drop T-002/);
  expect(page()).toContain("T-002 [in_progress] two");
  expect(beside()).toHaveLength(1);
});

test("a removed section, or many removed lines, drop no task", async () => {
  const all = page();
  save(all.replace(/^- .*T-00\d.*\n/gm, ""));
  const { err } = await here("fact", "a", "1", "--source", "x");
  expect(err).toMatch(/T-001, T-002, T-003 were removed at once, and stay/);
  expect(err).not.toContain("applied from");
  for (const id of ["T-001", "T-002", "T-003"]) expect(page()).toContain(`${id} [open]`);
  expect(beside()).toHaveLength(1);
});

test("a new order of tasks is not ingested, and that is reported", async () => {
  const text = page();
  const [first = "", second = ""] = text.match(/^- .*T-00[12].*\n/gm) ?? [];
  save(text.replace(first + second, second + first));
  const { err } = await here("fact", "a", "1", "--source", "x");
  expect(err).toMatch(/the order of tasks follows .* under Next Action/);
  expect(page()).toContain(first + second);
});
