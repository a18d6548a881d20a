// Files of events: what is believed, what is refused, and what a crash leaves.

import { spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { loadGoal } from "../../src/goal/index.ts";
import { Journal } from "../../src/journal/index.ts";
import { isHoldfastError } from "../../src/model/errors.ts";
import { open } from "../../src/open.ts";
import { followGoal, mergeEventFolder, projectGoal } from "../../src/projections/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";
import { Copy, WallClock } from "./copies.ts";
import { forge, headOf, lineOf, nameOf } from "./forged-events.ts";

const copies: Copy[] = [];
const roots: string[] = [];
afterEach(async () => {
  for (const copy of copies.splice(0)) await copy.dispose();
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

const eventsOf = (copy: { root: string }): string => join(copy.root, ".planning/events");
const line = (change: object = {}): string => lineOf(forge(change));
const checkout = (events: number): string => headOf("checkout", events);

const OUTSIDE = {
  by: { name: "x", role: "human" },
  files: [{ path: "../../etc/passwd", act: "examined", hash: "a".repeat(64) }],
  task: null,
  session: null,
};

/** Hostile or broken files, and the reason for refusing each. The name fits the content, unless noted. */
const BAD: readonly (readonly [what: string, text: string, says: RegExp, name?: string])[] = [
  ["nothing", "", /JSON/],
  ["torn in the middle of a line", `${checkout(1)}\n${line().slice(0, 40)}\n`, /line 2: it is no event/],
  ["fewer events than it says", `${checkout(2)}\n${line()}\n`, /it holds 1 events, and not as many/],
  ["a later format", `${checkout(1).replace('"format":2', '"format":9')}\n${line()}\n`, /later release/],
  ["an event nobody knows", `${checkout(1)}\n${line({ type: "goal.sold" })}\n`, /does not know its type/],
  ["an event of a later version", `${checkout(1)}\n${line({ v: 7 })}\n`, /does not know its type: upgrade/],
  ["a merge", `${checkout(1)}\n${line({ type: "goal.merged" })}\n`, /does not know its type/],
  [
    "data that no schema allows",
    `${checkout(1)}\n${line({ data: { by: { name: "x", role: "king" } } })}\n`,
    /line 2: a value in it is not allowed/,
  ],
  [
    "a way out of the folder",
    `${checkout(1)}\n${line({ type: "files.recorded", data: OUTSIDE })}\n`,
    /line 2: a value in it is not allowed/,
  ],
  ["the same event twice", `${checkout(2)}\n${line()}\n${line()}\n`, /is there twice/],
  [
    "a prototype",
    `${checkout(1)}\n${line().replace('"refs":{}', '"refs":{"__proto__":{"x":1}}')}\n`,
    /line 2/,
  ],
  ["a bomb of brackets", `${checkout(1)}\n${"[".repeat(100_000)}\n`, /line 2: it is no event/],
  [
    "a content that does not fit its name",
    `${checkout(1)}\n${line()}\n`,
    /does not fit its name/,
    `${"0".repeat(32)}.jsonl`,
  ],
  ["a name of its own", `${checkout(1)}\n${line()}\n`, /its name is not/, "notes.jsonl"],
];

for (const [what, text, says, name] of BAD)
  test(`${what}: refused with a reason, kept as it is, and nothing else is harmed`, async () => {
    const warned: unknown[] = [];
    const copy = await Copy.make(new WallClock(), undefined, (error) => warned.push(error));
    copies.push(copy);
    const file = join(eventsOf(copy), name ?? nameOf(text));
    writeFileSync(file, text);
    const before = copy.agreed();
    const { refused, merged } = await copy.folder.sync();
    expect(refused).toEqual([{ file: expect.stringMatching(/^events\//), why: expect.stringMatching(says) }]);
    expect(warned.filter((error) => isHoldfastError(error, "EVENT_FILE_REFUSED"))).toHaveLength(1);
    expect(merged).toBeNull();
    expect(copy.agreed()).toEqual(before);
    expect(readFileSync(file, "utf8")).toBe(text);
    // Said once, not at every write.
    await copy.goal.fact({ key: "k", value: 1, source: "s" });
    expect((await copy.folder.sync()).refused).toEqual([]);
  });

test("a link, and a file that is far too large, are not read", async () => {
  const copy = await Copy.make(new WallClock());
  copies.push(copy);
  const link = join(eventsOf(copy), `${"1".repeat(32)}.jsonl`);
  symlinkSync("/etc/passwd", link);
  const large = join(eventsOf(copy), `${"2".repeat(32)}.jsonl`);
  writeFileSync(large, "");
  truncateSync(large, 100 * 1024 * 1024);
  const { refused } = await copy.folder.sync();
  expect(refused.map(({ why }) => why)).toEqual([
    expect.stringContaining("links are not followed"),
    expect.stringContaining("the limit is"),
  ]);
});

test("other content under the uid of a known event is refused", async () => {
  const clock = new WallClock();
  const a = await Copy.make(clock);
  copies.push(a);
  const [name = ""] = readdirSync(eventsOf(a));
  const text = readFileSync(join(eventsOf(a), name), "utf8").replace("Ship it", "Sell it");
  writeFileSync(join(eventsOf(a), nameOf(text)), text);
  const { refused } = await a.folder.sync();
  expect(refused).toEqual([
    {
      file: `events/${nameOf(text)}`,
      why: expect.stringContaining("its uid is not the hash of its content"),
    },
  ]);
  expect(a.goal.state.statement).toBe("Ship it");
  // A fresh clone believes the honest file, whichever name sorts first.
  const warned: unknown[] = [];
  const warn = (error: unknown): unknown => warned.push(error);
  const journal = new Journal({ store: await openMemory(), now: clock.now, warn });
  await mergeEventFolder(journal, join(a.root, ".planning"));
  expect(warned.map((error) => isHoldfastError(error, "EVENT_FILE_REFUSED"))).toEqual([true]);
  expect((await loadGoal(journal, "checkout", { stale: "use" })).state.statement).toBe("Ship it");
});

test("a lost or damaged event file is saved again from the store, beside the damaged one", async () => {
  const copy = await Copy.make(new WallClock());
  copies.push(copy);
  await copy.goal.fact({ key: "k", value: 1, source: "s" });
  await copy.folder.sync();
  const names = readdirSync(eventsOf(copy)).sort();
  const [first = "", second = ""] = names;
  rmSync(join(eventsOf(copy), first));
  await copy.folder.sync();
  const clone = await Copy.make(new WallClock(), copy);
  copies.push(clone);
  expect(clone.agreed()).toEqual(copy.agreed());
  // Damaged, and met by a process that has not seen it whole.
  truncateSync(join(eventsOf(copy), second), 60);
  const again = await projectGoal(copy.goal, { auto: false });
  expect(existsSync(join(eventsOf(copy), second))).toBe(true);
  await again.close();
  const other = await Copy.make(new WallClock(), copy, () => undefined);
  copies.push(other);
  expect(other.files()).toEqual(copy.files());
});

test("files that git brings after a command has merged are merged before the next rendering", async () => {
  const clock = new WallClock();
  const copy = await Copy.make(clock);
  const clone = await Copy.make(clock, copy);
  copies.push(copy, clone);
  await clone.goal.fact({ key: "currency", value: "EUR", source: "the contract" });
  await clone.folder.sync();
  // The command saves once, so that the store has a record of its files, and begins anew.
  await copy.goal.fact({ key: "k", value: 1, source: "s" });
  await copy.folder.sync();
  const onFailure = (error: unknown) => expect.unreachable(String(error));
  const eventFiles = readdirSync(eventsOf(copy));
  await followGoal(copy.goal, { folder: ".planning", eventFiles, onFailure });
  cpSync(join(clone.root, ".planning"), join(copy.root, ".planning"), { recursive: true });
  await copy.goal.fact({ key: "k", value: 2, source: "s" });
  expect(copy.goal.state.facts.get("currency")?.value).toBe("EUR");
});

describe("a process that is killed while it syncs", () => {
  test("before or after any call to the file system: the next process has everything, once", async () => {
    const clock = new WallClock(Date.now());
    const a = await Copy.make(clock);
    const b = await Copy.make(clock, a);
    copies.push(a, b);
    await a.goal.addTask({ title: "from a" });
    for (let index = 0; index < 26; index++) {
      await b.goal.addTask({ title: `b ${index}` });
      await b.folder.sync();
    }
    await a.folder.sync();
    const root = mkdtempSync(join(quickFolder(), "holdfast-killed-"));
    roots.push(root);
    // A store that has a's events, and a folder in which git has put b's: all steps are due, tidying too.
    cpSync(join(a.root, ".planning"), join(root, "start/.planning"), { recursive: true });
    const start = await open(join(root, "start/store.db"));
    await start.goal("checkout", { root: join(root, "start") });
    await start.close();
    cpSync(eventsOf(b), join(root, "start/.planning/events"), { recursive: true });
    const run = async (at: number, when: string): Promise<{ signal: string | null; calls: number }> => {
      const place = join(root, `${when}-${at}`);
      cpSync(join(root, "start"), place, { recursive: true });
      const child = spawn(process.execPath, [PROGRAM, join(place, "store.db"), place, String(at), when], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      let said = "";
      child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
        said += chunk;
      });
      const signal = await new Promise<string | null>((resolve) =>
        child.once("close", (_code, by) => resolve(by)),
      );
      return { signal, calls: Number(said) };
    };
    const { calls } = await run(0, "before");
    expect(calls).toBeGreaterThan(20);
    const wanted = process.env["HOLDFAST_FULL"] === "1" ? calls : 5;
    const points = Array.from({ length: wanted }, (_, index) => 1 + Math.floor((index * calls) / wanted));
    for (const [index, at] of points.entries()) {
      const when = index % 2 === 0 ? "after" : "before";
      expect({ at, ...(await run(at, when)) }).toMatchObject({ at, signal: "SIGKILL" });
      const place = join(root, `${when}-${at}`);
      const holdfast = await open(join(place, "store.db"));
      const goal = await holdfast.goal("checkout", { root: place });
      const folder = await projectGoal(goal, { waitMs: 60_000, quietMs: 0 });
      expect(
        [...goal.state.tasks.values()].filter(({ title }) => /^(from a|b \d+)$/.test(title)),
      ).toHaveLength(27);
      expect(readdirSync(join(place, ".planning/events")).filter((name) => name.endsWith(".tmp"))).toEqual(
        [],
      );
      const clone = await Copy.make(new WallClock(Date.now()), { root: place });
      expect(clone.goal.revision).toBe(goal.revision);
      expect(readFileSync(join(clone.root, ".planning/STATE.md"), "utf8")).toBe(
        readFileSync(join(place, ".planning/STATE.md"), "utf8"),
      );
      await clone.dispose();
      await folder.close();
      await holdfast.close();
    }
  }, 600_000);
});

const PROGRAM = programFile(new URL("./programs/syncing.ts", import.meta.url));
