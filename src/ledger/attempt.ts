/**
 * One run of a tool: from `execute` to what it came to.
 *
 *     completed   it answered: the result, whatever its schema thinks of it, is what happened
 *     failed      nothing can have happened, for certain or as far as the error tells (`failure.ts`)
 *     unknown     it threw, timed out or was abandoned after it had started
 *
 * An attempt that is given up goes on running; its promise is kept in `lazySchema`, so that its answer is still recorded
 * and no further attempt starts beside it.
 */

import { copyJson, type Json } from "../model/json.ts";
import { andThen, type MaybePromise } from "../model/maybe-promise.ts";
import { describeError } from "./error-text.ts";
import { isNeedsApproval, isNotFinished, nothingHappened } from "./failure.ts";
import { validate } from "./standard-schema.ts";
import type { ExecuteContext, Tool } from "./tool.ts";

export type Outcome =
  | { readonly kind: "completed"; readonly value: Json; readonly note: string | null }
  | {
      readonly kind: "failed";
      readonly error: { message: string; name?: string };
      /** Only by the look of the error. */
      readonly presumed?: true;
      /** The tool's `verify` has said so. */
      readonly verified?: true;
    }
  | {
      readonly kind: "unknown";
      readonly why: string;
      /** Set while the attempt still runs. */
      readonly late: Promise<Outcome> | null;
      /** Nothing to settle now: the tool says that its work goes on elsewhere. */
      readonly later?: true;
      /** It goes on when a person has answered. */
      readonly person?: true;
      /** False when the attempt certainly never began. */
      readonly started?: false;
      /** Not to be tried again before a person has said so. */
      readonly asks?: true;
    };

/** Timers beyond this fire at once. */
const TIMER_LIMIT_MS = 2 ** 31 - 1;

/** A tool that answers at once has nothing to be raced with. */
export function attempt(tool: Tool, args: unknown, context: ExecuteContext): MaybePromise<Outcome> {
  // Joining signals costs more than everything else here, so only a tool with a time-out pays for it.
  if (tool.timeoutMs !== undefined) return inTime(tool, tool.timeoutMs, args, context);
  const answer = execute(tool, args, context);
  return answer instanceof Promise ? race(tool, answer, context.signal) : answer;
}

async function inTime(
  tool: Tool,
  timeoutMs: number,
  args: unknown,
  context: ExecuteContext,
): Promise<Outcome> {
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(), Math.min(timeoutMs, TIMER_LIMIT_MS));
  try {
    const signal = AbortSignal.any([context.signal, timeout.signal]);
    const answer = execute(tool, args, { ...context, signal });
    return await (answer instanceof Promise ? race(tool, answer, signal) : answer);
  } finally {
    clearTimeout(timer);
  }
}

function race(tool: Tool, answer: Promise<Outcome>, signal: AbortSignal): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const forget = onAbort(signal, () => {
      // A tool that honours the signal rejects in the same turn of the event loop: let its own answer win.
      setImmediate(() => resolve({ kind: "unknown", why: reason(tool, signal), late: answer }));
    });
    answer.then(
      (outcome) => {
        forget();
        resolve(outcome);
      },
      (error: unknown) => {
        forget();
        reject(error);
      },
    );
  });
}

function execute(tool: Tool, args: unknown, context: ExecuteContext): MaybePromise<Outcome> {
  try {
    const answer: unknown = tool.execute(args as never, context);
    if (isAwaited(answer)) return later(tool, answer);
    return completed(tool, answer);
  } catch (error) {
    return thrown(tool, error);
  }
}

async function later(tool: Tool, answer: unknown): Promise<Outcome> {
  let result: unknown;
  try {
    result = await answer;
  } catch (error) {
    return thrown(tool, error);
  }
  return completed(tool, result);
}

/** As `await` decides it: some have a `then` that only shows when it is read. */
function isAwaited(answer: unknown): boolean {
  const mayBe = (typeof answer === "object" && answer !== null) || typeof answer === "function";
  return mayBe && typeof (answer as { readonly then?: unknown }).then === "function";
}

