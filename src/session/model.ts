import type { Tool } from "../ledger/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { Json } from "../model/json.ts";
import type { Amounts, Block, JsonObject, Message } from "../model/session/index.ts";
import type { MessageInput } from "./messages.ts";

/** A tool as a model needs to see it. */
export interface ToolDescription {
  readonly name: string;
  readonly description: string;
  readonly inputJsonSchema: Json | null;
}

/** What a model is asked: the whole conversation, each time. Its messages are frozen: copy what you want to change. */
export interface ModelRequest {
  readonly system: string | null;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDescription[];
  /** Aborts when the run is stopped, the session is cancelled, or another process takes over. */
  readonly signal: AbortSignal;
  /** Shows a part of the answer before it is whole. Partials are never stored. */
  partial(part: { readonly text?: string; readonly reasoning?: string }): void;
}

/** What it answered, and what that cost. Without `usage` only turns are counted. */
export interface ModelResponse {
  /** The answer: blocks, or just text; of both, the text comes first. */
  readonly message:
    | { readonly blocks: readonly Block[]; readonly text?: string; readonly meta?: JsonObject }
    | { readonly text: string; readonly meta?: JsonObject };
  readonly usage?: Amounts;
}

/** Any model is one function. Throw an error with `retryable: true` to have it asked again. */
export type Model = (request: ModelRequest) => Promise<ModelResponse>;

const RETRYABLE_STATUS = new Set([408, 409, 425, 429, 500, 502, 503, 504, 529]);
const RETRYABLE_CODES = new Set([
  "ECONNRESET",
  "ECONNREFUSED",
  "ETIMEDOUT",
  "EPIPE",
  "ENOTFOUND",
  "EAI_AGAIN",
]);

/** A model call has no effect on the world, so a doubtful one is simply made again. */
export function isRetryable(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return false;
  const { retryable, isRetryable: flag, status, statusCode, code, cause } = error as Record<string, unknown>;
  if (typeof retryable === "boolean") return retryable;
  if (typeof flag === "boolean") return flag;
  if (RETRYABLE_STATUS.has(Number(status ?? statusCode))) return true;
  return RETRYABLE_CODES.has(String(code)) || (cause !== undefined && isRetryable(cause));
}

export function describeTools(tools: readonly Tool[]): ToolDescription[] {
  return tools.map(({ name, description, inputJsonSchema }) => {
    return { name, description, inputJsonSchema: inputJsonSchema ?? null };
  });
}

export function mustAnswer(response: ModelResponse | null): ModelResponse {
  const { message } = (response ?? {}) as { message?: unknown };
  if (
    response &&
    typeof message === "object" &&
    message !== null &&
    ("text" in message || "blocks" in message)
  )
    return response;
  const what = response ? "something that has no message with text or blocks" : "nothing";
  throw new HoldfastError("INPUT_INVALID", `the model returned ${what}`, {
    hint: "A model function resolves to { message: { text } or { blocks }, usage }.",
  });
}

/** What of an answer is kept. Beside text a model may return fields of its provider, which are nobody's. */
export function saidIn({ message }: ModelResponse): Omit<MessageInput, "role"> {
  if (message.text === undefined) return message;
  const { text, meta } = message;
  return { text, blocks: "blocks" in message ? message.blocks : [], ...(meta && { meta }) };
}
