/** The types around `session.run`: its options, the model function, progress events and the result. */

import type { BlockedCall, CallProgress, Tool } from "../ledger/index.ts";
import { checkToolName, checkTools, parametersOf } from "../ledger/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { Json } from "../model/json.ts";
import { checkOption, checkOptions, type OptionRule } from "../model/options.ts";
import type { Amounts, Block, Call, JsonObject, Message } from "../model/session/index.ts";
import type { MessageInput } from "./messages.ts";
import { checkPrompt, type PromptInput, promptText } from "./prompts.ts";
import type { CadenceOption } from "./versions.ts";

/**
 * The options of `session.run`. Only `model` is required. None of them is stored: pass them again to resume.
 *
 * @example
 * await session.run({
 *   model,
 *   tools: [charge, sendReceipt],
 *   prompt: { id: "order-17", text: "Charge order 17 and send the receipt." },
 *   budget: { usd: 5, perCall: { usd: 0.2 } },
 * });
 */
export interface RunOptions {
  /** Answers the messages so far: `fromAnthropic(client, name)`, or any function. */
  readonly model: Model;
  /** The tools the model may call. Calls that an earlier process left open are settled with them, by name. */
  readonly tools?: readonly Tool[];
  /** The system prompt, e.g. `"You handle refunds."` */
  readonly system?: string;
  /** The user's message. One with an id, `{ id: "p1", text }`, is answered once, and then from the log. */
  readonly prompt?: PromptInput;
  /**
   * Limits over the session's whole life: `{ usd: 5, perCall: { usd: 0.2 } }`. `perCall` is reserved before
   * each model call; without it, the cost of the largest call so far is. `run` only raises limits;
   * `session.limit` also lowers them. A run whose model does not report a limited unit fails after its first
   * answer (`BUDGET_UNIT_UNKNOWN`).
   */
  readonly budget?: Amounts & { readonly perCall?: Amounts };
  /** When the run makes checkpoints: `"turn"` (default), `"call"`, `{ turns: 5 }` or `{ seconds: 60 }`. */
  readonly cadence?: CadenceOption;
  /** The most model calls of this run, e.g. `20`; then it is paused (`"turns"`). No limit unless set. */
  readonly maxTurns?: number;
  /** Calls of one message that run at once. 8 unless set. */
  readonly parallel?: number;
  /** No model call starts after this time, e.g. `240_000` (`"deadline"`). `signal` also cuts off a call. */
  readonly deadlineMs?: number;
  /** Stops the run at once (`"stopped"`). A later run settles a tool that was cut off. */
  readonly signal?: AbortSignal;
  /**
   * Ends the run without cutting anything off (`"drained"`): calls and the model question in flight are
   * finished, no other starts, and the next process continues. For SIGTERM: `drain: deploy.signal`.
   */
  readonly drain?: AbortSignal;
  /** Receives progress events. They are not awaited and not stored: `on: ({ type }) => console.log(type)`. */
  readonly on?: (progress: RunProgress) => void;
  /** Retries of a model call that failed for a temporary reason. 4 unless set. */
  readonly modelRetries?: number;
  /**
   * Identical calls in a row, or cycles of up to three turns: at `warnAt` (5) rounds the model gets a note,
   * at `stopAt` (10) the run is paused.
   */
  readonly loop?: { readonly warnAt: number; readonly stopAt: number };
  /** How long to wait for outcomes that need no person: 10 s unless set, and not beyond `deadlineMs`. */
  readonly patienceMs?: number;
}

const RUN_OPTIONS = {
  model: "function",
  tools: "list",
  system: "text",
  prompt: null,
  budget: "object",
  cadence: null,
  maxTurns: "most",
  parallel: "number",
  deadlineMs: "wait",
  signal: "object",
  drain: "object",
  on: "function",
  modelRetries: "most",
  loop: "object",
  patienceMs: "wait",
} as const satisfies Record<keyof RunOptions, OptionRule>;

/** Checks before the first model call: a misspelt or NaN limit would be no limit at all. */
export function checkRunOptions(session: string, options: RunOptions): void {
  const what = `session ${session}, run`;
  checkOptions(what, options, RUN_OPTIONS);
  const { model, cadence, loop, prompt, tools = [] } = options;
  checkOption(`${what}: model`, model, "function");
  checkTools(tools);
  for (const { name } of describeTools(tools)) checkToolName(name);
  if (prompt !== undefined) checkPrompt(what, promptText(prompt));
  if (typeof cadence === "object" && cadence !== null)
    checkOptions(`${what}: cadence`, cadence, { turns: "number", seconds: "duration" });
  else if (cadence !== undefined) checkOption(`${what}: cadence`, cadence, ["turn", "call"]);
  if (loop) checkOptions(`${what}: loop`, loop, { warnAt: "number", stopAt: "number" });
}

/** An event of a run, for screens and logs. Everything that must not be missed is in the session's log. */
export type RunProgress =
  | CallProgress
  | { readonly type: "model.asked"; readonly turn: number }
  | { readonly type: "model.partial"; readonly text?: string; readonly reasoning?: string }
  | { readonly type: "model.retried"; readonly error: string; readonly inMs: number }
  | { readonly type: "message"; readonly message: Message }
  | { readonly type: "loop"; readonly tool: string; readonly count: number };

