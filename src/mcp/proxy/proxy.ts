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
import { copyJson, type Json } from "../../model/json.ts";
import type { Call } from "../../model/session/index.ts";
import { type DirectCall, type DirectOutcome, type Session, sessionCore } from "../../session/index.ts";
import {
  answerJson,
  completedAnswer,
  failedAnswer,
  inexactCall,
  noteOn,
  repeatNote,
  troubleAnswer,
  waitingAnswer,
} from "./answers.ts";
import { Deliveries, type LateOutcome, type NumberedCall, recordLate } from "./delivery.ts";
import { type Downstream, ServerProcess } from "./downstream.ts";
import { HttpServer, type HttpTarget } from "./http-server.ts";
import { Introduction, ServerQuestions, toolsIn, withRoomForNotes } from "./introduction.ts";
import type { Id, Line, RpcError } from "./json-rpc.ts";
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
  MAX_LINE,
  notificationText,
  parseLine,
  readLines,
  requestText,
  resultText,
  writeLine,
} from "./json-rpc.ts";
import { ASKS_FOR_INPUT, type Forwarding, ledgerArgs, ledgerTool } from "./ledger-tool.ts";
import type { ProxyConfig, ToolRule } from "./proxy-config.ts";
import { repeatedKey } from "./untrusted-line.ts";

export type RunCall = (direct: DirectCall<unknown>) => Promise<DirectOutcome<unknown>>;

export interface ProxyOptions {
  /** Another process may hold the session. Until it is taken, only calls that need the ledger wait. */
  readonly session: Promise<Session>;
  /** How long a call waits for the session. */
  readonly heldMs: number;
  /** The error for a call that waited in vain: it names the holder. */
  readonly held: () => unknown;
  readonly config: ProxyConfig;
  /** The command that starts the server, or its address. */
  readonly server: readonly string[] | HttpTarget;
  readonly input: Readable;
  readonly output: Writable;
  readonly log: (text: string) => void;
  readonly keep?: ((keep: RunCall) => RunCall) | undefined;
  readonly cancelledMs?: number | undefined;
}

type Answer = { readonly error: RpcError } | { readonly result: unknown };
type Outcome = DirectOutcome<unknown> & {
  readonly joined?: true;
  /** The server's answer, if the ledger has no result. */
  readonly kept?: Answer | undefined;
};

interface Taken {
  readonly session: Session;
  readonly deliveries: Deliveries;
}

interface Asked {
  readonly callId: string;
  readonly cancel: ToolRule["cancel"];
  isCancelled: boolean;
}

const SETTLE_INTERVAL_MS = 2_000;
/** A cancelled call is abandoned after this time: its outcome is unknown unless a late answer comes. */
const CANCELLED_MS = 2_000;
const LAST_CALLS_MS = 3_000;
/** A call whose client does not answer the server's question for this long has failed. */
const INPUT_MS = 24 * 3_600_000;
const SERVER_ENDED = -32_000;
const SHOWN = 200;

export class DurableProxy {
  readonly clientGone: Promise<void>;
  private readonly options: ProxyOptions;
  /** Null until the session is taken. */
  private taken: Taken | null = null;
  private readonly downstream: Downstream;
  private readonly introduction: Introduction;
  private readonly asked = new Map<Id, Asked>();
  private readonly running = new Map<string, Promise<Outcome>>();
  private readonly forwardings = new Map<string, Forwarding>();
  private readonly kept = new Map<string, Answer>();
  private readonly forwarded = new Map<Id, string>();
  private readonly knownTools = new Set<string>();
  private readonly questions: ServerQuestions;
  private readonly work = new Set<Promise<void>>();
  private timer: NodeJS.Timeout | undefined;

  constructor(options: ProxyOptions) {
    this.options = options;
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
    // `runProxy` reports a session that cannot be taken.
    void options.session.then((session) => this.take(session)).catch(() => undefined);
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
    this.timer = setInterval(() => this.settleOpenCalls(), SETTLE_INTERVAL_MS).unref();
  }

