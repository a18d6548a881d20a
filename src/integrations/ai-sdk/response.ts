/**
 * A provider's response as a message of the session, and back; streams on their way from the provider to the
 * SDK. The SDK always gets the response as it is stored, so nothing may be lost.
 */

import type { Json } from "../../model/json.ts";
import type { Block, JsonObject, Message } from "../../model/session/index.ts";
import type { Artifacts } from "../artifacts.ts";
import { amountsOf, type PriceTable, type TokenCount } from "../prices.ts";
import { type Answer, argsOf } from "../recorded-turns/index.ts";
import { endedEarly } from "./errors.ts";
import {
  isTagged,
  loadData,
  type Part,
  partOf,
  restorePart,
  sdkExtra,
  sdkMeta,
  storeData,
  toJson,
  wholePart,
} from "./messages.ts";
import type {
  Content,
  FinishReason,
  GenerateResult,
  ModelSpec,
  StreamPart,
  StreamResult,
  Usage,
} from "./sdk-types.ts";

/** Without headers and bodies, which may contain secrets. */
interface ResponseFacts {
  readonly finishReason: FinishReason;
  readonly usage: Usage;
  readonly warnings?: GenerateResult["warnings"];
  readonly providerMetadata?: GenerateResult["providerMetadata"];
  readonly id?: string;
  readonly timestamp?: string;
  readonly modelId?: string;
  /** Spec v4: the text that holds the structured output, if it is not the whole text. */
  readonly structuredOutputText?: string;
}

export async function answerOf(
  result: GenerateResult,
  artifacts: Artifacts,
  pricing: { readonly modelId: string; readonly prices: PriceTable | undefined },
): Promise<Answer> {
  const { finishReason, usage, warnings, providerMetadata, response } = result;
  const { id, timestamp, modelId } = response ?? {};
  const { structuredOutputText } = result as GenerateResult & Pick<ResponseFacts, "structuredOutputText">;
  const facts = {
    ...{ finishReason, usage, warnings, providerMetadata, id, timestamp, modelId },
    structuredOutputText,
  };
  return {
    blocks: await Promise.all(result.content.map((part) => contentBlock(part as Content4, artifacts))),
    meta: { response: toJson(facts) },
    spent: amountsOf(tokenCount(usage), modelId ?? pricing.modelId, pricing.prices),
  };
}

/** The content of an answer with the part that spec v4 adds. */
type Content4 =
  | Content
  | {
      readonly type: "reasoning-file";
      readonly mediaType: string;
      readonly data: unknown;
      readonly providerMetadata?: JsonObject;
    };

async function contentBlock(part: Content4, artifacts: Artifacts): Promise<Block> {
  const extra = part.providerMetadata ? { providerOptions: toJson(part.providerMetadata) } : {};
  switch (part.type) {
    case "text": {
      const { citations } = part as { readonly citations?: unknown };
      const cited = citations === undefined ? extra : { ...extra, citations: toJson(citations) };
      return { kind: "text", text: part.text, ...sdkMeta(cited) };
    }
    case "reasoning":
      return { kind: "reasoning", text: part.text, ...sdkMeta(extra) };
    case "file":
    case "reasoning-file":
      return fileBlock(part, extra, artifacts);
    case "tool-call":
      if (!part.providerExecuted) return toolCallBlock(part, extra);
      break;
    default:
  }
  return wholePart(part as unknown as Part);
}

/** A file that the provider names by a URL is kept by that URL: the SDK downloads it. */
async function fileBlock(
  part: Extract<Content4, { type: "file" | "reasoning-file" }>,
  extra: JsonObject,
  artifacts: Artifacts,
): Promise<Block> {
  const { type, mediaType, data } = part;
  const stored = await storeData(data, artifacts);
  if (!stored && isTagged(data)) return wholePart(part as unknown as Part);
  const { artifact, spelling } = stored ?? {
    artifact: await artifacts.putArtifact(new Uint8Array()),
    spelling: "base64",
  };
  return { kind: "file", artifact, mediaType, ...sdkMeta({ ...extra, spelling, type }) };
}

function toolCallBlock(part: Extract<Content, { type: "tool-call" }>, extra: JsonObject): Block {
  const args = argsOf(part.input);
  // Keep the model's own spelling if JSON.stringify gives another one.
  const raw = JSON.stringify(args) === part.input ? {} : { input: part.input };
  const dynamic = part.dynamic === undefined ? {} : { dynamic: part.dynamic };
  const meta = sdkMeta({ ...extra, ...raw, ...dynamic });
  return { kind: "tool_call", id: part.toolCallId, name: part.toolName, args, ...meta };
}

/** The recorded answer as a model of this spec gives it, whatever the spec of the model that gave it. */
export async function responseOf(
  message: Message,
  artifacts: Artifacts,
  spec: ModelSpec,
): Promise<GenerateResult> {
  const facts = (message.meta?.["response"] ?? {}) as unknown as ResponseFacts;
  const { finishReason, usage, warnings = [], providerMetadata, id, timestamp, modelId } = facts;
  const { structuredOutputText } = facts;
  return {
    content: await Promise.all(message.blocks.map((block) => contentOf(block, artifacts, spec))),
    finishReason,
    usage,
    warnings,
    ...(providerMetadata && { providerMetadata }),
    ...(structuredOutputText !== undefined && { structuredOutputText }),
    response: {
      ...(id !== undefined && { id }),
      ...(modelId !== undefined && { modelId }),
      timestamp: new Date(timestamp ?? message.createdAt),
    },
  };
}

