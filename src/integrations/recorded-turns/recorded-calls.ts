/**
 * Tools of somebody else's loop, each call through the ledger. The framework runs the calls of an answer one by one or side
 * by side, whenever it likes; here is what makes them one turn again.
 *
 *     the answer is durable ──▶ each call: intent ──▶ effect ──▶ outcome ──▶ the last one: results of the message, checkpoint
 *
 * What a crash leaves
 *  - Before a call's intent: the call has not begun. The resumed program gets the same answer, so the same call id, and begins it.
 *  - Between intent and outcome: unknown. `verify` finds out, `idempotent` repeats with the same key, else a person is asked.
 *  - Between the outcomes of two parallel calls: the finished one returns its recorded result, the other begins or is unknown.
 *  - After the last outcome, before the results: all calls return what is recorded; the results are written now.
 *  - Reads leave no trace before the results are written, and run again until then. Once they are written, the read returns
 *    what the model was told: the question after it is on record, perhaps, and must not become another one.
 *
 * A call that waits for a person is not an answer for the model. Frameworks turn what a tool throws into one, so the next
 * question is refused (`recorded-turns.ts`) for as long as a call is open.
 *
 * Approval. A call that needs it is issued, and its first attempt does nothing but ask: it waits for a person, and it is on
 * record that it never began. `retry` lets it run, as the second attempt; `failed` refuses it; `landed` is no answer. From the
 * second attempt on the tool's own `verify` and `idempotent` hold. Killed between asking and the record of that, it is a call
 * whose outcome nobody knows: an earlier program may have run it without asking.
 *
 * Identical calls side by side hold one key. The later ones wait for the first and repeat it.
 */

import { failpoint } from "../../failpoint.ts";
import { NeedsApproval, storeResult, type Tool } from "../../ledger/index.ts";
import { describeError, HoldfastError } from "../../model/errors.ts";
import { copyJson, type Json } from "../../model/json.ts";
import {
  type Block,
  type CallError,
  type CallResult,
  draftCheckpoint,
  draftResults,
  isOpen,
  type JsonObject,
  type Message,
  type SessionState,
  type ToolResultBlock,
  toolCalls,
} from "../../model/session/index.ts";
import type { Draft } from "../../model/stream/index.ts";
import { isoTime } from "../../model/time.ts";
import { type Session, sessionCore } from "../../session/index.ts";

export interface RecordedCall {
  readonly tool: Tool;
  /** As the recorded answer has it. */
  readonly callId: string;
  /** Plain JSON, as the model gave it. What `tool.execute` gets is up to `tool.input`. */
  readonly args: Json;
  readonly signal?: AbortSignal | undefined;
  /** Why a person has to allow it first; null or absent if nobody has to. */
  readonly approval?: string | null;
  /**
   * How the model reads the outcome, where that is not the plain result: it is what the transcript keeps. Null for the
   * plain result.
   */
  readonly present?: (value: Json) => Promise<Presented | null> | Presented | null;
}

export interface Presented {
  readonly content: string | readonly Block[];
  readonly isError?: boolean;
  readonly meta?: JsonObject;
}

export type RecordedOutcome =
  /** `replayed`: it was not run now. */
  | { readonly status: "completed"; readonly value: Json; readonly replayed: boolean }
  | { readonly status: "failed"; readonly error: CallError }
  | { readonly status: "waiting"; readonly why: string };

export class RecordedCalls {
  private readonly session: Session;
  /** What the model is told, of calls whose results are not written yet and do not follow from the ledger alone. */
  private readonly answers = new Map<string, ToolResultBlock>();
  private readonly executing = new Set<Promise<unknown>>();
  private readonly takenUp = new Set<string>();

  constructor(session: Session) {
    this.session = session;
  }

