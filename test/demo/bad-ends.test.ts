// The demo that does not go well, as a person meets it: it says so, and leaves nothing behind.

import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, test } from "vitest";
import { programFile } from "../program.ts";
import * as playing from "./playing.ts";
import { end, foldersLeft, play, processesLeft } from "./playing.ts";

const scratch = mkdtempSync(join(tmpdir(), "holdfast-demo-test-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** Where one demo may leave something. */
const place = (): string => mkdtempSync(join(scratch, "own-"));

/** Three of it, bundled once. */
const start = (at: string, args: readonly string[] = [], env: Record<string, string> = {}) =>
  playing.start(at, args, env, [programFile(new URL("../../demo/main.ts", import.meta.url))]);

// At once, because each waits for processes that start one after another.
describe.concurrent("the demo that does not go well", { timeout: 600_000 }, () => {
  test("ends with exit code 1 and says so when effects pass the ledger by", async ({ expect }) => {
    const own = place();
    const counted = "\n  world 9 · ledger 4 · doubled 2 · lost 0\n";
    const { code, output } = await play(counted, () =>
      start(own, [], { HOLDFAST_DEMO_PLANT: "issue-after-effect" }),
    );
    expect(code).toBe(1);
    expect(output).toContain(counted);
    expect(output).toContain("! mail bob@example.com happened 2 times");
    expect(output).toContain("! mail cat@example.com happened, and the ledger has no call of it");
    expect(foldersLeft(own)).toEqual([]);
  });

  test("ends with exit code 1 when a turn is asked for again, and keeps its store when asked", async ({
    expect,
  }) => {
    const own = place();
    const { code, output } = await end(start(own, ["--keep"], { HOLDFAST_DEMO_PLANT: "turn-asked-again" }));
    expect(code).toBe(1);
    expect(output).toContain("a turn was asked for again");
    const [name = ""] = foldersLeft(own);
    const kept = join(own, name);
    expect(output).toContain(`sqlite3 ${join(kept, "store.db")} "select`);
    expect(readdirSync(kept).sort()).toEqual(
      expect.arrayContaining(["report.md", "store.db", "world.jsonl"]),
    );
    expect(existsSync(join(kept, "programs"))).toBe(false);
    rmSync(kept, { recursive: true });
  });

  test("leaves no process and no file when it is interrupted", async ({ expect }) => {
    const own = place();
    let code: number | null = 0;
    // One that comes to its end before it is interrupted, while we stand still, says nothing.
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
