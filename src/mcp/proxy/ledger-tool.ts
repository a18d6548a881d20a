/**
 * A tool of the server as a tool of the ledger: `execute` forwards the call, `verify` calls another tool.
 *
 *     result                                   completed, whatever it says (`errors` decides about `isError`)
 *     rejected as unknown tool or bad input    failed: nothing happened
 *     input required                           still open: the round with the answers is the next attempt
 *     any other JSON-RPC error                 unknown: the tool had been called
 *     never written to the server              failed: nothing happened
 *     server exited, or client cancelled       unknown; a late answer is still recorded
 */

import { failpoint } from "../../failpoint.ts";
import type { Dedupe, StandardSchema, Tool, ToolSpec, Verdict } from "../../ledger/index.ts";
import { DefiniteFailure, landed, NotFinished, never, notYet, unsure } from "../../ledger/index.ts";
import type { Json } from "../../model/json.ts";
import { withNumbers } from "./answers.ts";
import { answerText, type CallFacts, fill, holds, type ToolAnswer, textOf } from "./condition.ts";
import type { LateOutcome } from "./delivery.ts";
import { type Downstream, GivenUp, NotSent } from "./downstream.ts";
import { asTexts, type Line, type Message, type RpcError } from "./json-rpc.ts";
import type { ToolRule, VerifyRule } from "./proxy-config.ts";

export interface Forwarding {
  readonly id: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** Aborted if the client cancels before the request is sent; then it is never sent. */
  readonly stop: AbortController;
  isSent: boolean;
}

export interface Forwarder {
  readonly downstream: Downstream;
  /** The client's request behind a call. A call that is settled after a crash has none. */
  forwarding(callId: string): Forwarding | undefined;
  envelope(): Readonly<Record<string, unknown>> | undefined;
  /** Keeps the server's answer for the client where the ledger records no result. */
  keepAnswer(callId: string, answer: { readonly error: RpcError } | { readonly result: unknown }): void;
  answeredLate(attempt: { readonly callId: string; readonly attempt: number }, outcome: LateOutcome): void;
}

const anything: StandardSchema<unknown, Json> = {
  "~standard": { version: 1, vendor: "holdfast", validate: (value) => ({ value: value as Json }) },
};

/**
 * Errors before any tool is called: not JSON-RPC, no such method, bad parameters, URL elicitation. The last
 * three are of 2026-07-28: headers differ from the body, a capability is missing, the version is unknown.
 */
const REFUSED = new Set([-32_700, -32_600, -32_601, -32_602, -32_042, -32_020, -32_021, -32_022]);
const ASK_AGAIN_MS = 500;
/** Why a call is open whose next attempt only the client can make. */
export const ASKS_FOR_INPUT = "the server asks for input first, and the client has not sent it";

/** Wraps the arguments if the request has other fields, such as those of a task. */
const ARGUMENTS = "tools/call arguments";

/**
 * The arguments to record: the tool's own, wrapped if the protocol put other fields beside them. Answers to
 * the server's questions are not part of them, so all rounds of a request are one call.
 */
export function ledgerArgs(params: Readonly<Record<string, unknown>>): Json {
  const {
    name: _name,
    arguments: args = {},
    _meta,
    inputResponses: _in,
    requestState: _state,
    ...rest
  } = params;
  return (Object.keys(rest).length === 0 ? args : { ...rest, [ARGUMENTS]: args }) as Json;
}

function unwrapped(recorded: Json): { readonly args: Json; readonly rest: Readonly<Record<string, Json>> } {
  const isWrapped = isMembers(recorded) && Object.hasOwn(recorded, ARGUMENTS);
  if (!isWrapped) return { args: recorded, rest: {} };
  const { [ARGUMENTS]: args = {}, ...rest } = recorded;
  return { args, rest };
}

function isMembers(value: Json): value is Readonly<Record<string, Json>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function withKey({ keyArgument }: ToolRule, args: Json, key: string): Json {
  if (keyArgument === undefined || !isMembers(args)) return args;
  const given = args[keyArgument];
  return given === undefined || given === null || given === "" ? { ...args, [keyArgument]: key } : args;
}

function lacksKey({ keyArgument }: ToolRule, recorded: Json): boolean {
  return keyArgument !== undefined && !isMembers(unwrapped(recorded).args);
}

