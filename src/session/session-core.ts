/**
 * The owner's side of a session: its log under the lease `session/<id>`, and the work in progress on it.
 *
 * `Session` is the public class over this. The run loop, the ledger, the supervisor and the integrations use
 * the core itself: `sessionCore(session)`.
 *
 * Every write carries the lease's fencing token and is decided on the state it is applied to. Memory is never
 * ahead of the store. `close` stops new work, waits for the work in progress, and then releases the lease.
 */

import { failpoint } from "../failpoint.ts";
import { type Decision, emitSafely, type Journal, type Lease, type OwnedLog } from "../journal/index.ts";
import type {
  CallProgress,
  ChildSession,
  Finishing,
  FirstWave,
  LedgerContext,
  Tool,
} from "../ledger/index.ts";
import {
  attemptsOf,
  checkTools,
  KeptOutcomes,
  Ledger,
  mustNotBeCancelled,
  onAbort,
  VendorKeys,
  validate,
  withTimeout,
} from "../ledger/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { freezeJson } from "../model/json.ts";
import { andThen, type MaybePromise } from "../model/maybe-promise.ts";
import type { Amounts, Call, Message, SessionState } from "../model/session/index.ts";
import { openCallsOf, toolCalls } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import type { Holder } from "../store.ts";
import { escalateToPerson, undecidedCalls } from "./abandoned.ts";
import {
  appendDrafts,
  FrozenTranscript,
  type MessageDraft,
  type MessageInput,
  readMessage,
  withUniqueCallIds,
} from "./messages.ts";

/** The id of a session, distinct from that of a removed one with the same name. */
export function incarnationOf(id: string, generation: number): string {
  return generation === 1 ? id : `${id}#${generation}`;
}

export function holderText({ label, host, pid }: Holder): string {
  return `${label} (${host}, pid ${pid})`;
}

export const PATIENCE_MS = 10_000;
/** Below the 30 s that most platforms leave between SIGTERM and SIGKILL. */
const FINISH_MS = 25_000;

/** The options of `close`: `{ finish: "call", withinMs: 20_000 }` for a process that is asked to end. */
export interface CloseOptions {
  /** `"call"` finishes what is in flight and starts nothing else. Unless set, tools are cut off. */
  readonly finish?: "call";
  /** How long `finish` may take; then they are cut off. 25 s unless set. */
  readonly withinMs?: number;
}

/** The state in which an earlier process left the session, and what this process has made of it. */
export interface Resumed {
  readonly version: number;
  readonly messages: number;
  /** The owner that crashed or was taken over from, e.g. `"worker-2 (host, pid 41)"`. */
  readonly from: string | null;
  /** Ids of the calls that had no outcome: in flight, unknown, or waiting for a person. */
  readonly interrupted: readonly string[];
  /** Ids of the interrupted calls that have an outcome by now. `run` and `settle` add to it. */
  readonly settled: string[];
  /** Repeated calls and answered prompts: the work this process skipped because it was on record. */
  readonly replayed: string[];
}

interface SessionParts {
  readonly id: string;
  readonly own: OwnedLog<SessionState>;
  readonly journal: Journal;
  readonly resumed: Resumed | null;
  onClose(): void;
  openChild(
    parent: SessionCore,
    callId: string,
    budget: Amounts | undefined,
    drain: AbortSignal,
  ): Promise<ChildSession>;
}

interface LedgerOptions {
  readonly parallel?: number;
  readonly signal?: AbortSignal;
  readonly patienceMs?: number;
  readonly drain?: AbortSignal;
  readonly perCall?: Finishing;
  readonly on?: (progress: CallProgress) => void;
}

/**
 * A program's run on a drained copy of a session, before a deploy. Recorded answers and outcomes are
 * replayed, and nothing new starts. It keeps what the program met, because a program may catch its errors.
 */
export class Rehearsal {
  /** The program's tools. Each function resumes a recorded call, and returns false for refused arguments. */
  readonly tools = new Map<string, (call: Call) => Promise<boolean>>();
  /** The first question that differs from the record, as the error that the program got. */
  diverged: HoldfastError | null = null;
  /** True once the program has asked for something that is on record. */
  hasReplayed = false;
  /** True once the program has asked for something new. Its later errors are consequences. */
  hasEnded = false;

  note(error: unknown): void {
    if (isHoldfastError(error, "PROMPT_DIVERGED")) this.diverged ??= error;
  }

