/**
 * The durable proxy: between an MCP client and an MCP server, with the ledger around every tool that is not a read.
 *
 *     client ──line──▶ tools/call of a write or mutate? ──no──▶ the same line to the server
 *                        │ yes
 *                        ▼
 *     which call is it (`delivery.ts`) ──▶ ledger: issued, durable ──▶ server ──▶ answer, durable ──▶ client ──▶ ping
 *
 * What a crash leaves: before `issued`, nothing, and the call that comes again is run. Between `issued` and the record of
 * the answer, an unknown call: the next proxy on this session verifies it, or puts it before a person. After the record,
 * the answer, which the same call gets again. After the client has read it (it answers the ping), nothing to remember.
 *
 * Everything else, in both directions, is passed on as the very text it came as: resources, prompts, notifications,
 * progress, sampling, elicitation, roots, and calls of tools that only read.
 */

import type { Readable, Writable } from "node:stream";
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
  troubleAnswer,
  waitingAnswer,
} from "./answers.ts";
import { Deliveries, type NumberedCall, recordLate } from "./delivery.ts";
import { Downstream } from "./downstream.ts";
import { Introduction, ServerQuestions } from "./introduction.ts";
import {
  errorText,
  type Id,
  idAt,
  invalidity,
  isId,
  isRequest,
  isResponse,
  type Line,
  notificationText,
  parseLine,
  type RpcError,
  readLines,
  requestText,
  resultText,
  writeLine,
} from "./json-rpc.ts";
import { type Forwarding, ledgerArgs, ledgerTool } from "./ledger-tool.ts";
import type { ProxyConfig, ToolRule } from "./proxy-config.ts";

/** How a call gets into the ledger: `session.call`, unless a test puts something around it. */
export type Keep = (direct: DirectCall<unknown>) => Promise<DirectOutcome<unknown>>;

export interface ProxyOptions {
  readonly session: Session;
  readonly config: ProxyConfig;
  readonly command: readonly string[];
  readonly input: Readable;
  readonly output: Writable;
  readonly log: (text: string) => void;
  readonly keep?: ((keep: Keep) => Keep) | undefined;
  /** How long a server may take to answer a call that the client has cancelled. 2 s unless set. */
  readonly cancelledMs?: number | undefined;
}

type Answer = { readonly error: RpcError } | { readonly result: unknown };
type Outcome = DirectOutcome<unknown> & { readonly joined?: true };

/** A call that the client has asked for and not been answered. */
interface Asked {
  readonly callId: string;
  readonly cancel: ToolRule["cancel"];
  isCancelled: boolean;
}

const LOOK_AFTER_MS = 2_000;
/** After this a call that the client has cancelled is given up: its outcome is unknown, unless an answer comes later. */
const CANCELLED_MS = 2_000;
const LAST_CALLS_MS = 3_000;
const SERVER_ENDED = -32_000;
const SHOWN = 200;

export class DurableProxy {
  /** Resolves when the client has closed its end. */
  readonly clientGone: Promise<void>;
  private readonly options: ProxyOptions;
  private readonly keep: Keep;
  private readonly downstream: Downstream;
  private readonly introduction: Introduction;
  private readonly deliveries: Deliveries;
  private readonly asked = new Map<Id, Asked>();
  private readonly running = new Map<string, Promise<Outcome>>();
  private readonly forwardings = new Map<string, Forwarding>();
  private readonly kept = new Map<string, Answer>();
  /** Requests of the client that were passed on, and what they ask for. */
  private readonly passedOn = new Map<Id, string>();
  private readonly questions: ServerQuestions;
  private readonly work = new Set<Promise<void>>();
  private timer: NodeJS.Timeout | undefined;

  constructor(options: ProxyOptions) {
    this.options = options;
    const { session, command, input, log } = options;
    const call: Keep = (direct) => session.call(direct);
    this.keep = options.keep?.(call) ?? call;
    this.downstream = new Downstream({
      command,
      log,
      feeding: input,
      onLine: (line) => this.fromServer(line),
      onEnd: (why) => this.serverEnded(why),
    });
    this.introduction = new Introduction(this.downstream);
    this.questions = new ServerQuestions(() => this.downstream.newId());
    this.deliveries = new Deliveries(session, (id) => this.recorded(id));
    this.clientGone = new Promise((resolve) => {
      input.once("end", resolve);
      input.once("close", resolve);
    });
  }

  async start(): Promise<void> {
    const { input, output, log } = this.options;
    output.on("error", (error) => log(`cannot write to the client: ${error.message}`));
    await this.downstream.start().catch((error: Error) => {
      throw cannotStart(this.options.command, error);
    });
    readLines(input, (raw) => this.fromClient(raw));
    this.timer = setInterval(() => this.lookAfter(), LOOK_AFTER_MS).unref();
  }

