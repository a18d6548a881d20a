/**
 * The SDK's models for Holdfast: `fromAiSdk` for `session.run`, and `durableModel`, the model half of
 * `durable`: each of its calls is a turn of the session (`../recorded-turns/turns.ts`). Specific to the SDK:
 *
 *  - A prompt is identified by the messages that the SDK passes to the provider, including the system text.
 *    Settings, headers, tools and the model's name do not count: a recorded answer survives a deploy that
 *    changes a temperature.
 *  - The SDK's own retries (`maxRetries`): a failed call writes nothing and leaves the cursor, so the retry
 *    takes its place. The SDK does not retry our errors, because they are not provider errors.
 *  - Turns of two `generateText` calls on one session follow each other in the run, in the program's order.
 */

import { isHoldfastError } from "../../model/errors.ts";
import type { JsonObject, Message, ToolResultBlock } from "../../model/session/index.ts";
import type { MessageInput, Model, ModelRequest, ModelResponse } from "../../session/index.ts";
import { sessionCore } from "../../session/index.ts";
import { type Artifacts, noArtifacts } from "../artifacts.ts";
import type { Question, Turn } from "../recorded-turns/index.ts";
import { badFinish, incompleteCall, streamError } from "./errors.ts";
import { comparableText, fromModelMessage, type Part, resultBlock, toModelMessages } from "./messages.ts";
import type { FromAiSdkOptions } from "./options.ts";
import { PromptFormat } from "./prompt-format.ts";
import { answerOf, bufferedStream, isBadFinish, responseOf, StreamedResponse, streamOf } from "./response.ts";
import type {
  CallOptions,
  GenerateResult,
  LanguageModel,
  ModelMessage,
  ModelSpec,
  ModelV3,
  StreamPart,
  StreamResult,
} from "./sdk-types.ts";
import { checkCallsMarked, type DurableContext, withoutMarks } from "./tools.ts";

const NO_ARTIFACTS = noArtifacts("fromAiSdk(model, { artifacts: holdfast })");

/**
 * Makes any provider's model usable in `session.run`. Reasoning goes back to its provider with its
 * signatures. The loop retries errors that the provider marks as retryable.
 * @example
 * const model = fromAiSdk(anthropic("claude-sonnet-5-5"), { artifacts: holdfast });
 * await session.run({ model, tools, prompt: "Ship order 4711" });
 */
export function fromAiSdk(given: LanguageModel, options: FromAiSdkOptions = {}): Model {
  const { artifacts = NO_ARTIFACTS, prices } = options;
  const model = given as ModelV3;
  return async (request): Promise<ModelResponse> => {
    const call = await callOf(request, options, artifacts, new PromptFormat(given));
    const result = options.stream
      ? await streamed(await model.doStream(call), request)
      : await model.doGenerate(call);
    if (isBadFinish(result)) throw badFinish(model.modelId, result);
    const asksForCalls = result.content.some((part) => part.type === "tool-call" && !part.providerExecuted);
    if (!MAY_CALL.has(result.finishReason.unified) && asksForCalls)
      throw incompleteCall(model.modelId, result);
    const { blocks, meta, spent } = await answerOf(result, artifacts, { modelId: model.modelId, prices });
    return { message: { blocks, ...(meta && { meta }) }, ...(spent && { usage: spent }) };
  };
}

async function callOf(
  request: ModelRequest,
  { settings }: FromAiSdkOptions,
  artifacts: Artifacts,
  format: PromptFormat,
): Promise<CallOptions> {
  const { system, messages, tools, signal: abortSignal } = request;
  const prompt = (await toModelMessages(messages, artifacts)).map((message) => format.message(message));
  if (system !== null) prompt.unshift({ role: "system", content: system });
  const described = tools.map(({ name, description, inputJsonSchema }) => {
    const inputSchema = inputJsonSchema as JsonObject;
    return { type: "function" as const, name, description, inputSchema };
  });
  const call = { ...settings, prompt, abortSignal, ...(described.length > 0 && { tools: described }) };
  return call as CallOptions;
}

async function streamed(
  { stream }: { stream: ReadableStream<StreamPart> },
  request: ModelRequest,
): Promise<GenerateResult> {
  const response = new StreamedResponse();
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (value.type === "error") throw streamError(value.error);
    if (value.type === "finish") return response.finished(value);
    if (value.type === "text-delta") request.partial({ text: value.delta });
    if (value.type === "reasoning-delta") request.partial({ reasoning: value.delta });
    response.add(value);
  }
  const error = new Error("the model's stream ended without a finish part");
  throw Object.assign(error, { retryable: true });
}

/** Finish reasons with complete tool calls. After any other, the last call may have been cut off. */
const MAY_CALL = new Set(["stop", "tool-calls"]);