  async run(call: RecordedCall): Promise<RecordedOutcome> {
    this.mustBeAsked(call);
    const written = await this.written(call.callId);
    if (written) return written;
    this.takenUp.add(call.callId);
    const outcome = call.tool.effect === "read" ? await this.read(call) : await this.effect(call);
    if (outcome.status !== "waiting") await this.finish(call.callId);
    return outcome;
  }

  /** Whether this program has a tool for it, and has tried. */
  hasTakenUp(callId: string): boolean {
    return this.takenUp.has(callId);
  }

  /** What is known of a call's result: the answer to be written, or the settled call that has it. */
  known(state: SessionState, callId: string): ToolResultBlock | { readonly call: string } | null {
    const call = state.calls.get(callId);
    return this.answers.get(callId) ?? (call && !isOpen(call.status) ? { call: callId } : null);
  }

  private get state(): SessionState {
    return sessionCore(this.session).state;
  }

  /** Without the answer on record, a resumed program would ask again and get another call for the same effect. */
  private mustBeAsked({ callId, tool }: RecordedCall): void {
    if (this.state.callSlots.has(callId) || this.state.calls.has(callId)) return;
    throw new HoldfastError(
      "INPUT_INVALID",
      `call ${callId} of ${tool.name} is asked for by no answer on record, so it could not be found again`,
      {
        hint: "Make the model durable with the same handle as its tools. The call was not run.",
        data: { callId, tool: tool.name },
      },
    );
  }

  /**
   * What the transcript has as the result of a call that the ledger does not know: a read, or a call that was closed without
   * being run because something else was said first. Neither is run any more.
   */
  private async written(callId: string): Promise<RecordedOutcome | null> {
    const block = this.state.calls.has(callId) ? null : writtenResult(this.state, callId);
    if (!block) return null;
    if (block.isError) return { status: "failed", error: { message: textOf(block) } };
    return { status: "completed", value: await resultValue(this.session, block), replayed: true };
  }

  private async effect(call: RecordedCall): Promise<RecordedOutcome> {
    for (;;) {
      const others = [...this.executing];
      const outcome = await this.tracked(this.direct(call));
      if (outcome.status === "waiting" && !this.state.calls.has(call.callId) && others.length > 0) {
        // Not even issued: an identical call is open. Once that has ended, this one repeats it.
        await Promise.allSettled(others);
        continue;
      }
      if (outcome.status !== "completed") return outcome;
      const presented = (await call.present?.(outcome.value)) ?? null;
      if (presented) this.answers.set(call.callId, resultOf(call.callId, presented));
      return outcome;
    }
  }

  private async direct({ tool, args, callId, signal, approval }: RecordedCall): Promise<RecordedOutcome> {
    const isAllowed = (): boolean => this.state.calls.get(callId)?.by != null;
    const asks = typeof approval === "string" && !isAllowed();
    const acting = asks ? askingFor(tool, approval, isAllowed) : tool;
    const outcome = await this.session.call({ tool: acting, args, id: callId, ...(signal && { signal }) });
    if (outcome.status !== "completed") return outcome;
    return { status: "completed", value: outcome.value as Json, replayed: outcome.replayed };
  }

  private async tracked<Value>(work: Promise<Value>): Promise<Value> {
    this.executing.add(work);
    try {
      return await work;
    } finally {
      this.executing.delete(work);
    }
  }

  private async read(call: RecordedCall): Promise<RecordedOutcome> {
    const { tool, args, callId, signal } = call;
    let value: Json;
    try {
      const outcome = await this.session.call({ tool, args, id: callId, ...(signal && { signal }) });
      if (outcome.status !== "completed")
        throw new Error(outcome.status === "failed" ? outcome.error.message : outcome.why);
      value = copyJson(outcome.value ?? null, `result of ${tool.name}`);
    } catch (error) {
      signal?.throwIfAborted();
      sessionCore(this.session).stop.throwIfAborted();
      const { message } = describeError(error);
      this.answers.set(callId, { kind: "tool_result", callId, content: message, isError: true });
      return { status: "failed", error: { message } };
    }
    const presented = (await call.present?.(value)) ?? null;
    this.answers.set(callId, await this.readResult(callId, value, presented));
    return { status: "completed", value, replayed: false };
  }

