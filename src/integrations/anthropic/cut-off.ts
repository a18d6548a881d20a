/**
 * Whether the calls of an answer are whole. The client makes valid JSON of half of a call's arguments, so the arguments do not
 * tell; the stop reason does. Blocks come one after the other: only the last one can be cut off.
 */

import type Anthropic from "@anthropic-ai/sdk";
import { HoldfastError } from "../../model/errors.ts";

/** The model itself came to the end of what it says. A stop sequence does not count: it may stand in an argument. */
const WHOLE: ReadonlySet<string | null> = new Set(["tool_use", "end_turn"]);

const CAUSES: { readonly [reason: string]: readonly [what: string, hint: string] } = {
  max_tokens: ["ran into max_tokens", "Raise params.max_tokens, or ask for less at once."],
  model_context_window_exceeded: [
    "filled its context window",
    "Shorten the conversation (session.compact), or use a model with a larger window.",
  ],
  refusal: ["was stopped by a refusal", "Change what is asked, or ask another model."],
  stop_sequence: ["wrote a stop sequence", "Take out of params.stop_sequences what an argument may contain."],
};

/** A call whose arguments may be missing in part is not run: then this throws. */
export function refuseCutOff({ model, content, stop_reason }: Anthropic.Message): void {
  const last = content.at(-1);
  if (last?.type !== "tool_use" || WHOLE.has(stop_reason)) return;
  const [what, todo] = CAUSES[stop_reason ?? ""] ?? [
    `stopped (stop_reason: ${stop_reason})`,
    "Run again to ask again.",
  ];
  throw new HoldfastError("INPUT_INVALID", `${model} ${what} in the middle of a tool call (${last.name})`, {
    hint: `${todo} The call was not run, and no answer is recorded.`,
  });
}
