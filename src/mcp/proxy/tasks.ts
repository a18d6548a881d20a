/**
 * Calls of the ledger as MCP tasks, so that a client need not hold a connection open. A task is a view of a
 * call, and its id is the call's id: nothing more is recorded, so it survives whatever the call survives.
 *
 *     call                             2025-11-25            2026-07-28
 *     issued, unknown                  working               working
 *     waiting for a person             working; `statusMessage` says how a person answers
 *     waiting for the client's input   the server asks it    input_required, then tasks/update
 *     completed                        completed             completed
 *       with isError                   failed                completed
 *     cancelled before it was sent     cancelled             cancelled
 *     rejected by the server           failed                failed, with the server's error
 *     failed otherwise                 failed                completed, with isError
 *
 * In 2025-11-25 the client asks for a task, and gets one once the intent is durable. In 2026-07-28 the client
 * says that it can take a task. It gets one for a call that is slow or whose outcome is unknown.
 *
 * A call that was sent is never `cancelled`: it may have taken effect. `tasks/cancel` tells the server, and
 * the ledger learns the outcome.
 */

import { setTimeout as pause } from "node:timers/promises";
import { type Call, isOpen } from "../../model/session/index.ts";
import { isoTime } from "../../model/time.ts";
import { failedAnswer, waitingText } from "./answers.ts";
import type { Answer, Outcome, ProxyCalls, Side } from "./calls.ts";
import type { NumberedCall } from "./delivery.ts";
import { TASKS } from "./introduction.ts";
import { INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY } from "./json-rpc.ts";
import { ASKS_FOR_INPUT, CANCELLED, type Forwarding, rejectionOf } from "./ledger-tool.ts";
import type { ProxyConfig } from "./proxy-config.ts";

const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
const RELATED = "io.modelcontextprotocol/related-task";
const TASK_CANCELLED = -32_000;
const POLL_MS = 1_000;
const PERSON_POLL_MS = 5_000;
const LOOK_MS = 250;
const PAGE = 50;
const OWN_CURSOR = /^holdfast-(\d+)$/;
/** Behind our last page come the tasks that the server made for reads. */
export const SERVER_CURSOR = "holdfast-server";

type Params = Readonly<Record<string, unknown>>;
/** `asked`: the client wants a task. `able`: it can take one. */
type Wish = "asked" | "able" | null;

interface TaskAnswer {
  readonly answer: Answer;
  /** The call whose result the answer has. */
  readonly delivers?: NumberedCall;
}

interface TaskState {
  readonly status: "working" | "input_required" | "completed" | "failed" | "cancelled";
  readonly statusMessage?: string;
}

function canTakeTask(params: Params | undefined): boolean {
  const meta = Object(params?.["_meta"]) as Params;
  const { extensions } = Object(meta[CAPABILITIES]) as { extensions?: unknown };
  return Object.hasOwn(Object(extensions), TASKS);
}

/** Tasks of one connection. */
export class ProxyTasks {
  private readonly calls: ProxyCalls;
  private readonly side: Side;
  private readonly config: ProxyConfig;

  constructor(calls: ProxyCalls, side: Side, config: ProxyConfig) {
    this.calls = calls;
    this.side = side;
    this.config = config;
  }

  wish(params: Params): Wish {
    const { isModern, knowsTasks } = this.side.introduction;
    if (isModern) return canTakeTask(params) ? "able" : null;
    return knowsTasks && typeof params["task"] === "object" && params["task"] !== null ? "asked" : null;
  }

  /** The task in place of the answer, or null if the answer itself is to be sent. */
  async created(wish: Wish, callId: string, outcome: Promise<Outcome>): Promise<{ result: unknown } | null> {
    if (wish === null) return null;
    if (wish === "able" && (await this.isAnswered(outcome))) return null;
    // A task may be announced once its call is durable.
    if (!this.calls.recorded(callId)) await Promise.race([outcome, this.calls.whenIssued(callId)]);
    const call = this.calls.recorded(callId);
    if (!call) return null;
    const task = this.taskOf(call);
    return { result: this.isModern ? { resultType: "task", ...task } : { task } };
  }

  /** True if the answer comes soon, or is a question to the client. */
  private async isAnswered(outcome: Promise<Outcome>): Promise<boolean> {
    const enough = new AbortController();
    const late = pause(this.config.taskAfterMs, null, { signal: enough.signal }).catch(() => null);
    const first = await Promise.race([outcome, late]).finally(() => enough.abort());
    return first !== null && (first.status !== "waiting" || first.kept !== undefined);
  }

  /** Answers a request about a task. Null: the task is not ours but the server's. */
  async answer(method: string, params: Params, isOver: () => boolean): Promise<TaskAnswer | null> {
    if (this.isModern && !METHODS.has(method)) return { answer: noSuchMethod(method) };
    if (this.isModern && !canTakeTask(params)) return { answer: MISSING };
    if (method === "tasks/list") return this.list(params["cursor"]);
    const call = await this.callOf(String(params["taskId"]));
    if (!call) return null;
    switch (method) {
      case "tasks/get":
        return this.get(call);
      case "tasks/result":
        return this.result(call.callId, isOver);
      case "tasks/cancel":
        return { answer: await this.cancel(call) };
      case "tasks/update":
        return { answer: await this.update(call, params) };
      default:
        return null;
    }
  }

