/** Asks a tool's `verify` whether an attempt took effect. There is always an answer, and in time. */

import { describeError } from "../model/errors.ts";
import { quoteValue } from "../model/names.ts";
import type { Call } from "../model/session/index.ts";
import { type Outcome, readResult } from "./attempt.ts";
import { executeFacts, type LedgerContext } from "./context.ts";
import { type Tool, unsure, type Verdict } from "./tool.ts";
import { withTimeout } from "./waiting.ts";

const VERIFY_TIMEOUT_MS = 60_000;
const ANSWERS: readonly unknown[] = ["landed", "never", "notYet"];

export type Answer = Verdict<unknown> | { readonly answer: "error"; readonly why: string };

export interface Question {
  readonly context: LedgerContext;
  readonly call: Call;
  readonly tool: Tool;
  readonly args: unknown;
}

/** A `verify` that throws, hangs or returns nonsense answers `error`. Throws if the run is stopped. */
export async function askVerify({ context, call, tool, args }: Question): Promise<Answer> {
  const timeoutMs = tool.timeoutMs ?? VERIFY_TIMEOUT_MS;
  const done = new AbortController();
  try {
    const { child: _child, ...facts } = executeFacts(context, call, call.attempt);
    const signal = AbortSignal.any([context.stop, done.signal]);
    const asked = tool.verify?.(args as never, { ...facts, issuedAt: call.issuedAt, signal });
    const timedOut = { answer: "error", why: `verify gave no answer within ${timeoutMs} ms` } as const;
    const verdict: unknown = await withTimeout(Promise.resolve(asked), timeoutMs, context.stop, timedOut);
    if (verdict === timedOut) return timedOut;
    const { answer, why } = Object(verdict) as { answer?: unknown; why?: unknown };
    if (answer === "unsure")
      return unsure(typeof why === "string" ? why : "verify is unsure, and did not say why");
    if (ANSWERS.includes(answer)) return verdict as Answer;
    const expected = "landed(result), never(), notYet({ againInMs }) or unsure(why)";
    return { answer: "error", why: `verify returned ${quoteValue(verdict)} (expected ${expected})` };
  } catch (error) {
    context.stop.throwIfAborted();
    return { answer: "error", why: describeError(error).message };
  } finally {
    done.abort();
  }
}

/** True if `verify`, or a retry under the same key, can check a presumed failure instead of believing it. */
export function canCheckPresumed({ verify, idempotent }: Tool, { scope }: Call): boolean {
  // Only a key of scope `call` needs that retry. Any other comes again when the model asks for the same.
  return verify !== undefined || (idempotent !== undefined && scope === "call");
}

export async function checkPresumed(question: Question, message: string): Promise<Outcome> {
  const unknown: Outcome = { kind: "unknown", why: `it threw: ${message}`, late: null };
  if (!question.tool.verify) return unknown;
  try {
    const found = await askVerify(question);
    if (found.answer === "never") return { kind: "failed", error: { message }, verified: true };
    if (found.answer !== "landed") return unknown;
    const read = await readResult(question.tool, found.result);
    return { kind: "completed", ...read, why: `it threw (${message}), and verify found it done` };
  } catch {
    // The run was stopped. The next run asks again.
    return unknown;
  }
}