  /** The value is what the tool returns once more after a crash, and the content what the model reads. */
  private async readResult(
    callId: string,
    value: Json,
    presented: Presented | null,
  ): Promise<ToolResultBlock> {
    const stored = await storeResult(sessionCore(this.session).journal, value);
    if (presented) {
      const meta = { ...presented.meta, result: stored as unknown as Json };
      return resultOf(callId, { ...presented, meta });
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

  /** Writes the results once all calls of the message have one. Calls that others run come with the next question. */
  private async finish(callId: string): Promise<void> {
    const asked = askedBy(this.state, callId);
    if (!asked) return;
    const calls = toolCalls(asked);
    if (!calls.every(({ id }) => this.known(this.state, id))) return;
    const { journal } = sessionCore(this.session);
    const createdAt = isoTime(journal.now());
    await sessionCore(this.session).write((state) => {
      const events: Draft[] = [];
      if (state.unfinished.has(asked.id)) {
        const blocks = calls.map(({ id }) => this.known(state, id) ?? { call: id });
        events.push(draftResults(`${asked.id}.results`, createdAt, blocks));
        events.push(draftCheckpoint(state.version + 1, null));
      }
      return { events, result: undefined };
    });
    failpoint("results.appended");
    for (const { id } of calls) this.answers.delete(id);
  }
}

function resultOf(callId: string, { content, isError, meta }: Presented): ToolResultBlock {
  return {
    kind: "tool_result",
    callId,
    content,
    ...(isError !== undefined && { isError }),
    ...(meta && { meta }),
  };
}

/**
 * The first attempt of a call that needs approval: it asks, and does nothing. Input that the tool refuses is refused
 * before anybody is asked, and the tool's own key is found from what its schema made of the input. A person may have
 * allowed it since this program last looked: then this is the second attempt.
 */
function askingFor(tool: Tool, why: string, isAllowed: () => boolean): Tool {
  const { verify: _verify, idempotent: _idempotent, settleMs: _settleMs, ...rest } = tool;
  return {
    ...rest,
    interrupted: "ask",
    definite: () => false,
    execute: (args, context) => {
      if (isAllowed()) return tool.execute(args, context);
      throw new NeedsApproval(why);
    },
  };
}

/** The assistant message that asked for a call and does not have all its results yet. */
function askedBy(state: SessionState, callId: string): Message | null {
  for (const id of state.unfinished) {
    const message = state.messages.findLast((each) => each.id === id);
    if (message && toolCalls(message).some((call) => call.id === callId)) return message;
  }
  return null;
}

/** What the transcript has as the result of a call. */
export function writtenResult(state: SessionState, callId: string): ToolResultBlock | null {
  for (let at = state.messages.length - 1; at >= 0; at--) {
    for (const block of state.messages[at]?.blocks ?? [])
      if (block.kind === "tool_result" && block.callId === callId) return block;
  }
  return null;
}

/** The value that a tool returned, from its result in the transcript. */
export async function resultValue(session: Session, block: ToolResultBlock): Promise<Json> {
  const call = sessionCore(session).state.calls.get(block.callId);
  const stored = (call?.result ?? block.meta?.["result"]) as CallResult | "json" | null | undefined;
  if (stored === "json") return JSON.parse(textOf(block)) as Json;
  if (!stored) return textOf(block);
  if ("value" in stored) return stored.value;
  const bytes = await sessionCore(session).journal.getArtifact(stored.artifact);
  return JSON.parse(new TextDecoder().decode(bytes)) as Json;
}

function textOf({ content }: ToolResultBlock): string {
  if (typeof content === "string") return content;
  return content.map((block) => (block.kind === "text" ? block.text : "")).join("");
}
