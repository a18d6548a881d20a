import { HoldfastError } from "../../model/errors.ts";
import { waitAsAsked } from "../retry-after.ts";

/**
 * A request to the API that failed. The agent loop retries it if `retryable` is true.
 * @example if (error instanceof OpenAICallFailed && error.status === 401) rotateKey();
 */
export class OpenAICallFailed extends Error {
  override readonly name = "OpenAICallFailed";
  /** True if the same request may succeed later: a rate limit, an overloaded server. */
  readonly retryable: boolean;
  /** The HTTP status; undefined if no answer came. */
  readonly status: number | undefined;

  constructor(message: string, facts: { retryable: boolean; status?: number | undefined; cause?: unknown }) {
    super(`OpenAI: ${message}`, { cause: facts.cause });
    this.retryable = facts.retryable;
    this.status = facts.status;
  }
}

const RETRYABLE_CODES = new Set([
  "server_error",
  "rate_limit_exceeded",
  "vector_store_timeout",
  "overloaded",
]);
const ENDED_EARLY = /ended without|missing finish_reason|premature close|terminated/i;
/** A quota that is used up has the status of a rate limit, and no retry helps. */
const QUOTA = "insufficient_quota";

interface ApiFailure {
  readonly status?: number;
  readonly code?: string | null;
  readonly headers?: Headers;
  readonly message?: string;
}

/** Retryable: rate limits, server errors, broken connections. Waits as `retry-after` says. */
export async function failureOf(error: unknown, signal: AbortSignal): Promise<OpenAICallFailed> {
  if (error instanceof OpenAICallFailed) return error;
  const { status, code, headers, message = String(error) } = error as ApiFailure;
  const retryable =
    typeof status === "number"
      ? code !== QUOTA && (status === 408 || status === 409 || status === 429 || status >= 500)
      : RETRYABLE_CODES.has(String(code)) || isBrokenConnection(error);
  if (retryable) await waitAsAsked(headers, signal);
  return new OpenAICallFailed(message, { retryable, status, cause: error });
}

/** An answer that the API ended with an error of its own, which has no status. */
export function answerFailed(code: string | null | undefined, message: string): OpenAICallFailed {
  return new OpenAICallFailed(message, { retryable: RETRYABLE_CODES.has(String(code)) });
}

export function endedEarly(model: string): OpenAICallFailed {
  return new OpenAICallFailed(`the answer of ${model} ended early`, { retryable: true });
}

function isBrokenConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (/^APIConnection|^TypeError$/.test(error.constructor.name)) return true;
  return ENDED_EARLY.test(error.message) || (error.cause !== undefined && isBrokenConnection(error.cause));
}

const HINTS: { readonly [reason: string]: string } = {
  max_output_tokens: "Raise params.max_output_tokens, or ask for less at once.",
  length: "Raise params.max_completion_tokens, or ask for less at once.",
  content_filter: "Change what is asked, or ask another model.",
};

/** Half of a call's arguments may be valid JSON, so only the API's reason tells. */
export function callCutOff(model: string, tool: string, reason: string): HoldfastError {
  const problem = `${model} stopped (${reason}) in the middle of a tool call (${tool})`;
  return new HoldfastError("INPUT_INVALID", problem, {
    hint: `${HINTS[reason] ?? "Run again to ask again."} The call was not run, and no answer is recorded.`,
  });
}
