/** What the client is told of a call: the server's own answer, or in its place what the ledger knows. */

import { type CallError, isHoldfastError, type Json } from "../../model/index.ts";
import type { DirectOutcome } from "../../session/index.ts";

interface ToolResult {
  readonly content: readonly unknown[];
  readonly [name: string]: unknown;
}

const META = "holdfast/call";

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
