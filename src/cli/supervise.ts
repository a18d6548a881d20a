/** `supervise`: looks after what crashed agents left, starts workers if told how, and says what it does, until Ctrl-C. */

import type { Holdfast } from "../open.ts";
import { pruneEndedSessions } from "../operations/index.ts";
import { type SupervisorEvent, supervise, type WorkerCommand } from "../supervisor/index.ts";
import { duration, type Options, wholeNumber } from "./command.ts";
import { Misuse } from "./failure.ts";
import { contextOf } from "./run-command.ts";
import { EXIT, formatAnswer } from "./screen.ts";

export async function superviseUntilStopped(options: Options, command: readonly string[]): Promise<void> {
  const context = contextOf(options);
  // Its workers may be the first in that schema.
  const holdfast = await context.holdfast({ orSchema: true });
  const { journal } = holdfast;
  const stop = new AbortController();
  process.once("SIGTERM", () => stop.abort());
  process.once("SIGINT", () => {
    process.exitCode = EXIT.interrupted;
    stop.abort();
  });
  const say = (event: Said): void => {
    // Of an error a line has its words.
    const isError = !options["json"] && "error" in event && event.error instanceof Error;
    const told = isError ? { ...event, error: (event.error as Error).message } : event;
    process.stdout.write(formatAnswer(options["json"], "supervise", told, lineOf));
  };
  const staleAfterMs = duration("--stale-after", options["staleAfter"]);
  const parallel = wholeNumber("--parallel", options["parallel"]);
  if (parallel === 0) {
    throw new Misuse("supervise: --parallel 0 would never start the command", "Say at least --parallel 1");
  }
  const notify = options["notify"] as string | undefined;
  const retaining = retainOften(holdfast, duration("--retain", options["retain"]), say);
  try {
    await supervise(journal, {
      signal: stop.signal,
      name: context.by.name,
      onEvent: say,
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

/** Whoever reads JSON line by line can make nothing of what workers say in between. A store that is named is theirs, too. */
function workerOf(command: readonly string[], { json, store }: Options): WorkerCommand {
  const output = json ? "stderr" : "inherit";
  return { command, output, ...(store !== undefined && { env: { HOLDFAST_STORE: String(store) } }) };
}

type Said = SupervisorEvent | { type: "removed"; session: string } | { type: "failed"; error: unknown };

const RETAIN_EVERY_MS = 60 * 60_000;

/** At once, then every hour. What goes wrong is said, and tried again the next time. */
function retainOften(
  holdfast: Holdfast,
  retainMs: number | undefined,
  say: (event: Said) => void,
): NodeJS.Timeout | undefined {
  if (retainMs === undefined) return undefined;
  const act = (): void => {
    pruneEndedSessions(holdfast, retainMs).then(
      (removed) => {
        for (const session of removed) say({ type: "removed", session });
      },
      (error: unknown) => say({ type: "failed", error }),
    );
  };
  act();
  return setInterval(act, RETAIN_EVERY_MS);
}

/** The type first, then what it is about, on one line. */
function lineOf({ type, ...about }: Said): string {
  const said = Object.entries(about)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${textOf(value)}`);
  return `${new Date().toISOString().slice(11, 19)} ${type}  ${said.join(", ")}\n`;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
