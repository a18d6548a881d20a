/**
 * A loopback server for OpenAI's wire formats: Responses and chat completions, plain and streamed. Like a
 * real model it uses new words and ids each time. First it asks for a charge. Once it has read the result, it
 * answers.
 */

import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

interface Asked {
  readonly path: string;
  readonly stream: boolean;
}

export interface WireServer {
  readonly url: string;
  readonly asked: Asked[];
  close(): Promise<void>;
}

type Said = { readonly text: string } | { readonly call: { readonly id: string; readonly args: string } };

export async function startWireServer(): Promise<WireServer> {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const body = JSON.parse(await readAll(request)) as {
      stream?: boolean;
      input?: unknown;
      messages?: unknown;
    };
    const path = request.url ?? "";
    asked.push({ path, stream: body.stream === true });
    const said = sayNext(JSON.stringify(body.input ?? body.messages));
    const isChat = path.endsWith("/chat/completions");
    if (!body.stream) {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify(isChat ? chatAnswer(said) : responsesAnswer(said)));
    } else send(response, isChat ? chatEvents(said) : responsesEvents(said));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    asked,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

async function readAll(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += chunk;
  return text;
}

function sayNext(prompt: string): Said {
  const word = randomUUID();
  const isPaid = prompt.includes("charged 4711");
  if (isPaid) return { text: `Paid, in the words ${word}` };
  return { call: { id: `call_${word}`, args: JSON.stringify({ order: "4711", note: word }) } };
}

function send(response: ServerResponse, events: readonly object[]): void {
  response.setHeader("content-type", "text/event-stream");
  for (const event of events) {
    const { type } = event as { type?: string };
    response.write(`${type ? `event: ${type}\n` : ""}data: ${JSON.stringify(event)}\n\n`);
  }
  response.end("data: [DONE]\n\n");
}

function responsesAnswer(said: Said) {
  const item =
    "text" in said
      ? {
          type: "message",
          id: `msg_${randomUUID()}`,
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: said.text, annotations: [] }],
        }
      : {
          type: "function_call",
          id: `fc_${randomUUID()}`,
          call_id: said.call.id,
          name: "charge",
          arguments: said.call.args,
          status: "completed",
        };
  return {
    id: `resp_${randomUUID()}`,
    object: "response",
    created_at: 1,
    status: "completed",
    model: "gpt-test",
    output: [item],
    parallel_tool_calls: false,
    tool_choice: "auto",
    tools: [],
    usage: {
      input_tokens: 10,
      output_tokens: 5,
      total_tokens: 15,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    },
  };
}

function responsesEvents(said: Said): object[] {
  const response = responsesAnswer(said);
  const [item] = response.output;
  const deltas =
    "text" in said
      ? said.text.split(" ").map((word) => ({
          type: "response.output_text.delta",
          item_id: item?.id,
          output_index: 0,
          content_index: 0,
          delta: `${word} `,
        }))
      : [];
  return [
    { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
    ...deltas,
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response },
  ].map((event, index) => ({ ...event, sequence_number: index }));
}

function chatMessage(said: Said) {
  if ("text" in said) return { role: "assistant", content: said.text };
  const call = {
    id: said.call.id,
    type: "function",
    function: { name: "charge", arguments: said.call.args },
  };
  return { role: "assistant", content: null, tool_calls: [call] };
}

const CHAT_USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };

function chatAnswer(said: Said) {
  return {
    id: `chatcmpl-${randomUUID()}`,
    object: "chat.completion",
    created: 1,
    model: "gpt-test",
    choices: [
      { index: 0, finish_reason: "text" in said ? "stop" : "tool_calls", message: chatMessage(said) },
    ],
    usage: CHAT_USAGE,
  };
}

function chatEvents(said: Said): object[] {
  const chunk = {
    id: `chatcmpl-${randomUUID()}`,
    object: "chat.completion.chunk",
    created: 1,
    model: "gpt-test",
  };
  const message = chatMessage(said);
  const calls = message.tool_calls?.map((call, index) => ({ ...call, index }));
  const delta = { ...message, ...(calls && { tool_calls: calls }) };
  return [
    { ...chunk, choices: [{ index: 0, delta, finish_reason: null }] },
    { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: calls ? "tool_calls" : "stop" }] },
    { ...chunk, choices: [], usage: CHAT_USAGE },
  ];
}
