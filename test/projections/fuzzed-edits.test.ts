import fc from "fast-check";
import { expect, test } from "vitest";
import { encodeGoal } from "../../src/model/goal/index.ts";
import { readSeal, renderGoal } from "../../src/projections/index.ts";
import { expectNoContradiction } from "../model/goal/brute-force.ts";
import { storeSubjects } from "../subjects.ts";
import { FolderBench } from "./folder-bench.ts";

const subject = storeSubjects()[0] as ReturnType<typeof storeSubjects>[number];

const token = fc.nat(1_000_000).map((number) => `word${number}`);
const words = fc.oneof(
  token,
  token.map((word) => `- ${word}`),
  token.map((word) => `- [ ] ${word}`),
  fc.string({ maxLength: 30, unit: "grapheme" }),
  fc.constantFrom(
    "- [x] T-001 [open] users table",
    "- [ ] brand new",
    "- B-001 [resolved]",
    "- Q-001 => yes",
    "## Next Action",
    "---",
    "{",
    '"status": "done",',
    "status: resolved",
    "digest: sha256:0",
    "<<<<<<< HEAD",
    "",
  ),
);
/** Random edits of the lines of a file. */
const slips = fc.array(
  fc.record({
    what: fc.constantFrom("delete", "insert", "double", "replace", "swap", "splice"),
    at: fc.nat(10_000),
    to: fc.nat(10_000),
    text: words,
  }),
  { minLength: 1, maxLength: 4 },
);

type Slips = typeof slips extends fc.Arbitrary<infer Value> ? Value : never;

function slipped(text: string, edits: Slips): string {
  const lines = text.split("\n");
  for (const { what, at, to, text: word } of edits) {
    const index = at % Math.max(1, lines.length);
    const other = to % Math.max(1, lines.length);
    const line = lines[index] ?? "";
    if (what === "delete") lines.splice(index, 1);
    else if (what === "insert") lines.splice(index, 0, word);
    else if (what === "double") lines.splice(index, 0, line);
    else if (what === "replace") lines[index] = word;
    else if (what === "swap") [lines[index], lines[other]] = [lines[other] ?? "", line];
    else lines[index] = line.slice(0, to % (line.length + 1)) + word + line.slice(to % (line.length + 1));
  }
  // Cutting may have split a character in two, of which no file can hold a half.
  return lines.join("\n").toWellFormed();
}

/** Nothing but an empty line before the digest of the JSON, and then an edit elsewhere. */
const SPACED: [number, Slips][] = [
  [95, [{ what: "insert", at: 4_099, to: 0, text: "" }]],
  [0, [{ what: "delete", at: 0, to: 0, text: "word0" }]],
];

/** HOLDFAST_FULL=1: ten times as many. */
const RUNS = process.env["HOLDFAST_FULL"] ? 150 : 15;

test("random edits break nothing, cause no contradiction and lose no word", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(100), slips), { minLength: 1, maxLength: 4 }),
      async (rounds) => {
        const bench = await FolderBench.open(subject, undefined, { auto: false });
        try {
          await bench.goal.decide({
            type: "technology",
            context: "JWT library",
            decision: "jose",
            reason: "typed",
          });
          await bench.goal.block({ description: "no keys", affects: ["T-002"] });
          await bench.goal.ask({ text: "Which bank?" });
          await bench.goal.fact({ key: "db", value: "x", source: "y" });
          await bench.goal.startSession({ session: "mon" });
          await bench.folder.sync();
          const originals = bench.files();
          for (const [which, edits] of rounds) {
            const file = originals[which % originals.length] as string;
            const edited = slipped(bench.read(file), edits);
            bench.save(file, edited);
            const isIntact = readSeal(edited).isIntact;
            const report = await bench.folder.sync();
            const [edit] = report.edits;
            if (isIntact) expect(edit).toBeUndefined();
            else if (edit?.from !== "conflict" && (edit?.left.length ?? 0) > 0) {
              expect(bench.read(edit?.beside ?? "")).toBe(edited);
            }
            // Every word that was written is in the goal, or kept beside, or was one side of a conflict.
            const goal = JSON.stringify(encodeGoal(bench.goal.state));
            const isKept = edit?.from === "conflict" || (edit?.left.length ?? 0) > 0;
            const lost = (edited.match(/word\d+/g) ?? []).filter((word) => !goal.includes(word) && !isKept);
            expect({ file, lost, edited: lost.length > 0 ? edited : "" }).toEqual({
              file,
              lost: [],
              edited: "",
            });
            expectNoContradiction(bench.goal.state);
            for (const { path, text } of renderGoal(bench.goal.state, bench.goal.seq).files) {
              expect(bench.read(path)).toBe(text);
            }
            expect((await bench.folder.sync()).written).toEqual([]);
          }
        } finally {
          await bench.dispose();
        }
      },
    ),
    { numRuns: Number(process.env["HOLDFAST_TEST_RUNS"] ?? RUNS), examples: [[SPACED]] },
  );
}, 240_000);
