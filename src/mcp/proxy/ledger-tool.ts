/**
 * A tool of the server as a tool of the ledger: `execute` forwards the call, `verify` calls another tool.
 *
 *     result                                   completed, whatever it says (`errors` decides about `isError`)
 *     rejected as unknown tool or bad input    failed: nothing happened
 *     input required                           still open: the round with the answers is the next attempt
 *     any other JSON-RPC error                 unknown: the tool had been called
 *     a task of the server                     followed to its end; after a crash the next attempt follows it
 *     never written to the server              failed: nothing happened
 *     server exited, or client cancelled       unknown; a late answer is still recorded
 */

import { setTimeout as pause } from "node:timers/promises";
import { failpoint } from "../../failpoint.ts";
import type { Dedupe, StandardSchema, Tool, ToolSpec, Verdict } from "../../ledger/index.ts";
import { DefiniteFailure, landed, NotFinished, never, notYet, unsure } from "../../ledger/index.ts";
import type { Json } from "../../model/json.ts";
import type { CallError } from "../../model/session/index.ts";
import { withNumbers } from "./answers.ts";
import { answerText, type CallFacts, fill, holds, type ToolAnswer, textOf } from "./condition.ts";
import type { LateOutcome } from "./delivery.ts";
import { type Downstream, GivenUp, NotSent } from "./downstream.ts";
import { asTexts, type Line, type Message, type RpcError } from "./json-rpc.ts";
import type { ToolRule, VerifyRule } from "./proxy-config.ts";

