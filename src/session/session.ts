import { failpoint } from "../failpoint.ts";
import { type CallProgress, type CallsOutcome, checkTools, type Tool } from "../ledger/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { freezeJson } from "../model/json.ts";
import { checkOption } from "../model/options.ts";
import type {
  Amounts,
  Budget,
  Call,
  Checkpoint,
  JsonObject,
  Message,
  Plan,
  QueuedPrompt,
  SessionDiff,
  SessionStatus,
} from "../model/session/index.ts";
import {
  amountsSince,
  checkMessage,
  compareTranscripts,
  reactivate,
  toolCalls,
} from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { mustBeAmounts } from "./budget.ts";
import { type DirectCall, type DirectOutcome, runDirectCall } from "./direct-call.ts";
import type { MessageInput } from "./messages.ts";
import { startRun } from "./run.ts";
import type { RunOptions, RunResult } from "./run-options.ts";
import type { CloseOptions, Resumed, SessionCore } from "./session-core.ts";
import { cancelChildren } from "./sub-agents.ts";
import type { ForkReport, SessionVersion } from "./versions.ts";
import { checkpointDraft, diffVersions, forkSession, noVersion, versionOf } from "./versions.ts";

/**
 * One agent's conversation: `holdfast.session(id)` opens it. This handle is its only writer until it is
 * closed or lost.
 *
 * - `run` runs the whole agent loop.
 * - `append`, `calls` and `call` are for a loop of your own.
 * - `save` stores what another framework runs.
 *
 * Every promise resolves once its effect is durable. When `lost` aborts, another process has taken over:
 * stop. To read a session, or to prompt one that runs elsewhere, use `holdfast.sessions`.
 *
 * @example
 * await using session = await holdfast.session("order-17");
 * const { text } = await session.run({ model, tools, prompt: "Refund order 17." });
 */
export class Session {
  /** The session's name in its store: `order-4711`. */
  readonly id: string;
  /** The state an earlier process left behind. Null for a new session. */
  readonly resumed: Resumed | null;
  private readonly core: SessionCore;

  /** @internal Use `holdfast.session(id)`. */
  constructor(core: SessionCore) {
    this.id = core.id;
    this.resumed = core.resumed;
    this.core = core;
  }

  /** `active` until `complete`, `fail` or a cancellation. */
  get status(): SessionStatus {
    return this.core.state.status;
  }

  /** The time of the first opening. Reopening keeps it. */
  get createdAt(): Date {
    return new Date(this.core.state.createdAt);
  }

  /** The time of the last event. */
  get updatedAt(): Date {
    return new Date(this.core.state.updatedAt);
  }

  /** The title from `SessionOptions`. */
  get title(): string | null {
    return this.core.state.title;
  }

  /** The agent's folder for notes, from `SessionOptions`. */
  get scratchpadRoot(): string | null {
    return this.core.state.scratchpadRoot;
  }

  /** Data of the program, such as `{ customer: "c-9" }`. Frozen. */
  get metadata(): JsonObject {
    return freezeJson(this.core.state.metadata);
  }

  /** Id of the goal that the session works on. */
  get goal(): string | null {
    return this.core.state.goal;
  }

  /** The transcript now, frozen. Later messages are not added to this list: read the property again. */
  get messages(): readonly Message[] {
    return this.core.messages;
  }

  /** The plan of the latest version, frozen. */
  get plan(): Plan | null {
    return freezeJson(this.core.state.plan);
  }

  /** Limits, what is spent, and what is reserved for calls in flight. */
  get budget(): Budget {
    return this.core.state.budget;
  }

  /** The number of the latest checkpoint. */
  get version(): number {
    return this.core.state.version;
  }

  /** Calls without an outcome: in flight, unknown, or waiting for a person. */
  get openCalls(): readonly Call[] {
    return this.core.openCalls;
  }

  /** Prompts that `sessions.prompt` has queued and that are not in the transcript yet. */
  get prompts(): readonly QueuedPrompt[] {
    for (const prompt of this.core.state.prompts) freezeJson(prompt);
    return this.core.state.prompts;
  }

  /** The assistant message whose calls do not all have results yet. A resumed loop continues with it. */
  get unfinished(): Message | null {
    return this.core.unfinished;
  }