export function durableModel(given: LanguageModel, context: DurableContext): LanguageModel {
  const {
    turns,
    artifacts,
    options: { prices },
  } = context;
  const inner = given as ModelV3;
  const spec = given.specificationVersion as ModelSpec;
  const pricing = { modelId: inner.modelId, prices };
  const model: ModelV3 = {
    specificationVersion: inner.specificationVersion,
    provider: inner.provider,
    modelId: inner.modelId,
    get supportedUrls() {
      return inner.supportedUrls;
    },
    doGenerate: (request): Promise<GenerateResult> =>
      inTurn(request, context, async (turn, options) => {
        if (turn.recorded) return checked(await responseOf(turn.recorded, artifacts, spec), request);
        const result = checked(await inner.doGenerate(options), request);
        if (isBadFinish(result)) {
          turn.failed();
          return result;
        }
        const stored = await turn.record(await answerOf(result, artifacts, pricing));
        return withTransport(await responseOf(stored, artifacts, spec), result);
      }),
    doStream: (request): Promise<StreamResult> =>
      inTurn(request, context, async (turn, options) => {
        if (turn.recorded)
          return { stream: replay(checked(await responseOf(turn.recorded, artifacts, spec), request)) };
        const result = await inner.doStream(options);
        const record = async (whole: GenerateResult): Promise<GenerateResult> => {
          const answer = await answerOf(checked(whole, request), artifacts, pricing);
          return responseOf(await turn.record(answer), artifacts, spec);
        };
        const isTaken = (id: string): boolean => {
          const { callSlots, calls } = sessionCore(turns.session).state;
          return callSlots.has(id) || calls.has(id);
        };
        return { ...result, stream: bufferedStream(result.stream, { record, failed: turn.failed, isTaken }) };
      }),
  };
  return model as LanguageModel;
}

async function inTurn<Result>(
  request: CallOptions,
  context: DurableContext,
  work: (turn: Turn, options: CallOptions) => Promise<Result>,
): Promise<Result> {
  const options = withoutMarks(request);
  const turn = await nextTurn(options, context);
  try {
    return await work(turn, { ...options, abortSignal: context.turns.signalWith(options.abortSignal) });
  } catch (error) {
    turn.failed();
    throw error;
  }
}

function checked(result: GenerateResult, request: CallOptions): GenerateResult {
  checkCallsMarked(result, request);
  return result;
}

/** Starts the turn even if its question will be refused: after a failed turn the program may retry. */
async function nextTurn(options: CallOptions, context: DurableContext): Promise<Turn> {
  const refusal = context.callErrors.refusal(options.prompt);
  let turn: Turn;
  try {
    turn = await context.turns.next(questionOf(options, context));
  } catch (error) {
    // An open call has to be settled first. All other errors may be consequences of the refusal.
    throw refusal && !isHoldfastError(error, "SESSION_HAS_OPEN_CALLS") ? refusal.error : error;
  }
  if (!refusal) return turn;
  turn.failed();
  throw refusal.error;
}

/** Adds headers and bodies of the live exchange, which are not stored. */
function withTransport(stored: GenerateResult, live: GenerateResult): GenerateResult {
  const { headers, body } = live.response ?? {};
  return {
    ...stored,
    ...(live.request && { request: live.request }),
    response: { ...stored.response, ...(headers && { headers }), ...(body !== undefined && { body }) },
  };
}

function replay(result: GenerateResult): StreamResult["stream"] {
  return new ReadableStream({
    start(controller) {
      for (const part of streamOf(result)) controller.enqueue(part);
      controller.close();
    },
  });
}

function questionOf({ prompt, abortSignal }: CallOptions, context: DurableContext): Question {
  return {
    prompt: context.options.ignoreSystem ? prompt.filter(({ role }) => role !== "system") : prompt,
    signal: abortSignal,
    newMessages: (position) => newMessagesIn(prompt, context, position),
    outsideResults: (asked) => resultsIn(prompt, asked, context.artifacts),
  };
}

async function newMessagesIn(
  prompt: CallOptions["prompt"],
  { artifacts, turns, promptAt }: DurableContext,
  position: number,
): Promise<MessageInput[]> {
  const since = prompt.slice(prompt.findLastIndex(({ role }) => role !== "user") + 1);
  const messages = await Promise.all(
    since.map((message) => fromModelMessage(message as ModelMessage, artifacts)),
  );
  const stored = promptAt(position);
  return messages
    .slice(stored ? indexAfter(messages, stored) : 0)
    .map((message, index) => ({ ...message, id: `heard:${turns.run}:${position}:${index}` }));
}

/** Messages after the stored prompt are new. If the program changed the prompt itself, none counts as new. */
function indexAfter(messages: readonly MessageInput[], prompt: Message): number {
  const text = comparableText(prompt.blocks);
  const at = messages.findLastIndex(({ blocks }) => comparableText(blocks) === text);
  return at === -1 ? messages.length : at + 1;
}

/** Results of calls outside the ledger: refused by the SDK, denied, or run by the client. */
async function resultsIn(
  prompt: CallOptions["prompt"],
  asked: Message,
  artifacts: Artifacts,
): Promise<ToolResultBlock[]> {
  const wanted = new Set(asked.blocks.flatMap((block) => (block.kind === "tool_call" ? [block.id] : [])));
  const parts = prompt.flatMap((message) => (message.role === "tool" ? message.content : []));
  const results = parts.filter((part) => part.type === "tool-result" && wanted.has(part.toolCallId));
  return Promise.all(results.map((part) => resultBlock(part as unknown as Part, artifacts)));
}