async function contentOf(block: Block, artifacts: Artifacts, spec: ModelSpec): Promise<Content> {
  const members: { readonly [name: string]: Json | undefined } = sdkExtra(block.meta);
  const { providerOptions, input, spelling, type = "file", part, ...rest } = members;
  const extra = { ...rest, ...(providerOptions !== undefined && { providerMetadata: providerOptions }) };
  switch (block.kind) {
    case "text":
      if (part !== undefined) return restorePart(sdkExtra(block.meta)) as Part & Content;
      return { type: "text", text: block.text, ...extra } as Content;
    case "reasoning":
      return { type: "reasoning", text: block.text, ...extra } as Content;
    case "tool_call": {
      const text = (input as string | undefined) ?? JSON.stringify(block.args);
      const call = { type: "tool-call", toolCallId: block.id, toolName: block.name, input: text };
      return { ...call, ...extra } as Content;
    }
    case "file": {
      const plain = await loadData(block, spelling as string | undefined, artifacts);
      const data = spec === "v4" ? { type: "data", data: plain } : plain;
      return { type, mediaType: block.mediaType, data, ...extra } as unknown as Content;
    }
    case "tool_result":
      return (await partOf(block, artifacts)) as Part & Content;
  }
}

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
  const { citations } = content as { readonly citations?: unknown };
  const id = `${type}-${index}`;
  const extra = providerMetadata ? { providerMetadata } : {};
  return [
    { type: `${type}-start`, id, ...extra },
    { type: `${type}-delta`, id, delta },
    { type: `${type}-end`, id, ...extra, ...(citations !== undefined && { citations }) },
  ] as StreamPart[];
}

/** Fills in totals that a provider does not report. */
function tokenCount(usage: Usage | undefined): TokenCount {
  const { inputTokens: input, outputTokens: output } = usage ?? {};
  const cacheRead = input?.cacheRead ?? 0;
  const cacheWrite = input?.cacheWrite ?? 0;
  const fresh = input?.noCache ?? Math.max(0, (input?.total ?? 0) - cacheRead - cacheWrite);
  const written = output?.total ?? (output?.text ?? 0) + (output?.reasoning ?? 0);
  return { input: fresh, output: written, cacheRead, cacheWrite };
}

export interface StreamRecording {
  record(result: GenerateResult): Promise<GenerateResult>;
  failed(): void;
  /** True for an id of an earlier call of the session. */
  isTaken(toolCallId: string): boolean;
}

const ACTIONABLE = new Set(["tool-call", "tool-result", "tool-approval-request"]);

/**
 * Buffers a stream on its way from the provider to the SDK. Text and reasoning pass through. The first part
 * that the SDK could act on, and every later part, wait until the whole response is durable.
 *
 *     passing ──tool call, tool result, approval──▶ buffering
 *     either ──finish──▶ recorded ──▶ the buffered parts, with the stored ids, and the finish
 *     either ──error, end without finish, cancelled──▶ nothing is recorded, the buffer is dropped
 *
 * A stream that ends before any output ends so for the SDK, too: it rejects with its own error.
 */
export function bufferedStream(
  source: StreamResult["stream"],
  recording: StreamRecording,
): ReadableStream<StreamPart> {
  const reader = source.getReader();
  const buffer = new StreamBuffer(recording);
  return new ReadableStream<StreamPart>({
    async pull(controller) {
      try {
        for (;;) {
          const { done, value } = await reader.read();
          const parts = done ? buffer.end() : await buffer.take(value);
          for (const part of parts) controller.enqueue(part);
          if (done) controller.close();
          if (done || parts.length > 0) return;
        }
      } catch (error) {
        recording.failed();
        controller.error(error);
      }
    },
    async cancel(reason) {
      recording.failed();
      await reader.cancel(reason);
    },
  });
}

class StreamBuffer {
  private readonly recording: StreamRecording;
  private readonly response = new StreamedResponse();
  private readonly calls = new CallIndexes();
  private readonly buffered: BufferedPart[] = [];
  private isBuffering = false;
  private isBroken = false;
  private isFinished = false;
  private hasOutput = false;

  constructor(recording: StreamRecording) {
    this.recording = recording;
  }

  async take(part: StreamPart): Promise<StreamPart[]> {
    if (part.type === "finish") return this.finish(part);
    if (part.type === "error") {
      this.isBroken = true;
      this.recording.failed();
      return [part];
    }
    this.response.add(part);
    const index = this.calls.indexOf(part);
    // A second call of this answer with the same id gets a new id when it is stored, so its parts have to
    // wait.
    if (ACTIONABLE.has(part.type) || (index !== null && index > 0)) this.isBuffering = true;
    if (part.type.startsWith("tool-input") && this.recording.isTaken((part as { id: string }).id)) return [];
    if (!this.isBuffering) {
      this.hasOutput ||= isOutput(part);
      return [part];
    }
    this.buffered.push({ part, index });
    return [];
  }

