// Text that a pull can bring, made to be slow: its cost grows with its length, not with the square of it. No test
// here depends on the pace of the machine: costs are compared with each other, and reads are counted.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { REFUSED_PER_LOOK, unseenEventFiles } from "../../src/goal/index.ts";
import { hasTwoSeals, mergeAllEvents, readSeal } from "../../src/projections/index.ts";
import { hasConflictMarkers, parseJson, parseYaml } from "../../src/state-files/index.ts";
import { Copy, WallClock } from "./copies.ts";
import { BY, fileOf, forge, headOf, nameOf } from "./forged-events.ts";

const FULL = 1_000_000;
/** Cheaper than any scan of 1 MB whose cost grows with the square. */
const FREE_MS = 20;
/** Four times the text takes four times as long, or sixteen times by a quadratic scan. */
const MOST = 6;
const ROUNDS = 5;
const by = BY;
const AT = Date.UTC(2026, 0, 2) + 3_600_000;

const copies: Copy[] = [];
afterEach(async () => {
  for (const copy of copies.splice(0)) await copy.dispose();
});

async function make(): Promise<Copy> {
  const copy = await Copy.make(new WallClock(), undefined, () => undefined);
  copies.push(copy);
  return copy;
}

/** Processor time, which other processes do not change. */
async function cpuMs(act: () => unknown): Promise<number> {
  const begun = process.cpuUsage();
  try {
    await act();
  } catch {
    // A refusal is as good as any other answer.
  }
  const { user, system } = process.cpuUsage(begun);
  return (user + system) / 1_000;
}

/**
 * Fails if the cost grows with the square of the length. It compares two lengths in the same moment, and the
 * least of several rounds: a slow or busy machine takes longer for both.
 */
async function expectLinear(cost: (length: number) => Promise<number>, length = FULL): Promise<void> {
  let [full, quarter] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let round = 0; round < ROUNDS; round++) {
    full = Math.min(full, await cost(length));
    if (full < FREE_MS) return;
    quarter = Math.min(quarter, await cost(length / 4));
    if (full < MOST * quarter) return;
  }
  expect({ full, quarter }).toSatisfy(() => full < MOST * quarter);
}

const repeated = (part: string, length: number): string => part.repeat(Math.floor(length / part.length));

/** Made to defeat one expression or another. */
const PARTS = {
  "a conflict that never ends": "<<<<<<< a\n=======\n",
  "middles of conflicts": "=======\n",
  "line breaks": "\n",
  blanks: " ",
  tabs: "\t\n",
  quotes: '"',
  "escaped quotes": '"\\',
  brackets: "[",
  "brackets in strings": '"[{',
  "keys without values": "a: ",
  anchors: "&a *a ",
  dashes: "- ",
  "list items": "- x\n",
  tasks: "- [ ] T-001\n",
  headings: "## A\nx\n",
  seals: 'digest: sha256:0\n  "digest": "sha256:\n',
  "affected tasks": "- (affects: ",
} as const;

describe.each(Object.entries(PARTS))("%s", (_, part) => {
  test("every reader of a text is done in time", async () => {
    for (const read of [hasConflictMarkers, hasTwoSeals, readSeal, parseJson, parseYaml])
      await expectLinear((length) => cpuMs(() => read(repeated(part, length))));
  });

  test("as STATE.md, a record and a JSON file, a sync is done in time", async () => {
    const copy = await make();
    const decision = { type: "constraint", context: "c", decision: "d", reason: "r" } as const;
    await copy.goal.decide(decision);
    await copy.folder.sync();
    const files = Object.entries(copy.files()).filter(([name]) => !name.startsWith("agent"));
    for (const [name, text] of files) {
      await expectLinear(async (length) => {
        const room = name.endsWith(".json") ? length : Math.min(length, 250_000);
        const path = join(copy.root, ".planning", name);
        writeFileSync(path, `${text.slice(0, -2)}\n${repeated(part, room)}`);
        return cpuMs(() => copy.folder.sync());
      });
    }
  });
});

type Line = (index: number) => Parameters<typeof forge>[0];
const noted = { contextUsage: null, issues: [], notes: "n" };

