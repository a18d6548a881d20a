/** `torture -- <agent command>`: kills an agent at every failpoint it passes, and compares the effects. */

import { execFileSync } from "node:child_process";
import type { CrashReport } from "../testing/index.ts";
import { duration, type Options } from "./command.ts";
import { Misuse } from "./failure.ts";
import { EXIT, escapeControls, formatAnswer, openScreen } from "./screen.ts";

export async function torture(options: Options, command: readonly string[]): Promise<void> {
  const [program, ...args] = command;
  const effects = options["effects"] as string | undefined;
  if (program === undefined || effects === undefined) {
    throw new Misuse(
      program === undefined ? "torture: no agent given" : "torture: --effects is missing",
      `For example: holdfast torture --setup "rm -rf data" --effects "cat data/paid.log" -- node agent.js`,
    );
  }
  const screen = await openScreen();
  const setup = options["setup"] as string | undefined;
  const timeoutMs = duration("--timeout", options["timeout"]);
  const { crashEverywhere } = await import("../testing/index.ts");
  const report = await crashEverywhere({
    command: [program, ...args],
    effects: () => shell(effects).split("\n").filter(Boolean),
    ...(setup !== undefined && { setup: () => shell(setup) }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    done: ({ failpoint, killed, lost, doubled, stuck }) => {
      if (options["json"]) return;
      const found = [...lost.map((each) => `lost ${each}`), ...doubled.map((each) => `doubled ${each}`)];
      const what = stuck ? [...found, "it no longer finishes"] : found;
      const mark = what.length > 0 ? screen.paint.red("NO") : killed ? screen.paint.green("ok") : "--";
      process.stdout.write(
        `${mark}  ${failpoint}${escapeControls(what)
          .map((each) => `  ${each}`)
          .join("")}\n`,
      );
    },
  }).catch((error: unknown) => {
    throw new Misuse(
      `torture: ${(error as Error).message.trim()}`,
      "The agent must exit with 0 on its own, and use holdfast.",
      EXIT.failed,
    );
  });
  const isClean = report.lost.length + report.doubled.length + report.stuck.length === 0;
  if (!isClean) process.exitCode = EXIT.found;
  process.stdout.write(formatAnswer(options["json"], "torture", report, lastLine));
}

function lastLine({ kills, runs, lost, doubled, stuck }: CrashReport): string {
  const found = `lost ${lost.length} · doubled ${doubled.length} · stuck ${stuck.length}`;
  return `${kills} kills · ${runs} runs · ${found}\n`;
}

function shell(command: string): string {
  try {
    return execFileSync("sh", ["-c", command], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  } catch (error) {
    const { status } = error as { status?: number | null };
    throw new Error(`${command} ended with ${status ?? "a signal"}`);
  }
}