function completed(tool: Tool, result: unknown): MaybePromise<Outcome> {
  const read = tool.output ? readResult(tool, result) : asJson(tool, result, null);
  return andThen(read, ({ value, note }) => ({ kind: "completed", value, note }));
}

function thrown(tool: Tool, error: unknown): Outcome {
  const described = describeError(error);
  if (isNotFinished(error)) {
    const person = error.person === true ? ({ person: true } as const) : {};
    return { kind: "unknown", why: described.message, late: null, later: true, ...person };
  }
  if (isNeedsApproval(error))
    return { kind: "unknown", why: described.message, late: null, started: false, asks: true };
  const sure = nothingHappened(error, tool);
  if (sure !== "unknown") {
    return { kind: "failed", error: described, ...(sure === "presumably" && { presumed: true }) };
  }
  return { kind: "unknown", why: `it threw: ${described.message}`, late: null };
}

/**
 * The effect has happened: a result that we would not have chosen is noted, never turned into a failure, and as much
 * of it as JSON can hold is kept.
 */
export async function readResult(tool: Tool, result: unknown): Promise<{ value: Json; note: string | null }> {
  return asJson(tool, result, await outputProblem(tool, result));
}

function asJson(tool: Tool, result: unknown, note: string | null): { value: Json; note: string | null } {
  try {
    return { value: result === undefined ? null : copyJson(result, `result of ${tool.name}`), note };
  } catch (error) {
    return { value: roughly(result), note: describeError(error).message };
  }
}

async function outputProblem(tool: Tool, result: unknown): Promise<string | null> {
  if (!tool.output) return null;
  const checked = await validate(tool.output, result);
  return "problem" in checked ? `the result does not match the tool's output: ${checked.problem}` : null;
}

/** Dates become ISO strings and bigints decimal ones, as most people expect of JSON. */
function roughly(result: unknown): Json {
  try {
    const text = JSON.stringify(result, (_key, value: unknown) =>
      typeof value === "bigint" ? String(value) : value,
    );
    return text === undefined ? null : (JSON.parse(text) as Json);
  } catch {
    // Cycles and the like: better a name than nothing.
    return nameOf(result);
  }
}

function nameOf(result: unknown): string {
  try {
    return Object.prototype.toString.call(result);
  } catch {
    // A proxy that answers nothing but its own fields.
    return "[unreadable]";
  }
}

const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/** One listener for each signal, however many attempts wait for it: adding one costs as much as a SQL statement. */
function onAbort(signal: AbortSignal, act: () => void): () => void {
  if (signal.aborted) {
    act();
    return () => undefined;
  }
  const acts = listeners.get(signal) ?? new Set();
  if (!listeners.has(signal)) {
    listeners.set(signal, acts);
    const tellAll = (): void => {
      for (const each of acts) each();
    };
    signal.addEventListener("abort", tellAll, { once: true });
  }
  acts.add(act);
  return () => acts.delete(act);
}

function reason(tool: Tool, signal: AbortSignal): string {
  const { code, message } = codeAndMessage(signal.reason);
  if (code === "LEASE_LOST") return "another process took over while it ran";
  if (message !== "" && code !== undefined && code !== "20") return `stopped: ${message}`;
  return tool.timeoutMs === undefined ? "stopped while it ran" : `no answer within ${tool.timeoutMs} ms`;
}

/** Anybody may abort with anything, and nobody waits where this is read: it must not throw. */
function codeAndMessage(given: unknown): { code?: string; message: string } {
  try {
    const { code, message } = Object(given) as { code?: unknown; message?: unknown };
    return {
      ...(code !== undefined && { code: String(code) }),
      message: typeof message === "string" ? message : "",
    };
  } catch {
    // A reason that cannot be read is none.
    return { message: "" };
  }
}
