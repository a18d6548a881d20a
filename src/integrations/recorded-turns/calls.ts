/**
 * Tool calls of a framework's loop, each through the ledger. The framework runs the calls of an answer one by
 * one or in parallel, whenever it likes; this module makes them one turn again.
 *
 *     the answer is durable ──▶ each call: intent ──▶ effect ──▶ outcome
 *       the last outcome's commit has the results and a checkpoint, unless a result has to be rendered
 *
 * | crash                                      | on resume                                                 |
 * |--------------------------------------------|-----------------------------------------------------------|
 * | before a call's intent                     | the same answer, so the same call id; the call starts     |
 * | between intent and outcome                 | unknown: `verify` finds out, `idempotent` repeats with    |
 * |                                            | the same key, otherwise a person is asked                 |
 * | between the outcomes of parallel calls     | the finished one returns its recorded result              |
 * | after the last outcome, before the results | all calls return their record; the results are written    |
 *
 * Reads leave no trace before the results are written, and run again until then. Afterwards a read returns
 * what the model was given: the next question may be on record already.
 *
 * A call that waits for a person is not an answer for the model. Frameworks turn an exception of a tool into
 * an answer, so `turns.ts` refuses the next question while a call is open.
 *
 * A tool may allow the conversation to continue meanwhile (`whileWaiting`). Then the model gets a provisional
 * result, and the outcome follows as a prompt: see `outcomes.ts`.
 *
 * Approval. A call that needs it is issued and waits for a person in one commit, and does not start. A person
 * approves it, perhaps with other arguments, or denies it.
 *
 * Identical parallel calls share one key. The later ones wait for the first and repeat it.
 */

import { failpoint } from "../../failpoint.ts";
import { storeResult, type Tool } from "../../ledger/index.ts";
import { describeError } from "../../model/errors.ts";
import { copyJson, type Json } from "../../model/json.ts";
import type {
  Block,
  Call,
  CallError,
  CallResult,
  JsonObject,
  Message,
  SessionState,
  ToolResultBlock,
} from "../../model/session/index.ts";
import {
  draftCheckpoint,
  draftResults,
  isOpen,
  isProvisional,
  provisionalResult,
  toolCalls,
} from "../../model/session/index.ts";
import type { Draft } from "../../model/stream/index.ts";
import { isoTime } from "../../model/time.ts";
import { runDirectCall, type Session, sessionCore } from "../../session/index.ts";
import type { Artifacts } from "../artifacts.ts";
import { refusal } from "../refusal.ts";

export interface RecordedCall {
  readonly tool: Tool;
  readonly callId: string;
  /** JSON, as the model wrote it. `tool.input` turns it into what `tool.execute` gets. */
  readonly args: Json;
  readonly signal?: AbortSignal | undefined;
  /** A person has to approve the call before it runs. A text is the reason that the person reads. */
  readonly needsApproval?: boolean | string;
  readonly whileWaiting?: WhileWaiting | undefined;
  /** Renders a result for the model and the transcript. Null for the result as it is. */
  readonly render?: (value: Json) => Promise<RenderedResult | null> | RenderedResult | null;
}

/**
 * Decides about the conversation while a call waits for a person: `stop` asks the model nothing until then,
 * `continue` gives it a provisional result, and the outcome follows as a prompt.
 */
export type WhileWaiting = "stop" | "continue";

export interface RenderedResult {
  readonly content: string | readonly Block[];
  readonly isError?: boolean;
  readonly meta?: JsonObject;
}

export type RecordedOutcome =
  /** `replayed`: the result comes from the record, the tool did not run now. */
  | { readonly status: "completed"; readonly value: Json; readonly replayed: boolean }
  | { readonly status: "failed"; readonly error: CallError }
  | { readonly status: "waiting"; readonly why: string };

export class RecordedCalls {
  private readonly session: Session;
  /** Results that are not written yet and do not follow from the ledger alone. */
  private readonly results = new Map<string, ToolResultBlock>();
  private readonly executing = new Set<Promise<unknown>>();
  private readonly started = new Set<string>();
  /** Calls whose result is not rendered yet: the results of their message wait for it. */
  private readonly rendering = new Set<string>();
  /** The call whose commit has the results of a message, by message id. */
  private readonly closers = new Map<string, string>();
  /** Calls of tools that run other tools, while they run. */
  private readonly callers = new Set<string>();

