/**
 * A provider's response as a message of the session, and back. What the SDK sees is always read back from the stored
 * message, so nothing may be lost on the way: ids, signatures, the model's own spelling of a tool's input, usage.
 */

import type { Json } from "../../model/json.ts";
import type { Block, JsonObject, Message } from "../../model/session/index.ts";
import { amountsOf, type PriceTable, type TokenCount } from "../prices.ts";
import type { Answer } from "../recorded-turns/index.ts";
import { type Artifacts, loadData, sdkExtra, sdkMeta, storeData } from "./file-data.ts";
import type { Content, FinishReason, GenerateResult, StreamPart, Usage } from "./language-model.ts";
import { type Part, partOf, plain } from "./parts.ts";

/** What is kept of a response beside its content. Headers and bodies are not: they may hold secrets, and nobody needs them. */
interface Kept {
  readonly finishReason: FinishReason;
  readonly usage: Usage;
  readonly warnings?: GenerateResult["warnings"];
  readonly providerMetadata?: GenerateResult["providerMetadata"];
  readonly id?: string;
  readonly timestamp?: string;
  readonly modelId?: string;
}

export interface Pricing {
  readonly modelId: string;
  readonly prices: PriceTable | undefined;
}

export async function answerOf(
  result: GenerateResult,
  artifacts: Artifacts,
  pricing: Pricing,
): Promise<Answer> {
  const { finishReason, usage, warnings, providerMetadata, response } = result;
  const { id, timestamp, modelId } = response ?? {};
  const kept = { finishReason, usage, warnings, providerMetadata, id, timestamp, modelId };
  return {
    blocks: await Promise.all(result.content.map((part) => contentBlock(part, artifacts))),
    meta: { response: plain(kept) },
    spent: amountsOf(tokenCount(usage), modelId ?? pricing.modelId, pricing.prices),
  };
}

async function contentBlock(part: Content, artifacts: Artifacts): Promise<Block> {
  const extra = part.providerMetadata ? { providerOptions: plain(part.providerMetadata) } : {};
  switch (part.type) {
    case "text":
    case "reasoning":
      return { kind: part.type, text: part.text, ...sdkMeta(extra) };
    case "file": {
      const { mediaType, data } = part;
      const stored = await storeData(data, artifacts);
      const { artifact, spelling } = stored ?? {
        artifact: await artifacts.putArtifact(new Uint8Array()),
        spelling: "base64",
      };
      return { kind: "file", artifact, mediaType, ...sdkMeta({ ...extra, spelling, type: "file" }) };
    }
    case "tool-call":
      if (!part.providerExecuted) return toolCallBlock(part, extra);
      break;
    default:
  }
  return { kind: "text", text: "", ...sdkMeta({ part: plain(part) as Json }) };
}

function toolCallBlock(part: Extract<Content, { type: "tool-call" }>, extra: JsonObject): Block {
  const args = argsOf(part.input);
  // Kept as the model spelled it where that is not how we would.
  const raw = JSON.stringify(args) === part.input ? {} : { input: part.input };
  const dynamic = part.dynamic === undefined ? {} : { dynamic: part.dynamic };
  const meta = sdkMeta({ ...extra, ...raw, ...dynamic });
  return { kind: "tool_call", id: part.toolCallId, name: part.toolName, args, ...meta };
}

/** What is not JSON stays text: the SDK tells the model, and the call is not run. */
function argsOf(input: string): Json {
  if (input.trim() === "") return {};
  try {
    return JSON.parse(input) as Json;
  } catch {
    return input;
  }
}

/** The response of a stored message. */
export async function responseOf(message: Message, artifacts: Artifacts): Promise<GenerateResult> {
  const kept = (message.meta?.["response"] ?? {}) as unknown as Kept;
  const { finishReason, usage, warnings = [], providerMetadata, id, timestamp, modelId } = kept;
  return {
    content: await Promise.all(message.blocks.map((block) => contentOf(block, artifacts))),
    finishReason,
    usage,
    warnings,
    ...(providerMetadata && { providerMetadata }),
    response: {
      ...(id !== undefined && { id }),
      ...(modelId !== undefined && { modelId }),
      timestamp: new Date(timestamp ?? message.createdAt),
    },
  };
}

async function contentOf(block: Block, artifacts: Artifacts): Promise<Content> {
  const {
    providerOptions,
    input,
    spelling,
    type: _type,
    part,
    ...rest
  } = sdkExtra(block.meta) as {
    readonly [name: string]: Json | undefined;
  };
  const extra = { ...rest, ...(providerOptions !== undefined && { providerMetadata: providerOptions }) };
  switch (block.kind) {
    case "text":
      if (part !== undefined) return part as unknown as Content;
      return { type: "text", text: block.text, ...extra } as Content;
    case "reasoning":
      return { type: "reasoning", text: block.text, ...extra } as Content;
    case "tool_call": {
      const text = (input as string | undefined) ?? JSON.stringify(block.args);
      return {
        type: "tool-call",
        toolCallId: block.id,
        toolName: block.name,
        input: text,
        ...extra,
      } as Content;
    }
    case "file": {
      const data = await loadData(block, spelling as string | undefined, artifacts);
      return { type: "file", mediaType: block.mediaType, data, ...extra } as Content;
    }
    case "tool_result":
      return (await partOf(block, artifacts)) as Part & Content;
  }
}

/** The stored response as a stream: each text in one piece. */
export function streamOf(result: GenerateResult): StreamPart[] {
  const { finishReason, usage, providerMetadata, response } = result;
  const parts: StreamPart[] = [{ type: "stream-start", warnings: result.warnings }];
  if (response) parts.push({ type: "response-metadata", ...response });
  result.content.forEach((content, index) => {
    parts.push(...partsOf(content, String(index)));
  });
  parts.push({ type: "finish", finishReason, usage, ...(providerMetadata && { providerMetadata }) });
  return parts;
}

function partsOf(content: Content, index: string): StreamPart[] {
  if (content.type === "tool-call") {
    const { toolCallId: id, toolName, input: delta, providerExecuted, dynamic } = content;
    const flags = { ...(providerExecuted && { providerExecuted }), ...(dynamic && { dynamic }) };
    return [
      { type: "tool-input-start", id, toolName, ...flags },
      { type: "tool-input-delta", id, delta },
      { type: "tool-input-end", id },
      content,
    ];
  }
  if (content.type !== "text" && content.type !== "reasoning") return [content];
  const { type, text: delta, providerMetadata } = content;
  const id = `${type}-${index}`;
  const extra = providerMetadata ? { providerMetadata } : {};
  return [
    { type: `${type}-start`, id, ...extra },
    { type: `${type}-delta`, id, delta },
    { type: `${type}-end`, id, ...extra },
  ] as StreamPart[];
}

/** Providers that tell less than the total count as if they had told it. */
function tokenCount(usage: Usage | undefined): TokenCount {
  const { inputTokens: input, outputTokens: output } = usage ?? {};
  const cacheRead = input?.cacheRead ?? 0;
  const cacheWrite = input?.cacheWrite ?? 0;
  const fresh = input?.noCache ?? Math.max(0, (input?.total ?? 0) - cacheRead - cacheWrite);
  const said = output?.total ?? (output?.text ?? 0) + (output?.reasoning ?? 0);
  return { input: fresh, output: said, cacheRead, cacheWrite };
}
