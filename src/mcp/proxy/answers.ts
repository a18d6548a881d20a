/** What the client is told of a call: the server's own answer, or in its place what the ledger knows. */

import { isHoldfastError } from "../../model/errors.ts";
import { formatPath, type Json } from "../../model/json.ts";
import type { Call, CallError } from "../../model/session/index.ts";
import type { DirectOutcome } from "../../session/index.ts";
import { INVALID_PARAMS, type Line, type RpcError, exactText, type InexactNumber } from "./json-rpc.ts";

interface ToolResult {
  readonly content: readonly unknown[];
  readonly [name: string]: unknown;
}

const META = "holdfast/call";
/** Beside a recorded answer: its numbers that JavaScript rounds, as the server wrote them. */
const NUMBERS = "holdfast/numbers";

/** What is recorded of an answer: the result, and which of its numbers are not what it says. */
export function withNumbers({ message: { result }, inexact }: Line): unknown {
  const numbers = inexact.flatMap(({ path, text }) => {
    return path[0] === "result" ? [{ path: path.slice(1), text }] : [];
  });
  if (numbers.length === 0 || typeof result !== "object" || result === null) return result;
  const meta = (result as { _meta?: object })._meta;
  return { ...result, _meta: { ...meta, [NUMBERS]: numbers } };
}

/** The same as the client reads it: every number as the server wrote it. */
export function answerJson(result: unknown): string {
  const { _meta: meta } = Object(result) as { _meta?: Readonly<Record<string, unknown>> };
  const numbers = meta?.[NUMBERS];
  if (!Array.isArray(numbers)) return JSON.stringify(result ?? null);
  const { [NUMBERS]: _numbers, ...left } = meta ?? {};
  const { _meta, ...rest } = result as Readonly<Record<string, unknown>>;
  const shown = Object.keys(left).length === 0 ? rest : { ...rest, _meta: left };
  return exactText(shown, numbers.filter(isInexact));
}

/** A server may say anything under that name. */
function isInexact(value: unknown): value is InexactNumber {
  const { path, text } = Object(value) as Partial<Record<keyof InexactNumber, unknown>>;
  return typeof text === "string" && Array.isArray(path);
}

/** The recorded answer. One that the server gave just now goes out as it is; any other says where it comes from. */
export function completedAnswer(
  value: Json,
  call: { readonly callId: string; readonly ranAt: number | null; readonly note: string | null },
  hasOutputSchema: boolean,
): unknown {
  const { callId, ranAt, note } = call;
  if (note === null || asksForInput(value)) return value;
  const result = asToolResult(value);
  const content = [...result.content, { type: "text", text: `[holdfast] ${note}` }];
  const meta = { ...(result["_meta"] as object | undefined), [META]: { callId, ranAt, note } };
  // A client checks structured content against the tool's schema, and nobody can make up what was lost: as an error it
  // is read instead of thrown away.
  const isUnfit = hasOutputSchema && result["structuredContent"] === undefined && result["isError"] !== true;
  return { ...result, content, _meta: meta, ...(isUnfit && { isError: true }) };
}

/** An answer of the newer protocol that is none yet: the client is asked something first. Its shape has no place for words. */
function asksForInput(value: Json): boolean {
  const kind =
    typeof value === "object" && value !== null ? (value as { resultType?: Json }).resultType : undefined;
  return kind !== undefined && kind !== "complete";
}

/** A person may answer with a whole result, with words, or with anything. */
function asToolResult(value: Json): ToolResult {
  if (typeof value === "object" && value !== null && Array.isArray((value as { content?: Json }).content)) {
    return value as unknown as ToolResult;
  }
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return { content: [{ type: "text", text }], ...(isObject && { structuredContent: value }) };
}

export function waitingAnswer(
  outcome: Extract<DirectOutcome<Json>, { status: "waiting" }>,
  isWaiting: boolean,
): unknown {
  const { callId, why } = outcome;
  const next = isWaiting
    ? `It waits for a person: holdfast calls, then holdfast resolve ${callId} landed|retry|failed. Until then the same call is answered with this text.`
    : "It is being found out. Make the same call again later to hear what came of it.";
  return errorResult(
    `Nobody knows whether this call took effect (${why}). It is not run again. ${next} Do not do the same thing in another way meanwhile.`,
    { code: isWaiting ? "CALL_WAITING" : "CALL_UNKNOWN", callId },
  );
}

export function failedAnswer(error: CallError, callId: string): unknown {
  return errorResult(`This call failed, and nothing has happened: ${error.message}`, {
    code: "CALL_FAILED",
    callId,
  });
}

/** The ledger itself could not do its part. */
export function troubleAnswer(error: unknown): unknown {
  if (isHoldfastError(error)) {
    return errorResult(`${error.code}: ${error.message}. ${error.hint}`, {
      code: error.code,
      hint: error.hint,
    });
  }
  return errorResult(`INTERNAL: ${error instanceof Error ? error.message : String(error)}`, {
    code: "INTERNAL",
  });
}

function errorResult(text: string, meta: Readonly<Record<string, unknown>>): unknown {
  return { content: [{ type: "text", text: `[holdfast] ${text}` }], isError: true, _meta: { [META]: meta } };
}

/** What the model reads beside an answer that the server did not give to this very request. */
export function noteOn(call: Call | undefined, wasReplayed: boolean, wasJoined: boolean): string | null {
  if (!call) return null;
  const at = new Date(call.settledAt ?? call.issuedAt).toISOString();
  if (call.settledBy === "person") return `Not run again. ${call.by} says that it has happened: ${call.why}`;
  if (call.settledBy === "verify")
    return "Not run again. It had happened before its answer was lost: that was found out, and this stands for the answer.";
  if (wasReplayed)
    return `Not run again. This is the recorded answer of call ${call.id}, which ran at ${at}.`;
  if (wasJoined) return "The same call was under way already. It ran once, and this is its answer.";
  return null;
}

/** Nothing is issued for it: recorded, and sent on, it would be another call. */
export function inexactCall({ path, text }: InexactNumber): RpcError {
  const what = `${formatPath(path)} is ${text}, which would be rounded to ${Number(text)}`;
  return { code: INVALID_PARAMS, message: `Nothing was done: ${what}. Send it as a text: "${text}".` };
}
