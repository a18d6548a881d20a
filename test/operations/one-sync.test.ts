// A command makes one pass over `.planning/`: it merges event files once, renders once, and takes one lease to render.

import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { Session } from "node:inspector/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { runInside } from "../cli/inside.ts";
import { quickFolder } from "../quick-folder.ts";

let project: string;
const here = (...args: string[]) => runInside(project, args);
const planning = (file: string) => join(project, ".planning", file);

beforeEach(async () => {
  project = mkdtempSync(join(quickFolder(), "holdfast-sync-"));
  mkdirSync(join(project, ".git"));
  await here("init", "--agent", "none");
  await here("goal", "new", "checkout", "Ship the checkout");
  await here("task", "add", "Build the cart");
  await here("task", "claim", "1");
});
afterEach(() => {
  rmSync(project, { recursive: true, force: true });
});

/** Functions whose calls V8 counts, by file and name. All are synchronous: V8 counts each resumption of others. */
const COUNTED = {
  /** Searches of `events/` for files that are not merged: before the decision, and while the folder is synced. */
  looks: ["goal/seen-event-files.ts eventFileNames", "projections/event-files.ts forget"],
  /** Event files that were read. */
  readings: ["projections/event-file-format.ts readEventFile"],
  renders: ["projections/render.ts render"],
  /** Leases that were granted: the commands here take none but that on rendering. */
  leases: ["journal/leases.ts Lease"],
} as const;

type Work = Readonly<Record<keyof typeof COUNTED, number>>;

async function workOf(...args: string[]): Promise<Work> {
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  expect(await here(...args)).toMatchObject({ code: 0 });
  const { result } = await session.post("Profiler.takePreciseCoverage");
  session.disconnect();
  const calls = (name: string): number => {
    const [file = "", called] = name.split(" ");
    const functions = result.filter(({ url }) => url.includes(file)).flatMap((each) => each.functions);
    const found = functions.filter(({ functionName }) => functionName === called);
    return found.reduce((sum, { ranges }) => sum + (ranges[0]?.count ?? 0), 0);
  };
  const sums = Object.entries(COUNTED).map(([what, names]) => {
    return [what, names.reduce((sum, name) => sum + calls(name), 0)] as const;
  });
  return Object.fromEntries(sums) as unknown as Work;
}

/** Saves STATE.md as a person would, a minute ago. */
function edit(from: string, to: string): void {
  const page = readFileSync(planning("STATE.md"), "utf8");
  expect(page).toContain(from);
  writeFileSync(planning("STATE.md"), page.replaceAll(from, to));
  const at = Date.now() / 1_000 - 60;
  utimesSync(planning("STATE.md"), at, at);
}

describe("a command that writes once", () => {
  test("lists the event folder once, reads no event file, renders once and takes one lease", async () => {
    const once = { looks: 1, readings: 0, renders: 1, leases: 1 };
    expect(await workOf("task", "submit", "1", "--summary", "done")).toEqual(once);
    expect(await workOf("fact", "currency", "EUR", "--source", "the contract")).toEqual(once);
    expect(readFileSync(planning("agent_state.json"), "utf8")).toContain("EUR");
  });

  test("saves its events in a file, so that a store made from the files has all of them", async () => {
    await here("task", "submit", "1", "--summary", "done");
    await here("fact", "currency", "EUR", "--source", "the contract");
    rmSync(join(project, ".holdfast"), { recursive: true });
    expect((await here("facts")).out).toContain("EUR");
    expect((await here("task", "show", "1")).out).toContain("submitted");
  });

  test("applies a person's edit before it decides", async () => {
    edit("[in_progress] Build the cart", "[in_progress] Build the basket");
    const { renders } = await workOf("task", "submit", "1", "--summary", "done");
    expect(renders).toBeGreaterThan(1);
    expect(readFileSync(planning("STATE.md"), "utf8")).toContain("Build the basket");
  });

  test("reports an event file that was cut, and writes its events again", async () => {
    const files = readdirSync(planning("events")).filter((name) => name.endsWith(".jsonl"));
    for (const file of files) truncateSync(planning(`events/${file}`), 200);
    const { code, err } = await here("fact", "currency", "EUR", "--source", "the contract");
    expect({ code, err }).toEqual({ code: 0, err: expect.stringContaining("it was cut or changed") });
    for (const file of files) rmSync(planning(`events/${file}`));
    rmSync(join(project, ".holdfast"), { recursive: true });
    expect((await here("task", "list", "--all")).out).toContain("Build the cart");
    expect((await here("facts")).out).toContain("EUR");
  });

  test("writes events again whose file somebody removed", async () => {
    const [some = ""] = readdirSync(planning("events")).filter((name) => name.endsWith(".jsonl"));
    rmSync(planning(`events/${some}`));
    const { readings } = await workOf("fact", "currency", "EUR", "--source", "the contract");
    expect(readings).toBeGreaterThan(0);
    rmSync(join(project, ".holdfast"), { recursive: true });
    expect((await here("task", "list", "--all")).out).toContain("Build the cart");
  });
});
