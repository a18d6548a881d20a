/** The SDK's types, all from `ai` and at compile time only: this works with every provider package. */

import type { LanguageModel as AnyLanguageModel } from "ai";

export type {
  InferToolInput,
  InferToolOutput,
  ModelMessage,
  Tool as SdkTool,
  ToolSet,
  UserModelMessage,
} from "ai";

/** A provider's model, for example `anthropic("claude-sonnet-5-5")`. */
export type LanguageModel = Extract<AnyLanguageModel, { readonly specificationVersion: "v3" }>;

export type CallOptions = Parameters<LanguageModel["doGenerate"]>[0];
export type GenerateResult = Awaited<ReturnType<LanguageModel["doGenerate"]>>;
export type Content = GenerateResult["content"][number];
export type Usage = GenerateResult["usage"];
export type FinishReason = GenerateResult["finishReason"];
export type StreamResult = Awaited<ReturnType<LanguageModel["doStream"]>>;
export type StreamPart = StreamResult["stream"] extends ReadableStream<infer Part> ? Part : never;
