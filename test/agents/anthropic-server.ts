/**
 * A model on loopback that speaks Anthropic's Messages API, plain and streamed. Point an agent at it with
 * `ANTHROPIC_BASE_URL=<url>` and any `ANTHROPIC_API_KEY`; no request leaves the machine.
 *
 * Script it with a function from a request to an answer. Decide by the conversation, not by a counter: an
 * agent that was killed and resumed sends its history again.
 *
 *     const model = await startAnthropicServer(({ prompt, results }) => {
 *       if (prompt === "Ship it" && results.length === 0)
 *         return { text: "I will pay.", calls: [{ name: "Bash", input: { command: "./pay 4711" } }] };
 *       return { text: `Done: ${results.at(-1)?.text}` };
 *     });
 *
 * Or with a list: the n-th answer after each prompt of a person, then "Done." (`n` counts the assistant's
 * messages after the prompt, so a resumed conversation continues where it was).
 *
 *     await startAnthropicServer([{ calls: [{ name: "Read", input: { file_path: "a.txt" } }] }, { text: "Read." }]);
 *
 * For Claude Code and its SDK also set `CLAUDE_CONFIG_DIR` to a folder of the test and
 * `CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1`.
 *
 * Only requests with tools are scripted. Requests without (titles, token counts, probes for the network) are
 * answered at once and are in `asides`. Ids of messages and calls are new each time, like a real model's.
 */

import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** One answer of the model. Without `calls` it ends the turn. */
export interface ModelAnswer {
  readonly text?: string;
  readonly calls?: readonly { readonly name: string; readonly input: object; readonly id?: string }[];
  /** Tokens that the answer reports. Default: 1,000 in, 10 out. */
  readonly usage?: { readonly input: number; readonly output: number };
  /** The answer is sent once this resolves: hold it to kill an agent that waits for its model. */
  readonly after?: Promise<unknown>;
  /** An HTTP status instead of an answer: `{ status: 529 }` is "overloaded". */
  readonly status?: number;
}

/** One result of a tool, as the model reads it. */
export interface ToolResult {
  readonly callId: string;
  readonly text: string;
  readonly isError: boolean;
}

export interface ModelRequest {
  /** The last text of a person, without the reminders that an agent adds in elements of its own. */
  readonly prompt: string;
  /** The results since that prompt, in order. */
  readonly results: readonly ToolResult[];
  /** The number of the assistant's messages since that prompt. */
  readonly turn: number;
  /** The names of the tools that are offered. */
  readonly tools: readonly string[];
  /** Everything that the model reads: system prompt and messages as one text. Search briefings here. */
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into the vendor's format.
  readonly body: any;
}

export type ModelScript =
  | readonly ModelAnswer[]
  | ((request: ModelRequest) => ModelAnswer | Promise<ModelAnswer>);

export interface AnthropicServer {
  readonly url: string;
  /** The requests that the script answered. */
  readonly requests: readonly ModelRequest[];
  /** Paths and bodies of all other requests. */
  readonly asides: readonly { readonly path: string; readonly body: unknown }[];
  /** Resolves once the script has been asked this often. */
  asked(times: number): Promise<ModelRequest>;
  close(): Promise<void>;
}

