/**
 * A tool of the server behind, as the ledger knows tools: `execute` forwards the call, `verify` asks another tool of the
 * same server. The ledger decides when which of them runs.
 *
 *     result                                    completed, whatever it says (`errors` may say otherwise of `isError`)
 *     rejected as no such tool or bad input     failed: nothing can have happened
 *     any other JSON-RPC error                  unknown: it came after the tool was called
 *     never written to the server               failed: nothing can have happened
 *     the server ended, the client gave it up   unknown; what the server answers later is recorded all the same
 */

import { failpoint } from "../../failpoint.ts";
import {
  type Dedupe,
  DefiniteFailure,
  landed,
  never,
  notYet,
  type StandardSchema,
  type Tool,
  tool,
  unsure,
  type Verdict,
} from "../../ledger/index.ts";
import type { Json } from "../../model/json.ts";
import { withNumbers } from "./answers.ts";
import { answerText, holds, type ToolAnswer, type CallFacts, fill, textOf } from "./condition.ts";
import { type Downstream, GivenUp, NotSent } from "./downstream.ts";
import { type Line, type Message, type RpcError, asTexts } from "./json-rpc.ts";
import type { LateOutcome } from "./delivery.ts";
import type { ToolRule, VerifyRule } from "./proxy-config.ts";

/** What one request of the client carries beside the arguments. */
export interface Forwarding {
  /** The id under which it was sent on, for cancelling it. */
  readonly id: string;
  /** The other parameters of `tools/call`, such as `_meta` with the token for its progress. */
  readonly params: Readonly<Record<string, unknown>>;
  /** Aborted when the client has cancelled it before it was sent: then it never is. */
  readonly stop: AbortController;
  isSent: boolean;
}

export interface Forwarder {
  readonly downstream: Downstream;
  /** The client's request that a call is run for, if there is one: a call that is settled after a crash has none. */
  forwarding(callId: string): Forwarding | undefined;
  /** `_meta` that every request has to carry, as the client's own do. */
  envelope(): Readonly<Record<string, unknown>> | undefined;
  /** What the server answered, for the client to read as it was, when the ledger only keeps that the call failed. */
  keepAnswer(callId: string, answer: { readonly error: RpcError } | { readonly result: unknown }): void;
  /** The server has answered an attempt that was given up. */
  answeredLate(attempt: { readonly callId: string; readonly attempt: number }, outcome: LateOutcome): void;
}

const anything: StandardSchema<unknown, Json> = {
  "~standard": { version: 1, vendor: "holdfast", validate: (value) => ({ value: value as Json }) },
};

/** Refused before any tool was called: no JSON-RPC, no such method, bad parameters, a page to visit first. */
const REFUSED = new Set([-32_700, -32_600, -32_601, -32_602, -32_042]);
const ASK_AGAIN_MS = 500;

/** Arguments of a call that had more to say than arguments: the answers to what the server asked in between. */
const ARGUMENTS = "tools/call arguments";

/** What the ledger records as the arguments: the tool's own, unless the protocol put something beside them. */
export function ledgerArgs(params: Readonly<Record<string, unknown>>): Json {
  const { name: _name, arguments: args = {}, _meta, ...rest } = params;
  return (Object.keys(rest).length === 0 ? args : { ...rest, [ARGUMENTS]: args }) as Json;
}

/** The other way round: the tool's own arguments, and what stood beside them. */
function unwrapped(recorded: Json): { readonly args: Json; readonly rest: Readonly<Record<string, Json>> } {
  const isWrapped = isMembers(recorded) && Object.hasOwn(recorded, ARGUMENTS);
  if (!isWrapped) return { args: recorded, rest: {} };
  const { [ARGUMENTS]: args = {}, ...rest } = recorded;
  return { args, rest };
}

function isMembers(value: Json): value is Readonly<Record<string, Json>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A key that the agent gave itself stays: it comes again with the same call. An empty one is none. */
function withKey({ keyArgument }: ToolRule, args: Json, key: string): Json {
  if (keyArgument === undefined || !isMembers(args)) return args;
  const given = args[keyArgument];
  return given === undefined || given === null || given === "" ? { ...args, [keyArgument]: key } : args;
}

function lacksKey({ keyArgument }: ToolRule, recorded: Json): boolean {
  return keyArgument !== undefined && !isMembers(unwrapped(recorded).args);
}

/** `recorded` are the arguments of the call that it is made for, as `ledgerArgs` gives them. */
export function ledgerTool(name: string, rule: ToolRule, recorded: Json, forwarder: Forwarder): Tool {
  const { verify, timeoutMs, settleMs, interrupted } = rule;
  // Without our key in it, the same call again is another one to the tool.
  const idempotent = lacksKey(rule, recorded) ? undefined : rule.idempotent;
  return tool<Json, Json>({
    name,
    description: `${name} of the server behind the proxy`,
    input: anything,
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
  }) as Tool;
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

/** What an answer says that nobody waits for; null if it leaves the outcome unknown. */
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
  const said = result as ToolAnswer | undefined;
  if (said?.isError === true && rule.errors !== "answer") {
    if (rule.errors === "unknown") throw new Error(`the tool answered with an error: ${answerText(said)}`);
    forwarder.keepAnswer(callId, { result });
    throw new DefiniteFailure(answerText(said));
  }
  return (result ?? null) as Json;
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

/** The client's own `_meta`, with the token for its progress; of a call that it does not wait for, only what all carry. */
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
    throw new Error(`verify with ${rule.tool} needs an argument that the call did not have`);
  const params = { name: rule.tool, arguments: args, ...metaOf(forwarder, undefined) };
  const line = await forwarder.downstream.request("tools/call", params, { signal });
  const { error, result } = asTexts(line.message, line.inexact) as Message;
  if (error) throw new Error(`${rule.tool} answered with error ${error.code}: ${error.message}`);
  // A number that was rounded could equal another one; as a text it is what the server said.
  const answer = (result ?? {}) as ToolAnswer;
  const hasLanded = holds(rule.landed, answer, facts);
  if (hasLanded) return landed(landedResult(rule, facts, answer));
  if (rule.never && holds(rule.never, answer, facts)) return never();
  const isAbsent = rule.absent !== undefined && holds(rule.absent, answer, facts) === true;
  if (answer.isError === true && !isAbsent) throw new Error(`${rule.tool} answered: ${answerText(answer)}`);
  // "No trace" would let it be run again after a while; but a trace of nothing cannot be seen.
  if (hasLanded === undefined && !isAbsent)
    return unsure("what verify looks for is empty in this call, so it proves nothing");
  return notYet({ againInMs: ASK_AGAIN_MS });
}

/** The answer itself is lost; this stands in its place and says so. */
function landedResult(rule: VerifyRule, facts: CallFacts, answer: ToolAnswer): Json {
  const said = rule.result === undefined ? undefined : fill(rule.result, facts);
  if (typeof said === "object" && said !== null && !Array.isArray(said)) {
    return "content" in said
      ? said
      : { content: [{ type: "text", text: JSON.stringify(said) }], structuredContent: said };
  }
  const text = `It has happened; its own answer was lost. ${
    said === undefined ? `${rule.tool} found: ${answerText(answer)}` : textOf(said)
  }`;
  return { content: [{ type: "text", text: text.slice(0, 4_000) }] };
}
