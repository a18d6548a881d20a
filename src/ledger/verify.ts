/** Asking a tool whether an attempt took effect. Whatever its `verify` does, there is an answer, and in time. */

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

export async function askVerify({ context, call, tool, args }: Question): Promise<Answer> {
  const timeout = tool.timeoutMs ?? VERIFY_TIMEOUT_MS;
  const silence = new AbortController();
  try {
    const { child: _child, ...facts } = executeFacts(context, call, call.attempt);
    const signal = AbortSignal.any([context.stop, silence.signal]);
    const asked = tool.verify?.(args as never, { ...facts, issuedAt: call.issuedAt, signal });
    const none = { answer: "error", why: `verify gave no answer within ${timeout} ms` } as const;
    const given: unknown = await withTimeout(Promise.resolve(asked), timeout, context.stop, none);
    if (given === none) return none;
    const { answer, why } = Object(given) as { answer?: unknown; why?: unknown };
    if (answer === "unsure")
      return unsure(typeof why === "string" ? why : "verify is unsure, and did not say why");
    if (ANSWERS.includes(answer)) return given as Answer;
    const meant = "landed(result), never(), notYet({ againInMs }) or unsure(why)";
    return { answer: "error", why: `verify returned ${quoteValue(given)}; meant is ${meant}` };
  } catch (error) {
    context.stop.throwIfAborted();
    return { answer: "error", why: describeError(error).message };
  } finally {
    silence.abort();
  }
}

/**
 * Whether more can be done about an attempt that presumably did nothing than to believe it: to ask the tool, or to repeat it
 * under its key. The key of a call of its own is not seen again: what the model asks for next has another.
 */
export function isOpenToDoubt({ verify, idempotent }: Tool, { scope }: Pick<Call, "scope">): boolean {
  return verify !== undefined || (idempotent !== undefined && scope === "call");
}

/** What an attempt that presumably did nothing comes to, where more can be done. */
export async function lookedInto(question: Question, message: string): Promise<Outcome> {
  const unknown: Outcome = { kind: "unknown", why: `it threw: ${message}`, late: null };
  if (!question.tool.verify) return unknown;
  try {
    const found = await askVerify(question);
    if (found.answer === "never") return { kind: "failed", error: { message }, verified: true };
    if (found.answer !== "landed") return unknown;
    const { value } = await readResult(question.tool, found.result);
    return { kind: "completed", value, note: `it threw (${message}), and verify found it done` };
  } catch {
    // Whoever stops it now leaves it to the next one, who asks as well.
    return unknown;
  }
}