  constructor(session: Session) {
    this.session = session;
  }

  /** While `work` runs, calls with ids that begin with `<callId>:` may be made: no answer asks for them. */
  async within<Result>(callId: string, work: () => Promise<Result>): Promise<Result> {
    this.callers.add(callId);
    try {
      return await work();
    } finally {
      this.callers.delete(callId);
    }
  }

  async run(call: RecordedCall): Promise<RecordedOutcome> {
    this.checkOnRecord(call);
    const written = await this.writtenOutcome(call.callId);
    if (written) return written;
    this.started.add(call.callId);
    this.results.delete(call.callId);
    if (call.render) this.rendering.add(call.callId);
    const running = call.tool.effect === "read" ? this.runRead(call) : this.runEffect(call);
    const outcome = await running.finally(() => this.rendering.delete(call.callId));
    if (outcome.status === "waiting") await this.setAside(call);
    else await this.finish(call.callId);
    return outcome;
  }

  /** The provisional result of a call that is set aside, in the transcript or about to be. Null otherwise. */
  provisionalFor({ calls }: SessionState, callId: string): string | null {
    const pending = this.results.get(callId);
    const isAside = calls.get(callId)?.isAside || (pending && isProvisional(pending));
    return isAside ? provisionalResult(callId).content : null;
  }

  /** From here on the call belongs to no framework: `PendingCalls` runs it once a person allows it. */
  private async setAside({ callId, whileWaiting }: RecordedCall): Promise<void> {
    if (whileWaiting !== "continue" || this.state.calls.get(callId)?.status !== "waiting") return;
    this.results.set(callId, provisionalResult(callId));
    this.started.delete(callId);
    await this.finish(callId);
  }

  hasStarted(callId: string): boolean {
    return this.started.has(callId);
  }

  /** The result block of a call, or a reference to the settled call that has it; null without an outcome. */
  resultFor(state: SessionState, callId: string): ToolResultBlock | { readonly callId: string } | null {
    const call = state.calls.get(callId);
    return this.results.get(callId) ?? (call && !isOpen(call.status) ? { callId } : null);
  }

  private get state(): SessionState {
    return sessionCore(this.session).state;
  }

  /** Without a recorded answer, a resumed program would get another call for the same effect. */
  private checkOnRecord({ callId, tool }: RecordedCall): void {
    if (this.state.callSlots.has(callId) || this.state.calls.has(callId)) return;
    if ([...this.callers].some((caller) => callId.startsWith(`${caller}:`))) return;
    throw refusal(
      "INPUT_INVALID",
      `call ${callId} of ${tool.name}: no recorded answer asks for it, so it could not be found again`,
      "Make the model durable with the same handle as its tools. The call was not run.",
      { callId, tool: tool.name },
    );
  }

  /** The transcript's result of a read, or of a call that was closed unrun. Neither runs again. */
  private async writtenOutcome(callId: string): Promise<RecordedOutcome | null> {
    const block = this.state.calls.has(callId) ? null : transcriptResult(this.state, callId);
    if (!block) return null;
    if (block.isError) return { status: "failed", error: { message: textOf(block) } };
    return { status: "completed", value: await resultValue(this.session, block), replayed: true };
  }

  private async runEffect(call: RecordedCall): Promise<RecordedOutcome> {
    for (;;) {
      const others = [...this.executing];
      const running = this.callLedger(call);
      this.executing.add(running);
      const outcome = await running.finally(() => this.executing.delete(running));
      if (outcome.status === "waiting" && !this.state.calls.has(call.callId) && others.length > 0) {
        // An identical call is open, so this one was not issued. It repeats the other when that has ended.
        await Promise.allSettled(others);
        continue;
      }
      if (outcome.status !== "completed") return outcome;
      const rendered = (await call.render?.(outcome.value)) ?? null;
      if (rendered) this.results.set(call.callId, resultOf(call.callId, rendered));
      return outcome;
    }
  }

