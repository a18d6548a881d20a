/**
 * The model half of `durable`. For the SDK it is a model like any other; each of its calls is a turn of the session.
 * The protocol, its states and what a crash leaves are in `../recorded-turns/recorded-turns.ts`; here is what is the SDK's:
 *
 *  - Identity of a prompt: the instructions and the items that the SDK hands to the model. Settings, tools, the model's name and
 *    the agent's do not count: an answer that is on record stays the answer after a deploy that changes a temperature.
 *  - Hand-offs: the next agent's first call is the next turn of the same run, with that agent's instructions.
 *  - The SDK's retries: a call that throws writes nothing and leaves the cursor, so the next one takes its place.
 */

import {
  type AgentInputItem,
  type Model,
  type ModelRequest,
  OpenAIProvider,
  type StreamEvent,
  Usage,
} from "@openai/agents";
import { HoldfastError } from "../../model/errors.ts";
import type { Message, ToolResultBlock } from "../../model/session/index.ts";
import { type MessageInput, sessionCore } from "../../session/index.ts";
import type { PriceTable } from "../prices.ts";
import type { Question, RecordedTurns, Turn } from "../recorded-turns/index.ts";
import { contentOf, messageOf } from "./messages.ts";
import { answerOf, eventsOf, heldEvents, responseOf } from "./response.ts";
import { plainToolsIn } from "./tools.ts";

export interface ModelContext {
  readonly turns: RecordedTurns;
  readonly prices: PriceTable | undefined;
  readonly plainTools: readonly string[] | "all";
  /** True when the transcript already has what the user said before this turn. */
  isHeard(position: number): boolean;
  /** The prompt goes on behind this call: the SDK may have kept the run's state, and not asked for its earlier turns. */
  follow(callId: string): void;
}

export function durableModel(given: Model | string, context: ModelContext): Model {
  const { turns, prices } = context;
  const name = typeof given === "string" ? given : String((given as { _model?: unknown })._model ?? "");
  let resolved: Promise<Model> | undefined;
  const inner = (): Promise<Model> => {
    resolved ??= (async () => (typeof given === "string" ? new OpenAIProvider().getModel(given) : given))();
    // Of a key that was missing, say: the next question tries again.
    resolved.catch(() => {
      resolved = undefined;
    });
    return resolved;
  };
  const next = async (request: ModelRequest): Promise<Turn> => {
    mustBeInLedger(request, context);
    const callId = lastCallIn(itemsOf(request));
    if (callId !== null) context.follow(callId);
    return turns.next(questionOf(request, context));
  };
  return {
    getResponse: async (request) => {
      const turn = await next(request);
      if (turn.recorded) return responseOf(turn.recorded);
      try {
        const response = await (await inner()).getResponse(withStop(request, turns));
        const stored = responseOf(await turn.record(answerOf(response, name, prices)));
        const { requestId, providerData, rawUsage } = response;
        return {
          ...stored,
          ...(requestId !== undefined && { requestId }),
          ...(providerData && { providerData }),
          ...(rawUsage && { rawUsage }),
        };
      } catch (error) {
        turn.failed();
        throw error;
      }
    },
    getStreamedResponse: async function* (request) {
      const turn = await next(request);
      if (turn.recorded) {
        yield* eventsOf(responseOf(turn.recorded));
        return;
      }
      const record = async ({ id, usage, output }: RecordedEnd) => {
        const response = { output, usage: new Usage(usage as never), ...(id !== "" && { responseId: id }) };
        return responseOf(await turn.record(answerOf(response as never, name, prices)));
      };
      let events: AsyncIterable<StreamEvent>;
      try {
        events = (await inner()).getStreamedResponse(withStop(request, turns));
      } catch (error) {
        turn.failed();
        throw error;
      }
      yield* heldEvents(events, { record, failed: turn.failed });
    },
    getRetryAdvice: async (args) => (await inner()).getRetryAdvice?.(args),
  };
}

/** Before anything is asked: an answer that calls a plain tool would have its effect again after a crash. */
function mustBeInLedger(request: ModelRequest, { plainTools }: ModelContext): void {
  const names = plainToolsIn(request).filter((name) => plainTools !== "all" && !plainTools.includes(name));
  if (names.length === 0) return;
  const who = names.length === 1 ? `tool ${names[0]} was` : `tools ${names.join(", ")} were`;
  throw new HoldfastError(
    "INPUT_INVALID",
    `${who} not made with d.tool: a crash could run the same call twice. The model was not asked`,
    {
      hint: `Write d.tool({ ... }) instead of tool({ ... }). Of an MCP server, or agent.asTool(): durable(session, { plainTools: ${JSON.stringify(names)} }).`,
      data: { tools: names },
    },
  );
}

interface RecordedEnd {
  readonly id: string;
  readonly usage: object;
  readonly output: readonly unknown[];
}

/** A session that was lost or closed stops its model call, too. */
function withStop(request: ModelRequest, { session }: RecordedTurns): ModelRequest {
  const { signal } = request;
  return {
    ...request,
    signal: signal ? AbortSignal.any([sessionCore(session).stop, signal]) : sessionCore(session).stop,
  };
}

function questionOf(request: ModelRequest, context: ModelContext): Question {
  const items = itemsOf(request);
  const { systemInstructions = "", previousResponseId, conversationId } = request;
  return {
    prompt: [{ systemInstructions, previousResponseId, conversationId }, ...items],
    signal: request.signal,
    newMessages: (position) => (context.isHeard(position) ? [] : heardIn(items, context.turns.run, position)),
    outsideResults: (asked) => resultsIn(items, asked),
  };
}

function itemsOf({ input }: ModelRequest): readonly AgentInputItem[] {
  return typeof input === "string" ? [{ type: "message", role: "user", content: input }] : input;
}

/** The last call after all that the user said, if there is one. */
function lastCallIn(items: readonly AgentInputItem[]): string | null {
  const last = items.findLast((item) => isUser(item) || item.type === "function_call");
  return last?.type === "function_call" ? last.callId : null;
}

function isUser(item: AgentInputItem): boolean {
  return "role" in item && item.role === "user";
}

/** What the user said since the last answer. */
function heardIn(items: readonly AgentInputItem[], run: string, position: number): MessageInput[] {
  const since = items.slice(items.findLastIndex((item) => !isUser(item)) + 1);
  return since.map((item, index) => ({ ...messageOf([item]), id: `heard:${run}:${position}:${index}` }));
}

/** Results of calls that did not go through the ledger: hand-offs, refused calls, tools that are not ours. */
function resultsIn(items: readonly AgentInputItem[], asked: Message): ToolResultBlock[] {
  const wanted = new Set(asked.blocks.flatMap((block) => (block.kind === "tool_call" ? [block.id] : [])));
  return items.flatMap((item) =>
    item.type === "function_call_result" && wanted.has(item.callId)
      ? [{ kind: "tool_result" as const, callId: item.callId, content: contentOf(item.output) }]
      : [],
  );
}
