// A process stops for good before or after any one call to the file system. The call never returns, so
// nothing after it happens. The next process must lose and double nothing.

import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { afterEach, describe, expect, test } from "vitest";
import { type GoalFolder, projectGoal, readSeal, renderGoal } from "../../src/projections/index.ts";
import { storeSubjects } from "../subjects.ts";
import { FolderBench } from "./folder-bench.ts";

const subject = storeSubjects()[0] as ReturnType<typeof storeSubjects>[number];
const CALLS = ["open", "rename", "link", "rm", "mkdir", "readdir", "copyFile"] as const;
const originals = Object.fromEntries(CALLS.map((name) => [name, fs.promises[name]]));

function restore(): void {
  Object.assign(fs.promises, originals);
  syncBuiltinESMExports();
}
afterEach(restore);

/** The `count`-th call below `root` never returns. Resolves when that has happened. */
function stopAt(root: string, count: number, when: "before" | "after"): Promise<string> {
  let seen = 0;
  return new Promise((resolve) => {
    for (const name of CALLS) {
      const original = originals[name] as (...args: unknown[]) => Promise<unknown>;
      const wrapped = async (...args: unknown[]): Promise<unknown> => {
        const isOurs = String(args[0]).startsWith(root);
        if (isOurs) seen++;
        if (!isOurs || seen < count) return original(...args);
        if (seen > count) return new Promise(() => undefined);
        const made = when === "after" ? await original(...args) : null;
        if (name === "open") await (made as fs.promises.FileHandle | null)?.close();
        resolve(`${name} ${String(args[0]).slice(root.length)}`);
        return new Promise(() => undefined);
      };
      Object.assign(fs.promises, { [name]: wrapped });
    }
    syncBuiltinESMExports();
  });
}

interface Scenario {
  /** Until the stop; says how to begin. */
  begin(bench: FolderBench): Promise<() => Promise<unknown>>;
  /** Texts that may stand in a file although no rendering wrote them. */
  foreign(bench: FolderBench): readonly string[];
  expectKept(bench: FolderBench, folder: GoalFolder): void;
}

/** After one call is the same as before the next, so each takes every other. HOLDFAST_FULL=1: all. */
const EVERY = process.env["HOLDFAST_FULL"] ? 1 : 2;

let edited = "";
const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "an update": {
    begin: async (bench) => {
      await bench.goal.decide({
        type: "constraint",
        context: "size",
        decision: "keep it small",
        reason: "taste",
      });
      await bench.goal.startSession({ session: "mon" });
      return () => bench.folder.sync();
    },
    foreign: () => [],
    expectKept: (bench) => expect(bench.goal.state.decisions.size).toBe(1),
  },
  "taking in an edit": {
    begin: async (bench) => {
      await bench.goal.setNext({ next: "the agent's plan" });
      bench.edit("STATE.md", "## Decisions\n", "## Decisions\n\n- size: keep it small\n");
      bench.edit("STATE.md", "## Next Action\n", "## Next Action\n\nann's plan\n\n## Mine\n\nwords\n");
      edited = bench.read();
      return () => bench.folder.sync();
    },
    foreign: () => [edited],
    expectKept: (bench) => {
      expect(bench.beside().map((file) => bench.read(file))).toContain(edited);
    },
  },
};

describe.each(Object.entries(SCENARIOS))("a process that stops for good during %s", (_name, scenario) => {
  test.each(["before", "after"] as const)(
    "%s any call leaves whole files, and the next one loses and doubles nothing",
    async (when) => {
      const stops: string[] = [];
      for (let count = 1; ; count += EVERY) {
        const bench = await FolderBench.open(subject, undefined, { auto: false });
        try {
          const act = await scenario.begin(bench);
          const stopped = stopAt(bench.root, count, when);
          const outcome = await Promise.race([stopped, act().then(() => null)]);
          restore();
          if (outcome === null) break;
          stops.push(outcome);
          for (const file of bench.files().filter((each) => /\.(?:md|json)$/.test(each))) {
            const text = bench.read(file);
            const isWhole = readSeal(text).isIntact || scenario.foreign(bench).includes(text);
            expect({ outcome, file, isWhole }).toEqual({ outcome, file, isWhole: true });
          }
          await bench.bench.crash(bench.bench.journal);
          const journal = await bench.bench.another();
          const goal = await bench.bench.goal({ root: bench.root }, journal);
          const folder = await projectGoal(goal, { auto: false, human: "ann", onEdit: () => undefined });
          await bench.goal.refresh();
          const decisions = [...goal.state.decisions.values()].map(({ decision }) => decision);
          expect({ outcome, decisions }).toEqual({ outcome, decisions: ["keep it small"] });
          if (edited !== "" && scenario.foreign(bench).length > 0)
            expect(goal.state.next?.text).toBe("ann's plan");
          for (const { path, text } of renderGoal(goal.state, goal.seq).files)
            expect(bench.read(path)).toBe(text);
          expect(bench.files().filter((file) => file.endsWith(".tmp"))).toEqual([]);
          scenario.expectKept(bench, folder);
          expect((await folder.sync()).written).toEqual([]);
        } finally {
          restore();
          // The folder of the stopped process never comes to an end, so it is not waited for.
          bench.folder = { close: async () => undefined } as GoalFolder;
          await bench.dispose();
        }
      }
      expect(stops.length * EVERY).toBeGreaterThan(8);
      expect(stops.some((stop) => stop.startsWith("rename"))).toBe(true);
    },
  );
});
