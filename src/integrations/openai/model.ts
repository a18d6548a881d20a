/** OpenAI's Responses and Chat Completions APIs as the model of `session.run`. */

import type OpenAI from "openai";
import type { JsonObject } from "../../model/session/index.ts";
import type { Model, ModelRequest, ModelResponse } from "../../session/index.ts";
import { type Artifacts, noArtifacts } from "../artifacts.ts";
import { amountsOf, type PriceTable, type TokenCount } from "../prices.ts";
import { type AnyPart, openaiMeta } from "./blocks.ts";
import { blocksOfMessage, toChatMessages } from "./chat.ts";
import { answerFailed, callCutOff, endedEarly, failureOf, OpenAICallFailed } from "./errors.ts";
import { blocksOfItem, toResponsesInput } from "./responses.ts";

type Response = OpenAI.Responses.Response;
type Completion = OpenAI.Chat.Completions.ChatCompletion;
type ResponsesParams = OpenAI.Responses.ResponseCreateParamsNonStreaming;
type ChatParams = OpenAI.Chat.Completions.ChatCompletionCreateParamsNonStreaming;
type Client = Pick<OpenAI, "responses" | "chat">;

const NO_ARTIFACTS = noArtifacts("fromOpenAI(client, model, { artifacts: holdfast })");

interface Common {
  /** Streams the answer and reports its parts as they arrive. */
  readonly stream?: boolean;
  /** US dollars per million tokens, by model id, for budgets in dollars. `LIST_PRICES` otherwise. */
  readonly prices?: PriceTable;
  /** The store for images and files: the `Holdfast` of the session. Required if there are any. */
  readonly artifacts?: Artifacts;
}

/** How `fromOpenAI` asks, by which API, and what an answer costs. */
export type FromOpenAIOptions =
  | (Common & {
      /** The Responses API, unless set. `"chat"` for servers that only have Chat Completions. */
      readonly api?: "responses";
      /** Parameters of every request: `reasoning`, `store`, `include`, `max_output_tokens`, more tools. */
      readonly params?: Partial<Omit<ResponsesParams, "input" | "model" | "stream">>;
    })
  | (Common & {
      readonly api: "chat";
      /** Parameters of every request: `reasoning_effort`, `max_completion_tokens`, `tool_choice`. */
      readonly params?: Partial<Omit<ChatParams, "messages" | "model" | "stream">>;
    });

/**
 * Makes a model of OpenAI usable in `session.run`, by its Responses API or by Chat Completions. Reasoning is
 * sent back unchanged.
 * @example
 * const model = fromOpenAI(new OpenAI(), "gpt-5", {
 *   artifacts: holdfast,
 *   params: { store: false, include: ["reasoning.encrypted_content"] },
 * });
 * await session.run({ model, tools, prompt: "Ship order 4711" });
 */
export function fromOpenAI(client: Client, model: string, options: FromOpenAIOptions = {}): Model {
  return async (request): Promise<ModelResponse> => {
    const { signal } = request;
    const ask = await prepare(client, model, options, request);
    try {
      return await ask();
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof Error) || "hint" in error) throw error;
      throw await failureOf(error, signal);
    }
  };
}

/** Converts the conversation first: an error in it is none of the API's. */
async function prepare(
  client: Client,
  model: string,
  options: FromOpenAIOptions,
  request: ModelRequest,
): Promise<() => Promise<ModelResponse>> {
  const { stream = false, prices, artifacts = NO_ARTIFACTS } = options;
  if (options.api === "chat") {
    const params = await chatParams(request, model, options.params ?? {}, artifacts);
    return async () => responseOfChat(await (stream ? streamChat : askChat)(client, params, request), prices);
  }
  const params = await responsesParams(request, model, options.params ?? {}, artifacts);
  return async () =>
    responseOfItems(await (stream ? streamResponse : askResponse)(client, params, request), prices);
}

// The Responses API.

async function responsesParams(
  { system, messages, tools }: ModelRequest,
  model: string,
  params: Partial<ResponsesParams>,
  artifacts: Artifacts,
): Promise<ResponsesParams> {
  const instructions = [params.instructions, system].filter(Boolean).join("\n\n");
  const described = tools.map(({ name, description, inputJsonSchema }) => {
    const parameters = inputJsonSchema as unknown as { [name: string]: unknown };
    return { type: "function" as const, name, description, parameters, strict: false };
  });
  const offered = [...described, ...(params.tools ?? [])];
  const input = await toResponsesInput(messages, artifacts);
  return {
    ...params,
    model,
    // Without a store, the API knows reasoning only by its encrypted content, and refuses any other.
    input: params.store === false ? input.filter(isSelfContained) : input,
    ...(instructions !== "" && { instructions }),
    ...(offered.length > 0 && { tools: offered }),
  };
}

function isSelfContained(item: OpenAI.Responses.ResponseInputItem): boolean {
  return item.type !== "reasoning" || typeof item.encrypted_content === "string";
}