  noteTools(tools: readonly Tool[]): void {
    for (const { name, input } of tools) {
      const accepts = async ({ asked, args }: Call): Promise<boolean> =>
        !("problem" in (await validate(input, asked?.args ?? args)));
      if (!this.tools.has(name)) this.tools.set(name, accepts);
    }
  }
}

export class SessionCore {
  readonly id: string;
  readonly own: OwnedLog<SessionState>;
  readonly journal: Journal;
  readonly resumed: Resumed | null;
  latestRun: Promise<unknown> = Promise.resolve();
  /** Only for a sub-agent. See `nameRepeatedPrompt`. */
  promptCounts: Map<string, number> | null = null;
  /** Set if this session is a copy on which a program is only rehearsed. */
  rehearsal: Rehearsal | null = null;
  private readonly parts: SessionParts;
  private readonly stopping = new AbortController();
  private readonly draining = new AbortController();
  private busy = 0;
  private readonly whenIdle: (() => void)[] = [];
  /** Events that become durable in the commit of a call's outcome, or not at all. By call id. */
  readonly riders = new Map<string, readonly Draft[]>();
  readonly kept: KeptOutcomes;
  /** Issued in the commits of their messages, and not started yet. By message id. */
  private readonly firstWaves = new Map<
    string,
    { readonly first: FirstWave; readonly ledger: Ledger; readonly at: number }
  >();
  private readonly lostCalls: LostCalls;
  private readonly transcript = new FrozenTranscript();
  private closed = false;
  private closing: Promise<void> = Promise.resolve();
  private ledgerState: ReturnType<typeof ledgerStateOf> | undefined;

  constructor(parts: SessionParts) {
    this.id = parts.id;
    this.own = parts.own;
    this.journal = parts.journal;
    this.resumed = parts.resumed;
    this.parts = parts;
    this.kept = new KeptOutcomes(parts.own, parts.journal.warn);
    parts.own.lease.lost.addEventListener("abort", this.forgetFirstWaves, { once: true });
    // Cheaper than `AbortSignal.any`, which every request would pay for.
    const { lost } = parts.own.lease;
    onAbort(lost, () => this.stopping.abort(lost.reason));
    this.lostCalls = new LostCalls(parts.journal, this.incarnation, parts.own.lease, this.openCalls);
  }

  /** Aborts when another process takes over, and when this handle is closed. */
  get stop(): AbortSignal {
    return this.stopping.signal;
  }

  /** Aborts when this handle starts no new call or model question, but finishes those in flight. */
  get drain(): AbortSignal {
    return this.draining.signal;
  }

  startDraining(): void {
    this.draining.abort(closedError(this.id));
  }

  /** Drains the session for a rehearsal: everything on record is still replayed. */
  rehearse(): Rehearsal {
    this.draining.abort(rehearsedError(this.id));
    this.rehearsal = new Rehearsal();
    return this.rehearsal;
  }

  get state(): SessionState {
    return this.own.log.state;
  }

  get incarnation(): string {
    return incarnationOf(this.id, this.own.log.head.generation);
  }

  get messages(): readonly Message[] {
    return this.transcript.of(this.state.messages);
  }

  get openCalls(): readonly Call[] {
    return openCallsOf(this.state);
  }

  get unfinished(): Message | null {
    const [id] = this.state.unfinished;
    return id === undefined ? null : (this.findMessage(id) ?? null);
  }

  findMessage(id: string): Message | undefined {
    return freezeJson(this.state.messages.findLast((message) => message.id === id));
  }

  /** `issue`: the commit of the last message also issues the first wave of its calls. */
  async append(
    inputs: readonly MessageInput[],
    checkpoint?: boolean | string,
    issue?: { readonly tools: readonly Tool[]; readonly parallel?: number | undefined },
  ): Promise<Message[]> {
    const now = this.journal.now();
    const drafts = inputs.map((input) => readMessage(input, now, () => this.journal.newId()));
    const isIssued = issue && (await this.track(() => this.appendAndIssue(drafts, checkpoint, issue)));
    if (!isIssued) await this.writeEvents((state) => appendDrafts(this.id, drafts, state, checkpoint));
    failpoint("message.appended");
    return drafts.map(({ data }) => this.findMessage(data.message.id) ?? data.message);
  }

