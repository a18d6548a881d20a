// Exchanges with OpenAI: the Responses API with encrypted reasoning that is sent back, and chat completions.

import type { WireAnswer } from "./server.ts";

const REASONING = {
  type: "reasoning",
  id: "rs_68af4f5ad8b08197",
  summary: [{ type: "summary_text", text: "It must be paid." }],
  encrypted_content: "gAAAAABor09a+/encrypted==",
};
const CALL = {
  type: "function_call",
  id: "fc_68af4f5c",
  call_id: "call_Xl2Yj8",
  name: "charge",
  arguments: '{"order":"4711"}',
  status: "completed",
};
const SAID = {
  type: "message",
  id: "msg_68af4f5e",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: "Paid.", annotations: [] }],
};

export const ENCRYPTED = REASONING.encrypted_content;

const usage = {
  input_tokens: 50,
  input_tokens_details: { cached_tokens: 40 },
  output_tokens: 7,
  output_tokens_details: { reasoning_tokens: 3 },
  total_tokens: 57,
};

const response = (output: readonly object[]) => ({
  id: "resp_68af4f59",
  object: "response",
  created_at: 1_756_319_577,
  status: "completed",
  model: "gpt-5-2025-08-07",
  output,
  usage,
  error: null,
  incomplete_details: null,
});

const event = (type: string, rest: object) => ({ type, ...rest });

function streamed(output: readonly (typeof REASONING | typeof CALL | typeof SAID)[]): WireAnswer {
  const begun = { ...response([]), status: "in_progress", usage: null };
  const events = output.flatMap((item, output_index) => {
    if (item.type === "function_call") {
      const { id: item_id } = item as typeof CALL;
      return [
        event("response.output_item.added", {
          output_index,
          item: { ...item, arguments: "", status: "in_progress" },
        }),
        event("response.function_call_arguments.delta", { item_id, output_index, delta: '{"order"' }),
        event("response.function_call_arguments.delta", { item_id, output_index, delta: ':"4711"}' }),
        event("response.output_item.done", { output_index, item }),
      ];
    }
    if (item.type === "reasoning") {
      const { id: item_id } = item;
      const begunItem = { type: "reasoning", id: item_id, summary: [], encrypted_content: "begin" };
      return [
        event("response.output_item.added", { output_index, item: begunItem }),
        event("response.reasoning_summary_part.added", { item_id, output_index, summary_index: 0 }),
        event("response.reasoning_summary_text.delta", {
          item_id,
          output_index,
          summary_index: 0,
          delta: "It must be paid.",
        }),
        event("response.reasoning_summary_part.done", { item_id, output_index, summary_index: 0 }),
        event("response.output_item.done", { output_index, item }),
      ];
    }
    const { id: item_id } = item;
    return [
      event("response.output_item.added", { output_index, item: { ...item, content: [] } }),
      event("response.output_text.delta", {
        item_id,
        output_index,
        content_index: 0,
        delta: "Paid.",
        logprobs: [],
      }),
      event("response.output_item.done", { output_index, item }),
    ];
  });
  return {
    events: [
      event("response.created", { response: begun }),
      ...events,
      event("response.completed", { response: response(output) }),
    ],
  };
}

export const RESPONSES_JSON: readonly WireAnswer[] = [
  { body: response([REASONING, CALL]) },
  { body: response([SAID]) },
];
export const RESPONSES_STREAM: readonly WireAnswer[] = [streamed([REASONING, CALL]), streamed([SAID])];

const chatHead = {
  id: "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
  created: 1_741_570_283,
  model: "gpt-4o-2024-08-06",
};
const chatUsage = {
  prompt_tokens: 50,
  completion_tokens: 7,
  total_tokens: 57,
  prompt_tokens_details: { cached_tokens: 40 },
};
const chatCall = {
  id: "call_Xl2Yj8",
  type: "function",
  function: { name: "charge", arguments: '{"order":"4711"}' },
};

const completion = (message: object, finish_reason: string): WireAnswer => ({
  body: {
    ...chatHead,
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", content: null, ...message }, finish_reason }],
    usage: chatUsage,
  },
});

const chunks = (deltas: readonly object[], finish_reason: string): WireAnswer => {
  const head = { ...chatHead, object: "chat.completion.chunk" };
  const made = deltas.map((delta) => ({ ...head, choices: [{ index: 0, delta, finish_reason: null }] }));
  const last = { ...head, choices: [{ index: 0, delta: {}, finish_reason }] };
  return { events: [...made, last, { ...head, choices: [], usage: chatUsage }], done: "[DONE]" };
};

export const CHAT_JSON: readonly WireAnswer[] = [
  completion({ tool_calls: [chatCall] }, "tool_calls"),
  completion({ content: "Paid." }, "stop"),
];
export const CHAT_STREAM: readonly WireAnswer[] = [
  chunks(
    [
      {
        role: "assistant",
        tool_calls: [{ index: 0, ...chatCall, function: { name: "charge", arguments: "" } }],
      },
      { tool_calls: [{ index: 0, function: { arguments: '{"order":' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '"4711"}' } }] },
    ],
    "tool_calls",
  ),
  chunks([{ role: "assistant", content: "Pa" }, { content: "id." }], "stop"),
];
/** The usage of both requests together. */
export const TOKENS = 2 * 57;