async function askResponse(client: Client, params: ResponsesParams, { signal }: ModelRequest) {
  return client.responses.create(params, { signal });
}

async function streamResponse(
  client: Client,
  params: ResponsesParams,
  { signal, partial }: ModelRequest,
): Promise<Response> {
  const events = await client.responses.create({ ...params, stream: true }, { signal });
  for await (const event of events) {
    switch (event.type) {
      case "response.output_text.delta":
      case "response.refusal.delta":
        partial({ text: event.delta });
        break;
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta":
        partial({ reasoning: event.delta });
        break;
      case "response.completed":
      case "response.incomplete":
      case "response.failed":
        return event.response;
      case "error":
        throw answerFailed(event.code, event.message);
    }
  }
  throw endedEarly(params.model ?? "the model");
}

function responseOfItems(response: Response, prices: PriceTable | undefined): ModelResponse {
  const { id, model, output, usage, status = "completed", error, incomplete_details } = response;
  if (status === "failed") throw answerFailed(error?.code, error?.message ?? "the answer failed");
  if (status !== "completed" && status !== "incomplete")
    throw new OpenAICallFailed(`the answer is ${status}, not complete (params.background is not supported)`, {
      retryable: false,
    });
  refuseIncompleteCall(response);
  const count = usage && countOf(usage.input_tokens, usage.output_tokens, usage.input_tokens_details);
  const reason = incomplete_details?.reason;
  const facts = { id, model, status, incomplete: reason, usage: count as JsonObject | undefined };
  return {
    message: {
      blocks: output.flatMap((item) => blocksOfItem(item as unknown as AnyPart)),
      ...openaiMeta(facts),
    },
    ...(count && { usage: amountsOf(count, model, prices) }),
  };
}

function refuseIncompleteCall({ model, output, status, incomplete_details }: Response): void {
  const isCut = status === "incomplete";
  output.forEach((item, index) => {
    if (item.type !== "function_call") return;
    const isLast = index === output.length - 1;
    if (item.status !== "incomplete" && !(isCut && isLast)) return;
    throw callCutOff(model, item.name, incomplete_details?.reason ?? "incomplete");
  });
}

// Chat Completions.

async function chatParams(
  { system, messages, tools }: ModelRequest,
  model: string,
  params: Partial<ChatParams>,
  artifacts: Artifacts,
): Promise<ChatParams> {
  const described = tools.map(({ name, description, inputJsonSchema }) => {
    const parameters = inputJsonSchema as unknown as { [name: string]: unknown };
    return { type: "function" as const, function: { name, description, parameters } };
  });
  const offered = [...described, ...(params.tools ?? [])];
  const first = system === null ? [] : [{ role: "system" as const, content: system }];
  return {
    ...params,
    model,
    messages: [...first, ...(await toChatMessages(messages, artifacts))],
    ...(offered.length > 0 && { tools: offered }),
  };
}

async function askChat(client: Client, params: ChatParams, { signal }: ModelRequest): Promise<Completion> {
  return client.chat.completions.create(params, { signal });
}

async function streamChat(
  client: Client,
  params: ChatParams,
  { signal, partial }: ModelRequest,
): Promise<Completion> {
  const options = { include_usage: true, ...params.stream_options };
  const streaming = client.chat.completions.stream(
    { ...params, stream: true, stream_options: options },
    { signal },
  );
  streaming.on("chunk", ({ choices }) => {
    const { content, refusal, reasoning_content } = (choices[0]?.delta ?? {}) as Record<string, unknown>;
    if (typeof reasoning_content === "string") partial({ reasoning: reasoning_content });
    for (const text of [content, refusal]) if (typeof text === "string" && text !== "") partial({ text });
  });
  return streaming.finalChatCompletion();
}

const COMPLETE: ReadonlySet<unknown> = new Set(["stop", "tool_calls", "function_call"]);

function responseOfChat(completion: Completion, prices: PriceTable | undefined): ModelResponse {
  const { id, model, choices, usage } = completion;
  const [choice] = choices;
  if (!choice) throw endedEarly(model);
  const { finish_reason, message } = choice;
  const { blocks } = blocksOfMessage(message as unknown as AnyPart);
  const last = blocks.at(-1);
  if (last?.kind === "tool_call" && !COMPLETE.has(finish_reason))
    throw callCutOff(model, last.name, String(finish_reason));
  const count = usage && countOf(usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens_details);
  const facts = { id, model, finish_reason, usage: count as JsonObject | undefined };
  return {
    message: { blocks, ...openaiMeta(facts) },
    ...(count && { usage: amountsOf(count, model, prices) }),
  };
}

/** OpenAI counts cached tokens within the input. */
function countOf(
  input: number,
  output: number,
  details: { readonly cached_tokens?: number; readonly cache_write_tokens?: number } | undefined,
): TokenCount {
  const cacheRead = details?.cached_tokens ?? 0;
  const cacheWrite = details?.cache_write_tokens ?? 0;
  return { input: Math.max(0, input - cacheRead - cacheWrite), output, cacheRead, cacheWrite };
}