  /** Checkpoints that were not deleted, oldest first. */
  get versions(): readonly Checkpoint[] {
    return [...this.core.state.checkpoints.values()];
  }

  /** Aborts when another process has taken this session over. */
  get lost(): AbortSignal {
    return this.core.own.lease.lost;
  }

  /**
   * Runs the agent loop until the prompt is answered, a person is needed, or a limit is reached. Call it
   * again after a crash, a pause or a person's answer: it finds its place from the log.
   *
   * A second run waits for the first. It is rejected if a tool of the first calls it.
   *
   * @example
   * const result = await session.run({ model, tools: [charge], prompt: { id: "p1", text: "Charge 20 €." } });
   * if (result.status === "waiting") notify(result.waiting);
   */
  run(options: RunOptions): Promise<RunResult> {
    return startRun(this.core, options);
  }

  /**
   * Appends one message, or several in one commit. A message whose id is stored is not appended again, so a
   * program that was killed can simply run again.
   *
   * @example
   * await session.append({ id: "greeting", role: "user", text: "Hello" }, { checkpoint: "greeted" });
   *
   * @example
   * // The message and the intents of its first calls in one commit, which saves one per turn:
   * const message = await session.append({ role: "assistant", blocks }, { issue: tools });
   * await session.calls(message, tools);
   */
  async append(input: MessageInput, options?: AppendOptions): Promise<Message>;
  async append(input: readonly MessageInput[], options?: AppendOptions): Promise<Message[]>;
  async append(input: MessageInput | readonly MessageInput[], options: AppendOptions = {}) {
    const { checkpoint, issue, parallel } = options;
    const inputs = Array.isArray(input) ? input : [input as MessageInput];
    const messages = await this.core.append(inputs, checkpoint, issue && { tools: issue, parallel });
    return Array.isArray(input) ? messages : messages[0];
  }

  /**
   * Runs all calls of an appended message, and appends their results. For a loop of your own.
   *
   * @example
   * const message = await session.append({ role: "assistant", blocks });
   * const { done, waiting } = await session.calls(message, tools);
   */
  calls(
    message: Message,
    tools: readonly Tool[],
    options: {
      parallel?: number;
      signal?: AbortSignal;
      drain?: AbortSignal;
      on?: (progress: CallProgress) => void;
    } = {},
  ): Promise<CallsOutcome & { readonly count: number }> {
    const { core } = this;
    const work = async () => {
      checkTools(tools);
      const stored = core.findMessage(message.id);
      if (!stored) throw notAppended(this.id, message.id);
      const ledger = core.ledger(tools, options);
      const first = await core.takeFirstWave(message.id);
      const outcome = await ledger.run(stored, (state) => [checkpointDraft(state, true)], first);
      if (!outcome.done) await core.mustHold();
      return { ...outcome, count: toolCalls(stored).length };
    };
    return core.hasJustIssued(message.id) ? core.track(work) : core.duringCommit(work);
  }

  /**
   * Runs one call outside any message, with the same promises. The id identifies it after a crash.
   *
   * @example
   * const outcome = await session.call({ tool: charge, args: { order: 17 }, callId: "charge-17" });
   */
  call<Result, Input>(direct: DirectCall<Result, Input>): Promise<DirectOutcome<Result>> {
    return this.core.duringCommit(() => runDirectCall(this.core, direct));
  }

  /** Settles calls left without an outcome. `isMeant` limits it: `({ tool }) => tool === "charge"`. */
  settle(
    tools: readonly Tool[],
    isMeant: (call: Call) => boolean = () => true,
  ): Promise<{ settled: string[]; open: string[] }> {
    const { core } = this;
    return core.during(async () => {
      checkTools(tools);
      await core.abandonFirstWaves();
      const report = await core.ledger(tools, {}).settle(isMeant);
      if (report.open.length > 0) await core.mustHold();
      core.noteSettled();
      return report;
    });
  }

