import { failpoint } from "../failpoint.ts";
import { emitSafely, type Journal, type OwnedLog } from "../journal/index.ts";
import {
  type Attempts,
  attemptsOf,
  type CallProgress,
  type ChildSession,
  type Finishing,
  Ledger,
  type LedgerContext,
  mustNotBeCancelled,
  type Tool,
  VendorKeys,
} from "../ledger/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { freezeJson } from "../model/json.ts";
import { andThen, type MaybePromise } from "../model/maybe-promise.ts";
import { checkOption } from "../model/options.ts";
import {
  type Amounts,
  type Budget,
  type Call,
  type Checkpoint,
  checkMessage,
  type JsonObject,
  type Message,
  openCallsOf,
  type Plan,
  type QueuedPrompt,
  type SessionState,
  type SessionStatus,
} from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { escalateToPerson, undecided } from "./abandoned-calls.ts";
import { appendDrafts } from "./append-drafts.ts";
import { incarnationOf } from "./life.ts";
import { LostCalls } from "./lost-calls.ts";
import { type MessageInput, readMessage } from "./message-input.ts";
import { ShownMessages } from "./shown-messages.ts";

export const PATIENCE_MS = 10_000;

/** What an earlier process left, and what became of it. */
export interface Resumed {
  /** The last version before this process came, and how many messages there were. */
  readonly version: number;
  readonly messages: number;
  /** Who had the session and did not let go of it, if anyone: crashed, or taken over from. */
  readonly from: string | null;
  /** Ids of the calls that had no outcome when this process came: under way, unknown, or waiting for a person. */
  readonly interrupted: readonly string[];
  /** Those of them that have one by now. Filled as `run` and `settle` go. */
  readonly settled: string[];
  /** What this process did not do again because it was on record: repeated calls, and prompts that were answered. */
  readonly replayed: string[];
}

export interface SessionParts {
  readonly id: string;
  readonly own: OwnedLog<SessionState>;
  readonly journal: Journal;
  readonly resumed: Resumed | null;
  onClose(session: OwnedSession): void;
  /** Opens the session of a sub-agent that works for one of this session's calls. */
  openChild(parent: OwnedSession, callId: string, budget: Amounts | undefined): Promise<ChildSession>;
}

/** What every ledger of a session shares, from one removal to the next. */
interface InLife {
  readonly life: string;
  readonly attempts: Attempts;
  readonly vendorKeys: VendorKeys;
}

/** The owner's handle, as far as the loop and the ledger need it. */
export class OwnedSession {
  readonly id: string;
  /** Null for a new session. */
  readonly resumed: Resumed | null;
  /** For the parts of the session layer; not part of what users call. */
  readonly internals: { readonly own: OwnedLog<SessionState>; readonly journal: Journal };
  private readonly parts: SessionParts;
  /** For the session layer: aborts when another process takes over, and when this handle is closed. */
  readonly stop: AbortSignal;
  private readonly stopping = new AbortController();
  /** How much work `close` has to wait for, and whom to tell when there is none left. */
  private busy = 0;
  private readonly idle: (() => void)[] = [];
  private readonly riders = new Map<string, readonly Draft[]>();
  private readonly lostCalls: LostCalls;
  private readonly shown = new ShownMessages();
  private closed = false;
  /** The end of the first one, for whoever closes again: a signal's handler, say, and a `finally`. */
  private closing: Promise<void> = Promise.resolve();
  private inLife: InLife | undefined;

  constructor(parts: SessionParts) {
    this.id = parts.id;
    this.internals = { own: parts.own, journal: parts.journal };
    this.resumed = parts.resumed;
    this.parts = parts;
    this.stop = AbortSignal.any([parts.own.lease.lost, this.stopping.signal]);
    this.lostCalls = new LostCalls(parts.journal, this.life, parts.own.lease.token, this.openCalls);
  }

  protected get state(): SessionState {
    return this.internals.own.state;
  }

  get status(): SessionStatus {
    return this.state.status;
  }

  get createdAt(): Date {
    return new Date(this.state.createdAt);
  }

  get updatedAt(): Date {
    return new Date(this.state.updatedAt);
  }

  get title(): string | null {
    return this.state.title;
  }

  get scratchpadRoot(): string | null {
    return this.state.scratchpadRoot;
  }