  /** Lets calls that are under way end, if they do so soon; the ledger keeps what is left. */
  async close(): Promise<void> {
    clearInterval(this.timer);
    let timer: NodeJS.Timeout | undefined;
    const enough = new Promise((resolve) => {
      timer = setTimeout(resolve, LAST_CALLS_MS);
    });
    await Promise.race([Promise.allSettled([...this.work]), enough]);
    clearTimeout(timer);
    await this.downstream.stop();
  }

  // ── From the client ──

  private fromClient(raw: string): void {
    const line = parseLine(raw);
    if (line && isResponse(line.message) && isId(line.message.id)) {
      this.clientAnswered(line, line.message.id);
      return;
    }
    const { id, method } = line?.message ?? {};
    if (!line || typeof method !== "string" || (id !== undefined && !isId(id))) {
      this.refuse(raw, isId(id) ? id : null);
      return;
    }
    const wasIntroduced = this.introduction.isDone;
    this.introduction.hear(line);
    if (method === "notifications/cancelled") this.clientCancelled(line);
    else if (id !== undefined) this.clientAsks(line, id, method);
    // It would be run outside the ledger, and nobody would hear what came of it.
    else if (method === "tools/call") this.options.log(`the client sent a call without an id: ${shown(raw)}`);
    else this.downstream.send(raw);
    if (!wasIntroduced && this.introduction.isDone) this.lookAfter();
  }

  /** A client that waits for an answer to what is no message must get one. */
  private refuse(raw: string, id: Id | null): void {
    this.options.log(`the client sent what is no message: ${shown(raw)}`);
    const error = invalidity(raw);
    if (error) this.note(this.toClient(errorText(id, error)));
  }

  private clientAsks(line: Line, id: Id, method: string): void {
    if (this.introduction.isModern) this.note(this.deliveries.readAll());
    const { raw, message } = line;
    const name = message.params?.["name"];
    if (method === "tools/call" && typeof name === "string") {
      const rule = this.options.config.ruleFor(name);
      if (rule.effect !== "read") {
        const rounded = line.inexact.find(({ path }) => path[0] === "params");
        if (rounded) this.note(this.toClient(errorText(id, inexactCall(rounded))));
        else this.note(this.callTool(id, name, rule, message.params ?? {}));
        return;
      }
    }
    this.passedOn.set(id, method);
    this.downstream.send(raw);
  }

  private clientAnswered({ raw }: Line, id: Id): void {
    const answer = this.questions.answered(raw, id);
    if (answer !== null) this.downstream.send(answer);
    else if (this.downstream.isOwn(id)) this.note(this.deliveries.read(id));
  }

  private clientCancelled(line: Line): void {
    const { raw, message } = line;
    const id = idAt(line, "requestId");
    if (id === undefined) return;
    this.deliveries.cancelled(id);
    const asked = this.asked.get(id);
    if (!asked) {
      this.passedOn.delete(id);
      this.downstream.send(raw);
      return;
    }
    asked.isCancelled = true;
    const isWanted = [...this.asked.values()].some(
      (each) => each.callId === asked.callId && !each.isCancelled,
    );
    const forwarding = this.forwardings.get(asked.callId);
    if (isWanted || !forwarding || asked.cancel === "finish") return;
    // A server that heard of the end before the beginning would run it all the same.
    if (!forwarding.isSent) forwarding.stop.abort();
    if (!this.downstream.isUnderWay(forwarding.id)) return;
    const params = { ...message.params, requestId: forwarding.id };
    this.downstream.send(notificationText("notifications/cancelled", params));
    const why = "the client gave it up, and the server did not say what came of it";
    const { cancelledMs = CANCELLED_MS } = this.options;
    setTimeout(() => this.downstream.abandon(forwarding.id, why), cancelledMs).unref();
  }

  // ── From the server ──

  private fromServer(line: Line): void {
    const { raw, message } = line;
    if (isResponse(message)) {
      this.introduction.answered(line, this.passedOn.get(message.id));
      this.passedOn.delete(message.id);
    }
    let told: string | null = raw;
    if (isRequest(message)) told = this.questions.asked(raw, message.id);
    else if (message.method === "notifications/cancelled") told = this.questions.withdrawn(line);
    if (told !== null) this.note(this.toClient(told));
  }

  private serverEnded(why: string): void {
    const lost = [...this.passedOn.keys()];
    this.passedOn.clear();
    for (const told of this.questions.ended(why)) this.note(this.toClient(told));
    const error = {
      code: SERVER_ENDED,
      message: `the server ${why} before it answered; it is started again`,
    };
    for (const id of lost) this.note(this.toClient(errorText(id, error)));
  }

  // ── Calls ──