  /** False if nothing was written: the messages have to be appended alone. */
  private async appendAndIssue(
    drafts: readonly MessageDraft[],
    checkpoint: boolean | string | undefined,
    { tools, parallel }: { readonly tools: readonly Tool[]; readonly parallel?: number | undefined },
  ): Promise<boolean> {
    checkTools(tools);
    const earlier = drafts.slice(0, -1);
    const last = drafts.at(-1);
    const hasCalls = ({ data }: MessageDraft): boolean => toolCalls(data.message).length > 0;
    if (!last || !hasCalls(last) || earlier.some(hasCalls) || this.drain.aborted) return false;
    const unique = withUniqueCallIds(last, this.state);
    const { message } = unique.data;
    const leading = (state: SessionState): readonly Draft[] | null => {
      const isNew = state.status === "active" && !state.messageIds.has(message.id);
      if (!isNew || withUniqueCallIds(unique, state) !== unique) return null;
      return appendDrafts(this.id, [...earlier, unique], state, checkpoint);
    };
    const ledger = this.ledger(tools, { ...(parallel !== undefined && { parallel }) });
    const first = await ledger.append(message, leading, () => undefined);
    if (!first.issued) return false;
    this.firstWaves.set(message.id, { first, ledger, at: performance.now() });
    return true;
  }

  /** True if a cancellation cannot have gone unnoticed for longer than in a run. */
  hasJustIssued(messageId: string): boolean {
    const issued = this.firstWaves.get(messageId);
    return issued !== undefined && performance.now() - issued.at < WATCH_MS;
  }

  /** The wave that was issued with this message and not started yet, if any. The caller starts it now. */
  async takeFirstWave(messageId: string): Promise<FirstWave | undefined> {
    const issued = this.firstWaves.get(messageId);
    this.firstWaves.delete(messageId);
    if (!issued) return undefined;
    if (this.state.status === "cancelled") await issued.ledger.abandon(issued.first);
    mustNotBeCancelled(this.id, this.state);
    return issued.first;
  }

  /** Records that calls which were issued ahead did not start. */
  async abandonFirstWaves(): Promise<void> {
    for (const [messageId, { first, ledger }] of this.firstWaves) {
      this.firstWaves.delete(messageId);
      await ledger.abandon(first);
    }
  }

  /** Another owner decides about these calls: none of them will start here. */
  private readonly forgetFirstWaves = (): void => {
    for (const { first } of this.firstWaves.values()) {
      for (const { callId } of first.issued?.started ?? [])
        this.ledgerState?.attempts.track(callId, Promise.resolve());
    }
    this.firstWaves.clear();
  };

  async write<Result>(
    decide: (state: SessionState) => Pick<Decision<Result>, "events" | "result" | "lease">,
  ): Promise<Result> {
    if (this.closed) throw closedError(this.id);
    // Counts by hand instead of calling `track`: every append passes here, and this saves a promise.
    this.busy += 1;
    try {
      return await this.own.write((state) => {
        mustNotBeCancelled(this.id, state);
        return decide(state);
      });
    } finally {
      this.workEnded();
    }
  }

  writeEvents(decide: (state: SessionState) => readonly Draft[]): Promise<void> {
    return this.write((state) => ({ events: decide(state), result: undefined }));
  }

  async refresh(): Promise<void> {
    await this.own.log.refresh();
  }

  /** Runs work that `close` stops and waits for, after a refresh. */
  during<Result>(work: () => MaybePromise<Result>): Promise<Result> {
    return this.track(() => this.refresh().then(work));
  }

  /** For work that begins with a commit, which meets others' events as a conflict, except answers. */
  duringCommit<Result>(work: () => MaybePromise<Result>): Promise<Result> {
    return this.state.openCalls.size > this.kept.size ? this.during(work) : this.track(work);
  }

  /** Runs work that `close` waits for. Rejects if the handle is closed. */
  track<Result>(work: () => MaybePromise<Result>): Promise<Result> {
    if (this.closed) return Promise.reject(closedError(this.id));
    // Counts before the work begins: a tool that it calls synchronously may close the session.
    this.busy += 1;
    const running = Promise.resolve(andThen(undefined, work));
    running.then(this.workEnded, this.workEnded);
    return running;
  }

  private readonly workEnded = (): void => {
    this.busy -= 1;
    if (this.busy === 0) for (const resolve of this.whenIdle.splice(0)) resolve();
  };

