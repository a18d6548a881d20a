/**
 * The model half of `durable`: each call of the model is a turn of the session
 * (`../recorded-turns/turns.ts`). Specific to the SDK:
 *
 *  - A prompt is identified by the instructions and items that the SDK passes to the model. Settings, tools,
 *    and names of model and agent do not count: a recorded answer survives a deploy that changes them.
 *  - Hand-offs: the next agent's first call is the next turn of the same run, with that agent's instructions.
 *  - The SDK's retries: a failed call writes nothing and leaves the cursor, so the retry takes its place.
 */

import type { AgentInputItem, Model, ModelRequest, ModelResponse } from "@openai/agents";
import { OpenAIProvider, Usage } from "@openai/agents";
import type { Message, ToolResultBlock } from "../../model/session/index.ts";
import type { MessageInput } from "../../session/index.ts";
import type { PriceTable } from "../prices.ts";
import type { Question, RecordedTurns } from "../recorded-turns/index.ts";
import { outsideLedger } from "./errors.ts";
import { contentOf, messageOf } from "./messages.ts";
import { answerOf, bufferedEvents, eventsOf, responseOf, type StreamDone } from "./response.ts";
import { plainToolsIn } from "./tools.ts";

export interface ModelContext {
  readonly turns: RecordedTurns;
  readonly prices: PriceTable | undefined;
  readonly plainTools: readonly string[] | "all";
  /** True if the transcript already has the user messages before this turn. */
  isInputStored(position: number): boolean;
  /** The prompt continues after this call: the SDK may have restored a state, and skipped turns. */
  moveAfter(callId: string): void;
}

export function durableModel(model: Model | string, context: ModelContext): Model {
  const { turns, prices } = context;
  const name = typeof model === "string" ? model : String((model as { _model?: unknown })._model ?? "");
  const inner = resolver(model);
  const question = (request: ModelRequest): Question => {
    const { plainTools } = context;
    const unmarked = plainToolsIn(request).filter(
      (tool) => plainTools !== "all" && !plainTools.includes(tool),
    );
    if (unmarked.length > 0) throw outsideLedger(unmarked);
    const callId = lastCallIn(itemsOf(request));
    if (callId !== null) context.moveAfter(callId);
    return questionOf(request, context);
  };
  const live = (request: ModelRequest): ModelRequest => ({
    ...request,
    signal: turns.signalWith(request.signal),
  });
  return {
    getResponse: async (request) => {
      let response: Partial<ModelResponse> = {};
      const stored = await turns.ask(question(request), async () => {
        const answer = await (await inner()).getResponse(live(request));
        response = answer;
        return answerOf(answer, name, prices);
      });
      const { requestId, providerData, rawUsage } = response;
      return {
        ...responseOf(stored),
        ...(requestId !== undefined && { requestId }),
        ...(providerData && { providerData }),
        ...(rawUsage && { rawUsage }),
      };
    },
    getStreamedResponse: async function* (request) {
      const turn = await turns.next(question(request));
      if (turn.recorded) {
        yield* eventsOf(responseOf(turn.recorded));
        return;
      }
      const record = async ({ id, usage, output }: StreamDone["response"]) => {
        const response = { output, usage: new Usage(usage as never), ...(id !== "" && { responseId: id }) };
        return responseOf(await turn.record(answerOf(response as never, name, prices)));
      };
      const events = async function* () {
        yield* (await inner()).getStreamedResponse(live(request));
      };
      yield* bufferedEvents(events(), { record, failed: turn.failed });
    },
    getRetryAdvice: async (args) => (await inner()).getRetryAdvice?.(args),
  };
}

/** Looks a model's name up at the first question, and again after an error such as a missing API key. */
function resolver(model: Model | string): () => Promise<Model> {
  let resolved: Promise<Model> | undefined;
  return () => {
    resolved ??= (async () => (typeof model === "string" ? new OpenAIProvider().getModel(model) : model))();
    resolved.catch(() => {
      resolved = undefined;
    });
    return resolved;
  };
}

function questionOf(request: ModelRequest, context: ModelContext): Question {
  const items = itemsOf(request);
  const { systemInstructions = "", previousResponseId, conversationId } = request;
  return {
    prompt: [{ systemInstructions, previousResponseId, conversationId }, ...items],
    signal: request.signal,
    newMessages: (position) =>
      context.isInputStored(position) ? [] : newMessagesIn(items, context.turns.run, position),
    outsideResults: (asked) => resultsIn(items, asked),
  };
}

function itemsOf({ input }: ModelRequest): readonly AgentInputItem[] {
  return typeof input === "string" ? [{ type: "message", role: "user", content: input }] : input;
}

/** The last call, if no user message comes after it. */
function lastCallIn(items: readonly AgentInputItem[]): string | null {
  const last = items.findLast((item) => isUser(item) || item.type === "function_call");
  return last?.type === "function_call" ? last.callId : null;
}

function isUser(item: AgentInputItem): boolean {
  return "role" in item && item.role === "user";
}

function newMessagesIn(items: readonly AgentInputItem[], run: string, position: number): MessageInput[] {
  const since = items.slice(items.findLastIndex((item) => !isUser(item)) + 1);
  return since.map((item, index) => ({ ...messageOf([item]), id: `heard:${run}:${position}:${index}` }));
}

/** Results of calls outside the ledger: hand-offs, refused calls, other tools. */
function resultsIn(items: readonly AgentInputItem[], asked: Message): ToolResultBlock[] {
  const wanted = new Set(asked.blocks.flatMap((block) => (block.kind === "tool_call" ? [block.id] : [])));
  return items.flatMap((item) =>
    item.type === "function_call_result" && wanted.has(item.callId)
      ? [{ kind: "tool_result" as const, callId: item.callId, content: contentOf(item.output) }]
      : [],
  );
}
