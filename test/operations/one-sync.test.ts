// A command makes one pass over `.planning/`: it merges event files once, renders once, and takes one lease to render.

import fs, {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LeaseKeeper } from "../../src/journal/leases.ts";
import { EventFiles } from "../../src/projections/event-files.ts";
import { Renderer } from "../../src/projections/render.ts";
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
  vi.restoreAllMocks();
  rmSync(project, { recursive: true, force: true });
});

interface Work {
  /** How often `events/` was searched for files that are not merged yet. */
  readonly looks: number;
  /** How many event files were read. */
  readonly readings: number;
  readonly renders: number;
  readonly leases: number;
}

async function workOf(...args: string[]): Promise<Work> {
  const look = vi.spyOn(EventFiles.prototype, "look");
  const read = vi.spyOn(EventFiles.prototype as unknown as { read(name: string): Promise<unknown> }, "read");
  const list = vi.spyOn(fs, "readdirSync");
  syncBuiltinESMExports();
  const render = vi.spyOn(Renderer.prototype, "render");
  const take = vi.spyOn(LeaseKeeper.prototype, "take");
  expect(await here(...args)).toMatchObject({ code: 0 });
  const leases = take.mock.calls.filter(([name]) => name.startsWith("render/")).length;
  const listings = list.mock.calls.filter(([path]) => path === planning("events")).length;
  const looks = listings + look.mock.calls.length;
  const work = { looks, readings: read.mock.calls.length, renders: render.mock.calls.length, leases };
  for (const spy of [look, read, list, render, take]) spy.mockRestore();
  syncBuiltinESMExports();
  return work;
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

  test("writes events again whose file somebody removed", async () => {
    const [some = ""] = readdirSync(planning("events")).filter((name) => name.endsWith(".jsonl"));
    rmSync(planning(`events/${some}`));
    const { readings } = await workOf("fact", "currency", "EUR", "--source", "the contract");
    expect(readings).toBeGreaterThan(0);
    rmSync(join(project, ".holdfast"), { recursive: true });
    expect((await here("task", "list", "--all")).out).toContain("Build the cart");
  });
});