  /** Throws LEASE_LOST if another process has taken over. Then "still open" may not be true. */
  mustHold(): Promise<void> {
    // Nothing was written yet, and so nothing can have been lost.
    if (!this.own.lease.isTaken) return Promise.resolve();
    return this.journal.leases.mustHold(this.own.lease);
  }

  noteSettled(): void {
    if (!this.resumed) return;
    const { interrupted, settled } = this.resumed;
    const open = this.state.openCalls;
    settled.push(...interrupted.filter((id) => !open.has(id) && !settled.includes(id)));
  }

  ledger(tools: readonly Tool[], options: LedgerOptions): Ledger {
    const { own, journal } = this;
    const { incarnation } = this;
    if (this.ledgerState?.incarnation !== incarnation) this.ledgerState = ledgerStateOf(journal, incarnation);
    const { attempts, vendorKeys } = this.ledgerState;
    const { on, drain = this.drain } = options;
    this.rehearsal?.noteTools(tools);
    const context: LedgerContext = {
      own,
      journal,
      session: this.id,
      vendorKeys,
      tools: toolTable(tools),
      stop: options.signal ? AbortSignal.any([this.stop, options.signal]) : this.stop,
      drain,
      attempts,
      lostSince: (call) => this.lostCalls.since(call),
      patienceMs: options.patienceMs ?? PATIENCE_MS,
      riders: this.riders,
      child: (callId, budget) => this.parts.openChild(this, callId, budget, drain),
      // A listener that throws must not come between an intent and its effect.
      on: on ? (progress) => emitSafely(() => on(progress), journal.warn) : () => undefined,
    };
    return new Ledger(context, options.parallel ?? 8, this.kept, options.perCall);
  }

  async close({ finish, withinMs = FINISH_MS }: CloseOptions = {}): Promise<void> {
    if (finish === "call" && !this.closed) {
      this.startDraining();
      await withTimeout(this.idle(), withinMs, this.stop, undefined).catch(() => undefined);
    }
    if (!this.closed) {
      this.closed = true;
      this.closing = this.closeNow();
    }
    return this.closing;
  }

  /** Resolves when this handle is closed, or has lost the session. */
  whenLeft(): Promise<void> {
    return new Promise((resolve) => {
      const leave = (): void => void this.closing.then(resolve, () => resolve());
      if (this.stop.aborted) leave();
      else this.stop.addEventListener("abort", leave, { once: true });
    });
  }

  get isLeaving(): boolean {
    return this.closed || this.drain.aborted || this.own.lease.lost.aborted;
  }

  private idle(): Promise<void> {
    return this.busy === 0 ? Promise.resolve() : new Promise((resolve) => this.whenIdle.push(resolve));
  }

  private async closeNow(): Promise<void> {
    this.stopping.abort(closedError(this.id));
    await this.idle();
    let failure: { readonly error: unknown } | null = null;
    // A caller of `session.call` has these results. If the store refuses them, the caller must know.
    await this.flushMemory().catch((error: unknown) => {
      failure = { error };
    });
    if (!failure) await this.leaveCallsToPerson();
    this.lostCalls.release(this.openCalls);
    this.parts.onClose();
    await this.own.lease.release();
    if (failure) throw (failure as { readonly error: unknown }).error;
    this.journal.leave(this.own.log);
  }

  private async flushMemory(): Promise<void> {
    await this.kept.flush();
    if (!this.own.lease.lost.aborted) await this.abandonFirstWaves();
  }

  /** A cancelled session is not run again, so only a person can say what became of its calls. */
  private async leaveCallsToPerson(): Promise<void> {
    const { own, journal } = this;
    if (own.state.openCalls.size === 0 || own.lease.lost.aborted) return;
    try {
      await own.log.refresh();
      await own.write((state) => {
        const events = state.status === "cancelled" ? escalateToPerson(undecidedCalls(state)) : [];
        return { events, result: undefined };
      });
    } catch (error) {
      // Else the store was closed first, or another process took over: the next one who looks does this.
      if (!isHoldfastError(error, "LEASE_LOST") && !isHoldfastError(error, "STORE_CLOSED"))
        journal.warn(error);
    }
  }
}

const WATCH_MS = 100;

/**
 * Reads others' events (cancel, answers, prompts) soon after they come, not only at the next conflict.
 *
 * Our own commits end in hints, too. Each proves that no other event came before it, so a run that commits
 * again and again reads nothing: it looks once it has been quiet for a moment.
 */
