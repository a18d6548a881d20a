/**
 * The calls of the proxy's session: who runs them, which are under way, and what their answers are. All
 * connections of one proxy process share it, so a call runs once whichever connection asks for it.
 */

import { setTimeout as pause } from "node:timers/promises";
import type { Json } from "../../model/json.ts";
import type { Call } from "../../model/session/index.ts";
import { type DirectCall, type DirectOutcome, type Session, sessionCore } from "../../session/index.ts";
import { completedAnswer, failedAnswer, noteOn, repeatNote, waitingAnswer } from "./answers.ts";
import { Deliveries, recordLate } from "./delivery.ts";
import type { Downstream } from "./downstream.ts";
import type { Introduction } from "./introduction.ts";
import { notificationText, type RpcError } from "./json-rpc.ts";
import { ASKS_FOR_INPUT, type Forwarder, type Forwarding, ledgerTool } from "./ledger-tool.ts";
import type { ProxyConfig, ToolRule } from "./proxy-config.ts";

export type RunCall = (direct: DirectCall<unknown>) => Promise<DirectOutcome<unknown>>;

export interface CallsOptions {
  /** Another process may hold the session. Until it is taken, only calls that need the ledger wait. */
  readonly session: Promise<Session>;
  /** How long a call waits for the session. */
  readonly heldMs: number;
  /** The error for a call that waited in vain: it names the holder. */
  readonly held: () => unknown;
  readonly config: ProxyConfig;
  readonly log: (text: string) => void;
  readonly cancelledMs?: number | undefined;
  /** For tests: wraps the ledger, to plant a fault for a checker. */
  readonly keep?: ((keep: RunCall) => RunCall) | undefined;
}

export type Answer = { readonly error: RpcError } | { readonly result: unknown };
export type Outcome = DirectOutcome<unknown> & {
  readonly joined?: true;
  /** The server's answer, if the ledger has no result. */
  readonly kept?: Answer | undefined;
};

interface Taken {
  readonly session: Session;
  readonly deliveries: Deliveries;
}

/** A connection that can forward a call. */
export interface Side {
  readonly downstream: Downstream;
  readonly introduction: Introduction;
}

/** A cancelled call is abandoned after this time: its outcome is unknown unless a late answer comes. */
const CANCELLED_MS = 2_000;
const SETTLE_INTERVAL_MS = 2_000;
/** A call whose client does not answer the server's question for this long has failed. */
const INPUT_MS = 24 * 3_600_000;

const SERVER_TASK = "mcp.task.";

export interface AskedInput {
  readonly requests: Readonly<Record<string, unknown>>;
  /** The result that asked, if the answers go into another round of the request. */
  readonly round?: Readonly<Record<string, unknown>>;
  /** The answers of the client so far. */
  readonly answers?: Readonly<Record<string, unknown>>;
}

export interface ProxyCall {
  readonly callId: string;
  readonly name: string;
  readonly rule: ToolRule;
  readonly args: Json;
}

export class ProxyCalls {
  /** Null until the session is taken. */
  taken: Taken | null = null;
  private readonly options: CallsOptions;
  private readonly running = new Map<string, Promise<Outcome>>();
  private readonly forwardings = new Map<string, Forwarding>();
  private readonly kept = new Map<string, Answer>();
  /** Questions of the server in open calls. Not recorded: the server may have forgotten them. */
  readonly inputs = new Map<string, AskedInput>();
  private readonly sides = new Set<Side>();
  private readonly work = new Set<Promise<void>>();
  private readonly timer: NodeJS.Timeout;

  constructor(options: CallsOptions) {
    this.options = options;
    this.timer = setInterval(() => this.settleOpenCalls(), SETTLE_INTERVAL_MS).unref();
    // `runProxy` reports a session that cannot be taken.
    void options.session.then((session) => this.take(session)).catch(() => undefined);
  }

  /** A connection whose client is introduced: open calls can be settled through it. */
  join(side: Side): void {
    this.sides.add(side);
    this.settleOpenCalls();
  }

  leave(side: Side): void {
    this.sides.delete(side);
  }