  get metadata(): JsonObject {
    return freezeJson(this.state.metadata);
  }

  get goal(): string | null {
    return this.state.goal;
  }

  /** The transcript as it is now, frozen: what you hold is what is stored, and what is appended later is not in it. */
  get messages(): readonly Message[] {
    return this.shown.show(this.state.messages);
  }

  get plan(): Plan | null {
    return freezeJson(this.state.plan);
  }

  get budget(): Budget {
    return this.state.budget;
  }

  /** The number of the latest checkpoint. */
  get version(): number {
    return this.state.version;
  }

  get openCalls(): readonly Call[] {
    return openCallsOf(this.state);
  }

  /** Prompts that others have queued and that are not part of the transcript yet. */
  get prompts(): readonly QueuedPrompt[] {
    for (const prompt of this.state.prompts) freezeJson(prompt);
    return this.state.prompts;
  }

  /** The assistant message whose calls do not all have results yet: a resumed loop continues with it. */
  get unfinished(): Message | null {
    const [id] = this.state.unfinished;
    return id === undefined ? null : (this.findMessage(id) ?? null);
  }

  /** Checkpoints that were not deleted, oldest first. */
  get versions(): readonly Checkpoint[] {
    return [...this.state.checkpoints.values()];
  }

  /** Aborts when another process has taken this session over. */
  get lost(): AbortSignal {
    return this.internals.own.lease.lost;
  }

  /**
   * Appends one message, or several in one commit. A message whose id is there already is not appended again, so a
   * program that was killed can simply be run again.
   */
  async append(input: MessageInput, options?: { checkpoint?: boolean | string }): Promise<Message>;
  async append(
    input: readonly MessageInput[],
    options?: { checkpoint?: boolean | string },
  ): Promise<Message[]>;
  async append(
    input: MessageInput | readonly MessageInput[],
    options: { checkpoint?: boolean | string } = {},
  ): Promise<Message | Message[]> {
    const now = this.internals.journal.now();
    const inputs = Array.isArray(input) ? input : [input as MessageInput];
    const drafts = inputs.map((each) => readMessage(each, now, () => this.internals.journal.newId()));
    await this.write((state) => ({
      events: appendDrafts(this.id, drafts, state, options.checkpoint),
      result: undefined,
    }));
    failpoint("message.appended");
    const stored = drafts.map(({ data }) => this.findMessage(data.message.id) ?? data.message);
    return Array.isArray(input) ? stored : (stored[0] as Message);
  }

  /** Takes in what others appended: answers, prompts, a cancellation. */
  async refresh(): Promise<void> {
    await this.internals.own.log.refresh();
  }

  /** Stops a run, waits for writes under way, and lets go of the session: another process may take it at once. */
  close(): Promise<void> {
    if (!this.closed) {
      this.closed = true;
      this.closing = this.closeNow();
    }
    return this.closing;
  }

  private async closeNow(): Promise<void> {
    this.stopping.abort(closedError(this.id));
    if (this.busy > 0) await new Promise<void>((resolve) => this.idle.push(resolve));
    await this.leaveCallsToPerson();
    this.lostCalls.leave(this.openCalls);
    this.parts.onClose(this);
    await this.internals.own.lease.release();
  }