/** The result of a run. Everything up to it is durable, and another run continues from there. */
export interface RunResult {
  /** `"done"`: answered. `"waiting"`: calls have no outcome yet. `"paused"`: a limit or a stop. */
  readonly status: "done" | "waiting" | "paused";
  /** `answered` if done, `calls` if waiting. The others say why it is paused. */
  readonly reason:
    | "answered"
    | "calls"
    | "budget"
    | "deadline"
    | "turns"
    | "loop"
    | "cancelled"
    | "stopped"
    | "drained";
  /** The answer to the prompt if that has an id, otherwise the last message. Empty unless `done`. */
  readonly text: string;
  /** Calls without an outcome. If a person is needed, answer with `holdfast.calls.resolve`. */
  readonly waiting: readonly WaitingCall[];
  /** Spending of the session in its whole life, not of this run alone. */
  readonly spent: Amounts;
  /** Ids of calls of this run that repeated a finished one, and of a prompt whose answer was recorded. */
  readonly replayed: readonly string[];
  readonly version: number;
}

/** A call that the run waits for. */
export interface WaitingCall {
  readonly callId: string;
  readonly tool: string;
  /** True if a person has to answer: this call or, for a sub-agent, the one that `why` names. */
  readonly person: boolean;
  readonly why: string;
  /** The other session's call with the same global key. This call continues after it. */
  readonly blockedBy?: { readonly session: string; readonly callId: string };
}

// ---- The model

/**
 * Any model is one function. Throw an error with `retryable: true` to be called again.
 *
 * @example
 * const model: Model = async ({ messages }) => ({ message: { text: await complete(messages) } });
 */
export type Model = (request: ModelRequest) => Promise<ModelResponse>;

/** The input of a model call: always the whole conversation, frozen. Copy a message to change it. */
export interface ModelRequest {
  readonly system: string | null;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDescription[];
  /** Aborts when the run is stopped, the session is cancelled, or another process takes over. */
  readonly signal: AbortSignal;
  /** Emits a part of the answer while it streams: `partial({ text: "Hel" })`. Parts are never stored. */
  partial(part: { readonly text?: string; readonly reasoning?: string }): void;
}

/** A tool as the model sees it. */
export interface ToolDescription {
  readonly name: string;
  readonly description: string;
  /** The parameters: `{ type: "object", properties: { order: { type: "string" } }, required: ["order"] }`. */
  readonly inputJsonSchema: Json;
}

/** A model's answer and its cost: `{ message: { text: "Done." }, usage: { usd: 0.01, tokens: 900 } }`. */
export interface ModelResponse {
  /** Blocks, or just text. If both are set, the text comes first. */
  readonly message:
    | { readonly blocks: readonly Block[]; readonly text?: string; readonly meta?: JsonObject }
    | { readonly text: string; readonly meta?: JsonObject };
  /** Without it only turns are counted, and a limit of dollars or tokens is an error. */
  readonly usage?: Amounts;
}

const RETRYABLE_STATUS = new Set([408, 409, 425, 429, 500, 502, 503, 504, 529]);
const RETRYABLE_CODE = /^(ECONNRESET|ECONNREFUSED|ETIMEDOUT|EPIPE|ENOTFOUND|EAI_AGAIN)$/;

/** A model call has no effect on the world, so a doubtful one is simply made again. */
export function isRetryable(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return false;
  const { retryable, isRetryable: flag, status, statusCode, code, cause } = error as Record<string, unknown>;
  if (typeof retryable === "boolean") return retryable;
  if (typeof flag === "boolean") return flag;
  if (RETRYABLE_STATUS.has(Number(status ?? statusCode))) return true;
  return RETRYABLE_CODE.test(String(code)) || (cause !== undefined && isRetryable(cause));
}

export function describeTools(tools: readonly Tool[]): ToolDescription[] {
  return tools.map((each) => {
    const { name, description } = each;
    return { name, description, inputJsonSchema: parametersOf(each) };
  });
}

export function mustAnswer(response: ModelResponse | null): ModelResponse {
  const { message } = (response ?? {}) as { message?: unknown };
  const isObject = typeof message === "object" && message !== null;
  if (response && isObject && ("text" in message || "blocks" in message)) return response;
  const what = response ? "something that has no message with text or blocks" : "nothing";
  throw new HoldfastError("INPUT_INVALID", `the model returned ${what}`, {
    hint: "Resolve the model function to { message: { text } or { blocks }, usage }.",
  });
}

/** The part of an answer that is stored: text, blocks and meta, not other fields of a provider. */
export function messageOf({ message }: ModelResponse): Omit<MessageInput, "role"> {
  if (message.text === undefined) return message;
  const { text, meta } = message;
  return { text, blocks: "blocks" in message ? message.blocks : [], ...(meta && { meta }) };
}

export function waitingCalls(open: readonly Call[], blocked: readonly BlockedCall[]): WaitingCall[] {
  const own = open.map(({ callId: id, tool, status, needsPerson, why }) => {
    const person = status === "waiting" || needsPerson;
    return { callId: id, tool, person, why: why ?? "its outcome is not known yet" };
  });
  const elsewhere = blocked.map(({ callId, tool, by: { person, ...blockedBy } }) => {
    const { session, callId: first } = blockedBy;
    const why = `call ${first} of session ${session} does the same and has no outcome yet`;
    return { callId, tool, person, why, blockedBy };
  });
  return [...own, ...elsewhere];
}

export function badUsage(id: string, units: readonly string[]): HoldfastError {
  const named = units.join(", ");
  return new HoldfastError("INPUT_INVALID", `session ${id}: the model's usage of ${named} is not an amount`, {
    hint: "Return finite numbers as usage. The answer is kept and counts as `budget.perCall` or as nothing.",
    data: { session: id, units },
  });
}