  end(): StreamPart[] {
    if (this.isFinished || this.isBroken) return [];
    this.recording.failed();
    return this.hasOutput ? [{ type: "error", error: endedEarly() }] : [];
  }

  private async finish(part: Extract<StreamPart, { type: "finish" }>): Promise<StreamPart[]> {
    this.isFinished = true;
    // The SDK runs no tool of such an answer, and asking again may give a better one.
    if (this.isBroken || isBadFinish(part)) {
      this.recording.failed();
      return [part];
    }
    const stored = await this.recording.record(this.response.finished(part));
    return [...withStoredIds(this.buffered, this.response.content, stored.content), part];
  }
}

/** The SDK's own rule for streams that end without a finish. */
function isOutput(part: StreamPart): boolean {
  if (part.type === "file" || (part.type as string) === "reasoning-file") return true;
  return part.type.endsWith("-delta") && (part as { delta: string }).delta !== "";
}

/** An answer that ends so is not recorded. `interrupted`: the provider's stream broke off (spec v4). */
export function isBadFinish({ finishReason }: Pick<GenerateResult, "finishReason">): boolean {
  return ["error", "interrupted"].includes(finishReason.unified);
}

type OpenText = { text: string; providerMetadata?: unknown; citations?: unknown };

export class StreamedResponse {
  readonly content: Content[] = [];
  private readonly open = new Map<string, OpenText>();
  private warnings: GenerateResult["warnings"] = [];
  private metadata: NonNullable<GenerateResult["response"]> = {};

  add(part: StreamPart): void {
    // Parts of spec v4 that v3 lacks.
    if (["custom", "reasoning-file"].includes(part.type)) this.content.push(part as unknown as Content);
    switch (part.type) {
      case "stream-start":
        this.warnings = part.warnings;
        break;
      case "response-metadata": {
        const { type: _type, ...metadata } = part;
        this.metadata = { ...this.metadata, ...metadata };
        break;
      }
      case "text-start":
      case "reasoning-start":
      case "text-delta":
      case "reasoning-delta":
      case "text-end":
      case "reasoning-end":
        this.addText(part);
        break;
      case "tool-call":
      case "tool-result":
      case "tool-approval-request":
      case "file":
      case "source":
        this.content.push(part);
        break;
      default:
    }
  }

  finished({ type: _type, ...end }: Extract<StreamPart, { type: "finish" }>): GenerateResult {
    return { content: this.content, warnings: this.warnings, response: this.metadata, ...end };
  }

  private addText(part: { type: string; id: string; delta?: string } & Partial<OpenText>): void {
    const [kind = "", act = ""] = part.type.split("-");
    const key = `${kind} ${part.id}`;
    if (act === "start") {
      const started = { type: kind, text: "" };
      this.open.set(key, started);
      this.content.push(started as unknown as Content);
    }
    const text = this.open.get(key);
    if (!text) return;
    text.text += part.delta ?? "";
    if (part.providerMetadata !== undefined) text.providerMetadata = part.providerMetadata;
    if (part.citations !== undefined) text.citations = part.citations;
    if (act === "end") this.open.delete(key);
  }
}

/** `index`: the number of its call among those to which the provider gave the same id. */
type BufferedPart = { readonly part: StreamPart; readonly index: number | null };

/** Numbers calls that share an id: some providers give one id to several calls of an answer. */
class CallIndexes {
  private readonly started = new Map<string, number>();
  private readonly called = new Map<string, number>();

  indexOf(part: StreamPart): number | null {
    const { started, called } = this;
    if (part.type === "tool-call") {
      const index = called.get(part.toolCallId) ?? 0;
      called.set(part.toolCallId, index + 1);
      return index;
    }
    if (part.type === "tool-input-start") {
      const index = Math.max(started.get(part.id) ?? 0, called.get(part.id) ?? 0);
      started.set(part.id, index + 1);
      return index;
    }
    const isInput = part.type === "tool-input-delta" || part.type === "tool-input-end";
    return isInput ? Math.max((started.get(part.id) ?? 1) - 1, 0) : null;
  }
}

/** A stored call has a new id if its own was used before. Calls that the provider runs keep their ids. */
function withStoredIds(
  buffered: readonly BufferedPart[],
  original: readonly Content[],
  stored: readonly Content[],
): StreamPart[] {
  const calls = new Map<string, Extract<Content, { type: "tool-call" }>[]>();
  original.forEach((part, index) => {
    const call = stored[index];
    if (part.type !== "tool-call" || call?.type !== "tool-call") return;
    calls.set(part.toolCallId, [...(calls.get(part.toolCallId) ?? []), call]);
  });
  return buffered.map(({ part, index }) => {
    if (index === null) return part;
    if (part.type === "tool-call") return calls.get(part.toolCallId)?.[index] ?? part;
    const { id } = part as { id: string };
    return { ...part, id: calls.get(id)?.[index]?.toolCallId ?? id } as StreamPart;
  });
}