  /**
   * Saves a whole transcript, plan and spending as a new version, as checkpointers of other frameworks do.
   * Stores only the difference. Returns the version's number.
   *
   * `spent` is the running total of the session: saves of 1, 2 and 3 end at 3, and a repeated save counts
   * once. A total below what is recorded changes nothing: money that was spent stays spent.
   *
   * @example
   * const version = await session.save({ messages, plan, spent: { usd: 0.12 }, label: "after research" });
   */
  async save(content: {
    readonly messages: readonly unknown[];
    readonly system?: string | null;
    readonly plan?: Plan | null;
    readonly spent?: Amounts;
    readonly label?: string;
  }): Promise<number> {
    const messages = this.checkMessages(content.messages);
    if (content.spent) mustBeAmounts("spent", content.spent);
    return this.core.write((state) => {
      const change = compareTranscripts(state.messages, messages);
      const events: Draft[] = [];
      if (change.kind === "appended")
        events.push(...change.messages.map((message) => ({ type: "message", data: { message } })));
      else if (change.kind === "replaced")
        events.push({ type: "transcript.replaced", data: { segments: change.segments } });
      const { system } = content;
      if (system !== undefined && system !== state.system)
        events.push({ type: "system.set", data: { text: system } });
      if (content.plan !== undefined) events.push({ type: "plan.set", data: { plan: content.plan } });
      const amounts = amountsSince(state.budget.spent, content.spent ?? {});
      if (Object.keys(amounts).length > 0) events.push({ type: "budget.spent", data: { amounts } });
      events.push(checkpointDraft(state, content.label ?? true));
      return { events: reactivate(state, events), result: state.version + 1 };
    });
  }

  /**
   * Replaces the transcript when the context window runs out. Returns the version made right before.
   *
   * @example
   * await session.compact([summary, ...session.messages.slice(-10)], "context window is full");
   */
  async compact(messages: readonly unknown[], why?: string): Promise<number> {
    const next = this.checkMessages(messages);
    return this.core.write((state) => {
      const change = compareTranscripts(state.messages, next);
      const segments =
        change.kind === "replaced"
          ? change.segments
          : [
              ...(state.messages.length > 0 ? [{ keep: [0, state.messages.length] }] : []),
              ...(change.kind === "appended" ? [{ add: change.messages }] : []),
            ];
      const events: Draft[] = [
        checkpointDraft(state, "before compaction"),
        { type: "transcript.replaced", data: { segments, ...(why !== undefined && { why }) } },
      ];
      return { events, result: state.version + 1 };
    });
  }

  /** Messages that this handle returned are valid. */
  private checkMessages(values: readonly unknown[]): Message[] {
    checkOption(`session ${this.id}: messages`, values, "list");
    const known = new Set<unknown>(this.messages);
    return values.map((value) => (known.has(value) ? (value as Message) : checkMessage(value)));
  }

  /** Numbers the session's current state, optionally with a label. Returns the version's number. */
  async checkpoint(label?: string): Promise<number> {
    const version = await this.core.write((state) => {
      return { events: [checkpointDraft(state, label ?? true)], result: state.version + 1 };
    });
    failpoint("checkpoint.saved");
    return version;
  }

  /** Deletes a version's number and label. Numbers are not reused, and a resume never needs them. */
  async deleteVersion(version: number): Promise<void> {
    await this.core.writeEvents((state) => {
      if (!state.checkpoints.has(version)) throw noVersion(this.id, version);
      return [{ type: "checkpoint.deleted", data: { version } }];
    });
  }

  /** Transcript, plan and budget at a version. */
  at(version: number): Promise<SessionVersion> {
    return versionOf(this.core.journal, this.id, version);
  }

  /** Messages, plan changes and spending between two versions. */
  diff(before: number, after: number): Promise<SessionDiff> {
    return diffVersions(this.core.journal, this.id, before, after);
  }

  /**
   * Makes a new session that shares this one's past up to a version (the latest unless set). A fork starts no
   * effects until `allowEffects`, or with `effects: "live"`.
   *
   * @example
   * const report = await session.fork("order-17-retry", { version: 3 });
   */
  fork(id: string, options: { version?: number; effects?: "live" } = {}): Promise<ForkReport> {
    return this.core.kept.flush().then(() => forkSession(this.core.journal, this.id, id, options));
  }

  /** Lets a fork start effects of its own. */
  allowEffects(): Promise<void> {
    return this.appendEvent("session.effects", { effects: "live" });
  }

  /** Replaces the plan; null removes it. `save` can do it together with the transcript. */
  async setPlan(plan: Plan | null): Promise<void> {
    await this.appendEvent("plan.set", { plan });
  }

