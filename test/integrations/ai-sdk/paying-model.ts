import type {
  LanguageModelV3CallOptions,
  LanguageModelV3Content,
  LanguageModelV3GenerateResult,
  LanguageModelV3StreamPart,
} from "@ai-sdk/provider";
import { simulateReadableStream } from "ai";
import * as mocks from "ai/test";

/** The mock of the SDK under test: its model has spec v3 in AI SDK 6, and v4 in 7. */
export const MockModel = (Reflect.get(mocks, "MockLanguageModelV4") ??
  mocks.MockLanguageModelV3) as typeof mocks.MockLanguageModelV3;
export type MockModel = mocks.MockLanguageModelV3;

/** True if the tests run with AI SDK 7 instead of 6: `HOLDFAST_AI_SDK=7`. */
export const IS_SDK_7 = new MockModel().specificationVersion !== "v3";

const USAGE = {
  inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 5, text: 5, reasoning: 0 },
};

let said = 0;
/** Unique in every process. */
const other = (): string => `${process.pid}-${Date.now()}-${Math.random()}-${++said}`;

const toolCall = (toolName: string, input: object): LanguageModelV3Content => {
  return { type: "tool-call", toolCallId: `call ${other()}`, toolName, input: JSON.stringify(input) };
};

export function answer(content: LanguageModelV3Content[]): LanguageModelV3GenerateResult {
  const calls = content.some((part) => part.type === "tool-call");
  const finishReason = { unified: calls ? "tool-calls" : "stop", raw: undefined } as const;
  return { content, finishReason, usage: USAGE, warnings: [] };
}

/** Looks up, then charges and mails in parallel, then reports it. Words and ids differ each time. */
function nextAnswer({ prompt }: LanguageModelV3CallOptions): LanguageModelV3GenerateResult {
  const results = prompt.flatMap((message) => (message.role === "tool" ? message.content : []));
  const words: LanguageModelV3Content[] = [
    { type: "reasoning", text: `hm ${other()}`, providerMetadata: { mock: { signature: other() } } },
    { type: "text", text: `so ${other()}` },
  ];
  if (results.length === 0) return answer([...words, toolCall("find", { order: "4711" })]);
  if (results.length === 1) {
    const charge = toolCall("charge", { order: "4711", note: other() });
    return answer([...words, charge, toolCall("mail", { to: "ann", text: other() })]);
  }
  return answer([{ type: "text", text: `paid ${results.length}` }]);
}

export function payingModel(next = nextAnswer): MockModel {
  return new MockModel({
    doGenerate: async (options) => next(options),
    doStream: async (options) => ({ stream: streamed(next(options)) }),
  });
}

export function streamed(result: LanguageModelV3GenerateResult): ReadableStream<LanguageModelV3StreamPart> {
  const { content, finishReason, usage } = result;
  const chunks: LanguageModelV3StreamPart[] = [
    { type: "stream-start", warnings: [] },
    ...content.flatMap((part, index) => streamedPart(part, String(index))),
    { type: "finish", finishReason, usage },
  ];
  return simulateReadableStream({ chunks, initialDelayInMs: null, chunkDelayInMs: null });
}

function streamedPart(part: LanguageModelV3Content, id: string): LanguageModelV3StreamPart[] {
  if (part.type === "tool-call") {
    const { toolCallId, toolName, input: delta } = part;
    return [
      { type: "tool-input-start", id: toolCallId, toolName },
      { type: "tool-input-delta", id: toolCallId, delta },
      { type: "tool-input-end", id: toolCallId },
      part,
    ];
  }
  if (part.type !== "text" && part.type !== "reasoning") return [part];
  const { type, text, providerMetadata } = part;
  const half = text.length / 2;
  return [
    { type: `${type}-start`, id },
    { type: `${type}-delta`, id, delta: text.slice(0, half) },
    { type: `${type}-delta`, id, delta: text.slice(half) },
    { type: `${type}-end`, id, ...(providerMetadata && { providerMetadata }) },
  ];
}
