/**
 * One run of a tool, from `execute` to an outcome:
 *
 *     completed   the tool returned: its result is what happened, even if it does not match the output schema
 *     failed      nothing can have happened, for certain or as far as the error shows
 *     unknown     the tool threw, timed out or was stopped after it had started
 *
 * A stopped attempt goes on running. Its promise stays in `late`, so that its answer is still recorded and no
 * second attempt starts beside it.
 *
 * A throw is not a failure. Once `execute` has started, an error means that the outcome is unknown, unless
 * nothing can have happened:
 *
 *     certain     the tool says so: it throws `DefiniteFailure`, or its `definite` returns true
 *     presumed    connection refused, host not found, or HTTP 4xx
 *     unknown     everything else, also HTTP 408 and 409: the first attempt may be what stands in the way
 *
 * The presumption is wrong for a tool that sends several requests and shows only the last answer. So
 * `definite` can deny it, `verify` is asked first, and the vendor's key stays the same.
 */

import { describeError } from "../model/errors.ts";
import { type Json, tryCopyJson } from "../model/json.ts";
import { cutResult, jsonify } from "../model/jsonify.ts";
import { andThen, type MaybePromise } from "../model/maybe-promise.ts";
import { type ExecuteContext, NotFinished, type Tool, validate } from "./tool.ts";
import { onAbort, TIMER_LIMIT_MS } from "./waiting.ts";

export type Outcome =
  | {
      readonly kind: "completed";
      readonly value: Json;
      /** A defect of the result: it does not match the output schema, or is not plain JSON. */
      readonly note: string | null;
      /** How the outcome was found, if not by the tool's own answer. */
      readonly why?: string;
    }
  | {
      readonly kind: "failed";
      readonly error: { message: string; name?: string };
      readonly presumed?: true;
      readonly verified?: true;
    }
  | {
      readonly kind: "unknown";
      readonly why: string;
      /** The attempt's own answer, while it still runs. */
      readonly late: Promise<Outcome> | null;
      readonly later?: true;
      readonly person?: true;
      /** False if the attempt certainly never started. */
      readonly started?: false;
    };

export function attempt(tool: Tool, args: unknown, context: ExecuteContext): MaybePromise<Outcome> {
  // Joining signals costs more than everything else here, so only a tool with a timeout pays for it.
  if (tool.timeoutMs !== undefined) return attemptWithTimeout(tool, tool.timeoutMs, args, context);
  const answer = execute(tool, args, context);
  return answer instanceof Promise ? raceWithAbort(tool, answer, context.signal) : answer;
}

async function attemptWithTimeout(
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
    return await (answer instanceof Promise ? raceWithAbort(tool, answer, signal) : answer);
  } finally {
    clearTimeout(timer);
  }
}

function raceWithAbort(tool: Tool, answer: Promise<Outcome>, signal: AbortSignal): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const removeListener = onAbort(signal, () => {
      // A tool that honours the signal rejects in the same turn of the event loop: let its own answer win.
      setImmediate(() => resolve({ kind: "unknown", why: abortReason(tool, signal), late: answer }));
    });
    answer.then(
      (outcome) => {
        removeListener();
        resolve(outcome);
      },
      (error: unknown) => {
        removeListener();
        reject(error);
      },
    );
  });
}

function execute(tool: Tool, args: unknown, context: ExecuteContext): MaybePromise<Outcome> {
  try {
    const answer: unknown = tool.execute(args as never, context);
    if (!isThenable(answer)) return completed(tool, answer);
    return Promise.resolve(answer).then(
      (result) => completed(tool, result),
      (error: unknown) => outcomeOfThrow(tool, error),
    );
  } catch (error) {
    return outcomeOfThrow(tool, error);
  }
}

/** Reads `then` as `await` does: it may be a getter. */
function isThenable(answer: unknown): boolean {
  const mayBe = (typeof answer === "object" && answer !== null) || typeof answer === "function";
  return mayBe && typeof (answer as { readonly then?: unknown }).then === "function";
}

function completed(tool: Tool, result: unknown): MaybePromise<Outcome> {
  const read = tool.output ? readResult(tool, result) : asJson(result, null);
  return andThen(read, ({ value, note }) => ({ kind: "completed", value, note }));
}