/** Starts the server on a free port of 127.0.0.1. */
export async function startAnthropicServer(script: ModelScript): Promise<AnthropicServer> {
  const requests: ModelRequest[] = [];
  const asides: { path: string; body: unknown }[] = [];
  const waiting = new Set<() => void>();
  const decide =
    typeof script === "function" ? script : ({ turn }: ModelRequest) => script[turn] ?? { text: "Done." };

  const answer = async (path: string, body: Body | null, response: ServerResponse): Promise<void> => {
    if (!path.startsWith("/v1/messages") || path.includes("count_tokens") || !body?.tools?.length) {
      asides.push({ path, body });
      if (path.startsWith("/v1/messages") && body?.messages && !path.includes("count_tokens"))
        return send(response, body, { text: "ok" });
      return sendJson(response, 200, path.includes("count_tokens") ? { input_tokens: 1_000 } : {});
    }
    const request = readRequest(body);
    requests.push(request);
    for (const check of waiting) check();
    const said = await decide(request);
    await said.after;
    send(response, body, said);
  };
  const server = createServer(async (request, response) => {
    const text = await readAll(request);
    try {
      await answer(request.url ?? "", text === "" ? null : (JSON.parse(text) as Body), response);
    } catch (error) {
      sendJson(response, 500, { type: "error", error: { type: "api_error", message: String(error) } });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    asides,
    asked: (times) =>
      new Promise((resolve) => {
        const check = (): void => {
          const request = requests[times - 1];
          if (!request) return;
          waiting.delete(check);
          resolve(request);
        };
        waiting.add(check);
        check();
      }),
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

interface Block {
  readonly type: string;
  readonly text?: string;
  readonly content?: string | readonly Block[];
  readonly tool_use_id?: string;
  readonly is_error?: boolean;
}

interface Body {
  readonly model?: string;
  readonly stream?: boolean;
  readonly system?: string | readonly Block[];
  readonly messages: readonly { readonly role: string; readonly content: string | readonly Block[] }[];
  readonly tools?: readonly { readonly name: string }[];
}

function readRequest(body: Body): ModelRequest {
  const messages = body.messages.map(({ role, content }) => ({ role, blocks: blocksOf(content) }));
  const isPrompt = ({ role, blocks }: (typeof messages)[number]): boolean =>
    role === "user" && blocks.some((block) => block.type === "text" && personsText(block) !== "");
  const last = messages.findLastIndex(isPrompt);
  const since = messages.slice(Math.max(last, 0));
  return {
    prompt: (messages[last]?.blocks ?? []).map(personsText).findLast((text) => text !== "") ?? "",
    results: since.flatMap(({ blocks }) => blocks.filter(({ type }) => type === "tool_result")).map(resultOf),
    turn: since.filter(({ role }) => role === "assistant").length,
    tools: (body.tools ?? []).map(({ name }) => name),
    text: [...blocksOf(body.system ?? ""), ...messages.flatMap(({ blocks }) => blocks)]
      .map(textOf)
      .join("\n"),
    body,
  };
}

function blocksOf(content: string | readonly Block[]): readonly Block[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}

/** Agents put reminders into elements: `<system-reminder>…</system-reminder>`. */
function personsText({ type, text = "" }: Block): string {
  return type === "text" ? text.replace(/<([a-z-]+)>[\s\S]*?<\/\1>/g, "").trim() : "";
}

function textOf({ text, content }: Block): string {
  return (
    text ??
    blocksOf(content ?? "")
      .map((block) => block.text ?? "")
      .join("\n")
  );
}

function resultOf(block: Block): ToolResult {
  return { callId: block.tool_use_id ?? "", text: textOf(block), isError: block.is_error === true };
}

function newId(prefix: string): string {
  return `${prefix}_${randomUUID().replaceAll("-", "").slice(0, 24)}`;
}

function send(response: ServerResponse, { model = "claude", stream = false }: Body, said: ModelAnswer): void {
  if (said.status !== undefined) {
    const type = said.status === 529 ? "overloaded_error" : "api_error";
    sendJson(response, said.status, { type: "error", error: { type, message: type } });
    return;
  }
  const content = [
    ...(said.text === undefined ? [] : [{ type: "text", text: said.text }]),
    ...(said.calls ?? []).map(({ id = newId("toolu"), name, input }) => ({
      type: "tool_use",
      id,
      name,
      input,
    })),
  ];
  const stop = { stop_reason: said.calls?.length ? "tool_use" : "end_turn", stop_sequence: null };
  const { input, output } = said.usage ?? { input: 1_000, output: 10 };
  const usage = {
    input_tokens: input,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens: output,
  };
  const head = { id: newId("msg"), type: "message", role: "assistant", model };
  if (!stream) {
    sendJson(response, 200, { ...head, content, ...stop, usage });
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  const begun = {
    ...head,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { ...usage, output_tokens: 1 },
  };
  for (const event of [
    { type: "message_start", message: begun },
    ...content.flatMap(streamedBlock),
    { type: "message_delta", delta: stop, usage: { output_tokens: output } },
    { type: "message_stop" },
  ])
    response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  response.end();
}

type Content = { type: string; text?: string; input?: object };

function streamedBlock(block: Content, index: number): { type: string }[] {
  const isText = block.text !== undefined;
  const content_block = isText ? { ...block, text: "" } : { ...block, input: {} };
  const delta = isText
    ? { type: "text_delta", text: block.text }
    : { type: "input_json_delta", partial_json: JSON.stringify(block.input) };
  return [
    { type: "content_block_start", index, content_block } as { type: string },
    { type: "content_block_delta", index, delta } as { type: string },
    { type: "content_block_stop", index } as { type: string },
  ];
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

async function readAll(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}
