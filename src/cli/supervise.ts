/** `supervise`: looks after what crashed agents left, starts workers if told how, and says what it does, until Ctrl-C. */

import { type SupervisorEvent, supervise } from "../supervisor/index.ts";
import type { Options } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { contextOf } from "./run-command.ts";
import { envelope } from "./screen.ts";
import { duration, whole } from "./values.ts";

export async function superviseUntilStopped(options: Options, command: readonly string[]): Promise<void> {
  const context = contextOf(options);
  const { journal } = await context.holdfast();
  const stop = new AbortController();
  process.once("SIGTERM", () => stop.abort());
  process.once("SIGINT", () => {
    process.exitCode = EXIT.interrupted;
    stop.abort();
  });
  const staleAfterMs = duration("--stale-after", options["staleAfter"]);
  const parallel = whole("--parallel", options["parallel"]);
  const notify = options["notify"] as string | undefined;
  try {
    await supervise(journal, {
      signal: stop.signal,
      name: context.by.name,
      onEvent: (event) =>
        process.stdout.write(options["json"] ? envelope("supervise", event) : lineOf(event)),
      ...(staleAfterMs !== undefined && { staleAfterMs }),
      ...(parallel !== undefined && { parallel }),
      ...(notify !== undefined && { notifyCommand: { command: ["sh", "-c", notify] } }),
      ...(command.length > 0 && { start: { command } }),
    });
  } finally {
    await context.close();
  }
}

/** The type first, then what it is about, on one line. */
function lineOf({ type, ...about }: SupervisorEvent): string {
  const said = Object.entries(about)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${textOf(value)}`);
  return `${new Date().toISOString().slice(11, 19)} ${type}  ${said.join(", ")}\n`;
}

function textOf(value: unknown): string {
  if (value instanceof Error) return value.message;
  return typeof value === "string" ? value : JSON.stringify(value);
}
