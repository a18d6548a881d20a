/** `supervise`: cleans up after crashed agents and starts workers, until Ctrl-C. */

import type { Holdfast } from "../open.ts";
import { pruneEndedSessions, retentionOf } from "../operations/index.ts";
import { type SupervisorEvent, supervise, type WorkerCommand } from "../supervisor/index.ts";
import { duration, type Options, wholeNumber } from "./command.ts";
import { Misuse } from "./failure.ts";
import { contextOf } from "./run-command.ts";
import { EXIT, formatAnswer } from "./screen.ts";

export async function superviseUntilStopped(options: Options, command: readonly string[]): Promise<void> {
  const context = await contextOf(options);
  // Creates a missing Postgres schema: a worker may be its first user.
  const holdfast = await context.holdfast({ orSchema: true });
  const { journal } = holdfast;
  const stop = new AbortController();
  process.once("SIGTERM", () => stop.abort());
  process.once("SIGINT", () => {
    process.exitCode = EXIT.interrupted;
    stop.abort();
  });
  const log = (event: LogEvent): void => {
    // A line for people has the error's message only.
    const isError = !options["json"] && "error" in event && event.error instanceof Error;
    const entry = isError ? { ...event, error: (event.error as Error).message } : event;
    process.stdout.write(formatAnswer(options["json"], "supervise", entry, lineOf));
  };
  const staleAfterMs = duration("--stale-after", options["staleAfter"]);
  const parallel = wholeNumber("--parallel", options["parallel"]);
  if (parallel === 0) {
    throw new Misuse("supervise: --parallel 0 would never start the command", "Use at least --parallel 1");
  }
  const notify = options["notify"] as string | undefined;
  const retainMs = duration("--retain", options["retain"]) ?? retentionOf(context);
  const retaining = pruneHourly(holdfast, retainMs, log);
  try {
    await supervise(journal, {
      signal: stop.signal,
      name: context.by.name,
      onEvent: log,
      ...(staleAfterMs !== undefined && { staleAfterMs }),
      ...(parallel !== undefined && { parallel }),
      ...(notify !== undefined && { notifyCommand: { command: ["sh", "-c", notify] } }),
      ...(command.length > 0 && { start: workerOf(command, options) }),
    });
  } finally {
    clearInterval(retaining);
    await context.close();
  }
}

/** With `--json`, the output of workers goes to stderr. Workers use the same store and namespace. */
function workerOf(command: readonly string[], { json, store, namespace }: Options): WorkerCommand {
  const output = json ? "stderr" : "inherit";
  const env = {
    ...(store !== undefined && { HOLDFAST_STORE: String(store) }),
    ...(namespace !== undefined && { HOLDFAST_NAMESPACE: String(namespace) }),
  };
  return { command, output, env };
}

type LogEvent = SupervisorEvent | { type: "removed"; session: string } | { type: "failed"; error: unknown };

const RETAIN_EVERY_MS = 60 * 60_000;

/** Prunes now and then every hour. Failures are logged and tried again the next time. */
function pruneHourly(
  holdfast: Holdfast,
  retainMs: number | undefined,
  log: (event: LogEvent) => void,
): NodeJS.Timeout | undefined {
  if (retainMs === undefined) return undefined;
  const act = (): void => {
    pruneEndedSessions(holdfast, retainMs).then(
      (removed) => {
        for (const session of removed) log({ type: "removed", session });
      },
      (error: unknown) => log({ type: "failed", error }),
    );
  };
  act();
  return setInterval(act, RETAIN_EVERY_MS);
}

function lineOf({ type, ...about }: LogEvent): string {
  const fields = Object.entries(about)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${textOf(value)}`);
  return `${new Date().toISOString().slice(11, 19)} ${type}  ${fields.join(", ")}\n`;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