export function ledgerTool(name: string, rule: ToolRule, recorded: Json, forwarder: Forwarder): Tool {
  const { verify, timeoutMs, settleMs, interrupted } = rule;
  // Without our key in its arguments, a retry is a new call to the tool.
  const idempotent = lacksKey(rule, recorded) ? undefined : rule.idempotent;
  // Not by `tool()`, which refuses names that vendors refuse: this name is the server's.
  const proxied: ToolSpec<Json, Json> = {
    name,
    description: `${name} of the proxied server`,
    input: anything,
    inputJsonSchema: { type: "object" },
    effect: rule.effect,
    dedupe: ledgerDedupe(rule),
    interrupted,
    ...(idempotent !== undefined && { idempotent }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(settleMs !== undefined && { settleMs }),
    execute: (args, { callId, key, attempt }) =>
      forward(name, rule, forwarder, { args, callId, key }, attempt),
    ...(verify && {
      verify: (args, { callId, key, signal }) =>
        ask(verify, forwarder, { args: unwrapped(args).args, callId, key }, signal),
    }),
  };
  return proxied as Tool;
}

function ledgerDedupe({ dedupe }: ToolRule): Dedupe<Json> {
  if (dedupe === "delivered") return "call";
  if (typeof dedupe === "string") return dedupe;
  const { scope, key } = dedupe;
  return { scope, key: (args: Json) => textOf(fill(key, { args, key: "", callId: "" }) ?? { key, args }) };
}

async function forward(
  name: string,
  rule: ToolRule,
  forwarder: Forwarder,
  facts: CallFacts,
  attempt: number,
): Promise<Json> {
  const own = forwarder.forwarding(facts.callId);
  const { args, rest } = unwrapped(facts.args);
  const called = { ...rest, name, arguments: withKey(rule, args, facts.key) };
  const params = { ...own?.params, ...called, ...metaOf(forwarder, own) };
  try {
    return read(rule, forwarder, facts.callId, await send(forwarder.downstream, params, own));
  } catch (error) {
    if (error instanceof GivenUp)
      void error.late.then(
        (answer) => {
          const outcome = lateOutcome(rule, answer);
          if (outcome) forwarder.answeredLate({ callId: facts.callId, attempt }, outcome);
        },
        () => undefined,
      );
    throw error;
  }
}

/** The outcome of a late answer, or null if it leaves the outcome unknown. */
function lateOutcome(rule: ToolRule, answer: Line): LateOutcome | null {
  try {
    return { value: read(rule, { keepAnswer: () => undefined }, "", answer) };
  } catch (error) {
    return error instanceof DefiniteFailure ? { failure: error.message } : null;
  }
}

function read(rule: ToolRule, forwarder: Pick<Forwarder, "keepAnswer">, callId: string, line: Line): Json {
  const { error } = line.message;
  const result = withNumbers(line);
  if (error) {
    if (!REFUSED.has(error.code))
      throw new Error(`the server answered with error ${error.code}: ${error.message}`);
    forwarder.keepAnswer(callId, { error });
    throw new DefiniteFailure(error.message);
  }
  if (asksForInput(result)) {
    forwarder.keepAnswer(callId, { result });
    throw new NotFinished(ASKS_FOR_INPUT, { started: false });
  }
  const said = result as ToolAnswer | undefined;
  if (said?.isError === true && rule.errors !== "answer") {
    if (rule.errors === "unknown") throw new Error(`the tool answered with an error: ${answerText(said)}`);
    forwarder.keepAnswer(callId, { result });
    throw new DefiniteFailure(answerText(said));
  }
  return (result ?? null) as Json;
}

/** In the newer protocol a result may ask the client for input, and the client sends the request again. */
function asksForInput(result: unknown): boolean {
  return (Object(result) as { resultType?: unknown }).resultType === "input_required";
}

async function send(downstream: Downstream, params: unknown, own: Forwarding | undefined): Promise<Line> {
  const sent = (): void => failpoint("mcp.forwarded");
  const begun = (): void => {
    if (own) own.isSent = true;
  };
  try {
    const asking = own ? { id: own.id, signal: own.stop.signal, begun, sent } : { sent };
    return await downstream.request("tools/call", params, asking);
  } catch (error) {
    if (error instanceof NotSent) throw new DefiniteFailure(error.message);
    throw error;
  }
}

/** The client's `_meta`, or the common one for a call that no client waits for. */
function metaOf(forwarder: Forwarder, own: Forwarding | undefined): { _meta?: unknown } {
  const meta = own ? own.params["_meta"] : forwarder.envelope();
  return meta === undefined ? {} : { _meta: meta };
}

async function ask(
  rule: VerifyRule,
  forwarder: Forwarder,
  facts: CallFacts,
  signal: AbortSignal,
): Promise<Verdict<Json>> {
  const args = fill(rule.args, facts);
  if (args === undefined)
    throw new Error(`verify with ${rule.tool} needs an argument that the call does not have`);
  const params = { name: rule.tool, arguments: args, ...metaOf(forwarder, undefined) };
  const line = await forwarder.downstream.request("tools/call", params, { signal });
  const { error, result } = asTexts(line.message, line.inexact) as Message;
  if (error) throw new Error(`${rule.tool} answered with error ${error.code}: ${error.message}`);
  // Numbers are strings here, so that none is rounded to equal another one.
  const answer = (result ?? {}) as ToolAnswer;
  const hasLanded = holds(rule.landed, answer, facts);
  if (hasLanded) return landed(landedResult(rule, facts, answer));
  if (rule.never && holds(rule.never, answer, facts)) return never();
  const isAbsent = rule.absent !== undefined && holds(rule.absent, answer, facts) === true;
  if (answer.isError === true && !isAbsent) throw new Error(`${rule.tool} answered: ${answerText(answer)}`);
  // `notYet` would allow a retry later, but an empty value to look for proves nothing.
  if (hasLanded === undefined && !isAbsent)
    return unsure("the value that verify looks for is empty in this call");
  return notYet({ againInMs: ASK_AGAIN_MS });
}

/** Stands in for the lost answer and says so. */
function landedResult(rule: VerifyRule, facts: CallFacts, answer: ToolAnswer): Json {
  const said = rule.result === undefined ? undefined : fill(rule.result, facts);
  if (typeof said === "object" && said !== null && !Array.isArray(said)) {
    return "content" in said
      ? said
      : { content: [{ type: "text", text: JSON.stringify(said) }], structuredContent: said };
  }
  const text = `It took effect; its own answer was lost. ${
    said === undefined ? `${rule.tool} found: ${answerText(answer)}` : textOf(said)
  }`;
  return { content: [{ type: "text", text: text.slice(0, 4_000) }] };
}
