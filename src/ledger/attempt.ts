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

import { describeError } from "../model/errors.ts";
import { copyJson, type Json } from "../model/json.ts";
import { andThen, type MaybePromise } from "../model/maybe-promise.ts";
import { type ExecuteContext, NeedsApproval, NotFinished, type Tool, validate } from "./tool.ts";

/**
 * A throw is not a failure. Once `execute` has started, an error means that the outcome is unknown, unless nothing
 * can have happened. For certain that is so when the tool says it. It is presumed where the connection was refused, the name was
 * not found, or the other side answered with a 4xx: true of a tool that asks one thing of one service, and not of one that
 * asked twice and shows only the last answer. So what is presumed can be denied by the tool (`definite`), is looked into by its
 * `verify` first, and leaves the vendor's key as it is: asked again, a vendor that did get the first request knows it. A 408 or
 * 409 answers nothing: the first attempt may be the one that is in the way.
 */
const NEVER_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN"]);
const UNDECIDED_STATUS = new Set([408, 409]);

/** How sure it is that nothing has happened. */
function nothingHappened(error: unknown, tool: Tool): "surely" | "presumably" | "unknown" {
  if (surely(() => chain(error).some(isDefiniteFailure))) return "surely";
  let said: boolean | undefined;
  surely(() => {
    said = tool.definite?.(error);
    return true;
  });
  if (typeof said === "boolean") return said ? "surely" : "unknown";
  const isPresumed = surely(() => chain(error).some((each) => neverSent(each) || refused(each)));
  return isPresumed ? "presumably" : "unknown";
}

function isNotFinished(error: unknown): error is NotFinished {
  return surely(() => error instanceof NotFinished);
}

function isNeedsApproval(error: unknown): boolean {
  return surely(() => error instanceof NeedsApproval);
}

/** Looking at what was thrown may throw, too: then it has said nothing, and the outcome stays unknown. */
function surely(look: () => boolean): boolean {
  try {
    return look();
  } catch {
    // The error was not of the shape that was expected; unknown is the safe reading.
    return false;
  }
}

function isDefiniteFailure(error: object): boolean {
  return error instanceof Error && error.name === "DefiniteFailure";
}

/** Connecting to several addresses gives one error for each; all of them must have failed before sending. */
function neverSent(error: object): boolean {
  const { code, errors } = error as { code?: unknown; errors?: unknown };
  if (Array.isArray(errors) && errors.length > 0) {
    return errors.every((each) => typeof each === "object" && each !== null && neverSent(each));
  }
  return typeof code === "string" && NEVER_SENT.has(code);
}

function refused(error: object): boolean {
  const { status, statusCode, response } = error as {
    status?: unknown;
    statusCode?: unknown;
    response?: { status?: unknown };
  };
  const found = [status, statusCode, response?.status].find((each) => typeof each === "number");
  return typeof found === "number" && found >= 400 && found < 500 && !UNDECIDED_STATUS.has(found);
}

/** The error and what caused it; `fetch` hides the interesting one two levels down. */
function chain(error: unknown): object[] {
  const found: object[] = [];
  let each: unknown = error;
  while (typeof each === "object" && each !== null && !found.includes(each)) {
    found.push(each);
    each = (each as { cause?: unknown }).cause;
  }
  return found;
}

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