  private get isModern(): boolean {
    return this.side.introduction.isModern;
  }

  /** The call with that id, with what other processes wrote about it. */
  private async callOf(taskId: string): Promise<Call | undefined> {
    if (!/^mcp_[0-9a-f]{24}\.\d+$/.test(taskId)) return undefined;
    const { session } = await this.calls.ledger();
    const known = this.calls.recorded(taskId);
    if (!known || isOpen(known.status)) await session.refresh();
    return this.calls.recorded(taskId);
  }

  private async get(call: Call): Promise<TaskAnswer> {
    const task = this.taskOf(call);
    if (!this.isModern) return { answer: { result: task } };
    const { status } = task;
    if (status === "input_required")
      return { answer: { result: { ...task, inputRequests: this.questionsOf(call) } } };
    if (status === "failed")
      return { answer: { result: { ...task, error: rejectionOf(call.error ?? NO_ERROR) } } };
    if (status !== "completed") return { answer: { result: task } };
    const { answer, ...more } = await this.outcomeOf(call);
    return "error" in answer
      ? { answer }
      : { answer: { result: { ...task, result: answer.result } }, ...more };
  }

  /** Waits for the end of the call. */
  private async result(callId: string, isOver: () => boolean): Promise<TaskAnswer> {
    for (;;) {
      const call = await this.callOf(callId);
      if (!call || isOver()) return { answer: noSuchTask(callId) };
      if (!isOpen(call.status)) return this.outcomeOf(call);
      const running = this.calls.underWay(callId)?.catch(() => undefined);
      await Promise.race([running, pause(LOOK_MS, undefined, { ref: false })].filter(Boolean));
      // The outcome of a call that waits is there at once.
      if (running) await pause(LOOK_MS, undefined, { ref: false });
    }
  }

  private async outcomeOf(call: Call): Promise<TaskAnswer> {
    const { callId, error, tool: name, args } = call;
    if (error?.name === CANCELLED)
      return { answer: { error: { code: TASK_CANCELLED, message: `task ${callId}: cancelled` } } };
    const rejection = error && rejectionOf(error);
    if (rejection) return { answer: { error: rejection } };
    if (error) return { answer: { result: this.related(callId, failedAnswer(error, callId)) } };
    const rule = this.calls.ruleOf(this.side, name);
    const outcome = await this.calls.run(this.side, { callId, name, rule, args });
    const first = { ...outcome, replayed: call.status === "repeated" } as Outcome;
    const answer = this.calls.answerOf(first, this.side.introduction.hasOutputSchema(name), undefined);
    const delivers = numberedCall(callId);
    if ("error" in answer) return { answer };
    return { answer: { result: this.related(callId, answer.result) }, ...(delivers && { delivers }) };
  }

  private related(taskId: string, result: unknown): unknown {
    if (this.isModern) return result;
    const { _meta: meta, ...rest } = Object(result) as { _meta?: object };
    return { ...rest, _meta: { ...meta, [RELATED]: { taskId } } };
  }

  private async list(cursor: unknown): Promise<TaskAnswer> {
    const { session } = await this.calls.ledger();
    await session.refresh();
    const [, typed] = OWN_CURSOR.exec(String(cursor ?? "")) ?? [];
    const before = typed === undefined ? Number.POSITIVE_INFINITY : Number(typed);
    const older = this.calls.all().filter(({ callId, seq }) => callId.startsWith("mcp_") && seq < before);
    const page = older.sort((one, other) => other.seq - one.seq).slice(0, PAGE);
    const last = page.length < older.length ? page.at(-1) : undefined;
    const isServerNext = this.side.introduction.serverListsTasks ? SERVER_CURSOR : undefined;
    const nextCursor = last ? `holdfast-${last.seq}` : isServerNext;
    const tasks = page.map((call) => this.taskOf(call));
    return { answer: { result: { tasks, ...(nextCursor !== undefined && { nextCursor }) } } };
  }

  private async cancel(call: Call): Promise<Answer> {
    const { callId } = call;
    if (isOpen(call.status)) {
      const stopped = this.calls.cancel(callId, this.calls.ruleOf(this.side, call.tool), {});
      if (!this.isModern) await stopped;
    }
    if (this.isModern) return { result: {} };
    const after = this.calls.recorded(callId) ?? call;
    const task = this.taskOf(after);
    if (isOpen(after.status))
      return refusal(INTERNAL_ERROR, `not cancelled: ${task.statusMessage ?? "it runs"}`);
    const isNew = task.status === "cancelled" && isOpen(call.status);
    return isNew ? { result: task } : refusal(INVALID_PARAMS, `task ${callId}: already ${task.status}`);
  }

