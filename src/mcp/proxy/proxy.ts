/**
 * The durable proxy between an MCP client and an MCP server: the ledger around every tool that is not a read.
 *
 *     client ──line──▶ tools/call of a write or mutate? ──no──▶ the same line to the server
 *                        │ yes
 *                        ▼
 *     find its call (`delivery.ts`) ──▶ ledger: issued ──▶ server ──▶ ledger: answer ──▶ client ──▶ ping
 *
 * A crash leaves:
 *
 *     before `issued`             nothing: a repeated request runs
 *     before the answer's record  an unknown call: the next proxy verifies it or asks a person
 *     after the record            the answer: the same request gets it again
 *     after the ping's answer     nothing to remember: the client has read the answer
 *
 * Everything else is forwarded, the client's lines unchanged, the server's after `untrusted-line.ts`. An
 * answer of the server reaches the client only under the id of a request that was forwarded.
 */

import type { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { failpoint } from "../../failpoint.ts";
import { HoldfastError } from "../../model/errors.ts";
import { copyJson } from "../../model/json.ts";
import { answerJson, inexactCall, troubleAnswer } from "./answers.ts";
import type { Answer, ProxyCalls } from "./calls.ts";
import type { NumberedCall } from "./delivery.ts";
import { type Downstream, ServerProcess } from "./downstream.ts";
import { HttpServer, type HttpTarget } from "./http-server.ts";
import { Introduction, ServerQuestions, shownTools, toolsIn, withTasks } from "./introduction.ts";
import type { Id, Line } from "./json-rpc.ts";
import {
  errorText,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  INVALID_REQUEST,
  idAt,
  invalidity,
  isId,
  isRequest,
  isResponse,
  MAX_DEPTH,
  MAX_LINE,
  parseLine,
  readLines,
  requestText,
  resultText,
  writeLine,
} from "./json-rpc.ts";
import { ledgerArgs } from "./ledger-tool.ts";
import type { ProxyConfig, ToolRule } from "./proxy-config.ts";
import { newForwarding, noSuchTask, ProxyTasks, SERVER_CURSOR } from "./tasks.ts";
import { repeatedKey, tooDeep } from "./untrusted-line.ts";

export interface ProxyOptions {
  readonly calls: ProxyCalls;
  readonly config: ProxyConfig;
  /** The command that starts the server, or its address. */
  readonly server: readonly string[] | HttpTarget;
  readonly input: Readable;
  readonly output: Writable;
  readonly log: (text: string) => void;
  /**
   * `ordered`: the client's answers come in the order of ours, as through a pipe. `confirmed`: only `wasRead`
   * says that an answer was read.
   */
  readonly delivery?: "ordered" | "confirmed";
}

interface Asked {
  readonly callId: string;
  /** Null for a request about a task: cancelling it leaves the task alone. */
  readonly rule: ToolRule | null;
  isCancelled: boolean;
}

const LAST_CALLS_MS = 3_000;
const SERVER_ENDED = -32_000;
const SHOWN = 200;

/** One client and its server. */
export class DurableProxy {
  readonly clientGone: Promise<void>;
  private readonly options: ProxyOptions;
  private readonly calls: ProxyCalls;
  private readonly tasks: ProxyTasks;
  readonly downstream: Downstream;
  readonly introduction: Introduction;
  private readonly asked = new Map<Id, Asked>();
  private readonly forwarded = new Map<Id, string>();
  private readonly knownTools = new Set<string>();
  private readonly questions: ServerQuestions;
  private readonly work = new Set<Promise<void>>();
  /** Answers whose delivery is to be confirmed, and the marks under which `deliveries` knows them. */
  private readonly unconfirmed = new Map<Id, Id>();

  constructor(options: ProxyOptions) {
    this.options = options;
    this.calls = options.calls;
    const { server, input, log } = options;
    const hooks = {
      log,
      feeding: input,
      onLine: (line: Line) => this.guarded(() => this.fromServer(line)),
      onEnd: (why: string) => this.serverEnded(why),
    };
    this.downstream =
      "url" in server ? new HttpServer(server, hooks) : new ServerProcess({ ...hooks, command: server });
    this.introduction = new Introduction(this.downstream);
    this.questions = new ServerQuestions(() => this.downstream.own.newId());
    this.tasks = new ProxyTasks(this.calls, this, options.config);
    this.clientGone = new Promise((resolve) => {
      input.once("end", resolve);
      input.once("close", resolve);
    });
  }

  async start(): Promise<void> {
    const { input, output, log } = this.options;
    output.on("error", (error) => log(`cannot write to the client: ${error.message}`));
    await this.downstream.start().catch((error: Error) => {
      throw cannotStart(this.options.server, error);
    });
    const tooLong = (): void => this.refuseLength();
    readLines(input, (raw) => this.answering(raw), tooLong);
  }

  /** Waits briefly for calls in flight; the ledger keeps the rest. */
  async close(): Promise<void> {
    const enough = new AbortController();
    const late = pause(LAST_CALLS_MS, undefined, { signal: enough.signal }).catch(() => undefined);
    await Promise.race([Promise.allSettled([...this.work, this.calls.idle()]), late]);
    enough.abort();
    this.calls.leave(this);
    await this.downstream.stop();
  }

  /** A fault of ours must not leave the client waiting, nor end the proxy. */
  private answering(raw: string): void {
    const deep = tooDeep(raw);
    if (deep) {
      this.refuseMessage(deep.id, `it is nested deeper than ${MAX_DEPTH} levels`);
      return;
    }
    const line = parseLine(raw);
    const id = line?.message.id;
    this.guarded(
      () => this.fromClient(raw, line),
      (message) => {
        if (isId(id)) this.background(this.toClient(errorText(id, { code: INTERNAL_ERROR, message })));
      },
    );
  }

  private guarded(act: () => void, failed: (message: string) => void = () => undefined): void {
    try {
      act();
    } catch (error) {
      const message = `INTERNAL: ${error instanceof Error ? error.message : String(error)}`;
      this.options.log(message);
      failed(message);
    }
  }

  private refuseLength(): void {
    const message = `a line has more than ${MAX_LINE >> 20} MB`;
    this.options.log(`the client sent too much: ${message}`);
    this.background(this.toClient(errorText(null, { code: INVALID_REQUEST, message })));
  }

  private fromClient(raw: string, line: Line | null): void {
    if (line && isResponse(line.message) && isId(line.message.id)) {
      this.clientAnswered(line, line.message.id);
      return;
    }
    const { id, method } = line?.message ?? {};
    if (!line || typeof method !== "string" || (id !== undefined && !isId(id))) {
      this.refuse(raw, isId(id) ? id : null);
      return;
    }
    const twice = repeatedKey(raw);
    if (twice !== null) {
      this.refuseMessage(id ?? null, `the key ${JSON.stringify(twice.slice(0, SHOWN))} stands twice`);
      return;
    }
    const wasIntroduced = this.introduction.isDone;
    this.introduction.observe(line);
    if (method === "notifications/cancelled") this.clientCancelled(line);
    else if (id !== undefined) this.clientAsks(line, id, method);
    // Without an id there is no answer, and the call would run outside the ledger.
    else if (method === "tools/call") this.options.log(`dropped a tools/call without an id: ${shown(raw)}`);
    else this.downstream.send(raw);
    if (!wasIntroduced && this.introduction.isDone) this.calls.join(this);
  }

  private refuseMessage(id: Id | null, why: string): void {
    const message = `Nothing was done: ${why}.`;
    this.options.log(`refused a message: ${message}`);
    if (id !== null) this.background(this.toClient(errorText(id, { code: INVALID_REQUEST, message })));
  }

  /** Answers a line that is not a message, because the client may wait for an answer. */
  private refuse(raw: string, id: Id | null): void {
    this.options.log(`the client sent a line that is not a message: ${shown(raw)}`);
    const error = invalidity(raw);
    if (error) this.background(this.toClient(errorText(id, error)));
  }

  private clientAsks(line: Line, id: Id, method: string): void {
    if (this.introduction.isModern && this.isOrdered)
      this.background(this.calls.taken?.deliveries.readAll() ?? Promise.resolve());
    const { raw, message } = line;
    const name = message.params?.["name"];
    if (method === "tools/call") {
      if (typeof name !== "string") {
        const error = { code: INVALID_PARAMS, message: "Nothing was done: the name of a tool is a string." };
        this.background(this.toClient(errorText(id, error)));
        return;
      }
      const rule = this.ruleFor(name);
      if (rule.effect !== "read") {
        const rounded = line.inexact.find(({ path }) => path[0] === "params");
        if (rounded) this.background(this.toClient(errorText(id, inexactCall(rounded))));
        else this.background(this.callTool(id, name, rule, message.params ?? {}));
        return;
      }
    }
    if (method.startsWith("tasks/")) this.background(this.askTask(line, id, method));
    else this.forward(raw, id, method);
  }

  private forward(raw: string, id: Id, method: string): void {
    this.forwarded.set(id, method);
    this.downstream.send(raw);
  }

  /** A task is a call of the ledger, or the server's own. */
  private async askTask({ raw, message }: Line, id: Id, method: string): Promise<void> {
    const { params = {} } = message;
    const { serverHasTasks } = this.introduction;
    if (method === "tasks/list" && params["cursor"] === SERVER_CURSOR) {
      this.forwarded.set(id, method);
      this.downstream.send(requestText(id, method, { ...params, cursor: undefined }));
      return;
    }
    let answer: Answer;
    let delivers: NumberedCall | undefined;
    const waiting: Asked = { callId: "", rule: null, isCancelled: false };
    this.asked.set(id, waiting);
    try {
      const found = await this.tasks.answer(method, params, () => waiting.isCancelled);
      if (found === null && serverHasTasks) {
        this.forward(raw, id, method);
        return;
      }
      ({ answer, delivers } = {
        delivers: undefined,
        ...(found ?? { answer: noSuchTask(params["taskId"]) }),
      });
    } catch (error) {
      answer = { error: { code: INTERNAL_ERROR, message: messageOf(error) } };
    } finally {
      this.asked.delete(id);
    }
    if (!waiting.isCancelled) await this.deliver(id, answer, delivers);
  }

  private clientAnswered({ raw }: Line, id: Id): void {
    const answer = this.questions.answered(raw, id);
    if (answer !== null) this.downstream.send(answer);
    else if (this.downstream.own.isOwn(id))
      this.background(this.calls.taken?.deliveries.read(id) ?? Promise.resolve());
  }

  private clientCancelled(line: Line): void {
    const { raw, message } = line;
    const id = idAt(line, "requestId");
    if (id === undefined) return;
    this.calls.taken?.deliveries.cancelled(id);
    const asked = this.asked.get(id);
    if (!asked) {
      this.forwarded.delete(id);
      this.downstream.send(raw);
      return;
    }
    asked.isCancelled = true;
    const { callId, rule } = asked;
    const isWanted = [...this.asked.values()].some((each) => each.callId === callId && !each.isCancelled);
    if (!isWanted && rule) void this.calls.cancel(callId, rule, message.params ?? {});
  }

  private fromServer(line: Line): void {
    const { raw, message } = line;
    let told: string | null = raw;
    if (isResponse(message)) {
      const method = this.forwarded.get(message.id);
      // Only the ledger answers its calls: an answer to another id could pass for one of them.
      if (method === undefined) {
        this.options.log(`dropped an answer of the server that the client did not ask for: ${shown(raw)}`);
        return;
      }
      this.forwarded.delete(message.id);
      this.introduction.answered(line, method);
      if (method === "tools/list") {
        this.nameNewTools(message.result);
        told = shownTools(line, (tool) => this.isTask(tool));
      } else if (method === "initialize" || method === "server/discover") told = withTasks(line);
    }
    if (isRequest(message)) told = this.questions.asked(raw, message.id);
    else if (message.method === "notifications/cancelled") told = this.questions.withdrawn(line);
    if (told !== null) this.background(this.toClient(told));
  }

  /** True if the client may ask for a call of the tool as a task. */
  private isTask(tool: string): boolean {
    const { knowsTasks } = this.introduction;
    return knowsTasks && this.ruleFor(tool).effect !== "read";
  }

  private ruleFor(tool: string): ToolRule {
    return this.options.config.ruleFor(tool, this.introduction.hintsOf(tool));
  }

  /** A pattern such as `read_*` was written before the server had these tools, which may be no reads. */
  private nameNewTools(result: unknown): void {
    for (const { name } of toolsIn(result)) {
      if (this.knownTools.has(name)) continue;
      this.knownTools.add(name);
      const pattern = this.options.config.patternFor(name);
      if (pattern === null) continue;
      const { effect } = this.options.config.ruleFor(name);
      const what = `tool ${JSON.stringify(name.slice(0, SHOWN))}`;
      const why = `falls under the pattern ${pattern} (${effect})`;
      this.options.log(`${what} ${why}; name it in tools.yaml if that is wrong`);
    }
  }

  private serverEnded(why: string): void {
    const lost = [...this.forwarded.keys()];
    this.forwarded.clear();
    for (const told of this.questions.ended(why)) this.background(this.toClient(told));
    const message = `the server ${why} before it answered; it is being restarted`;
    const error = { code: SERVER_ENDED, message };
    for (const id of lost) this.background(this.toClient(errorText(id, error)));
  }

  private async callTool(id: Id, name: string, rule: ToolRule, params: Readonly<Record<string, unknown>>) {
    let call: NumberedCall | null = null;
    let answer: Answer;
    let isDelivery = false;
    try {
      const args = copyJson(ledgerArgs(params), `arguments of ${name}`);
      this.asked.set(id, { callId: "", rule, isCancelled: false });
      // No pause if the session is taken: requests keep their order, and a cancellation finds its call.
      const { deliveries } = this.calls.taken ?? (await this.calls.ledger());
      const number = (): NumberedCall => {
        const made = deliveries.numbered(name, args, rule.dedupe !== "delivered");
        const isCancelled = this.asked.get(id)?.isCancelled === true;
        this.asked.set(id, { callId: made.callId, rule, isCancelled });
        return made;
      };
      call = number();
      // The same call was cancelled before it was sent. Once that is recorded, this request is a new call.
      if (this.calls.isStopped(call.callId)) {
        await Promise.allSettled([this.calls.underWay(call.callId)]);
        call = number();
      }
      const { callId } = call;
      const earlier = deliveries.earlier(call);
      const forwarding = newForwarding(this, params);
      const asked = this.asked.get(id);
      if (asked?.isCancelled && rule.cancel !== "finish") forwarding.stop.abort();
      const running = this.calls.run(this, { callId, name, rule, args }, forwarding);
      const task = await this.tasks.created(this.tasks.wish(params), callId, running);
      const outcome = task ?? (await running);
      if ("result" in outcome) answer = outcome;
      else {
        answer = this.calls.answerOf(outcome, this.introduction.hasOutputSchema(name), earlier);
        isDelivery = outcome.status === "completed" && rule.dedupe === "delivered";
      }
    } catch (error) {
      answer = { result: troubleAnswer(error) };
    }
    const isCancelled = this.asked.get(id)?.isCancelled === true;
    this.asked.delete(id);
    // The client cancelled; the ledger keeps the answer for the next identical request.
    if (isCancelled) return;
    await this.deliver(id, answer, call && isDelivery ? call : undefined);
  }

  private async deliver(id: Id, answer: Answer, call: NumberedCall | undefined): Promise<void> {
    const ping = this.downstream.own.newId();
    const { deliveries } = this.calls.taken ?? {};
    if (call && !this.isOrdered) {
      deliveries?.sent(call, id, ping, false);
      this.unconfirmed.set(id, ping);
    }
    await this.toClient(this.answerText(id, answer));
    failpoint("mcp.replied");
    if (!call || !this.isOrdered) return;
    deliveries?.sent(call, id, ping, true);
    if (!this.introduction.isModern) await this.toClient(requestText(ping, "ping", {}));
  }

  /** The client has certainly read the answer to that request. */
  wasRead(id: Id): void {
    const ping = this.unconfirmed.get(id);
    this.unconfirmed.delete(id);
    if (ping !== undefined) this.background(this.calls.taken?.deliveries.read(ping) ?? Promise.resolve());
  }

  private get isOrdered(): boolean {
    return this.options.delivery !== "confirmed";
  }

  private answerText(id: Id, answer: Answer): string {
    try {
      if ("error" in answer) return errorText(id, answer.error);
      return resultText(id, answerJson(this.withResultType(answer.result)));
    } catch (error) {
      // An answer that cannot be written as JSON: the ledger has it, and the client must not wait for it.
      return resultText(id, JSON.stringify(troubleAnswer(error)));
    }
  }

  /** Adds the `resultType` that the newer protocol requires to results of the ledger. */
  private withResultType(result: unknown): unknown {
    const isMissing = typeof result === "object" && result !== null && !("resultType" in result);
    return this.introduction.isModern && isMissing ? { ...result, resultType: "complete" } : result;
  }

  private toClient(raw: string): Promise<void> {
    return writeLine(this.options.output, raw, this.downstream.output);
  }

  private background(work: Promise<void>): void {
    const noted = work
      .catch((error: unknown) => this.options.log(error instanceof Error ? error.message : String(error)))
      .finally(() => this.work.delete(noted));
    this.work.add(noted);
  }
}

function cannotStart(server: ProxyOptions["server"], cause: Error): HoldfastError {
  const command = "url" in server ? [] : server;
  return new HoldfastError("INPUT_INVALID", `the server cannot be started: ${cause.message}`, {
    hint: `Check the command after --: ${command.join(" ")}`,
    cause,
    data: { command },
  });
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function shown(raw: string): string {
  return raw.slice(0, SHOWN);
}
