// A demo that fails: it says so, and leaves nothing behind.

import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, test } from "vitest";
import { programFile } from "../program.ts";
import * as playing from "./playing.ts";
import { end, foldersLeft, play, processesLeft } from "./playing.ts";

const scratch = mkdtempSync(join(tmpdir(), "holdfast-demo-test-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** A folder for everything that one demo may leave. */
const place = (): string => mkdtempSync(join(scratch, "own-"));

const isFull = Boolean(process.env["HOLDFAST_FULL"]);

const COUNTED = "\n  world 9 · ledger 4 · doubled 2 · lost 0\n";
/** The output that each planted bug must cause. The bugs are independent, so one demo can have both. */
const OUTPUT_BY_BUG = {
  "issue-after-effect": [
    COUNTED,
    "! mail bob@example.com happened 2 times",
    "! mail cat@example.com happened, but the ledger has no call for it",
  ],
  "turn-asked-again": ["a turn was asked for again"],
};

/** Starts the bundled demo. */
const start = (at: string, args: readonly string[] = [], env: Record<string, string> = {}) =>
  playing.start(at, args, env, [programFile(new URL("../../demo/main.ts", import.meta.url))]);

// Concurrently, because each waits for processes that start one after another.
describe.concurrent("a demo that fails", { timeout: 600_000 }, () => {
  test("ends with exit code 1, says all that went wrong, and keeps its store when asked", async ({
    expect,
  }) => {
    let own = "";
    const bugs = Object.keys(OUTPUT_BY_BUG).join(" ");
    const { code, output } = await play(COUNTED, () => {
      own = place();
      return start(own, ["--keep"], { HOLDFAST_DEMO_PLANT: bugs });
    });
    expect(code).toBe(1);
    for (const said of Object.values(OUTPUT_BY_BUG).flat()) expect(output).toContain(said);
    const [name = ""] = foldersLeft(own);
    const kept = join(own, name);
    expect(output).toContain(`sqlite3 ${join(kept, "store.db")} "select`);
    expect(readdirSync(kept).sort()).toEqual(
      expect.arrayContaining(["report.md", "store.db", "world.jsonl"]),
    );
    expect(existsSync(join(kept, "programs"))).toBe(false);
  });

  test.skipIf(!isFull).for(Object.entries(OUTPUT_BY_BUG))(
    "ends with exit code 1 and leaves no file with one bug alone, %s (HOLDFAST_FULL=1)",
    async ([bug, saying], { expect }) => {
      const own = place();
      const { code, output } = await play(saying[0] as string, () =>
        start(own, [], { HOLDFAST_DEMO_PLANT: bug }),
      );
      expect(code).toBe(1);
      for (const said of saying) expect(output).toContain(said);
      expect(foldersLeft(own)).toEqual([]);
    },
  );

  test("leaves no process and no file when it is interrupted", async ({ expect }) => {
    const own = place();
    let code: number | null = 0;
    // Retries: a demo that ends before it is interrupted, because the machine paused, proves nothing.
    for (let turn = 0; turn < 3 && code === 0; turn++) {
      const demo = start(own);
      const ended = end(demo);
      await new Promise<void>((resolve) => {
        demo.stdout?.on("data", (chunk: string) => {
          if (chunk.includes("KILLED")) resolve();
        });
      });
      demo.kill("SIGINT");
      code = (await ended).code;
    }
    expect(code).toBe(130);
    expect(foldersLeft(own)).toEqual([]);
    expect(processesLeft(own)).toEqual([]);
  });
});
