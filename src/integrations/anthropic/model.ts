/** Anthropic's Messages API as the model of `session.run`. */

import type Anthropic from "@anthropic-ai/sdk";
import type { JsonObject } from "../../model/session/index.ts";
import type { Model, ModelRequest, ModelResponse } from "../../session/index.ts";
import { type Artifacts, noArtifacts } from "../artifacts.ts";
import { amountsOf, type PriceTable } from "../prices.ts";
import { waitAsAsked } from "../retry-after.ts";
import { AnthropicCallFailed, pausedTooOften, refuseIncompleteCall } from "./errors.ts";
import {
  anthropicMeta,
  blockOf,
  currentContainer,
  toAnthropicMessages,
  withoutDeadToolUses,
} from "./messages.ts";

type Params = Anthropic.MessageCreateParamsNonStreaming;

const MAX_TOKENS = 8_192;
const PAUSE_LIMIT = 8;
const NO_ARTIFACTS = noArtifacts("fromAnthropic(client, model, { artifacts: holdfast })");

/** How `fromAnthropic` asks, and what an answer costs. */
export interface FromAnthropicOptions {
  /** Streams the answer and reports its parts as they arrive. The API requires it for long answers. */
  readonly stream?: boolean;
  /** US dollars per million tokens, by model id, for budgets in dollars. `LIST_PRICES` otherwise. */
  readonly prices?: PriceTable;
  /** The store for images and documents: the `Holdfast` of the session. Required if there are any. */
  readonly artifacts?: Artifacts;
  /** Parameters of every request: `max_tokens` (default 8192), `thinking`, `tool_choice`, more tools. */
  readonly params?: Partial<Omit<Anthropic.MessageCreateParamsNonStreaming, "messages" | "model" | "stream">>;
}

/**
 * Makes a model of Anthropic's Messages API usable in `session.run`. Thinking blocks are sent back unchanged.
 * A block with `meta: { anthropic: { cache_control: { type: "ephemeral" } } }` is a cache breakpoint.
 * @example
 * const model = fromAnthropic(new Anthropic(), "claude-sonnet-5-5", { artifacts: holdfast });
 * await session.run({ model, tools, prompt: "Ship order 4711" });
 */
export function fromAnthropic(
  client: Pick<Anthropic, "messages">,
  model: Anthropic.Model,
  options: FromAnthropicOptions = {},
): Model {
  const artifacts = options.artifacts ?? NO_ARTIFACTS;
  return async (request): Promise<ModelResponse> => {
    const params = await paramsOf(request, model, options, artifacts);
    const answers: Anthropic.Message[] = [];
    for (;;) {
      const answer = await ask(client, params, request, options);
      answers.push(answer);
      if (answer.stop_reason !== "pause_turn") return responseOf(answers, options, artifacts);
      if (answers.length > PAUSE_LIMIT) throw pausedTooOften(answer.model, answers.length);
      const paused = { role: "assistant", content: answer.content } as Anthropic.MessageParam;
      params.messages = [...params.messages, paused];
      if (answer.container) Object.assign(params, containerParam(params, answer.container.id));
    }
  };
}

async function paramsOf(
  { system, messages, tools }: ModelRequest,
  model: Anthropic.Model,
  { params }: FromAnthropicOptions,
  artifacts: Artifacts,
): Promise<Params> {
  const container = currentContainer(messages, Date.now());
  const converted = await toAnthropicMessages(withoutDeadToolUses(messages, container), artifacts);
  const configured = typeof params?.system === "string" ? [textParam(params.system)] : (params?.system ?? []);
  const instructions = [...configured, ...(system === null ? [] : [textParam(system)]), ...converted.system];
  const described = tools.map(({ name, description, inputJsonSchema }) => {
    const input_schema = inputJsonSchema as unknown as Anthropic.Tool.InputSchema;
    return { name, description, input_schema };
  });
  const offered = [...described, ...(params?.tools ?? [])];
  return {
    max_tokens: MAX_TOKENS,
    ...params,
    model,
    messages: converted.messages,
    ...(instructions.length > 0 && { system: instructions }),
    ...(offered.length > 0 && { tools: offered }),
    // Only the server's own tools run in a container, and those are in `params`.
    ...(container !== undefined && params?.tools?.length && containerParam(params, container)),
  };
}

/** A container that the program names in `params` takes precedence. */
function containerParam({ container }: Pick<Partial<Params>, "container">, id: string): Partial<Params> {
  if (container === undefined) return { container: id };
  if (typeof container !== "object" || container === null) return {};
  return { container: { ...container, id: container.id ?? id } };
}

function textParam(text: string): Anthropic.TextBlockParam {
  return { type: "text", text };
}

async function ask(
  client: Pick<Anthropic, "messages">,
  params: Params,
  { signal, partial }: ModelRequest,
  { stream }: FromAnthropicOptions,
): Promise<Anthropic.Message> {
  try {
    if (!stream) return await client.messages.create(params, { signal });
    const streaming = client.messages.stream(params, { signal });
    streaming.on("text", (text) => partial({ text }));
    streaming.on("thinking", (reasoning) => partial({ reasoning }));
    return await streaming.finalMessage();
  } catch (error) {
    signal.throwIfAborted();
    throw await failureOf(error, signal);
  }
}

const ENDED_EARLY = /^(?:stream|request) ended without/;
const RETRYABLE_TYPES = new Set(["overloaded_error", "api_error", "rate_limit_error", "timeout_error"]);

/** Retryable: overload, rate limits, server errors, broken connections. Waits as `retry-after` says. */
async function failureOf(error: unknown, signal: AbortSignal): Promise<Error> {
  const { status, type, headers, message } = error as Partial<InstanceType<typeof Anthropic.APIError>>;
  const isResponse = typeof status === "number";
  const retryable = isResponse
    ? status === 408 || status === 409 || status === 429 || status >= 500
    : RETRYABLE_TYPES.has(String(type)) || isBrokenConnection(error);
  if (retryable) await waitAsAsked(headers, signal);
  const text = `Anthropic: ${message ?? String(error)}`;
  return new AnthropicCallFailed(text, { retryable, status, cause: error });
}

/** While a stream is read, the client wraps every error; a stream that just ends has only a message. */
function isBrokenConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (/^APIConnection|^(?:Type)?Error$/.test(error.constructor.name)) return true;
  return error.name === "AnthropicError" && (error.cause instanceof Error || ENDED_EARLY.test(error.message));
}

async function responseOf(
  answers: readonly Anthropic.Message[],
  { prices }: FromAnthropicOptions,
  artifacts: Artifacts,
): Promise<ModelResponse> {
  const last = answers.at(-1) as Anthropic.Message;
  const content = answers.flatMap((answer) => answer.content);
  refuseIncompleteCall(last);
  const { id, model, stop_reason, stop_sequence } = last;
  const sum = (name: keyof Anthropic.Usage): number =>
    answers.reduce((total, { usage }) => total + Number(usage[name] ?? 0), 0);
  const count = {
    input: sum("input_tokens"),
    output: sum("output_tokens"),
    cacheRead: sum("cache_read_input_tokens"),
    cacheWrite: sum("cache_creation_input_tokens"),
  };
  const container = answers.findLast((answer) => answer.container)?.container;
  const facts = {
    id,
    model,
    stop_reason,
    stop_sequence,
    usage: count as JsonObject,
    ...(container && { container: { id: container.id, expires_at: container.expires_at } }),
  };
  return {
    message: {
      blocks: await Promise.all(content.map((each) => blockOf(each as never, artifacts))),
      ...anthropicMeta(facts),
    },
    usage: amountsOf(count, model, prices),
  };
}
