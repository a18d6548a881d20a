/** What a run is told, what it says while it goes, and what it comes to. */

import type { CallProgress, Tool } from "../ledger/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { Json } from "../model/json.ts";
import { checkOption, checkOptions, type OptionRule } from "../model/options.ts";
import type { Amounts, Block, JsonObject, Message } from "../model/session/index.ts";
import type { MessageInput } from "./messages.ts";
import type { PromptInput } from "./prompts.ts";
import type { CadenceOption } from "./versions.ts";

/** A tool as a model needs to see it. */
export interface ToolDescription {
  readonly name: string;
  readonly description: string;
  readonly inputJsonSchema: Json | null;
}

/** What a model is asked: the whole conversation, each time. Its messages are frozen: copy what you want to change. */
export interface ModelRequest {
  readonly system: string | null;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDescription[];
  /** Aborts when the run is stopped, the session is cancelled, or another process takes over. */
  readonly signal: AbortSignal;
  /** Shows a part of the answer before it is whole. Partials are never stored. */
  partial(part: { readonly text?: string; readonly reasoning?: string }): void;
}

/** What it answered, and what that cost. Without `usage` only turns are counted. */
export interface ModelResponse {
  /** The answer: blocks, or just text; of both, the text comes first. */
  readonly message:
    | { readonly blocks: readonly Block[]; readonly text?: string; readonly meta?: JsonObject }
    | { readonly text: string; readonly meta?: JsonObject };
  readonly usage?: Amounts;
}

/** Any model is one function. Throw an error with `retryable: true` to have it asked again. */
export type Model = (request: ModelRequest) => Promise<ModelResponse>;

const RETRYABLE_STATUS = new Set([408, 409, 425, 429, 500, 502, 503, 504, 529]);
const RETRYABLE_CODES = new Set([
  "ECONNRESET",
  "ECONNREFUSED",
  "ETIMEDOUT",
  "EPIPE",
  "ENOTFOUND",
  "EAI_AGAIN",
]);

/** A model call has no effect on the world, so a doubtful one is simply made again. */
export function isRetryable(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return false;
  const { retryable, isRetryable: flag, status, statusCode, code, cause } = error as Record<string, unknown>;
  if (typeof retryable === "boolean") return retryable;
  if (typeof flag === "boolean") return flag;
  if (RETRYABLE_STATUS.has(Number(status ?? statusCode))) return true;
  return RETRYABLE_CODES.has(String(code)) || (cause !== undefined && isRetryable(cause));
}

export function describeTools(tools: readonly Tool[]): ToolDescription[] {
  return tools.map(({ name, description, inputJsonSchema }) => {
    return { name, description, inputJsonSchema: inputJsonSchema ?? null };
  });
}

export function mustAnswer(response: ModelResponse | null): ModelResponse {
  const { message } = (response ?? {}) as { message?: unknown };
  if (
    response &&
    typeof message === "object" &&
    message !== null &&
    ("text" in message || "blocks" in message)
  )
    return response;
  const what = response ? "something that has no message with text or blocks" : "nothing";
  throw new HoldfastError("INPUT_INVALID", `the model returned ${what}`, {
    hint: "A model function resolves to { message: { text } or { blocks }, usage }.",
  });
}

/** What of an answer is kept. Beside text a model may return fields of its provider, which are nobody's. */
export function saidIn({ message }: ModelResponse): Omit<MessageInput, "role"> {
  if (message.text === undefined) return message;
  const { text, meta } = message;
  return { text, blocks: "blocks" in message ? message.blocks : [], ...(meta && { meta }) };
}

/** What `on` is told: for screens and logs. What must not be missed is in the log itself. */
export type RunProgress =
  | CallProgress
  | { readonly type: "model.asked"; readonly turn: number }
  | { readonly type: "model.partial"; readonly text?: string; readonly reasoning?: string }
  | { readonly type: "model.retried"; readonly error: string; readonly inMs: number }
  | { readonly type: "message"; readonly message: Message }
  | { readonly type: "loop"; readonly tool: string; readonly count: number };

