/**
 * A model's response as a message of the session, and back; streams on their way to the SDK. Text and calls
 * are in the message's blocks, the rest of the SDK's items in its meta. The SDK always gets the stored
 * response.
 */

import { type ModelResponse, type StreamEvent, Usage } from "@openai/agents";
import { copyJson, type Json } from "../../model/json.ts";
import type { Block, JsonObject, Message } from "../../model/session/index.ts";
import { amountsOf, type PriceTable, type TokenCount } from "../prices.ts";
import { type Answer, argsOf } from "../recorded-turns/index.ts";

type Members = { [name: string]: Json };

interface ResponseFacts {
  readonly items: readonly Members[];
  readonly usage: JsonObject;
  readonly id?: string;
}

const TEXT_KINDS: Readonly<Record<string, "text" | "reasoning">> = {
  message: "text",
  reasoning: "reasoning",
};

export function answerOf(response: ModelResponse, modelId: string, prices: PriceTable | undefined): Answer {
  const blocks: Block[] = [];
  const items = response.output.map((item) =>
    moveToBlocks(copyJson(item, "model output") as Members, blocks),
  );
  const facts: ResponseFacts = {
    items,
    usage: copyJson(JSON.parse(JSON.stringify(response.usage)), "usage") as JsonObject,
    ...(response.responseId !== undefined && { id: response.responseId }),
  };
  return {
    blocks: blocks.length > 0 ? blocks : [{ kind: "text", text: "" }],
    meta: { response: facts as unknown as Json },
    spent: amountsOf(tokensOf(response.usage), modelId, prices),
  };
}

/** Moves the texts and the call of an item to `blocks`, and returns the rest. */
function moveToBlocks(item: Members, blocks: Block[]): Members {
  if (typeOf(item) === "function_call") {
    const { callId, arguments: written, ...rest } = item;
    const args = argsOf(String(written));
    blocks.push({ kind: "tool_call", id: String(callId), name: String(item["name"]), args });
    // Keep the model's own spelling if JSON.stringify gives another one.
    return JSON.stringify(args) === written ? rest : { ...rest, arguments: written as Json };
  }
  return mapTexts(item, (part, kind) => {
    const { text, ...rest } = part;
    if (typeof text !== "string") return part;
    blocks.push({ kind, text });
    return rest;
  });
}

export function responseOf(message: Message): ModelResponse {
  const facts = message.meta?.["response"] as unknown as ResponseFacts;
  const blocks = [...message.blocks];
  const output = facts.items.map((item) => fillFromBlocks(item, blocks));
  return {
    output: output as unknown as ModelResponse["output"],
    usage: Usage.fromJSON(facts.usage as never),
    ...(facts.id !== undefined && { responseId: facts.id }),
  };
}

function fillFromBlocks(item: Members, blocks: Block[]): Members {
  if (typeOf(item) === "function_call") {
    const block = blocks.shift();
    if (block?.kind !== "tool_call") throw new Error("a stored response has fewer calls than items");
    return { ...item, callId: block.id, arguments: item["arguments"] ?? JSON.stringify(block.args) };
  }
  return mapTexts(item, (part) => {
    if (part["text"] !== undefined) return part;
    const block = blocks.shift();
    return { ...part, text: block && "text" in block ? block.text : "" };
  });
}

function mapTexts(item: Members, map: (part: Members, kind: "text" | "reasoning") => Members): Members {
  const kind = TEXT_KINDS[typeOf(item)];
  const content = item["content"];
  if (!kind || !Array.isArray(content)) return { ...item };
  const hasText = ({ type }: Members): boolean => type === "output_text" || type === "input_text";
  return { ...item, content: content.map((part: Members) => (hasText(part) ? map(part, kind) : part)) };
}

function typeOf(item: Members): string {
  return String(item["type"] ?? "message");
}

function tokensOf(usage: Usage): TokenCount {
  const cached = usage.inputTokensDetails.reduce((sum, each) => sum + (each["cached_tokens"] ?? 0), 0);
  return {
    input: Math.max(0, usage.inputTokens - cached),
    output: usage.outputTokens,
    cacheRead: cached,
    cacheWrite: 0,
  };
}

export type StreamDone = Extract<StreamEvent, { type: "response_done" }>;

/**
 * Buffers a streamed response on its way to the SDK. Text passes through. Events that mention a call, and the
 * end of the response, wait until the answer is durable, because the end makes the SDK run its tools. A
 * reader that stops early has seen only text, and the question may be asked again.
 *
 *     delta ─▶ passed on ─▶ … ─▶ end of the response ─▶ recorded ─▶ the buffered events ─▶ the stored end
 *                                    └──▶ the stream breaks: nothing is recorded, the reader gets the error
 */
export async function* bufferedEvents(
  events: AsyncIterable<StreamEvent>,
  recording: { record(response: StreamDone["response"]): Promise<ModelResponse>; failed(): void },
): AsyncGenerator<StreamEvent> {
  const buffered: StreamEvent[] = [];
  let isRecorded = false;
  try {
    for await (const event of events) {
      if (event.type === "response_done") {
        const stored = await recording.record(event.response);
        isRecorded = true;
        yield* buffered.splice(0);
        yield doneOf(stored, event);
      } else if (isRecorded || mentionsNoCall(event)) yield event;
      else buffered.push(event);
    }
    yield* buffered;
  } finally {
    if (!isRecorded) recording.failed();
  }
}

export function* eventsOf(response: ModelResponse): Generator<StreamEvent> {
  yield { type: "response_started" };
  for (const item of response.output) {
    const content = (item as { content?: unknown }).content;
    if (item.type !== "message" || !Array.isArray(content)) continue;
    for (const part of content as { type: string; text?: string }[]) {
      if (part.type === "output_text" && part.text) yield { type: "output_text_delta", delta: part.text };
    }
  }
  yield doneOf(response, undefined);
}

/** `live`: the event of the live exchange, with members that are not stored. */
function doneOf(response: ModelResponse, live: StreamDone | undefined): StreamDone {
  const { usage, output, responseId } = response;
  const { requests, inputTokens, outputTokens, totalTokens, inputTokensDetails, outputTokensDetails } = usage;
  return {
    ...live,
    type: "response_done",
    response: {
      ...live?.response,
      id: responseId ?? "",
      usage: { requests, inputTokens, outputTokens, totalTokens, inputTokensDetails, outputTokensDetails },
      output: output as StreamDone["response"]["output"],
    },
  };
}

/** Raw events of the provider may contain a call, or the whole response. */
function mentionsNoCall(event: StreamEvent): boolean {
  if (event.type !== "model") return true;
  const raw = JSON.stringify(event.event) ?? "";
  return !/function_call|tool_call|"response\.completed"/.test(raw);
}
