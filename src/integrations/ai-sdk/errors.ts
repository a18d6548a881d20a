import { HoldfastError } from "../../model/errors.ts";
import { refusal } from "../refusal.ts";
import type { GenerateResult } from "./sdk-types.ts";

/** `status`: what has happened so far. */
export function outsideLedger(tools: readonly { readonly name: string }[], status: string): HoldfastError {
  const names = tools.map(({ name }) => name);
  const [subject, its] = names.length === 1 ? ["tool", "its"] : ["tools", "their"];
  return refusal(
    "INPUT_INVALID",
    `${subject} ${names.join(", ")}: not passed through d.tools, so a crash could run ${its} calls twice. ` +
      status,
    `Write tools: d.tools({ ${names.join(", ")} }), also for tools without execute. ` +
      'Declare { effect: "read" } for tools that only read. ' +
      "Put middleware that clones its tools inside: d.model(wrapLanguageModel({ model, middleware })).",
    { tools: names },
  );
}

export function badFinish(modelId: string, { finishReason }: GenerateResult): Error {
  const error = new Error(
    `${modelId} ended its answer with an error: ${finishReason.raw ?? "no reason given"}`,
  );
  return Object.assign(error, { retryable: true });
}

/** A stream's error part may be any object: some providers pass on the wire's JSON. */
export function streamError(given: unknown): Error {
  if (given instanceof Error) return given;
  const { error: inner, ...outer } = Object(given) as Members;
  const members: Members = typeof inner === "object" && inner !== null ? (inner as Members) : outer;
  const { type, code, message } = members;
  const words = [type ?? code, message].filter((each) => typeof each === "string");
  const what = words.length > 0 ? words.join(": ") : (JSON.stringify(given) ?? String(given));
  const error = new Error(`the model's stream broke off with an error: ${what}`, { cause: given });
  const isTransient = TRANSIENT_ERRORS.has(String(type)) || TRANSIENT_ERRORS.has(String(code));
  // Otherwise the loop checks the cause for a status or a flag of the provider.
  return Object.assign(error, isTransient && { retryable: true });
}

type Members = { readonly [name: string]: unknown };

/** Providers' names for transient errors in streams that began with status 200. */
const TRANSIENT_ERRORS = new Set([
  "overloaded_error",
  "api_error",
  "rate_limit_error",
  "timeout_error",
  "server_error",
  "rate_limit_exceeded",
]);

/** For an answer whose last tool call may lack half of its arguments. */
export function incompleteCall(
  modelId: string,
  { finishReason: { unified, raw } }: GenerateResult,
): HoldfastError {
  if (unified === "length") {
    return new HoldfastError("INPUT_INVALID", `${modelId} ran out of tokens in the middle of a tool call`, {
      hint: "Raise settings.maxOutputTokens, or ask for less at once. The call was not run.",
    });
  }
  const reason = raw === undefined || raw === unified ? unified : `${unified} (${raw})`;
  return refusal(
    "INPUT_INVALID",
    `${modelId} ended an answer that asks for tool calls with ${reason}: they may have been cut off`,
    "Nothing of the answer was recorded and no call was run. Ask again, or in other words.",
  );
}

export function endedEarly(): HoldfastError {
  return new HoldfastError("INPUT_INVALID", "the model's stream ended without a finish part", {
    hint: "Nothing was recorded and no tool was started. Ask again.",
  });
}

export function notAModel(model: unknown): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `model: ${JSON.stringify(model)} is not a model object`, {
    hint: 'Pass the provider\'s model object, such as anthropic("claude-sonnet-5-5"), not its name.',
  });
}
