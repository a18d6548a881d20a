// An exchange with Anthropic's Messages API: thinking, redacted thinking and a tool call; then the final
// answer.

import type { WireAnswer } from "./server.ts";

export const THINKING = {
  type: "thinking",
  thinking: 'The customer wants to pay.\n\u00fcber \ud83d\ude00 "quoted"',
  signature: "EqoBCkgIAhABGAIiQL/w+Zm9vYmFyPT0=",
};
export const REDACTED = {
  type: "redacted_thinking",
  data: "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP",
};
const TEXT = { type: "text", text: "I will charge it." };
const TOOL_USE = {
  type: "tool_use",
  id: "toolu_01A09q90qw90lq917835lq9",
  name: "charge",
  input: { order: "4711" },
};

const usage = (input: number, output: number) => ({
  input_tokens: input,
  output_tokens: output,
  cache_creation_input_tokens: 100,
  cache_read_input_tokens: 1_000,
});

function message(content: readonly object[], stop_reason: string, counted: ReturnType<typeof usage>) {
  const head = {
    id: "msg_013Zva2CMHLNnXjNJJKqJ2EF",
    type: "message",
    role: "assistant",
    model: "claude-sonnet-5-5-20261001",
  };
  return { ...head, content, stop_reason, stop_sequence: null, usage: counted };
}

const ASKS = message([THINKING, REDACTED, TEXT, TOOL_USE], "tool_use", usage(10, 20));
const ENDS = message([{ type: "text", text: "Paid." }], "end_turn", usage(30, 2));

export const JSON_EXCHANGE: readonly WireAnswer[] = [{ body: ASKS }, { body: ENDS }];

type AnyBlock = { readonly type: string } & Readonly<Record<string, unknown>>;

function deltasOf(block: AnyBlock): { start: object; deltas: object[] } {
  switch (block.type) {
    case "thinking": {
      const thinking = String(block["thinking"]);
      const deltas = [thinking.slice(0, 9), thinking.slice(9)].map((part) => ({
        type: "thinking_delta",
        thinking: part,
      }));
      const signature = { type: "signature_delta", signature: block["signature"] };
      return { start: { ...block, thinking: "", signature: "" }, deltas: [...deltas, signature] };
    }
    case "text":
      return { start: { ...block, text: "" }, deltas: [{ type: "text_delta", text: block["text"] }] };
    case "tool_use": {
      const json = JSON.stringify(block["input"]);
      const deltas = ["", json.slice(0, 5), json.slice(5)].map((partial_json) => ({
        type: "input_json_delta",
        partial_json,
      }));
      return { start: { ...block, input: {} }, deltas };
    }
    default:
      return { start: block, deltas: [] };
  }
}

function streamed(whole: ReturnType<typeof message>): WireAnswer {
  const { content, stop_reason, usage: counted, ...head } = whole;
  const events = content.flatMap((block, index) => {
    const { start, deltas } = deltasOf(block as AnyBlock);
    return [
      { type: "content_block_start", index, content_block: start },
      ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index },
    ];
  });
  const begun = { ...head, content: [], stop_reason: null, usage: { ...counted, output_tokens: 1 } };
  return {
    events: [
      { type: "message_start", message: begun },
      { type: "ping" },
      ...events,
      {
        type: "message_delta",
        delta: { stop_reason, stop_sequence: null },
        usage: { output_tokens: counted.output_tokens },
      },
      { type: "message_stop" },
    ],
  };
}

export const STREAM_EXCHANGE: readonly WireAnswer[] = [streamed(ASKS), streamed(ENDS)];

/** The usage of both requests together. */
export const TOKENS = 10 + 20 + 30 + 2 + 2 * (100 + 1_000);

export function overloaded(status: number, type: string, headers: Record<string, string> = {}): WireAnswer {
  return { status, headers, body: { type: "error", error: { type, message: type } } };
}
