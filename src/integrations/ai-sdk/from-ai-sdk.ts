/** Any provider's model as the model of a session's own loop (`session.run`). */

import { HoldfastError } from "../../model/errors.ts";
import type { JsonObject } from "../../model/session/index.ts";
import type { Model, ModelRequest, ModelResponse } from "../../session/index.ts";
import type { PriceTable } from "../prices.ts";
import type { Artifacts } from "./file-data.ts";
import { StreamedResponse } from "./held-stream.ts";
import type {
  CallOptions,
  GenerateResult,
  LanguageModel,
  ModelMessage,
  StreamPart,
} from "./language-model.ts";
import { toModelMessages } from "./messages.ts";
import type { Part } from "./parts.ts";
import { answerOf } from "./response.ts";

/** What `fromAiSdk` may be told: how to ask, and what an answer costs. */
export interface FromAiSdkOptions {
  /** Ask for a stream, and show its parts as they come. Some providers also need it for long answers. */
  readonly stream?: boolean;
  /** What a million tokens cost, by model id: for budgets in dollars. */
  readonly prices?: PriceTable;
  /** Where files of messages are read and files of answers stored: the `Holdfast` of the session. */
  readonly artifacts?: Artifacts;
  /** Passed to the provider with every call: temperature, thinking, cache control, headers. */
  readonly settings?: Omit<CallOptions, "prompt" | "tools" | "abortSignal" | "includeRawChunks">;
}

const NO_ARTIFACTS: Artifacts = { putArtifact: noArtifacts, getArtifact: noArtifacts };

function noArtifacts(): never {
  throw new HoldfastError("INPUT_INVALID", "a message with a file needs a place for its bytes", {
    hint: "Pass the Holdfast of the session: fromAiSdk(model, { artifacts: holdfast }).",
  });
}

/**
 * Use it with `session.run({ model: fromAiSdk(anthropic("claude-sonnet-5-5")), … })`. Reasoning goes back to its provider
 * with the signatures it came with. Errors that the provider marks as retryable are tried again by the loop.
 */
export function fromAiSdk(model: LanguageModel, options: FromAiSdkOptions = {}): Model {
  const { artifacts = NO_ARTIFACTS, prices } = options;
  return async (request): Promise<ModelResponse> => {
    const call = await callOf(request, options, artifacts);
    const result = options.stream
      ? await streamed(await model.doStream(call), request)
      : await model.doGenerate(call);
    if (result.finishReason.unified === "error") throw badFinish(model.modelId, result);
    if (!MAY_CALL.has(result.finishReason.unified) && asksForCalls(result))
      throw cutOff(model.modelId, result);
    const { blocks, meta, spent } = await answerOf(result, artifacts, { modelId: model.modelId, prices });
    return { message: { blocks, ...(meta && { meta }) }, ...(spent && { usage: spent }) };
  };
}

async function callOf(
  request: ModelRequest,
  { settings }: FromAiSdkOptions,
  artifacts: Artifacts,
): Promise<CallOptions> {
  const { system, messages, tools, signal } = request;
  const known = await toModelMessages(messages, artifacts);
  const prompt = known.map(promptMessage);
  if (system !== null) prompt.unshift({ role: "system", content: system });
  const described = tools.map(({ name, description, inputJsonSchema }) => {
    const inputSchema = (inputJsonSchema ?? ANY_OBJECT) as JsonObject;
    return { type: "function" as const, name, description, inputSchema };
  });
  return {
    ...settings,
    prompt,
    abortSignal: signal,
    ...(described.length > 0 && { tools: described }),
  };
}

const ANY_OBJECT = { type: "object", properties: {}, additionalProperties: true };

/** Providers want lists of parts, and know files but no images. */
function promptMessage(message: ModelMessage): CallOptions["prompt"][number] {
  const { role, content, ...rest } = message;
  if (role === "system") return message as CallOptions["prompt"][number];
  const parts =
    typeof content === "string" ? [{ type: "text", text: content }] : (content as unknown as Part[]);
  const converted = parts.filter((part) => part.type !== "tool-approval-request").map(promptPart);
  return { role, content: converted, ...rest } as unknown as CallOptions["prompt"][number];
}