  close(): void {
    clearInterval(this.timer);
  }

  /** Resolves when no call is settled or recorded late. */
  async idle(): Promise<void> {
    await Promise.allSettled([...this.work]);
  }

  private take(session: Session): void {
    this.taken = { session, deliveries: new Deliveries(session, (id) => this.recorded(id)) };
    this.settleOpenCalls();
  }

  /** Waits until the session is taken. Another process that holds it may be about to end. */
  async ledger(): Promise<Taken> {
    const { session: taking, heldMs, held } = this.options;
    const enough = new AbortController();
    const late = pause(heldMs, null, { signal: enough.signal }).catch(() => null);
    await Promise.race([taking, late]);
    enough.abort();
    if (!this.taken) throw held();
    return this.taken;
  }

  recorded(callId: string): Call | undefined {
    return this.taken ? sessionCore(this.taken.session).state.calls.get(callId) : undefined;
  }

  all(): Call[] {
    return this.taken ? [...sessionCore(this.taken.session).state.calls.values()] : [];
  }

  /** The rule of a recorded call. It was issued as an effect, even if the configuration now says read. */
  ruleOf({ introduction }: Side, tool: string): ToolRule {
    const rule = this.options.config.ruleFor(tool, introduction.hintsOf(tool));
    return rule.effect === "read" ? { ...rule, effect: "mutate" } : rule;
  }

  /** True if the call was cancelled before it was sent, and that is not recorded yet. */
  isStopped(callId: string): boolean {
    return this.forwardings.get(callId)?.stop.signal.aborted === true;
  }

  /** Tells the server that a call is not wanted. Resolves when the outcome is known, or after a while. */
  async cancel(callId: string, { cancel }: ToolRule, params: object): Promise<void> {
    const forwarding = this.forwardings.get(callId);
    if (!forwarding || cancel === "finish") return;
    const { downstream, id, stop, isSent } = forwarding;
    const serverTask = this.serverTask(callId);
    const { cancelledMs = CANCELLED_MS } = this.options;
    // A cancellation that overtakes its request would be ignored by the server.
    if (!isSent) stop.abort();
    // The task shows whether the server has stopped it.
    if (serverTask !== null)
      downstream.request("tasks/cancel", { taskId: serverTask }).catch(() => undefined);
    else if (downstream.own.isInFlight(id)) {
      downstream.send(notificationText("notifications/cancelled", { ...params, requestId: id }));
      const why = "the client cancelled it, and the server did not answer";
      setTimeout(() => downstream.own.abandon(id, why), cancelledMs).unref();
    }
    const enough = pause(2 * cancelledMs, undefined, { ref: false });
    await Promise.race([this.running.get(callId)?.catch(() => undefined), enough]);
  }

  /** Resolves once the intent of a call under way is durable. */
  async whenIssued(callId: string): Promise<void> {
    await this.forwardings.get(callId)?.whenIssued;
  }

  underWay(callId: string): Promise<Outcome> | undefined {
    return this.running.get(callId);
  }

  /** Runs a call once at a time. A second request for the same call gets the same outcome. */
  run(side: Side, call: ProxyCall, forwarding?: Forwarding): Promise<Outcome> {
    const { callId, args } = call;
    const underWay = this.running.get(callId);
    if (underWay) return underWay.then((outcome) => ({ ...outcome, joined: true }));
    if (forwarding) this.forwardings.set(callId, forwarding);
    this.inputs.delete(callId);
    const tool = ledgerTool(call, this.forwarder(side));
    const work = this.keep({ tool, args, callId }).finally(() => {
      this.running.delete(callId);
      this.forwardings.delete(callId);
    });
    const answered = work.then((outcome) => {
      const kept = this.kept.get(callId);
      this.kept.delete(callId);
      const round = kept && "result" in kept ? Object(kept.result) : {};
      if (isMembers(round["inputRequests"]))
        this.inputs.set(callId, { requests: round["inputRequests"], round });
      return kept ? { ...outcome, kept } : outcome;
    });
    this.running.set(callId, answered);
    return answered;
  }