  private async callLedger(call: RecordedCall): Promise<RecordedOutcome> {
    const { args, callId, signal, needsApproval = false } = call;
    const isReason = typeof needsApproval === "string";
    const tool = { ...call.tool, needsApproval: isReason ? () => needsApproval : needsApproval };
    const core = sessionCore(this.session);
    const direct = { tool, args, callId, ...(signal && { signal }) };
    const closing = (state: SessionState): readonly Draft[] => this.closingResults(state, callId);
    const outcome = await core.duringCommit(() => runDirectCall(core, direct, closing));
    if (outcome.status !== "completed") return outcome;
    return { status: "completed", value: outcome.value as Json, replayed: outcome.replayed };
  }

  private async runRead(call: RecordedCall): Promise<RecordedOutcome> {
    const { tool, args, callId, signal } = call;
    let value: Json;
    try {
      const outcome = await this.session.call({ tool, args, callId: callId, ...(signal && { signal }) });
      if (outcome.status !== "completed")
        throw new Error(outcome.status === "failed" ? outcome.error.message : outcome.why);
      value = copyJson(outcome.value ?? null, `result of ${tool.name}`);
    } catch (error) {
      signal?.throwIfAborted();
      sessionCore(this.session).stop.throwIfAborted();
      const { message } = describeError(error);
      this.results.set(callId, { kind: "tool_result", callId, content: message, isError: true });
      return { status: "failed", error: { message } };
    }
    const rendered = (await call.render?.(value)) ?? null;
    this.results.set(callId, await this.readResult(callId, value, rendered));
    return { status: "completed", value, replayed: false };
  }

  /** Keeps the value, which the tool returns again after a crash, beside the content that the model reads. */
  private async readResult(
    callId: string,
    value: Json,
    rendered: RenderedResult | null,
  ): Promise<ToolResultBlock> {
    const stored = await storeResult(sessionCore(this.session).journal, value);
    if (rendered) {
      const meta = { ...rendered.meta, result: stored as unknown as Json };
      return resultOf(callId, { ...rendered, meta });
    }
    if ("artifact" in stored) {
      const note = `[${stored.bytes} bytes, stored as artifact ${stored.artifact}]`;
      const file = { kind: "file", artifact: stored.artifact, mediaType: "application/json" } as const;
      const content = [{ kind: "text", text: note } as const, file];
      return { kind: "tool_result", callId, content, meta: { result: stored as unknown as Json } };
    }
    if (typeof value === "string") return { kind: "tool_result", callId, content: value };
    return { kind: "tool_result", callId, content: JSON.stringify(value), meta: { result: "json" } };
  }

  /** The results of the message, and a checkpoint, if this call's outcome is the last that they need. */
  private closingResults(state: SessionState, settledNow: string): readonly Draft[] {
    const message = unfinishedMessage(state, settledNow);
    if (!message) return [];
    const calls = toolCalls(message);
    const isReady = ({ id }: { readonly id: string }): boolean =>
      !this.rendering.has(id) && (id === settledNow || this.resultFor(state, id) !== null);
    if (!calls.every(isReady)) return [];
    this.closers.set(message.id, settledNow);
    const createdAt = isoTime(sessionCore(this.session).journal.now());
    const blocks = calls.map(({ id }) => this.resultFor(state, id) ?? { callId: id });
    return [
      draftResults(`${message.id}.results`, createdAt, blocks),
      draftCheckpoint(state.version + 1, null),
    ];
  }

  /** Appends the results, unless the outcome's commit has done so. */
  private async finish(callId: string): Promise<void> {
    const unfinished = unfinishedMessage(this.state, callId);
    if (unfinished) {
      await sessionCore(this.session).writeEvents((state) =>
        this.resultFor(state, callId) ? this.closingResults(state, callId) : [],
      );
    }
    for (const [messageId, closer] of this.closers) {
      if (closer !== callId || this.state.unfinished.has(messageId)) continue;
      this.closers.delete(messageId);
      failpoint("results.appended");
      const message = this.state.messages.findLast(({ id }) => id === messageId);
      for (const { id } of message ? toolCalls(message) : []) this.results.delete(id);
    }
  }
}

function resultOf(callId: string, { content, isError, meta }: RenderedResult): ToolResultBlock {
  return {
    kind: "tool_result",
    callId,
    content,
    ...(isError !== undefined && { isError }),
    ...(meta && { meta }),
  };
}

