/**
 * A model's response as a message of the session, and back. What the SDK sees is always read back from the stored message.
 * Text and calls are in the message's blocks, where everybody reads them; the rest of the SDK's items is kept beside
 * them, and together they are the items again.
 */

import { type ModelResponse, type StreamEvent, Usage } from "@openai/agents";
import { copyJson, type Json } from "../../model/json.ts";
import type { Block, JsonObject, Message } from "../../model/session/index.ts";
import { amountsOf, type PriceTable, type TokenCount } from "../prices.ts";
import type { Answer } from "../recorded-turns/index.ts";

/**
 * A streamed response on its way to the SDK. Text goes on as it comes; whatever tells of a call, and the end of the response,
 * is held until the answer is durable, because the end is what makes the SDK run its tools.
 *
 *     delta ─▶ handed on ─▶ … ─▶ end of the stream ─▶ recorded ─▶ the held events ─▶ the end, from the record
 *                                      └──▶ it broke off: nothing is recorded, the error is the reader's
 *
 * A reader that leaves early has seen text and nothing else; nothing is recorded, and the question may be asked again.
 */

type Done = Extract<StreamEvent, { type: "response_done" }>;

interface EventKeeper {
  /** Makes the answer durable, and returns what is stored. */
  record(response: Done["response"]): Promise<ModelResponse>;
  failed(): void;
}

export async function* heldEvents(
  events: AsyncIterable<StreamEvent>,
  keeper: EventKeeper,
): AsyncGenerator<StreamEvent> {
  const held: StreamEvent[] = [];
  let isRecorded = false;
  try {
    for await (const event of events) {
      if (event.type === "response_done") {
        const stored = await keeper.record(event.response);
        isRecorded = true;
        yield* held.splice(0);
        yield doneOf(stored, event);
      } else if (isRecorded || isSafe(event)) yield event;
      else held.push(event);
    }
    yield* held;
  } finally {
    if (!isRecorded) keeper.failed();
  }
}

/** The record as a stream: its texts in one piece each. */
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

/** `live` has what only this exchange can tell. */
function doneOf(response: ModelResponse, live: Done | undefined): Done {
  const { usage, output, responseId } = response;
  const { requests, inputTokens, outputTokens, totalTokens, inputTokensDetails, outputTokensDetails } = usage;
  return {
    ...live,
    type: "response_done",
    response: {
      ...live?.response,
      id: responseId ?? "",
      usage: { requests, inputTokens, outputTokens, totalTokens, inputTokensDetails, outputTokensDetails },
      output: output as Done["response"]["output"],
    },
  };
}

/** Events of the provider itself may hold a call, or the whole response with its calls. */
function isSafe(event: StreamEvent): boolean {
  if (event.type !== "model") return true;
  const raw = JSON.stringify(event.event) ?? "";
  return !/function_call|tool_call|"response\.completed"/.test(raw);
}

type Members = { [name: string]: Json };

/** What is kept of a response beside its text and calls. The raw response of the provider is not. */
interface Kept {
  readonly items: readonly Members[];
  readonly usage: JsonObject;
  readonly id?: string;
}

/** By type of item: of which kind its texts are. */
const TEXTS: Readonly<Record<string, "text" | "reasoning">> = { message: "text", reasoning: "reasoning" };

export function answerOf(response: ModelResponse, modelId: string, prices: PriceTable | undefined): Answer {
  const blocks: Block[] = [];
  const items = response.output.map((item) => emptied(copyJson(item, "model output") as Members, blocks));
  const kept: Kept = {
    items,
    usage: copyJson(JSON.parse(JSON.stringify(response.usage)), "usage") as JsonObject,
    ...(response.responseId !== undefined && { id: response.responseId }),
  };
  return {
    blocks: blocks.length > 0 ? blocks : [{ kind: "text", text: "" }],
    meta: { response: kept as unknown as Json },
    spent: amountsOf(tokensOf(response.usage), modelId, prices),
  };
}

/** The item without what its blocks say. */
function emptied(item: Members, blocks: Block[]): Members {
  const type = typeOf(item);
  if (type === "function_call") {
    const { callId, arguments: written, ...rest } = item;
    const args = argsOf(String(written));
    blocks.push({ kind: "tool_call", id: String(callId), name: String(item["name"]), args });
    // Kept as the model spelled it where that is not how we would.
    return JSON.stringify(args) === written ? rest : { ...rest, arguments: written as Json };
  }
  const kind = TEXTS[type];
  const content = item["content"];
  if (!kind || !Array.isArray(content)) return item;
  return {
    ...item,
    content: content.map((part: Members) => {
      const { text, ...rest } = part;
      if (typeof text !== "string" || !hasText(part)) return part;
      blocks.push({ kind, text });
      return rest;
    }),
  };
}

/** The response of a stored message. */
export function responseOf(message: Message): ModelResponse {
  const kept = message.meta?.["response"] as unknown as Kept;
  const left = [...message.blocks];
  const output = kept.items.map((item) => filled(item, left));
  return {
    output: output as unknown as ModelResponse["output"],
    usage: Usage.fromJSON(kept.usage as never),
    ...(kept.id !== undefined && { responseId: kept.id }),
  };
}

function filled(item: Members, left: Block[]): Members {
  const type = typeOf(item);
  if (type === "function_call") {
    const block = left.shift();
    if (block?.kind !== "tool_call") throw new Error("a stored response has fewer calls than items");
    return { ...item, callId: block.id, arguments: item["arguments"] ?? JSON.stringify(block.args) };
  }
  const kind = TEXTS[type];
  const content = item["content"];
  if (!kind || !Array.isArray(content)) return { ...item };
  return {
    ...item,
    content: content.map((part: Members) => {
      if (!hasText(part) || part["text"] !== undefined) return part;
      const block = left.shift();
      return { ...part, text: block && "text" in block ? block.text : "" };
    }),
  };
}

function hasText(part: Members): boolean {
  return part["type"] === "output_text" || part["type"] === "input_text";
}

function typeOf(item: Members): string {
  return String(item["type"] ?? "message");
}

/** What is not JSON stays text: the SDK tells the model, and the call is not run. */
export function argsOf(written: string): Json {
  if (written.trim() === "") return {};
  try {
    return JSON.parse(written) as Json;
  } catch {
    return written;
  }
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