  private forwarder({ downstream, introduction }: Side): Forwarder {
    return {
      downstream,
      forwarding: (id) => this.forwardings.get(id),
      envelope: () => introduction.envelope,
      keepAnswer: (id, answer) => this.kept.set(id, answer),
      answeredLate: (attempt, outcome) => {
        const settle = async (): Promise<void> => recordLate((await this.ledger()).session, attempt, outcome);
        this.background(settle());
      },
      askForInput: (id, requests) => {
        if (isMembers(requests)) this.inputs.set(id, { requests });
        else this.inputs.delete(id);
      },
      // In an older protocol the field is not ours, and goes to the server as it came.
      taskSupport: (name) => (introduction.knowsTasks ? introduction.hintsOf(name)?.taskSupport : "optional"),
      serverTask: (id) => this.serverTask(id),
      noteServerTask: (id, taskId) => this.noteServerTask(id, taskId),
    };
  }

  /** The server's task behind a call. Recorded, because a server at an address outlives the proxy. */
  serverTask(callId: string): string | null {
    const found = this.taken?.session.metadata[SERVER_TASK + callId];
    return typeof found === "string" ? found : null;
  }

  private async noteServerTask(callId: string, taskId: string | null): Promise<void> {
    await this.taken?.session.describe({ metadata: { [SERVER_TASK + callId]: taskId } });
  }

  answerOf(outcome: Outcome, hasOutputSchema: boolean, earlier: Call | undefined): Answer {
    const { callId, kept } = outcome;
    const call = this.recorded(callId);
    if (kept && outcome.status !== "completed") return kept;
    if (outcome.status === "waiting") return { result: waitingAnswer(outcome, call?.status === "waiting") };
    if (outcome.status === "failed") return { result: failedAnswer(outcome.error, callId) };
    const ranAt = call?.settledAt ?? null;
    // The repeated call knows who settled it and when it ran.
    const first = call?.repeats ? (this.recorded(call.repeats.callId) ?? call) : call;
    const note = noteOn(first, outcome.replayed, outcome.joined === true) ?? this.noteOnRepeat(earlier);
    return { result: completedAnswer(outcome.value as Json, { callId, ranAt, note }, hasOutputSchema) };
  }

  private noteOnRepeat(earlier: Call | undefined): string | null {
    const now = Date.now();
    const isRecent = now - (earlier?.settledAt ?? 0) < this.options.config.repeatWindowMs;
    return earlier && isRecent ? repeatNote(earlier, now) : null;
  }

  private async keep(direct: DirectCall<unknown>): Promise<Outcome> {
    const { session } = this.taken ?? (await this.ledger());
    const call: RunCall = (each) => session.call(each);
    return (this.options.keep?.(call) ?? call)(direct);
  }

  /** Settles open calls: of an earlier process, answered by a person, or of a server that exited. */
  private settleOpenCalls(): void {
    const session = this.taken?.session;
    const [side] = this.sides;
    if (!session || !side || session.openCalls.length === 0) return;
    const look = async (): Promise<void> => {
      await session.refresh();
      for (const call of session.openCalls) {
        const { callId, status } = call;
        if (!callId.startsWith("mcp_") || status === "waiting" || this.running.has(callId)) continue;
        this.settle(session, side, call);
      }
    };
    this.background(look());
  }

  private settle(session: Session, side: Side, call: Session["openCalls"][number]): void {
    const { callId, tool: name, args, attempt, why, lostAt, granted } = call;
    if (why === ASKS_FOR_INPUT && !granted) {
      const failure = { failure: "the client did not send the input that the server asks for" };
      const isLate = Date.now() - (lostAt ?? 0) > INPUT_MS;
      if (isLate) this.background(recordLate(session, { callId, attempt }, failure));
      return;
    }
    const rule = this.ruleOf(side, name);
    this.background(this.run(side, { callId, name, rule, args }).then(() => undefined));
  }

  private background(work: Promise<void>): void {
    const noted = work
      .catch((error: unknown) => this.options.log(error instanceof Error ? error.message : String(error)))
      .finally(() => this.work.delete(noted));
    this.work.add(noted);
  }
}

function isMembers(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