/** Sound events, as many as fit into the file. Each repeats what the fold might copy. */
const EVENTS: Readonly<Record<string, Line>> = {
  implementations: () => ({ type: "implementation.noted", data: { by, text: "x", files: [] } }),
  "notes of a session": (index) =>
    index === 0
      ? { type: "session.started", data: { by, session: "s", agent: "a", resumes: null, notes: null } }
      : { type: "session.noted", data: { by, session: "s", ...noted } },
  phases: () => ({ type: "phase.added", data: { by, number: 1, name: "p" } }),
  "one number": () => ({ type: "question.asked", data: { by, id: "Q-001", text: "q" } }),
  "numbers made final": (index) => ({
    type: "item.renumbered",
    data: { by, item: String(index).padStart(40, "0"), name: "Q-002" },
  }),
  facts: (index) => ({ data: { by, key: `k${index}`, value: 1, source: "s", expiresAt: null } }),
  retractions: (index) => ({
    type: "event.retracted",
    data: { by, event: String(index).padStart(40, "0"), why: "w" },
  }),
};

function eventsOf(line: Line, length: number): string {
  const entries = [];
  for (let bytes = 0, index = 0; bytes < length; index++) {
    const entry = forge({ t: AT, at: AT, c: index, ...line(index) });
    entries.push(entry);
    bytes += JSON.stringify(entry).length;
  }
  return fileOf(entries).text;
}

/** Files that are refused at their last line, or at once. */
const REFUSED: Readonly<Record<string, (length: number) => string>> = {
  "a string without end": (length) => `${headOf("checkout", 1)}\n"${"\\".repeat(length)}\n`,
  "a long line": (length) => `${headOf("checkout", 1)}\n{"a":"${"x".repeat(length)}"}\n`,
  "many lines": (length) => `${headOf("checkout", length / 3)}\n${repeated("{}\n", length)}`,
  "a head without end": (length) => `{"goal":"${"x".repeat(length)}`,
};

async function plantAndMerge(texts: readonly string[]): Promise<number> {
  const copy = await make();
  const folder = join(copy.root, ".planning");
  for (const text of texts) writeFileSync(join(folder, "events", nameOf(text)), text);
  const cost = await cpuMs(() => mergeAllEvents(copy.journal, folder, () => undefined));
  expect(await unseenEventFiles(copy.journal, folder), "files to read again").toEqual([]);
  return cost;
}

test.each(Object.keys(REFUSED))("a file with %s is refused in time, and remembered", async (what) => {
  await expectLinear((length) => plantAndMerge([REFUSED[what]?.(length) ?? ""]));
});

test.each(Object.keys(EVENTS))("1 MB of sound events is merged in linear time: %s", async (what) => {
  const line = EVENTS[what] as Line;
  await expectLinear((length) => plantAndMerge([eventsOf(line, length)]));
});

const badFiles = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${headOf("checkout", 1)}\n{"x":${index}}\n`);

test("thousands of small files are read in linear time, and once", async () => {
  await expectLinear((count) => plantAndMerge(badFiles(count)), 4_000);
});

test("a look that has refused 5,000 files leaves the rest to the next one, and says so", async () => {
  const copy = await make();
  const folder = join(copy.root, ".planning");
  const texts = badFiles(REFUSED_PER_LOOK + 7);
  const sound = forge({ t: AT, at: AT });
  for (const text of [...texts, fileOf([sound]).text])
    writeFileSync(join(folder, "events", nameOf(text)), text);
  const look = async () => {
    const notes: string[] = [];
    await mergeAllEvents(copy.journal, folder, (error) => notes.push((error as Error).message));
    return notes.filter((note) => note.includes("more files"));
  };
  expect(await look()).toEqual([
    expect.stringMatching(/^4980 more files .* were not merged$/),
    expect.stringMatching(/^[78] more files .* were not read yet/),
  ]);
  expect(await look()).toEqual([expect.stringMatching(/^4987 more files/)]);
  // A sync goes on as well, and no later command reads any of them.
  await copy.folder.sync();
  expect(copy.goal.state.known.has(sound.uid), "a valid file among them is merged").toBe(true);
  expect(await unseenEventFiles(copy.journal, folder)).toEqual([]);
});

test("a refused file whose content has the hash that is its name is not compared again", async () => {
  const copy = await make();
  const folder = join(copy.root, ".planning");
  const [text = ""] = badFiles(1);
  const [fits, cut] = [nameOf(text), nameOf("cut")];
  for (const name of [fits, cut]) writeFileSync(join(folder, "events", name), text);
  await mergeAllEvents(copy.journal, folder, () => undefined);
  expect(await unseenEventFiles(copy.journal, folder)).toEqual([]);
  for (const name of [fits, cut]) writeFileSync(join(folder, "events", name), `${text}\n`);
  // Only the other one may have been repaired.
  expect(await unseenEventFiles(copy.journal, folder)).toEqual([cut]);
});