  /** Answers for the server: as another round of the request, or for the server's own task. */
  private async update(call: Call, params: Params): Promise<Answer> {
    const { callId, attempt, tool: name, args } = call;
    const asked = this.calls.inputs.get(callId);
    const given = Object(params["inputResponses"]) as Params;
    if (!asked) return { result: {} };
    const serverTask = this.calls.serverTask(callId);
    if (serverTask !== null) {
      const said = { ...params, taskId: serverTask };
      const { error } = (await this.side.downstream.request("tasks/update", said)).message;
      return error ? { error } : { result: {} };
    }
    const keys = Object.keys(asked.requests);
    const known = { ...asked.answers };
    for (const key of keys) {
      const own = questionKey(attempt, key);
      if (Object.hasOwn(given, own)) known[key] = given[own];
    }
    this.calls.inputs.set(callId, { ...asked, answers: known });
    if (!keys.every((key) => Object.hasOwn(known, key))) return { result: {} };
    const { requestState } = asked.round ?? {};
    const state = requestState === undefined ? {} : { requestState };
    const said = { ...this.withMeta(params), inputResponses: known, ...state };
    const rule = this.calls.ruleOf(this.side, name);
    const forwarding = newForwarding(this.side, said);
    // The task shows the outcome, whatever it is.
    this.calls.run(this.side, { callId, name, rule, args }, forwarding).catch(() => undefined);
    return { result: {} };
  }

  private withMeta({ _meta }: Params): Params {
    return _meta === undefined ? {} : { _meta };
  }

  private questionsOf({ callId, attempt }: Call): Params {
    const { requests = {}, round, answers = {} } = this.calls.inputs.get(callId) ?? {};
    const open = Object.entries(requests).filter(([key]) => !Object.hasOwn(answers, key));
    // The server may use a key again in the next round; the keys of a task stay unique.
    return Object.fromEntries(open.map(([key, each]) => [round ? questionKey(attempt, key) : key, each]));
  }

  private taskOf(call: Call) {
    const { callId: taskId, firstIssuedAt, issuedAt, lostAt, settledAt, status } = call;
    const interval = status === "waiting" ? PERSON_POLL_MS : POLL_MS;
    const times = {
      createdAt: isoTime(firstIssuedAt),
      lastUpdatedAt: isoTime(settledAt ?? Math.max(issuedAt, lostAt ?? 0)),
    };
    // Kept as long as the session.
    const limits = this.isModern
      ? { ttlMs: null, pollIntervalMs: interval }
      : { ttl: null, pollInterval: interval };
    return { taskId, ...this.stateOf(call), ...times, ...limits };
  }

  private stateOf(call: Call): TaskState {
    const { callId, status, error, why, result } = call;
    if (isOpen(status)) {
      if (this.calls.inputs.has(callId) && this.isModern) return { status: "input_required" };
      if (why === ASKS_FOR_INPUT && status === "unknown")
        return { status: "working", statusMessage: `${ASKS_FOR_INPUT}: send the same call again` };
      if (status === "issued" || this.calls.underWay(callId)) return { status: "working" };
      const statusMessage = waitingText({ callId, why: why ?? "no answer" }, status === "waiting");
      return { status: "working", statusMessage };
    }
    if (error?.name === CANCELLED) return { status: "cancelled", statusMessage: error.message };
    const hasFailed = error !== null && (!this.isModern || rejectionOf(error) !== null);
    if (hasFailed) return { status: "failed", statusMessage: error.message };
    const { isError } = Object(result && "value" in result ? result.value : {}) as { isError?: unknown };
    return { status: isError === true && !this.isModern ? "failed" : "completed" };
  }
}

/** The methods of the extension. The core of 2025-11-25 also has `tasks/list` and `tasks/result`. */
const METHODS = new Set(["tasks/get", "tasks/update", "tasks/cancel"]);
const NO_ERROR = { message: "it failed" };
const MISSING: Answer = {
  error: {
    code: MISSING_CAPABILITY,
    message: `the client has not declared ${TASKS} with this request`,
    data: { requiredCapabilities: { extensions: { [TASKS]: {} } } },
  },
};

function refusal(code: number, message: string): Answer {
  return { error: { code, message } };
}

function noSuchMethod(method: string): Answer {
  return refusal(METHOD_NOT_FOUND, `${method}: not a method of ${TASKS}`);
}

export function noSuchTask(taskId: unknown): Answer {
  return refusal(INVALID_PARAMS, `task ${String(taskId).slice(0, 200)}: not found in this session`);
}

function questionKey(attempt: number, key: string): string {
  return `${attempt}.${key}`;
}

function numberedCall(callId: string): NumberedCall | undefined {
  const [, fingerprint, number] = /^mcp_([0-9a-f]{24})\.(\d+)$/.exec(callId) ?? [];
  return fingerprint === undefined ? undefined : { callId, fingerprint, number: Number(number) };
}

/** A request of the client that is about to be forwarded. */
export function newForwarding({ downstream }: Side, params: Params): Forwarding {
  let issued = (): void => undefined;
  const whenIssued = new Promise<void>((resolve) => {
    issued = resolve;
  });
  const stop = new AbortController();
  return { id: downstream.own.newId(), downstream, params, stop, issued, whenIssued, isSent: false };
}
