/**
 * The SDK's types, all from `ai` and at compile time only: this works with every provider package.
 *
 * AI SDK 6 has models of spec v3. AI SDK 7 has models of spec v4, and still takes v3. The code is written
 * with the types of v3. It meets the differences in `messages.ts` (files), `response.ts` and
 * `prompt-format.ts`.
 */

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
export type LanguageModel = Extract<AnyLanguageModel, { readonly specificationVersion: "v3" | "v4" }>;

/** The spec decides how a file's data is written: plain in v3, tagged with its kind in v4. */
export type ModelSpec = "v3" | "v4";

export type ModelV3 = Extract<AnyLanguageModel, { readonly specificationVersion: "v3" }>;
type ModelV4 = Extract<AnyLanguageModel, { readonly specificationVersion: "v4" }>;
type NewestModel = [ModelV4] extends [never] ? ModelV3 : ModelV4;

/** The options of a call in the installed SDK's newest spec. */
export type NewestCallOptions = Parameters<NewestModel["doGenerate"]>[0];

export type CallOptions = Parameters<ModelV3["doGenerate"]>[0];
export type GenerateResult = Awaited<ReturnType<ModelV3["doGenerate"]>>;
export type Content = GenerateResult["content"][number];
export type Usage = GenerateResult["usage"];
export type FinishReason = GenerateResult["finishReason"];
export type StreamResult = Awaited<ReturnType<ModelV3["doStream"]>>;
export type StreamPart = StreamResult["stream"] extends ReadableStream<infer Part> ? Part : never;