function unfinishedMessage(state: SessionState, callId: string): Message | null {
  for (const id of state.unfinished) {
    const message = state.messages.findLast((each) => each.id === id);
    if (message && toolCalls(message).some((call) => call.id === callId)) return message;
  }
  return null;
}

function transcriptResult({ messages }: SessionState, callId: string): ToolResultBlock | undefined {
  return messages
    .flatMap(({ blocks }) => blocks)
    .findLast((block) => block.kind === "tool_result" && block.callId === callId) as
    | ToolResultBlock
    | undefined;
}

export function resultValue(session: Session, block: ToolResultBlock): Promise<Json> {
  const { state, journal } = sessionCore(session);
  return storedValue(state.calls.get(block.callId), block, journal);
}

/** The value that a tool returned, from the ledger or the transcript. */
export async function storedValue(
  call: Pick<Call, "result"> | undefined,
  block: ToolResultBlock,
  artifacts: Pick<Artifacts, "getArtifact">,
): Promise<Json> {
  const stored = (call?.result ?? block.meta?.["result"]) as CallResult | "json" | null | undefined;
  if (stored === "json") return JSON.parse(textOf(block)) as Json;
  if (!stored) return textOf(block);
  if ("value" in stored) return stored.value;
  const bytes = await artifacts.getArtifact(stored.artifact);
  return JSON.parse(new TextDecoder().decode(bytes)) as Json;
}

function textOf({ content }: ToolResultBlock): string {
  if (typeof content === "string") return content;
  return content.map((block) => (block.kind === "text" ? block.text : "")).join("");
}

/** Runs a recorded call to an outcome. False if the tool refuses the call's arguments. */
export type ResumeCall = (call: Call) => Promise<boolean>;

/**
 * Calls that another run of the session left without an outcome, because its process was killed. Their own
 * run may never come back, so the tools of this program resume them before the next question. Not among them:
 * calls that this program's framework runs itself, and calls made with `session.call`.
 *
 *     a tool of that name is registered ──▶ resumed, with the recorded arguments
 *     it refuses the arguments, or there is none ──▶ a person, or a program that has the tool
 */
export class PendingCalls {
  private readonly session: Session;
  private readonly isOwn: (callId: string) => boolean;
  private readonly tools = new Map<string, ResumeCall>();
  private readonly resumed = new Set<string>();

  constructor(session: Session, isOwn: (callId: string) => boolean) {
    this.session = session;
    this.isOwn = isOwn;
  }

  registerTool(name: string, resume: ResumeCall): void {
    this.tools.set(name, resume);
  }

  /** True if calls are pending and no tool is registered yet: the program may still have the right ones. */
  get lacksTools(): boolean {
    return this.tools.size === 0 && this.undecided.some((call) => this.isPending(call));
  }

  async settle(): Promise<void> {
    const { session } = this;
    const pending = session.openCalls.filter(
      (call) => (call.status !== "waiting" || call.lacksTool) && this.isPending(call),
    );
    await Promise.all(pending.map((call) => this.resume(call)));
    const { undecided } = this;
    if (
      undecided.length > 0 &&
      undecided.every((call) => this.isPending(call) && !this.resumed.has(call.callId))
    )
      await session.settle([...this.tools.keys()].map(refusingTool));
  }

  private get undecided(): Call[] {
    return this.session.openCalls.filter(({ status }) => status !== "waiting");
  }

  private isPending({ callId: id }: Call): boolean {
    return this.resumed.has(id) || (sessionCore(this.session).state.callSlots.has(id) && !this.isOwn(id));
  }

  private async resume(call: Call): Promise<void> {
    const resume = this.tools.get(call.tool);
    if (!resume) return;
    this.resumed.add(call.callId);
    if (!(await resume({ ...call }))) this.resumed.delete(call.callId);
  }
}

/** Stands for a registered tool that refused a call's arguments: a person reads this as the reason. */
function refusingTool(name: string): Tool {
  const issues = [{ message: "the tool refuses it" }];
  return {
    name,
    description: name,
    effect: "mutate",
    input: { "~standard": { version: 1, vendor: "holdfast", validate: () => ({ issues }) } },
    execute: () => Promise.reject(new Error(`${name} is not to be run`)),
  };
}
