/** The result that the client gets for a call: the server's answer, or the ledger's report in its place. */

import { isHoldfastError } from "../../model/errors.ts";
import { formatPath, type Json } from "../../model/json.ts";
import type { Call, CallError } from "../../model/session/index.ts";
import type { DirectOutcome } from "../../session/index.ts";
import { NOTE_FIELD } from "./introduction.ts";
import { exactText, INVALID_PARAMS, type InexactNumber, type Line, type RpcError } from "./json-rpc.ts";

interface ToolResult {
  readonly content: readonly unknown[];
  readonly [name: string]: unknown;
}

const META = "holdfast/call";
/** `_meta` field of a recorded result: numbers that JavaScript rounds, as the server wrote them. */
const NUMBERS = "holdfast/numbers";

export function withNumbers({ message: { result }, inexact }: Line): unknown {
  const numbers = inexact.flatMap(({ path, text }) => {
    return path[0] === "result" ? [{ path: path.slice(1), text }] : [];
  });
  if (numbers.length === 0 || typeof result !== "object" || result === null) return result;
  const meta = (result as { _meta?: object })._meta;
  return { ...result, _meta: { ...meta, [NUMBERS]: numbers } };
}

export function answerJson(result: unknown): string {
  const { _meta: meta } = Object(result) as { _meta?: Readonly<Record<string, unknown>> };
  const numbers = meta?.[NUMBERS];
  if (!Array.isArray(numbers)) return JSON.stringify(result ?? null);
  const { [NUMBERS]: _numbers, ...left } = meta ?? {};
  const { _meta, ...rest } = result as Readonly<Record<string, unknown>>;
  const shown = Object.keys(left).length === 0 ? rest : { ...rest, _meta: left };
  return exactText(shown, numbers.filter(isInexact));
}

/** A server may put anything under that name. */
function isInexact(value: unknown): value is InexactNumber {
  const { path, text } = Object(value) as Partial<Record<keyof InexactNumber, unknown>>;
  return typeof text === "string" && Array.isArray(path);
}

/** Without a `note` it is the server's fresh answer and goes out unchanged. */
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
  // A client rejects a result that lacks the structured content of its schema, but reads an error.
  const isUnfit = hasOutputSchema && result["structuredContent"] === undefined && result["isError"] !== true;
  const structuredContent = withNote(result["structuredContent"], note);
  const structured = structuredContent === undefined ? {} : { structuredContent };
  return { ...result, content, ...structured, _meta: meta, ...(isUnfit && { isError: true }) };
}

/** Some clients show the model only this part of an answer. */
function withNote(structured: unknown, note: string): unknown {
  const isMembers = typeof structured === "object" && structured !== null && !Array.isArray(structured);
  return isMembers ? { ...structured, [NOTE_FIELD]: `[holdfast] ${note}` } : structured;
}

/** In the newer protocol a result may ask the client for input. It has no room for a note. */
function asksForInput(value: Json): boolean {
  const kind =
    typeof value === "object" && value !== null ? (value as { resultType?: Json }).resultType : undefined;
  return kind !== undefined && kind !== "complete";
}

/** A person may have answered with a whole result, with text, or with any JSON. */
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
  const { callId } = outcome;
  const more = " Until then the same call gets this answer.";
  return errorResult(
    `${waitingText(outcome, isWaiting)}${isWaiting ? more : ""} Do not do the same thing in another way.`,
    { code: isWaiting ? "CALL_WAITING" : "CALL_UNKNOWN", callId },
  );
}

/** Also the status message of a task. */
export function waitingText(
  { callId, why }: { readonly callId: string; readonly why: string },
  isWaiting: boolean,
): string {
  const next = isWaiting
    ? `It waits for a person: holdfast calls, then holdfast resolve ${callId} landed|retry|failed.`
    : "It is being verified. Repeat the same call later to get its outcome.";
  return `It is unknown whether this call took effect (${why}). It is not run again. ${next}`;
}

export function failedAnswer(error: CallError, callId: string): unknown {
  const text = `This call failed, and nothing has happened: ${error.message}`;
  return errorResult(text, { code: "CALL_FAILED", callId });
}

export function troubleAnswer(error: unknown): unknown {
  const message = error instanceof Error ? error.message : String(error);
  if (!isHoldfastError(error)) return errorResult(`INTERNAL: ${message}`, { code: "INTERNAL" });
  const { code, hint } = error;
  return errorResult(`${code}: ${message}. ${hint}`, { code, hint });
}

function errorResult(text: string, meta: Readonly<Record<string, unknown>>): unknown {
  return { content: [{ type: "text", text: `[holdfast] ${text}` }], isError: true, _meta: { [META]: meta } };
}

/** A note for the model on a result that the server did not give to this very request. */
export function noteOn(call: Call | undefined, wasReplayed: boolean, wasJoined: boolean): string | null {
  if (!call) return null;
  const at = new Date(call.settledAt ?? call.issuedAt).toISOString();
  if (call.settledBy === "person")
    return `Not run again. ${call.by} confirmed that it took effect: ${call.why}`;
  if (call.settledBy === "verify")
    return "Not run again. Its answer was lost, but it took effect: verified. This stands for the answer.";
  if (wasReplayed)
    return `Not run again. This is the recorded answer of call ${call.callId}, which ran at ${at}.`;
  if (wasJoined) return "The same call was in flight. It ran once, and this is its answer.";
  return null;
}

/** A note on a call that ran although the same call had run shortly before. */
export function repeatNote({ callId, settledAt }: Call, now: number): string {
  const seconds = Math.max(0, Math.round((now - (settledAt ?? now)) / 1_000));
  const ago = seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
  return `The same call ran ${ago} ago as ${callId}, and its answer was delivered. It has now run again.`;
}

/** Rejects a call with a number that JavaScript rounds: once recorded it would be another call. */
export function inexactCall({ path, text }: InexactNumber): RpcError {
  const what = `${formatPath(path)} is ${text}, which would be rounded to ${Number(text)}`;
  return { code: INVALID_PARAMS, message: `Nothing was done: ${what}. Send it as a string: "${text}".` };
}