function outcomeOfThrow(tool: Tool, error: unknown): Outcome {
  const described = describeError(error);
  const unknown = { kind: "unknown", why: described.message, late: null } as const;
  if (holds(() => error instanceof NotFinished)) {
    const { person, started } = error as NotFinished;
    const marks = { ...(person === true && { person }), ...(started === false && { started }) };
    return { ...unknown, later: true, ...marks };
  }
  const certainty = nothingHappened(error, tool);
  if (certainty !== "unknown") {
    return { kind: "failed", error: described, ...(certainty === "presumed" && { presumed: true }) };
  }
  return { ...unknown, why: `it threw: ${described.message}` };
}

// ---- Whether nothing can have happened

const NEVER_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN"]);
const UNDECIDED_STATUS = new Set([408, 409]);

function nothingHappened(error: unknown, tool: Tool): "certain" | "presumed" | "unknown" {
  if (holds(() => causes(error).some(isDefiniteFailure))) return "certain";
  let definite: boolean | undefined;
  holds(() => {
    definite = tool.definite?.(error);
    return true;
  });
  if (typeof definite === "boolean") return definite ? "certain" : "unknown";
  const isPresumed = holds(() => causes(error).some((each) => wasNeverSent(each) || wasRejected(each)));
  return isPresumed ? "presumed" : "unknown";
}

/** Evaluates a check on a thrown value. A getter or a proxy may throw: then the answer is no. */
function holds(check: () => boolean): boolean {
  try {
    return check();
  } catch {
    return false;
  }
}

function isDefiniteFailure(error: object): boolean {
  return error instanceof Error && error.name === "DefiniteFailure";
}

/** Connecting to several addresses gives one error for each: all of them must have failed before sending. */
function wasNeverSent(error: object): boolean {
  const { code, errors } = error as { code?: unknown; errors?: unknown };
  if (Array.isArray(errors) && errors.length > 0) {
    return errors.every((each) => typeof each === "object" && each !== null && wasNeverSent(each));
  }
  return typeof code === "string" && NEVER_SENT.has(code);
}

type HttpError = { status?: unknown; statusCode?: unknown; response?: { status?: unknown } };

function wasRejected(error: object): boolean {
  const { status, statusCode, response } = error as HttpError;
  const found = [status, statusCode, response?.status].find((each) => typeof each === "number");
  return typeof found === "number" && found >= 400 && found < 500 && !UNDECIDED_STATUS.has(found);
}

/** The error and its chain of causes. `fetch` hides the interesting one two levels down. */
function causes(error: unknown): object[] {
  const found: object[] = [];
  let each: unknown = error;
  while (typeof each === "object" && each !== null && !found.includes(each)) {
    found.push(each);
    each = (each as { cause?: unknown }).cause;
  }
  return found;
}

// ---- The result

/** The effect has happened: a result that does not fit is noted, never turned into a failure. */
export async function readResult(tool: Tool, result: unknown): Promise<{ value: Json; note: string | null }> {
  const checked = tool.output && (await validate(tool.output, result));
  const isBad = checked !== undefined && "problem" in checked;
  const note = isBad ? `the result does not match the tool's output: ${checked.problem}` : null;
  return asJson(result, note);
}

/** A value that the log gives back as it is costs one copy. Only any other is taken apart a second time. */
function asJson(result: unknown, note: string | null): { value: Json; note: string | null } {
  let plain: Json | undefined;
  holds(() => {
    plain = result === undefined ? null : tryCopyJson(result, 0);
    return true;
  });
  if (plain !== undefined) return cutResult(plain, note);
  const { value, changes } = jsonify(result);
  return cutResult(value, [note, `the result is not plain JSON: ${changes}`].filter(Boolean).join("; "));
}

// ---- Aborts

/** Must not throw: an abort reason can be anything, and no caller awaits the caller. */
function abortReason(tool: Tool, signal: AbortSignal): string {
  let code = "";
  let message: unknown = "";
  holds(() => {
    const reason = Object(signal.reason) as { code?: unknown; message?: unknown };
    code = String(reason.code ?? "");
    message = reason.message;
    return true;
  });
  if (code === "LEASE_LOST") return "another process took over while it ran";
  // 20 is the code of a plain AbortError, which says nothing.
  if (typeof message === "string" && message && code && code !== "20") return `stopped: ${message}`;
  return tool.timeoutMs === undefined ? "stopped while it ran" : `no answer within ${tool.timeoutMs} ms`;
}