export interface Forwarding {
  readonly id: string;
  readonly downstream: Downstream;
  readonly params: Readonly<Record<string, unknown>>;
  /** Aborted if the client cancels before the request is sent; then it is never sent. */
  readonly stop: AbortController;
  /** Called once the intent is durable. */
  readonly issued: () => void;
  readonly whenIssued: Promise<void>;
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
  /** The questions of the server's task to the client; null if it has none. */
  askForInput(callId: string, requests: unknown): void;
  /** Whether the server runs the tool as a task: of 2025-11-25, where the client decides. */
  taskSupport(tool: string): unknown;
  /** The server's task behind a call, if it made one. */
  serverTask(callId: string): string | null;
  /** Records the server's task, or with null that the server has lost it. Durable when it resolves. */
  noteServerTask(callId: string, taskId: string | null): Promise<void>;
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

/** Wraps the arguments if the request has other fields. */
const ARGUMENTS = "tools/call arguments";

/**
 * The arguments to record: the tool's own, wrapped if the protocol put other fields beside them. Answers to
 * the server's questions are not part of them, so all rounds of a request are one call. Nor is the wish for a
 * task: it is the same call with and without.
 */
export function ledgerArgs(params: Readonly<Record<string, unknown>>): Json {
  const {
    name: _name,
    arguments: args = {},
    _meta,
    inputResponses: _in,
    requestState: _state,
    task: _task,
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

/**
 * A failure that is certain, with a name for the record: `Cancelled`, or `McpError -32602`. Tasks read it.
 */
class Rejected extends Error {
  override readonly name: string;

  constructor(message: string, name: string) {
    super(message);
    this.name = name;
  }
}

export const CANCELLED = "Cancelled";
const RPC_ERROR = "McpError";

/** The JSON-RPC error with which the server rejected a failed call. Null: the call failed otherwise. */
export function rejectionOf({ name = "", message }: CallError): RpcError | null {
  const [, code] = /^McpError (-?\d+)$/.exec(name) ?? [];
  return code === undefined ? null : { code: Number(code), message };
}

export function ledgerTool(
  call: { readonly callId: string; readonly name: string; readonly rule: ToolRule; readonly args: Json },
  forwarder: Forwarder,
): Tool {
  const { callId: id, name, rule, args: recorded } = call;
  const { verify, timeoutMs, settleMs, interrupted } = rule;
  const serverTask = forwarder.serverTask(id);
  // Without our key in its arguments, a retry is a new call to the tool. Following a task is no new call.
  const repeats = lacksKey(rule, recorded) ? undefined : rule.idempotent;
  const idempotent = serverTask === null ? repeats : true;
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
    definite: (error) => (error instanceof Rejected ? true : undefined),
    execute: (args, { callId, key, attempt, signal }) =>
      serverTask === null
        ? forward(name, rule, forwarder, { args, callId, key }, attempt, signal)
        : follow(rule, forwarder, callId, serverTask, signal),
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
  signal: AbortSignal,
): Promise<Json> {
  const { callId } = facts;
  const own = forwarder.forwarding(callId);
  own?.issued();
  const { args, rest } = unwrapped(facts.args);
  const called = { ...rest, name, arguments: withKey(rule, args, facts.key) };
  const { task: asked, ...given } = own?.params ?? {};
  const support = forwarder.taskSupport(name);
  const task = support === "required" ? (asked ?? {}) : support === "optional" ? asked : undefined;
  const params = { ...given, ...called, ...(task !== undefined && { task }), ...metaOf(forwarder, own) };
  try {
    const answer = await send(forwarder.downstream, params, own);
    const made = madeTask(answer.message.result);
    if (made === null) return read(rule, forwarder, callId, answer);
    await forwarder.noteServerTask(callId, made);
    return await follow(rule, forwarder, callId, made, signal);
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
    const isCertain = error instanceof DefiniteFailure || error instanceof Rejected;
    return isCertain ? { failure: error.message } : null;
  }
}

function read(rule: ToolRule, forwarder: Pick<Forwarder, "keepAnswer">, callId: string, line: Line): Json {
  const { error } = line.message;
  const result = withNumbers(line);
  if (error) {
    if (!REFUSED.has(error.code))
      throw new Error(`the server answered with error ${error.code}: ${error.message}`);
    forwarder.keepAnswer(callId, { error });
    throw new Rejected(error.message, `${RPC_ERROR} ${error.code}`);
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

/** The server's task that a result stands for, in either protocol. */
function madeTask(result: unknown): string | null {
  const { resultType, task, taskId, content } = Object(result) as Readonly<Record<string, unknown>>;
  const made = resultType === "task" ? taskId : (Object(task) as { taskId?: unknown }).taskId;
  return typeof made === "string" && content === undefined ? made : null;
}

const POLL_MS = { least: 100, usual: 1_000, most: 10_000 };

/**
 * Asks for a task of the server until it has ended. A lost connection proves nothing about the task, so the
 * proxy asks again. A server that has lost the task leaves the outcome unknown.
 */
async function follow(
  rule: ToolRule,
  forwarder: Forwarder,
  callId: string,
  taskId: string,
  signal: AbortSignal,
): Promise<Json> {
  const params = { taskId, ...metaOf(forwarder, undefined) };
  for (;;) {
    signal.throwIfAborted();
    const asked = forwarder.downstream.request("tasks/get", params, { signal });
    const line = await asked.catch((error: Error) => error);
    if (line instanceof Error) {
      if (forwarder.downstream.isStopping) throw new NotFinished("the connection to the server was ended");
      await pause(POLL_MS.usual, undefined, { signal });
      continue;
    }
    const { error, result } = line.message;
    if (error) {
      await forwarder.noteServerTask(callId, null);
      throw new NotFinished(`the server has lost its task ${taskId}: ${error.message}`);
    }
    const task = Object(result) as Readonly<Record<string, unknown>>;
    const { status, statusMessage = "" } = task;
    if (status === "cancelled") throw new Error(`the server cancelled its task ${taskId}: ${statusMessage}`);
    if (status === "completed" && "result" in task) return read(rule, forwarder, callId, innerLine(line));
    if (status === "failed" && "error" in task) throw new Error(`its task failed: ${statusMessage}`);
    // In 2025-11-25 the result is a request of its own, which also lets the server ask for input.
    const isOver = ["completed", "failed", "input_required"].includes(String(status));
    if (isOver && forwarder.envelope() === undefined)
      return taskResult(rule, forwarder, callId, params, signal);
    forwarder.askForInput(callId, status === "input_required" ? task["inputRequests"] : null);
    const { pollInterval, pollIntervalMs = pollInterval } = task;
    const wanted = Number(pollIntervalMs ?? POLL_MS.usual) || POLL_MS.usual;
    await pause(Math.min(Math.max(wanted, POLL_MS.least), POLL_MS.most), undefined, { signal });
  }
}

async function taskResult(
  rule: ToolRule,
  forwarder: Forwarder,
  callId: string,
  params: { readonly taskId: string },
  signal: AbortSignal,
): Promise<Json> {
  const line = await forwarder.downstream.request("tasks/result", params, { signal });
  const { error } = line.message;
  if (error) throw new Error(`the task failed: ${error.message}`);
  return read(rule, forwarder, callId, line);
}

/** The result inside a task, as if it were the answer. */
function innerLine({ raw, message, inexact }: Line): Line {
  const { result } = Object(message.result) as { result?: unknown };
  const inside = inexact.flatMap(({ path: [first, second, ...rest], text }) =>
    first === "result" && second === "result" ? [{ path: ["result", ...rest], text }] : [],
  );
  return { raw, message: { result }, inexact: inside };
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
    if (!(error instanceof NotSent)) throw error;
    if (own?.stop.signal.aborted) throw new Rejected(error.message, CANCELLED);
    throw new DefiniteFailure(error.message);
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
