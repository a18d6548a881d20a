// Event files that a store has merged are not read again, and none is missed.

import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { type Holdfast, open } from "../../src/open.ts";
import { mergeEventFolder } from "../../src/projections/index.ts";
import { Copy, WallClock } from "./copies.ts";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0)) await end();
});

async function copyOf(from?: Copy): Promise<Copy> {
  const copy = await Copy.make(new WallClock(), from, () => undefined);
  endings.push(() => copy.dispose());
  return copy;
}

/** A store of its own beside a folder of its own, and what it was warned of. */
async function clone(): Promise<{ holdfast: Holdfast; root: string; events: string; warned: unknown[] }> {
  const root = mkdtempSync(join(tmpdir(), "holdfast-taken-"));
  const events = join(root, ".planning/events");
  mkdirSync(events, { recursive: true });
  const warned: unknown[] = [];
  const holdfast = await open("memory:", { warn: (error) => warned.push(error) });
  endings.push(async () => {
    await holdfast.close();
    rmSync(root, { recursive: true, force: true });
  });
  return { holdfast, root, events, warned };
}

const eventsOf = (copy: Copy): string => join(copy.root, ".planning/events");
const pull = (copy: Copy, events: string): void => cpSync(eventsOf(copy), events, { recursive: true });

test("merged files are not read again; new ones are, even if old ones are gone", async () => {
  const source = await copyOf();
  await source.folder.sync();
  const { holdfast, root, events, warned } = await clone();
  pull(source, events);
  const goalHere = () => holdfast.goal("checkout", { root, stale: "use" });
  expect((await goalHere()).state.statement).toBe("Ship it");
  for (const name of readdirSync(events)) truncateSync(join(events, name), 50);
  expect((await goalHere()).revision).toBe(source.goal.revision);
  expect(warned, "an old file that was read would be refused").toEqual([]);

  await source.goal.fact({ key: "later", value: 1, source: "s" });
  await source.folder.sync();
  for (const name of readdirSync(eventsOf(source)))
    if (!readdirSync(events).includes(name)) cpSync(join(eventsOf(source), name), join(events, name));
  expect((await goalHere()).state.facts.has("later")).toBe(true);
  expect(warned).toEqual([]);

  const other = await clone();
  cpSync(events, other.events, { recursive: true });
  await other.holdfast.goal("checkout", { root: other.root, stale: "use" }).catch(() => undefined);
  expect(other.warned.length, "a new store reads them all, and the fault shows").toBeGreaterThan(0);
});

test("a half-written file is read again when it is whole", async () => {
  const source = await copyOf();
  await source.folder.sync();
  const { holdfast, root, events, warned } = await clone();
  pull(source, events);
  await holdfast.goal("checkout", { root, stale: "use" });
  await source.goal.fact({ key: "torn", value: 1, source: "s" });
  await source.folder.sync();
  const [name = ""] = readdirSync(eventsOf(source)).filter((each) => !readdirSync(events).includes(each));
  const text = readFileSync(join(eventsOf(source), name), "utf8");
  writeFileSync(join(events, name), text.slice(0, -20));
  const torn = await holdfast.goal("checkout", { root, stale: "use" });
  expect(torn.state.facts.has("torn")).toBe(false);
  expect(warned.length).toBe(1);
  writeFileSync(join(events, name), text);
  expect((await holdfast.goal("checkout", { root, stale: "use" })).state.facts.has("torn")).toBe(true);
});

test("opening one goal does not skip the files of another", async () => {
  const source = await copyOf();
  await source.folder.sync();
  const { holdfast, root, events } = await clone();
  const mine = await holdfast.goal("mine", { statement: "Another", root });
  pull(source, events);
  await holdfast.goal("mine", { root });
  await holdfast.goal("mine", { root });
  expect(mine.state.statement).toBe("Another");
  await mergeEventFolder(holdfast.journal, join(root, ".planning"));
  expect((await holdfast.goal("checkout", { root, stale: "use" })).revision).toBe(source.goal.revision);
});

test("copies that merge each other's files have everything in the end", async () => {
  const source = await copyOf();
  await source.folder.sync();
  const { holdfast, root, events } = await clone();
  pull(source, events);
  const goal = await holdfast.goal("checkout", { root, stale: "use", by: { name: "bob", role: "human" } });
  await goal.fact({ key: "here", value: 1, source: "s" });
  await source.goal.fact({ key: "there", value: 1, source: "s" });
  await source.folder.sync();
  pull(source, events);
  const merged = await holdfast.goal("checkout", { root, stale: "use" });
  expect([...merged.state.facts.keys()].sort()).toEqual(expect.arrayContaining(["here", "there"]));
});
