import type Anthropic from "@anthropic-ai/sdk";
import { HoldfastError } from "../../model/errors.ts";

/** Stop reasons of a complete answer. Not `stop_sequence`: the sequence may be part of an argument. */
const COMPLETE: ReadonlySet<string | null> = new Set(["tool_use", "end_turn"]);

const CAUSES: { readonly [reason: string]: readonly [what: string, hint: string] } = {
  max_tokens: ["ran into max_tokens", "Raise params.max_tokens, or ask for less at once."],
  model_context_window_exceeded: [
    "filled its context window",
    "Shorten the conversation (session.compact), or use a model with a larger window.",
  ],
  refusal: ["was stopped by a refusal", "Change what is asked, or ask another model."],
  stop_sequence: [
    "wrote a stop sequence",
    "Remove sequences that an argument may contain from params.stop_sequences.",
  ],
};

/** The client turns half of a call's arguments into valid JSON, so only the stop reason tells. */
export function refuseIncompleteCall({ model, content, stop_reason }: Anthropic.Message): void {
  const last = content.at(-1);
  if (last?.type !== "tool_use" || COMPLETE.has(stop_reason)) return;
  const [what, hint] = CAUSES[stop_reason ?? ""] ?? [
    `stopped (stop_reason: ${stop_reason})`,
    "Run again to ask again.",
  ];
  throw new HoldfastError("INPUT_INVALID", `${model} ${what} in the middle of a tool call (${last.name})`, {
    hint: `${hint} The call was not run, and no answer is recorded.`,
  });
}

/**
 * A request to the API that failed. The agent loop retries it if `retryable` is true.
 * @example if (error instanceof AnthropicCallFailed && error.status === 401) rotateKey();
 */
export class AnthropicCallFailed extends Error {
  override readonly name = "AnthropicCallFailed";
  /** True if the same request may succeed later: a rate limit, an overloaded server. */
  readonly retryable: boolean;
  /** The HTTP status; undefined if no answer came. */
  readonly status: number | undefined;

  constructor(message: string, facts: { retryable: boolean; status?: number | undefined; cause?: unknown }) {
    super(message, { cause: facts.cause });
    this.retryable = facts.retryable;
    this.status = facts.status;
  }
}

/** Not retryable: the same question would most likely be paused as often again, and each time costs money. */
export function pausedTooOften(model: string, pauses: number): AnthropicCallFailed {
  const problem = `Anthropic: ${model} paused its turn ${pauses} times in a row and did not end it.`;
  const hint = "No answer is recorded: run again to ask again, or limit the server's tools (max_uses).";
  return new AnthropicCallFailed(`${problem} ${hint}`, { retryable: false });
}
