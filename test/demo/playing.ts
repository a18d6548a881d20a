/** The demo as a process in a folder of its own, and what it leaves there. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** `at`: its folder. `program`: a bundled demo; otherwise the one of `npm run demo`. */
export function start(
  at: string,
  args: readonly string[] = [],
  env: Record<string, string> = {},
  program: readonly string[] = ["scripts/run.mjs", "demo/main.ts"],
): ChildProcess {
  const { HOLDFAST_FAILPOINT: _, ...inherited } = process.env;
  return spawn(process.execPath, [...program, ...args], {
    cwd: root,
    env: { ...inherited, TMPDIR: at, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

export interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
  readonly seconds: number;
}

export async function end(demo: ChildProcess): Promise<Ended> {
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

export function foldersLeft(at: string): string[] {
  return readdirSync(at).filter((name) => name.startsWith("holdfast-demo-"));
}

export function processesLeft(at: string): string[] {
  const running = execFileSync("ps", ["-eo", "args"], { encoding: "utf8" }).split("\n");
  return running.filter((line) => line.includes(join(at, "holdfast-demo-")));
}

/**
 * Plays the demo, three times at most, until it went as `meant`. Its leases are short and its kills come at
 * exact moments, so it may need another run if the machine pauses. `checked` runs every time.
 */
export async function play(
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