  private take(session: Session): void {
    this.taken = { session, deliveries: new Deliveries(session, (id) => this.recorded(id)) };
    this.settleOpenCalls();
  }

  /** Waits until the session is taken. Another process that holds it may be about to end. */
  private async ledger(): Promise<Taken> {
    const { session: taking, heldMs, held } = this.options;
    const enough = new AbortController();
    const late = pause(heldMs, null, { signal: enough.signal }).catch(() => null);
    await Promise.race([taking, late]);
    enough.abort();
    if (!this.taken) throw held();
    return this.taken;
  }

  /** Waits briefly for calls in flight; the ledger keeps the rest. */
  async close(): Promise<void> {
    clearInterval(this.timer);
    const enough = new AbortController();
    const late = pause(LAST_CALLS_MS, undefined, { signal: enough.signal }).catch(() => undefined);
    await Promise.race([Promise.allSettled([...this.work]), late]);
    enough.abort();
    await this.downstream.stop();
  }

  /** A fault of ours must not leave the client waiting, nor end the proxy. */
  private answering(raw: string): void {
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
      const message = `Nothing was done: the key ${JSON.stringify(twice.slice(0, SHOWN))} stands twice.`;
      this.options.log(`refused a message: ${message}`);
      if (isId(id)) this.background(this.toClient(errorText(id, { code: INVALID_REQUEST, message })));
      return;
    }
    const wasIntroduced = this.introduction.isDone;
    this.introduction.observe(line);
    if (method === "notifications/cancelled") this.clientCancelled(line);
    else if (id !== undefined) this.clientAsks(line, id, method);
    // Without an id there is no answer, and the call would run outside the ledger.
    else if (method === "tools/call") this.options.log(`dropped a tools/call without an id: ${shown(raw)}`);
    else this.downstream.send(raw);
    if (!wasIntroduced && this.introduction.isDone) this.settleOpenCalls();
  }

  /** Answers a line that is not a message, because the client may wait for an answer. */
  private refuse(raw: string, id: Id | null): void {
    this.options.log(`the client sent a line that is not a message: ${shown(raw)}`);
    const error = invalidity(raw);
    if (error) this.background(this.toClient(errorText(id, error)));
  }

  private clientAsks(line: Line, id: Id, method: string): void {
    if (this.introduction.isModern) this.background(this.taken?.deliveries.readAll() ?? Promise.resolve());
    const { raw, message } = line;
    const name = message.params?.["name"];
    if (method === "tools/call") {
      if (typeof name !== "string") {
        const error = { code: INVALID_PARAMS, message: "Nothing was done: the name of a tool is a string." };
        this.background(this.toClient(errorText(id, error)));
        return;
      }
      const rule = this.options.config.ruleFor(name, this.introduction.hintsOf(name));
      if (rule.effect !== "read") {
        const rounded = line.inexact.find(({ path }) => path[0] === "params");
        if (rounded) this.background(this.toClient(errorText(id, inexactCall(rounded))));
        else this.background(this.callTool(id, name, rule, message.params ?? {}));
        return;
      }
    }
    this.forwarded.set(id, method);
    this.downstream.send(raw);
  }

  private clientAnswered({ raw }: Line, id: Id): void {
    const answer = this.questions.answered(raw, id);
    if (answer !== null) this.downstream.send(answer);
    else if (this.downstream.own.isOwn(id))
      this.background(this.taken?.deliveries.read(id) ?? Promise.resolve());
  }

  private clientCancelled(line: Line): void {
    const { raw, message } = line;
    const id = idAt(line, "requestId");
    if (id === undefined) return;
    this.taken?.deliveries.cancelled(id);
    const asked = this.asked.get(id);
    if (!asked) {
      this.forwarded.delete(id);
      this.downstream.send(raw);
      return;
    }
    asked.isCancelled = true;
    const isWanted = [...this.asked.values()].some(
      (each) => each.callId === asked.callId && !each.isCancelled,
    );
    const forwarding = this.forwardings.get(asked.callId);
    if (isWanted || !forwarding || asked.cancel === "finish") return;
    // A cancellation that overtakes its request would be ignored by the server.
    if (!forwarding.isSent) forwarding.stop.abort();
    if (!this.downstream.own.isInFlight(forwarding.id)) return;
    const params = { ...message.params, requestId: forwarding.id };
    this.downstream.send(notificationText("notifications/cancelled", params));
    const why = "the client cancelled it, and the server did not answer";
    const { cancelledMs = CANCELLED_MS } = this.options;
    setTimeout(() => this.downstream.own.abandon(forwarding.id, why), cancelledMs).unref();
  }

  private fromServer(line: Line): void {
    const { raw, message } = line;
    let isListing = false;
    if (isResponse(message)) {
      const method = this.forwarded.get(message.id);
      // Only the ledger answers its calls: an answer to another id could pass for one of them.
      if (method === undefined) {
        this.options.log(`dropped an answer of the server that the client did not ask for: ${shown(raw)}`);
        return;
      }
      this.forwarded.delete(message.id);
      this.introduction.answered(line, method);
      isListing = method === "tools/list";
      if (isListing) this.nameNewTools(message.result);
    }
    let told: string | null = isListing ? withRoomForNotes(line) : raw;
    if (isRequest(message)) told = this.questions.asked(raw, message.id);
    else if (message.method === "notifications/cancelled") told = this.questions.withdrawn(line);
    if (told !== null) this.background(this.toClient(told));
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
      this.asked.set(id, { callId: "", cancel: rule.cancel, isCancelled: false });
      // No pause if the session is taken: requests keep their order, and a cancellation finds its call.
      const { deliveries } = this.taken ?? (await this.ledger());
      const number = (): NumberedCall => {
        const made = deliveries.numbered(name, args, rule.dedupe !== "delivered");
        const isCancelled = this.asked.get(id)?.isCancelled === true;
        this.asked.set(id, { callId: made.callId, cancel: rule.cancel, isCancelled });
        return made;
      };
      call = number();
      // The same call was cancelled before it was sent. Once that is recorded, this request is a new call.
      if (this.forwardings.get(call.callId)?.stop.signal.aborted) {
        await Promise.allSettled([this.running.get(call.callId)]);
        call = number();
      }
      const earlier = deliveries.earlier(call);
      const outcome = await this.run(call.callId, name, rule, args, this.forwardingOf(id, params));
      answer = this.answerOf(name, outcome, earlier);
      isDelivery = outcome.status === "completed" && rule.dedupe === "delivered";
    } catch (error) {
      answer = { result: troubleAnswer(error) };
    }
    const isCancelled = this.asked.get(id)?.isCancelled === true;
    this.asked.delete(id);
    // The client cancelled; the ledger keeps the answer for the next identical request.
    if (isCancelled) return;
    await this.toClient(this.answerText(id, answer));
    failpoint("mcp.replied");
    if (call && isDelivery) await this.confirmDelivery(call, id);
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

  private forwardingOf(id: Id, params: Readonly<Record<string, unknown>>): Forwarding {
    const made = { id: this.downstream.own.newId(), params, stop: new AbortController(), isSent: false };
    const asked = this.asked.get(id);
    if (asked?.isCancelled && asked.cancel !== "finish") made.stop.abort();
    return made;
  }

  /** Adds the `resultType` that the newer protocol requires to results of the ledger. */
  private withResultType(result: unknown): unknown {
    const isMissing = typeof result === "object" && result !== null && !("resultType" in result);
    return this.introduction.isModern && isMissing ? { ...result, resultType: "complete" } : result;
  }

  private async confirmDelivery(call: NumberedCall, requestId: Id): Promise<void> {
    const ping = this.downstream.own.newId();
    this.taken?.deliveries.sent(call, requestId, ping);
    if (!this.introduction.isModern) await this.toClient(requestText(ping, "ping", {}));
  }

  /** Runs a call once at a time. A second request for the same call gets the same outcome. */
  private run(
    callId: string,
    name: string,
    rule: ToolRule,
    args: Json,
    forwarding?: Forwarding,
  ): Promise<Outcome> {
    const underWay = this.running.get(callId);
    if (underWay) return underWay.then((outcome) => ({ ...outcome, joined: true }));
    if (forwarding) this.forwardings.set(callId, forwarding);
    const tool = ledgerTool(name, rule, args, {
      downstream: this.downstream,
      forwarding: (id) => this.forwardings.get(id),
      envelope: () => this.introduction.envelope,
      keepAnswer: (id, answer) => this.kept.set(id, answer),
      answeredLate: (attempt, outcome) => this.background(this.settleLate(attempt, outcome)),
    });
    const work = this.keep({ tool, args, callId }).finally(() => {
      this.running.delete(callId);
      this.forwardings.delete(callId);
    });
    const answered = work.then((outcome) => {
      const kept = this.kept.get(callId);
      this.kept.delete(callId);
      return kept ? { ...outcome, kept } : outcome;
    });
    this.running.set(callId, answered);
    return answered;
  }

  private async keep(direct: DirectCall<unknown>): Promise<Outcome> {
    const { session } = this.taken ?? (await this.ledger());
    const call: RunCall = (each) => session.call(each);
    return (this.options.keep?.(call) ?? call)(direct);
  }

  private async settleLate(attempt: Parameters<typeof recordLate>[1], outcome: LateOutcome): Promise<void> {
    const { session } = await this.ledger();
    await recordLate(session, attempt, outcome);
  }

  /** Settles open calls: of an earlier process, answered by a person, or of a server that exited. */
  private settleOpenCalls(): void {
    const { config } = this.options;
    const session = this.taken?.session;
    if (!session || !this.introduction.isDone || session.openCalls.length === 0) return;
    const look = async (): Promise<void> => {
      await session.refresh();
      const left = session.openCalls.filter(({ callId: id, status }) => {
        return id.startsWith("mcp_") && status !== "waiting" && !this.running.has(id);
      });
      for (const { callId: id, tool, args, attempt, why, lostAt, granted } of left) {
        if (why === ASKS_FOR_INPUT && !granted) {
          const failure = { failure: "the client did not send the input that the server asks for" };
          const isLate = Date.now() - (lostAt ?? 0) > INPUT_MS;
          if (isLate) this.background(recordLate(session, { callId: id, attempt }, failure));
          continue;
        }
        const rule = config.ruleFor(tool, this.introduction.hintsOf(tool));
        // The call was issued as an effect, even if the configuration now says read.
        const asBegun = rule.effect === "read" ? { ...rule, effect: "mutate" as const } : rule;
        this.background(this.run(id, tool, asBegun, args).then(() => undefined));
      }
    };
    this.background(look());
  }

  private answerOf(name: string, outcome: Outcome, earlier: Call | undefined): Answer {
    const { callId, kept } = outcome;
    const call = this.recorded(callId);
    if (kept && outcome.status !== "completed") return kept;
    if (outcome.status === "waiting") return { result: waitingAnswer(outcome, call?.status === "waiting") };
    if (outcome.status === "failed") return { result: failedAnswer(outcome.error, callId) };
    const ranAt = call?.settledAt ?? null;
    // The repeated call knows who settled it and when it ran.
    const first = call?.repeats ? (this.recorded(call.repeats.callId) ?? call) : call;
    const note = noteOn(first, outcome.replayed, outcome.joined === true) ?? this.noteOnRepeat(earlier);
    const hasSchema = this.introduction.hasOutputSchema(name);
    return { result: completedAnswer(outcome.value as Json, { callId, ranAt, note }, hasSchema) };
  }

  private noteOnRepeat(earlier: Call | undefined): string | null {
    const now = Date.now();
    const isRecent = now - (earlier?.settledAt ?? 0) < this.options.config.repeatWindowMs;
    return earlier && isRecent ? repeatNote(earlier, now) : null;
  }

  private recorded(callId: string): Call | undefined {
    return this.taken ? sessionCore(this.taken.session).state.calls.get(callId) : undefined;
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

function shown(raw: string): string {
  return raw.slice(0, SHOWN);
}