  /** Sets limits per unit. `null` removes one: `limit({ usd: 5, turns: null })`. */
  async limit(limits: { usd?: number | null; tokens?: number | null; turns?: number | null }): Promise<void> {
    await this.appendEvent("budget.limited", { limits });
  }

  /** Counts spending that happened outside `run`: `spend({ usd: 0.03 })`. */
  async spend(amounts: Amounts): Promise<void> {
    await this.appendEvent("budget.spent", { amounts });
  }

  /** Changes title, scratchpad root, goal, time to live, or metadata (merged by key). */
  async describe(description: {
    title?: string | null;
    scratchpadRoot?: string | null;
    goal?: string | null;
    ttlMs?: number | null;
    metadata?: JsonObject;
  }): Promise<void> {
    await this.appendEvent("session.described", description);
  }

  private appendEvent(type: string, data: Draft["data"]): Promise<void> {
    return this.core.writeEvents(() => [{ type, data }]);
  }

  /** Ends the session as done. Rejects while calls are open. A later `run` makes it active again. */
  complete(why?: string): Promise<void> {
    return this.end("completed", why);
  }

  /** Ends the session as given up. Rejects while calls are open. */
  fail(why: string): Promise<void> {
    return this.end("failed", why);
  }

  /** Stops the session and the sub-agents that work for it. Nothing new starts until `reopen`. */
  async cancel(why?: string): Promise<void> {
    const { core } = this;
    await this.end("cancelled", why);
    const spoken = { by: core.own.lease.holder.label, ...(why !== undefined && { why }) };
    await cancelChildren(core.journal, core.incarnation, core.state, spoken);
  }

  /** Makes an ended session active again. */
  reopen(): Promise<void> {
    const { own } = this.core;
    const data = { status: "active", why: null, by: own.lease.holder.label };
    const events = [{ type: "session.status", data }];
    return this.core.track(() => own.write(() => ({ events, result: undefined })));
  }

  private async end(status: Exclude<SessionStatus, "active">, why?: string): Promise<void> {
    const { own } = this.core;
    const data = { status, why: why ?? null, by: own.lease.holder.label };
    await this.core.duringCommit(() =>
      own.write((state) => {
        if (status !== "cancelled" && state.openCalls.size > 0)
          throw hasOpenCalls(this.id, state.openCalls.size);
        const events = state.status === status ? [] : [{ type: "session.status", data }];
        return { events, result: undefined };
      }),
    );
  }

  /** Reads what others have appended: answers, prompts, a cancellation. `run` does so by itself. */
  async refresh(): Promise<void> {
    await this.core.refresh();
  }

  /**
   * Stops a run, waits for writes in progress, and releases the session to other processes. A tool in flight
   * is cut off, unless `finish: "call"` waits for it.
   *
   * @example
   * process.once("SIGTERM", () => session.close({ finish: "call", withinMs: 20_000 }));
   */
  close(options?: CloseOptions): Promise<void> {
    return this.core.close(options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

interface AppendOptions {
  readonly checkpoint?: boolean | string;
  /**
   * Tools of the calls in the last message: the same commit makes the intents of its first wave durable, and
   * `session.calls` starts it. Call that right after. A crash in between leaves calls that look started, so
   * they are settled like any interrupted call. Calls that are never run are recorded as not started when the
   * session is closed.
   */
  readonly issue?: readonly Tool[];
  /** How many calls the first wave has at most. 8 unless set, as in `session.calls`. */
  readonly parallel?: number;
}

/** The internal handle of a session, for the integrations and the supervisor. Not exported to users. */
export function sessionCore(session: Session): SessionCore {
  return session["core"];
}

function notAppended(session: string, message: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `session ${session}: message ${message} was not appended`, {
    hint:
      "Append it first and pass what append() returned: " +
      "after a crash, the message that asked for the calls must be in the log.",
  });
}

function hasOpenCalls(id: string, count: number): HoldfastError {
  const problem = `session ${id} has ${count} call(s) without an outcome`;
  return new HoldfastError("SESSION_HAS_OPEN_CALLS", problem, {
    hint: "Settle them first: run the session with its tools, or resolve them as a person.",
    data: { session: id, count },
  });
}