  private async callTool(id: Id, name: string, rule: ToolRule, params: Readonly<Record<string, unknown>>) {
    let call: NumberedCall | null = null;
    let answer: Answer;
    let isDelivery = false;
    try {
      const args = copyJson(ledgerArgs(params), `arguments of ${name}`);
      const number = (): NumberedCall => {
        const made = this.deliveries.numbered(name, args, rule.dedupe !== "delivered");
        const isCancelled = this.asked.get(id)?.isCancelled === true;
        this.asked.set(id, { callId: made.callId, cancel: rule.cancel, isCancelled });
        return made;
      };
      call = number();
      // The same call was just cancelled before it was sent: this one is another, once that is recorded.
      if (this.forwardings.get(call.callId)?.stop.signal.aborted) {
        await Promise.allSettled([this.running.get(call.callId)]);
        call = number();
      }
      const outcome = await this.run(call.callId, name, rule, args, this.forwardingOf(id, params));
      answer = this.answerOf(name, outcome);
      isDelivery = outcome.status === "completed" && rule.dedupe === "delivered";
    } catch (error) {
      answer = { result: troubleAnswer(error) };
    }
    const isCancelled = this.asked.get(id)?.isCancelled === true;
    this.asked.delete(id);
    // Nobody waits for it any more; the ledger has it for the next time.
    if (isCancelled) return;
    await this.toClient(
      "error" in answer
        ? errorText(id, answer.error)
        : resultText(id, answerJson(this.inTheirWords(answer.result))),
    );
    failpoint("mcp.replied");
    if (call && isDelivery) await this.awaitReading(call, id);
  }

  private forwardingOf(id: Id, params: Readonly<Record<string, unknown>>): Forwarding {
    const made = { id: this.downstream.newId(), params, stop: new AbortController(), isSent: false };
    const asked = this.asked.get(id);
    if (asked?.isCancelled && asked.cancel !== "finish") made.stop.abort();
    return made;
  }

  /** The newer protocol wants every result to say that it is one; the ledger's own words do not. */
  private inTheirWords(result: unknown): unknown {
    const isMissing = typeof result === "object" && result !== null && !("resultType" in result);
    return this.introduction.isModern && isMissing ? { ...result, resultType: "complete" } : result;
  }

  private async awaitReading(call: NumberedCall, requestId: Id): Promise<void> {
    const ping = this.downstream.newId();
    this.deliveries.sent(call, requestId, ping);
    if (!this.introduction.isModern) await this.toClient(requestText(ping, "ping", {}));
  }

  /** One run of a call at a time; whoever asks for the same one meanwhile gets the same outcome. */
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
      answeredLate: (attempt, outcome) => this.note(recordLate(this.options.session, attempt, outcome)),
    });
    const work = this.keep({ tool, args, id: callId }).finally(() => {
      this.running.delete(callId);
      this.forwardings.delete(callId);
    });
    this.running.set(callId, work);
    return work;
  }

  /** Calls that an earlier process left, that a person has answered for, or whose server ended. */
  private lookAfter(): void {
    const { session, config } = this.options;
    if (!this.introduction.isDone || session.openCalls.length === 0) return;
    const look = async (): Promise<void> => {
      await session.refresh();
      const left = session.openCalls.filter(({ id, status }) => {
        return id.startsWith("mcp_") && status !== "waiting" && !this.running.has(id);
      });
      for (const { id, tool, args } of left) {
        const rule = config.ruleFor(tool);
        // Whatever the configuration says by now: it was begun as an effect.
        const asBegun = rule.effect === "read" ? { ...rule, effect: "mutate" as const } : rule;
        this.note(this.run(id, tool, asBegun, args).then(() => undefined));
      }
    };
    this.note(look());
  }

  private answerOf(name: string, outcome: Outcome): Answer {
    const { callId } = outcome;
    const call = this.recorded(callId);
    const kept = this.kept.get(callId);
    this.kept.delete(callId);
    if (outcome.status === "waiting") return { result: waitingAnswer(outcome, call?.status === "waiting") };
    if (outcome.status === "failed") return kept ?? { result: failedAnswer(outcome.error, callId) };
    const ranAt = call?.settledAt ?? null;
    // What a repeat repeats says more than the repeat: who settled it, and when it ran.
    const first = call?.repeats ? (this.recorded(call.repeats.callId) ?? call) : call;
    const note = noteOn(first, outcome.replayed, outcome.joined === true);
    const hasSchema = this.introduction.hasOutputSchema(name);
    return { result: completedAnswer(outcome.value as Json, { callId, ranAt, note }, hasSchema) };
  }

  private recorded(callId: string): Call | undefined {
    return sessionCore(this.options.session).state.calls.get(callId);
  }

  private toClient(raw: string): Promise<void> {
    return writeLine(this.options.output, raw, this.downstream.output);
  }

  /** Work that nobody waits for; what goes wrong in it is said. */
  private note(work: Promise<void>): void {
    const noted = work
      .catch((error: unknown) => this.options.log(error instanceof Error ? error.message : String(error)))
      .finally(() => this.work.delete(noted));
    this.work.add(noted);
  }
}

function cannotStart(command: readonly string[], cause: Error): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `the server cannot be started: ${cause.message}`, {
    hint: `Check the command after --: ${command.join(" ")}`,
    cause,
    data: { command },
  });
}

function shown(raw: string): string {
  return raw.slice(0, SHOWN);
}