  /** A session that was cancelled is not run again: nobody else would find out what became of its calls. */
  private async leaveCallsToPerson(): Promise<void> {
    const { own, journal } = this.internals;
    if (own.state.openCalls.size === 0 || own.lease.lost.aborted) return;
    try {
      await own.log.refresh();
      await own.write((state) => {
        const events = state.status === "cancelled" ? escalateToPerson(undecided(state)) : [];
        return { events, result: undefined };
      });
    } catch (error) {
      // Who closes the store first, or was taken over, leaves that to the next one who looks.
      if (!isHoldfastError(error, "LEASE_LOST") && !isHoldfastError(error, "STORE_CLOSED"))
        journal.warn(error);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** For the session layer: a ledger over this session with these tools. */
  ledger(
    tools: readonly Tool[],
    options: {
      parallel?: number;
      signal?: AbortSignal;
      patienceMs?: number;
      perCall?: Finishing;
      on?: (progress: CallProgress) => void;
    },
  ): Ledger {
    const { own, journal } = this.internals;
    const { attempts, vendorKeys } = this.inThisLife();
    const { on } = options;
    const context: LedgerContext = {
      own,
      journal,
      session: this.id,
      vendorKeys,
      tools: toolTable(tools),
      stop: options.signal ? AbortSignal.any([this.stop, options.signal]) : this.stop,
      attempts,
      lostSince: (call) => this.lostCalls.since(call),
      patienceMs: options.patienceMs ?? PATIENCE_MS,
      riders: this.riders,
      child: (callId, budget) => this.parts.openChild(this, callId, budget),
      // Between an intent and its effect nothing else may fail.
      on: on ? (progress) => emitSafely(() => on(progress), journal.warn) : () => undefined,
    };
    return new Ledger(context, options.parallel ?? 8, options.perCall);
  }

  private inThisLife(): InLife {
    const { life } = this;
    if (this.inLife?.life !== life) {
      const { store, namespace } = this.internals.journal;
      const attempts = attemptsOf(store, `${namespace}/${life}`);
      this.inLife = { life, attempts, vendorKeys: new VendorKeys(life) };
    }
    return this.inLife;
  }

  /** For the session layer: the id, told apart from that of a session which was removed and made again. */
  get life(): string {
    return incarnationOf(this.id, this.internals.own.log.head.generation);
  }

  /** For the session layer: work that `close` stops and waits for. It begins with what others have said meanwhile. */
  during<Result>(work: () => MaybePromise<Result>): Promise<Result> {
    return this.watched(() => this.refresh().then(work));
  }

  /**
   * For the session layer: the same for work that begins with a commit, which meets whatever others have said as a
   * conflict. Only answers to open calls have to be known before.
   */
  duringCommit<Result>(work: () => MaybePromise<Result>): Promise<Result> {
    return this.state.openCalls.size > 0 ? this.during(work) : this.watched(work);
  }

  /** Work that `close` waits for. A handle that is closed begins none. */
  protected watched<Result>(work: () => MaybePromise<Result>): Promise<Result> {
    if (this.closed) return Promise.reject(closedError(this.id));
    // Counted before it begins: what it calls at once, a tool for example, may be the one who closes.
    this.busy += 1;
    const running = Promise.resolve(andThen(undefined, work));
    running.then(this.workIsOver, this.workIsOver);
    return running;
  }

  private readonly workIsOver = (): void => {
    this.busy -= 1;
    if (this.busy === 0) for (const tell of this.idle.splice(0)) tell();
  };

  /** For the session layer: that something is still open is only true for as long as nobody else has taken over. */
  mustHold(): Promise<void> {
    const { own, journal } = this.internals;
    return journal.leases.mustHold(own.lease);
  }

  /** For the session layer: which of the interrupted calls have an outcome by now. */
  noteSettled(): void {
    if (!this.resumed) return;
    const { interrupted, settled } = this.resumed;
    const open = this.state.openCalls;
    settled.push(...interrupted.filter((id) => !open.has(id) && !settled.includes(id)));
  }

  /** For the session layer: these events become durable with the outcome of the call, or not at all. */
  ride(callId: string, drafts: readonly Draft[]): void {
    this.riders.set(callId, drafts);
  }

  /** For the session layer: appends events as the owner. */
  async write<Result>(
    decide: (state: SessionState) => {
      events: readonly Draft[];
      result: Result;
    },
  ): Promise<Result> {
    if (this.closed) throw closedError(this.id);
    // As `watched` does, without a promise for the end: this is on the way of every append.
    this.busy += 1;
    try {
      return await this.internals.own.write((state) => {
        mustNotBeCancelled(this.id, state);
        return decide(state);
      });
    } finally {
      this.workIsOver();
    }
  }

  protected findMessage(id: string): Message | undefined {
    return freezeJson(this.state.messages.findLast((message) => message.id === id));
  }

  /** Messages that we handed out are frozen and valid; others are checked. */
  protected knownMessages(values: readonly unknown[]): Message[] {
    checkOption(`session ${this.id}: messages`, values, "list");
    const known = new Set<unknown>(this.messages);
    return values.map((value) => (known.has(value) ? (value as Message) : checkMessage(value)));
  }
}

function closedError(id: string): HoldfastError {
  return new HoldfastError("SESSION_CLOSED", `session ${id} was closed by this program`, {
    hint: "Open it again with holdfast.session().",
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
