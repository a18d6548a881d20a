// The demo as a person sees it: what it prints, how it ends, and that it leaves nothing behind.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { mean } from "../../bench/statistics.ts";
import { KILLS } from "../../demo/kills.ts";
import { Screen } from "../../demo/screen.ts";
import { foldersLeft, play, processesLeft, start } from "./playing.ts";

const scratch = mkdtempSync(join(tmpdir(), "holdfast-demo-test-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/**
 * Thirty seconds if Node starts within a fifth of one. A busy machine gets more, in proportion to Node's
 * start time while the demo ran.
 */
async function limitSeconds(ended: Promise<unknown>): Promise<number> {
  const startsMs: number[] = [];
  const over = ended.then(() => true);
  do {
    const startedAt = performance.now();
    await once(spawn(process.execPath, ["-e", "0"], { stdio: "ignore" }), "close");
    startsMs.push(performance.now() - startedAt);
  } while (!(await Promise.race([over, pause(1_000, false)])));
  return Math.max(30, 0.15 * mean(startsMs));
}

describe("the demo", { timeout: 600_000 }, () => {
  test("kills the agent at every worst moment, and nothing is lost or doubled", async () => {
    const counted = /^ {2}9 kills · 11 runs · 8 model answers, each kept word for word · [\d.]+ s$/m;
    const demo = play(
      counted,
      () => start(scratch),
      ({ code, output, errors }) => {
        expect(errors).toBe("");
        expect(code).toBe(0);
        expect(output).toContain("\n  world 7 · ledger 7 · doubled 0 · lost 0\n");
        expect(foldersLeft(scratch)).toEqual([]);
        expect(processesLeft(scratch)).toEqual([]);
      },
    );
    const limit = await limitSeconds(demo);
    const { output, seconds } = await demo;
    expect(seconds).toBeLessThan(limit);
    for (const { when } of KILLS) expect(output).toContain(`✗ KILLED ${when}\n`);
    expect(output.match(/KILLED/g)).toHaveLength(KILLS.length);
    expect(output).toContain("put before a person, not guessed");
    expect(output).toContain("Ada looks and answers: landed");
    expect(output).toContain("replayed: done before as");
    expect(output).toMatch(counted);
    expect(output).toMatch(/^ {2}look inside +npm run demo -- --keep$/m);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters.
    expect(output).not.toMatch(/\x1b/);
  });
});

describe("its screen", () => {
  function linesOf(terminal: object): string {
    let text = "";
    const write = (chunk: string): void => {
      text += chunk;
    };
    const screen = new Screen({ write, ...terminal } as unknown as NodeJS.WriteStream);
    screen.run(3);
    screen.killed("while a long sentence was being written that no narrow terminal can hold");
    return text;
  }

  test("is coloured and wrapped in a terminal", () => {
    vi.stubEnv("NO_COLOR", "");
    onTestFinished(() => {
      vi.unstubAllEnvs();
    });
    const text = linesOf({ isTTY: true, columns: 40 });
    expect(text).toContain("\x1b[31m");
    expect(text.trim().split("\n").length).toBeGreaterThan(1);
  });

  test("is plain and one line per event in a pipe", () => {
    expect(linesOf({})).toBe(
      "  3  ✗ KILLED while a long sentence was being written that no narrow terminal can hold\n",
    );
  });
});