function promptPart(part: Part): Part {
  if (part.type !== "image" && part.type !== "file") return part;
  const {
    type: _type,
    image,
    data = image,
    mediaType = "image/*",
    ...rest
  } = part as Part & { data?: unknown };
  const given = data instanceof ArrayBuffer ? new Uint8Array(data) : data;
  return { type: "file", ...rest, mediaType, ...fileData(given) };
}

/** A data URL carries its own type; an address is handed on as one. */
function fileData(data: unknown): { data: unknown; mediaType?: string } {
  if (typeof data !== "string") return { data };
  const url = /^data:([^;,]*);base64,(.*)$/s.exec(data);
  if (url) return { data: url[2], ...(url[1] && { mediaType: url[1] }) };
  return { data: /^[a-z][a-z0-9+.-]*:/i.test(data) ? new URL(data) : data };
}

async function streamed(
  { stream }: { stream: ReadableStream<StreamPart> },
  request: ModelRequest,
): Promise<GenerateResult> {
  const response = new StreamedResponse();
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (value.type === "error") throw streamError(value.error);
    if (value.type === "finish") return response.finished(value);
    if (value.type === "text-delta") request.partial({ text: value.delta });
    if (value.type === "reasoning-delta") request.partial({ reasoning: value.delta });
    response.see(value);
  }
  const error = new Error("the model's stream ended without a finish part");
  throw Object.assign(error, { retryable: true });
}

function badFinish(modelId: string, { finishReason }: GenerateResult): Error {
  const error = new Error(
    `${modelId} ended its answer with an error: ${finishReason.raw ?? "no reason given"}`,
  );
  return Object.assign(error, { retryable: true });
}

/** What a stream reports as its error may be anything: some providers pass on the object that came over the wire. */
function streamError(given: unknown): Error {
  if (given instanceof Error) return given;
  const { error: inner, ...outer } = Object(given) as Members;
  const members: Members = typeof inner === "object" && inner !== null ? (inner as Members) : outer;
  const { type, code, message } = members;
  const words = [type ?? code, message].filter((each) => typeof each === "string");
  const what = words.length > 0 ? words.join(": ") : (JSON.stringify(given) ?? String(given));
  const error = new Error(`the model's stream broke off with an error: ${what}`, { cause: given });
  const mayPass = PASSING_ERRORS.has(String(type)) || PASSING_ERRORS.has(String(code));
  // Else the loop looks into the cause, for a status or a flag of the provider's own.
  return Object.assign(error, mayPass && { retryable: true });
}

type Members = { readonly [name: string]: unknown };

/** As providers name what another attempt may get past, in streams that had begun with status 200. */
const PASSING_ERRORS = new Set([
  "overloaded_error",
  "api_error",
  "rate_limit_error",
  "timeout_error",
  "server_error",
  "rate_limit_exceeded",
]);

/** An answer that ended for any other reason may have been cut off, as the SDK sees it, too. */
const MAY_CALL = new Set(["stop", "tool-calls"]);

function asksForCalls({ content }: GenerateResult): boolean {
  return content.some((part) => part.type === "tool-call" && !part.providerExecuted);
}

/** Half of a call's arguments may be missing. Such a call is not run. */
function cutOff(modelId: string, { finishReason: { unified, raw } }: GenerateResult): HoldfastError {
  if (unified === "length") {
    return new HoldfastError("INPUT_INVALID", `${modelId} ran out of tokens in the middle of a tool call`, {
      hint: "Raise settings.maxOutputTokens, or ask for less at once. The call was not run.",
    });
  }
  const reason = raw === undefined || raw === unified ? unified : `${unified} (${raw})`;
  return new HoldfastError(
    "INPUT_INVALID",
    `${modelId} ended an answer that asks for tool calls with ${reason}: they may have been cut off`,
    { hint: "Nothing of the answer was recorded and no call was run. Ask again, or in other words." },
  );
}