export function watchForCancel(session: SessionCore, cancelled: AbortController): () => void {
  const { own, journal } = session;
  let timer: NodeJS.Timeout | null = null;
  const check = (): void => {
    if (own.state.status !== "cancelled") return;
    const hint = "Call session.reopen() to continue it.";
    cancelled.abort(new HoldfastError("SESSION_ENDED", `session ${session.id} was cancelled`, { hint }));
  };
  const lookOnceQuiet = (seq: number): void => {
    timer = setTimeout(() => {
      timer = null;
      const now = own.log.head.seq;
      if (now !== seq) {
        check();
        lookOnceQuiet(now);
        return;
      }
      own.log.refresh().then(check, (error: unknown) => {
        // The store was closed while the run was being given up.
        if (!isHoldfastError(error, "STORE_CLOSED")) journal.warn(error);
      });
    }, WATCH_MS).unref();
  };
  const unwatch = journal.watch(own.log.stream, () => {
    if (!timer) lookOnceQuiet(own.log.head.seq);
  });
  return () => {
    unwatch();
    if (timer) clearTimeout(timer);
  };
}

/** The parts that all ledgers of one incarnation share. */
function ledgerStateOf({ store, namespace }: Journal, incarnation: string) {
  const attempts = attemptsOf(store, `${namespace}/${incarnation}`);
  return { incarnation, attempts, vendorKeys: new VendorKeys(incarnation) };
}

function closedError(id: string): HoldfastError {
  return new HoldfastError("SESSION_CLOSED", `session ${id} was closed by this program`, {
    hint:
      "Open it again with holdfast.session(). A route that streams needs withSession(), " +
      "which closes the session after the stream.",
  });
}

function rehearsedError(id: string): HoldfastError {
  return new HoldfastError("SESSION_CLOSED", `session ${id}: rehearsed up to here (nothing new starts)`, {
    hint: "Let this error end the program: `holdfast check --against` only compares it with the record.",
  });
}

function toolTable(tools: readonly Tool[]): ReadonlyMap<string, Tool> {
  const table = new Map<string, Tool>();
  for (const tool of tools) {
    if (table.has(tool.name)) {
      throw new HoldfastError("INPUT_INVALID", `two tools are called ${JSON.stringify(tool.name)}`, {
        hint: "Give every tool a name of its own: open calls are settled by name.",
      });
    }
    table.set(tool.name, tool);
  }
  return table;
}

// ---- Lost calls

type ReleasedCalls = { readonly token: number; readonly since: ReadonlyMap<string, number> };

const releasedBy = new WeakMap<Journal, Map<string, ReleasedCalls>>();

/** Includes the attempt: a later one was in flight until it was lost itself. */
const keyOf = ({ callId: id, attempt }: Call): string => `${attempt} ${id}`;

/** Counts `settleMs` from the takeover, also if this process releases the session and takes it again. */
class LostCalls {
  private readonly journal: Journal;
  private readonly incarnation: string;
  private readonly lease: Lease;
  private readonly known = new Map<string, { lostAt: number | null; since: number }>();

  constructor(journal: Journal, incarnation: string, lease: Lease, calls: readonly Call[]) {
    this.journal = journal;
    this.incarnation = incarnation;
    this.lease = lease;
    const { token } = lease;
    const released = releasedBy.get(journal)?.get(incarnation);
    releasedBy.get(journal)?.delete(incarnation);
    for (const call of calls) {
      const since = released?.token === token - 1 ? released.since.get(keyOf(call)) : undefined;
      this.known.set(keyOf(call), { lostAt: call.lostAt, since: since ?? journal.steady() });
    }
  }

  /** Counts anew if the call was started and lost again since. */
  since(call: Call): number {
    const known = this.known.get(keyOf(call));
    if (known?.lostAt === call.lostAt) return known.since;
    const since = this.journal.steady();
    this.known.set(keyOf(call), { lostAt: call.lostAt, since });
    return since;
  }

  release(calls: readonly Call[]): void {
    const lost = calls.filter(({ status, doubt }) => status === "unknown" && doubt !== null);
    if (lost.length === 0) return;
    const since = new Map(lost.map((call) => [keyOf(call), this.since(call)]));
    const released = releasedBy.get(this.journal) ?? new Map<string, ReleasedCalls>();
    releasedBy.set(this.journal, released.set(this.incarnation, { token: this.lease.token, since }));
  }
}
