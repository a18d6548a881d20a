/**
 * A model's response as a message of the session, and back. What the SDK sees is always read back from the stored message.
 * Text and calls are in the message's blocks, where everybody reads them; the rest of the SDK's items is kept beside
 * them, and together they are the items again.
 */

import { type ModelResponse, Usage } from "@openai/agents";
import { copyJson, type Json } from "../../model/json.ts";
import type { Block, JsonObject, Message } from "../../model/session/index.ts";
import { amountsOf, type PriceTable, type TokenCount } from "../prices.ts";
import type { Answer } from "../recorded-turns/index.ts";

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
