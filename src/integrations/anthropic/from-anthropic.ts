/** Anthropic's Messages API as the model of a session's own loop (`session.run`). */

import type Anthropic from "@anthropic-ai/sdk";
import { sleep } from "../../ledger/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import type { JsonObject } from "../../model/session/index.ts";
import type { Model, ModelRequest, ModelResponse } from "../../session/index.ts";
import { amountsOf, type PriceTable } from "../prices.ts";
import { type Artifacts, anthropicMeta, blockOf } from "./content.ts";
import { refuseCutOff } from "./cut-off.ts";
import { toAnthropicMessages } from "./messages.ts";
import { liveContainer, withoutDeadUses } from "./server-tools.ts";

type Params = Anthropic.MessageCreateParamsNonStreaming;

/** What `fromAnthropic` may be told: how to ask, and what an answer costs. */
export interface FromAnthropicOptions {
  /** Ask for a stream, and show its parts as they come. The API wants it for long answers. */
  readonly stream?: boolean;
  /** What a million tokens cost, by model id: for budgets in dollars. */
  readonly prices?: PriceTable;
  /** Where images and documents of messages are read: the `Holdfast` of the session. */
  readonly artifacts?: Artifacts;
  /** Sent with every request: `max_tokens` (8192 unless set), `thinking`, `output_config`, `tool_choice`, more tools … */
  readonly params?: Partial<Omit<Params, "messages" | "model" | "stream">>;
}

const MAX_TOKENS = 8_192;
/** How often an answer that the API paused is taken up again. */
const PAUSES = 8;
const RETRY_AFTER_LIMIT_MS = 60_000;

/** A request that came to nothing. `retryable` is what the agent loop goes by. */
export class AnthropicCallFailed extends Error {
  override readonly name = "AnthropicCallFailed";
  readonly retryable: boolean;
  readonly status: number | undefined;

  constructor(message: string, facts: { retryable: boolean; status?: number | undefined; cause?: unknown }) {
    super(message, { cause: facts.cause });
    this.retryable = facts.retryable;
    this.status = facts.status;
  }
}

const NO_ARTIFACTS: Artifacts = { putArtifact: noArtifacts, getArtifact: noArtifacts };

function noArtifacts(): never {
  throw new HoldfastError("INPUT_INVALID", "a message with a file needs a place for its bytes", {
    hint: "Pass the Holdfast of the session: fromAnthropic(client, model, { artifacts: holdfast }).",
  });
}

/**
 * Use it with `session.run({ model: fromAnthropic(new Anthropic(), "claude-sonnet-5-5"), … })`. Thinking, redacted or not,
 * goes back as it came. A block with `meta: { anthropic: { cache_control: { type: "ephemeral" } } }` is a cache breakpoint.
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
      if (answers.length > PAUSES) throw pausedTooOften(answer.model);
      const said = { role: "assistant", content: answer.content } as Anthropic.MessageParam;
      params.messages = [...params.messages, said];
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
  const container = liveContainer(messages, Date.now());
  const converted = await toAnthropicMessages(withoutDeadUses(messages, container), artifacts);
  const given = typeof params?.system === "string" ? [textParam(params.system)] : (params?.system ?? []);
  const spoken = [...given, ...(system === null ? [] : [textParam(system)]), ...converted.system];
  const described = tools.map(({ name, description, inputJsonSchema }) => {
    const input_schema = (inputJsonSchema ?? { type: "object" }) as unknown as Anthropic.Tool.InputSchema;
    return { name, description, input_schema };
  });
  const offered = [...described, ...(params?.tools ?? [])];
  return {
    max_tokens: MAX_TOKENS,
    ...params,
    model,
    messages: converted.messages,
    ...(spoken.length > 0 && { system: spoken }),
    ...(offered.length > 0 && { tools: offered }),
    // Nothing but tools of the server's runs in a container, and those are in `params`.
    ...(container !== undefined && params?.tools?.length && containerParam(params, container)),
  };
}

/** The container that code runs in, beside the skills that it is given. One that the program itself names comes first. */
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

/**
 * Overload, rate limits, server errors and broken connections pass; a refused request does not. Whoever says when to come
 * back is heard first, for up to a minute.
 */
async function failureOf(error: unknown, signal: AbortSignal): Promise<Error> {
  const { status, type, headers, message } = error as Partial<InstanceType<typeof Anthropic.APIError>>;
  const isAnswer = typeof status === "number";
  const retryable = isAnswer
    ? status === 408 || status === 409 || status === 429 || status >= 500
    : RETRYABLE_TYPES.has(String(type)) || isBroken(error);
  const waitMs = retryable ? retryAfterMs(headers) : 0;
  if (waitMs > 0) await sleep(waitMs, signal);
  const text = `Anthropic: ${message ?? String(error)}`;
  return new AnthropicCallFailed(text, { retryable, status, cause: error });
}

/**
 * A connection that did not hold. While a stream is read, the client puts an error of its own around whatever happens, with the
 * cause inside; for a stream that just ends it has only words.
 */
function isBroken(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (/^APIConnection|^(?:Type)?Error$/.test(error.constructor.name)) return true;
  return error.name === "AnthropicError" && (error.cause instanceof Error || ENDED_EARLY.test(error.message));
}

function retryAfterMs(headers: Headers | undefined): number {
  const ms = Number(headers?.get("retry-after-ms") ?? Number.NaN);
  const seconds = Number(headers?.get("retry-after") ?? Number.NaN);
  const wanted = Number.isFinite(ms) ? ms : seconds * 1_000;
  return Number.isFinite(wanted) ? Math.min(Math.max(wanted, 0), RETRY_AFTER_LIMIT_MS) : 0;
}

/** Not repeated by the loop: the same question would most likely be paused as often again, and each time is paid for. */
function pausedTooOften(model: string): AnthropicCallFailed {
  const said = `Anthropic: ${model} paused its turn ${PAUSES + 1} times in a row and did not end it.`;
  const todo = "No answer is recorded: run again to ask again, or limit the server's tools (max_uses).";
  return new AnthropicCallFailed(`${said} ${todo}`, { retryable: false });
}

async function responseOf(
  answers: readonly Anthropic.Message[],
  { prices }: FromAnthropicOptions,
  artifacts: Artifacts,
): Promise<ModelResponse> {
  const last = answers.at(-1) as Anthropic.Message;
  const content = answers.flatMap((answer) => answer.content);
  refuseCutOff(last);
  const { id, model, stop_reason, stop_sequence } = last;
  const usages = answers.map((answer) => answer.usage);
  const sum = (count: (usage: Anthropic.Usage) => number | null | undefined): number =>
    usages.reduce((total, usage) => total + (count(usage) ?? 0), 0);
  const count = {
    input: sum((usage) => usage.input_tokens),
    output: sum((usage) => usage.output_tokens),
    cacheRead: sum((usage) => usage.cache_read_input_tokens),
    cacheWrite: sum((usage) => usage.cache_creation_input_tokens),
  };
  const container = answers.findLast((answer) => answer.container)?.container;
  const kept = {
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
      ...anthropicMeta(kept),
    },
    usage: amountsOf(count, model, prices),
  };
}
