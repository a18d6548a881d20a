// The demo as a person meets it: what it prints, how it ends, and that it leaves nothing behind however it ends.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { mean } from "../../bench/statistics.ts";
import { KILLS } from "../../demo/kills.ts";
import { Screen } from "../../demo/screen.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), "holdfast-demo-test-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** Where one demo may leave something. What the loader keeps of the sources is for all of them. */
function place(): string {
  const own = mkdtempSync(join(scratch, "own-"));
  for (const name of readdirSync(scratch).filter((each) => each.startsWith("tsx-"))) {
    symlinkSync(join(scratch, name), join(own, name), "junction");
  }
  return own;
}

function start(at: string, args: readonly string[] = [], env: Record<string, string> = {}): ChildProcess {
  const { HOLDFAST_FAILPOINT: _, ...inherited } = process.env;
  return spawn(process.execPath, ["--import", "tsx", "demo/main.ts", ...args], {
    cwd: root,
    env: { ...inherited, TMPDIR: at, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
  readonly seconds: number;
}

async function end(demo: ChildProcess): Promise<Ended> {
  const startedAt = performance.now();
  let output = "";
  let errors = "";
  demo.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
    output += chunk;
  });
  demo.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
    errors += chunk;
  });
  const [code] = (await once(demo, "close")) as [number | null];
  return { code, output, errors, seconds: (performance.now() - startedAt) / 1000 };
}

/**
 * Thirty seconds, where Node starts within a fifth of one. A machine that is busy with something else gets more, by how
 * long Node took to start while the demo ran.
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

function foldersLeft(at: string): string[] {
  return readdirSync(at).filter((name) => name.startsWith("holdfast-demo-"));
}

function processesLeft(at: string): string[] {
  const running = execFileSync("ps", ["-eo", "args"], { encoding: "utf8" }).split("\n");
  return running.filter((line) => line.includes(join(at, "holdfast-demo-")));
}

/**
 * Plays it, three times at most, until it went as it was meant to. The leases of its agents are short, and its kills come
 * at moments: where the machine stands still at the wrong one, a run more is needed. What must be so every time is
 * `checked` every time.
 */
async function play(
  meant: string | RegExp,
  begin: () => ChildProcess,
  checked: (demo: Ended) => void = () => undefined,
): Promise<Ended> {
  for (let turn = 1; ; turn++) {
    const demo = await end(begin());
    checked(demo);
    const isAsMeant = typeof meant === "string" ? demo.output.includes(meant) : meant.test(demo.output);
    if (isAsMeant || turn === 3) return demo;
  }
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
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters, and a pipe gets none.
    expect(output).not.toMatch(/\x1b/);
  });
});

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