/** What `session.run` is told. Only the model is needed; none of it is stored, so a resumed run is told it again. */
export interface RunOptions {
  readonly model: Model;
  /** All that the model may call. Calls that an earlier process left open are settled with them, by name. */
  readonly tools?: readonly Tool[];
  readonly system?: string;
  /**
   * Without a prompt the run continues what is there. With `{ id, text }` what it comes to is the answer to that prompt, also
   * when others were answered after it; a finished one returns its answer from the record.
   */
  readonly prompt?: PromptInput;
  /**
   * Limits over the whole life of the session. `run` raises a limit and never lowers one: `session.limit` does.
   * `perCall` is the most that one model call may cost, and is set aside before each.
   */
  readonly budget?: Amounts & { readonly perCall?: Amounts };
  /** When a version gets its number: after each turn (`"turn"`) unless set. */
  readonly cadence?: CadenceOption;
  /** Model calls in this run; then it is `paused`, `turns`. No limit unless set. */
  readonly maxTurns?: number;
  /** Calls of one message that run at once: 8 unless set. */
  readonly parallel?: number;
  /**
   * After this much time no further model call is begun (`paused`, `deadline`). A call under way is not cut off: leave
   * room for the longest one. `signal` cuts.
   */
  readonly deadlineMs?: number;
  /** Stops the run where it is (`paused`, `stopped`). A tool that was cut off has an unknown outcome, which is settled later. */
  readonly signal?: AbortSignal;
  /** Told what happens while it happens. Nothing waits for it, and nothing of it is stored. */
  readonly on?: (progress: RunProgress) => void;
  /** How often a model call that failed for a reason that may pass is made again: 4 times unless set. */
  readonly modelRetries?: number;
  /** Identical calls in a row: a note to the model at `warnAt` (5), a pause at `stopAt` (10). */
  readonly loop?: { readonly warnAt: number; readonly stopAt: number };
  /**
   * How long to wait in place, in all, for the outcome of a call that will be known without a person: 10 s unless set, and not
   * beyond `deadlineMs`. Then it is `waiting`.
   */
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
  on: "function",
  modelRetries: "most",
  loop: "object",
  patienceMs: "wait",
} as const satisfies Record<keyof RunOptions, OptionRule>;

/** Before anything is asked: a limit that is misspelt, or that an unset variable made NaN, would be none. */
export function checkRunOptions(session: string, options: RunOptions): void {
  const what = `session ${session}, run`;
  checkOptions(what, options, RUN_OPTIONS);
  const { model, cadence, loop } = options;
  checkOption(`${what}: model`, model, "function");
  if (typeof cadence === "object" && cadence !== null)
    checkOptions(`${what}: cadence`, cadence, { turns: "number", seconds: "duration" });
  else if (cadence !== undefined) checkOption(`${what}: cadence`, cadence, ["turn", "call"]);
  if (loop) checkOptions(`${what}: loop`, loop, { warnAt: "number", stopAt: "number" });
}

/** A call for which the run stopped, as `waiting`. */
export interface WaitingCall {
  readonly callId: string;
  readonly tool: string;
  /**
   * True when a person has to answer: this call, or, of a sub-agent, the one that `why` names. False when a later run will
   * find out by itself.
   */
  readonly person: boolean;
  readonly why: string;
  /** The call of another session that does the same, once for all of them: this one goes on when that has an outcome. */
  readonly blockedBy?: { readonly session: string; readonly callId: string };
}

/** What a run came to. Whatever it is, everything up to here is durable, and another run goes on from it. */
export interface RunResult {
  /** Answered; or calls have no outcome yet; or something said stop. */
  readonly status: "done" | "waiting" | "paused";
  /** Why it stopped: `answered`, `calls`, `budget`, `deadline`, `turns`, `loop`, `cancelled`, `stopped`. */
  readonly reason: string;
  /** The answer to the prompt if that has an id, else the last word; empty unless `done`. */
  readonly text: string;
  /** Calls without an outcome. Where a person is needed, `holdfast.calls.resolve` answers. */
  readonly waiting: readonly WaitingCall[];
  /** By the session in all its life, not by this run alone. */
  readonly spent: Amounts;
  /** Calls of this run that repeated a finished one, or a prompt whose answer was on record. */
  readonly replayed: readonly string[];
  /** The session's latest version. */
  readonly version: number;
}
