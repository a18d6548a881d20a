/**
 * Runs the calls of a message so that none is lost, none is done twice, and what cannot be known is not guessed.
 * `wave.ts` issues and runs, `settling.ts` deals with unknown outcomes, `recording.ts` writes down what happened.
 */

import { failpoint } from "../failpoint.ts";
import {
  type Block,
  type Call,
  type Draft,
  isOpen,
  type Message,
  openCallsOf,
  type SessionState,
  type ToolCallBlock,
  toolCalls,
} from "../model/index.ts";
import { attempt } from "./attempt.ts";
import { executeFacts, type LedgerContext, RESULT_LIMIT_BYTES } from "./context.ts";
import { settleElsewhere } from "./elsewhere.ts";
import type { Closing } from "./recording.ts";
import { settleCall } from "./settling.ts";
import { issueWave, prepareCall, type Ready, type Refused, runIssued } from "./wave.ts";

export interface CallsOutcome {
  /** Every call of the message has an outcome and the results are part of the transcript. */
  readonly done: boolean;
  /** Open calls, and calls that could not be issued yet. */
  readonly waiting: readonly string[];
  /** Why something is not settled yet, when no person has to act. */
  readonly later: readonly string[];
}

/** Rides on the commit that finishes the message: a checkpoint, for example. */
export type Finishing = (state: SessionState) => readonly Draft[];

export class Ledger {
  private readonly context: LedgerContext;
  private readonly parallel: number;
  private readonly perCall: Finishing;

  /** `perCall` rides on every commit that settles a call and does not finish its message. */
  constructor(context: LedgerContext, parallel: number, perCall: Finishing = () => []) {
    this.context = context;
    this.parallel = parallel;
    this.perCall = perCall;
  }

  /** Settles what an earlier process, or an earlier run, left without an outcome. */
  async settle(closing: Closing = () => []): Promise<{ settled: string[]; open: string[] }> {
    failpoint("settle.begins");
    const before = openCallsOf(this.context.own.state).map((call) => call.id);
    await eachAtOnce(before, this.parallel, (id) => settleCall(this.context, id, closing));
    const open = new Set(this.context.own.state.openCalls);
    return { settled: before.filter((id) => !open.has(id)), open: [...open] };
  }

  /** All calls of the message, from wherever they stand; then one message with their results. */
  async run(message: Message, finishing: Finishing): Promise<CallsOutcome> {
    const turn = new Turn(this.context, message, finishing, this.perCall);
    const later = new Set<string>();
    await eachAtOnce(turn.openCalls(), this.parallel, async (id) => {
      if ((await settleCall(this.context, id, turn.closing)) === "later") later.add(id);
    });
    for (let pending = await turn.prepare(); pending.length > 0; ) {
      this.context.stop.throwIfAborted();
      const wave = pending.slice(0, this.parallel);
      const held = await this.runWave(turn, wave, later);
      pending = [...held, ...pending.slice(this.parallel)];
      if (held.length === wave.length) break;
    }
    await turn.finish();
    const waiting = turn.unsettled();
    return { done: waiting.length === 0, waiting, later: [...later].filter((id) => waiting.includes(id)) };
  }

  /** Returns the calls that could not be issued because an open call stands in their way. */
  private async runWave(turn: Turn, wave: readonly Pending[], later: Set<string>): Promise<Pending[]> {
    const reads = wave.filter((each) => each.kind === "read");
    const refused = wave.filter((each) => each.kind === "refused").map((each) => each.refused);
    let effects = wave.filter((each) => each.kind === "effect").map((each) => each.ready);
    const running = reads.map((each) => turn.read(each.ready));
    const held: Pending[] = [];
    let first = true;
    while (effects.length > 0 || (first && refused.length > 0)) {
      const issued = await issueWave(this.context, effects, first ? refused : [], turn.closingWave);
      if (issued.taken) {
        const { ready, by } = issued.taken;
        const elsewhere = await settleElsewhere(this.context, ready, by, turn.closing);
        if (elsewhere === "retry") continue;
        effects = effects.filter((each) => each !== ready);
        if (elsewhere === "later") {
          later.add(ready.callId);
          held.push({ kind: "effect", ready });
        }
        continue;
      }
      first = false;
      held.push(...issued.held.map((ready) => ({ kind: "effect", ready }) as const));
      running.push(...issued.started.map((ready) => this.runAndSettle(turn, ready, later)));
      break;
    }
    await allSettled(running);
    return held;
  }

  private async runAndSettle(turn: Turn, ready: Ready, later: Set<string>): Promise<void> {
    const outcome = await runIssued(this.context, ready, turn.closing);
    if (outcome.kind === "unknown" && outcome.later) later.add(ready.callId);
    else if ((await settleCall(this.context, ready.callId, turn.closing)) === "later")
      later.add(ready.callId);
  }
}

type Pending =
  | { readonly kind: "read"; readonly ready: Ready }
  | { readonly kind: "effect"; readonly ready: Ready }
  | { readonly kind: "refused"; readonly refused: Refused };

/** One message's calls on their way to one message of results. */
class Turn {
  private readonly context: LedgerContext;
  private readonly message: Message;
  private readonly blocks: readonly ToolCallBlock[];
  private readonly finishing: Finishing;
  private readonly perCall: Finishing;
  /** Answers of reads: they live here until the results are appended, and are simply read again after a crash. */
  private readonly answers = new Map<string, Block>();
  private readonly resultsId: string;
  private finished = false;

  constructor(context: LedgerContext, message: Message, finishing: Finishing, perCall: Finishing) {
    this.context = context;
    this.perCall = perCall;
    this.message = message;
    this.blocks = toolCalls(message);
    this.finishing = finishing;
    this.resultsId = `${message.id}.results`;
    this.finished = context.own.state.messageIds.has(this.resultsId);
  }

  openCalls(): string[] {
    return this.blocks.filter((block) => isOpenCall(this.call(block.id))).map((block) => block.id);
  }

  async prepare(): Promise<Pending[]> {
    const pending: Pending[] = [];
    for (const block of this.blocks) {
      if (this.call(block.id)) continue;
      const prepared = await prepareCall(this.context, block, this.message.id);
      if ("error" in prepared) pending.push({ kind: "refused", refused: prepared });
      else pending.push({ kind: prepared.tool.effect === "read" ? "read" : "effect", ready: prepared });
    }
    return pending;
  }

  async read(ready: Ready): Promise<void> {
    const { callId, tool } = ready;
    const facts = executeFacts(this.context, { id: callId, vendorKey: ready.key.key }, 1);
    const outcome = await attempt(tool, ready.args, facts, this.context.stop);
    this.context.stop.throwIfAborted();
    if (outcome.kind === "completed") {
      const text = typeof outcome.value === "string" ? outcome.value : JSON.stringify(outcome.value);
      this.answers.set(callId, { kind: "tool_result", callId, content: await this.shorten(text) });
    } else {
      const content = outcome.kind === "failed" ? outcome.error.message : outcome.why;
      this.answers.set(callId, { kind: "tool_result", callId, content, isError: true });
    }
  }

  private async shorten(text: string): Promise<string> {
    if (text.length <= RESULT_LIMIT_BYTES) return text;
    const bytes = new TextEncoder().encode(text);
    const hash = await this.context.journal.putArtifact(bytes);
    return `[${bytes.length} bytes, stored as artifact ${hash}]`;
  }

  /** The results, once the call that is being settled now was the last one missing. */
  readonly closing: Closing = (state, settledNow) => {
    const closing = this.closingWave(state, new Set([settledNow]));
    return closing.length > 0 ? closing : this.perCall(state);
  };

  readonly closingWave = (state: SessionState, settledNow: ReadonlySet<string>): readonly Draft[] => {
    const missing = this.blocks.some(
      (block) => !settledNow.has(block.id) && !this.hasAnswer(state, block.id),
    );
    if (missing || state.messageIds.has(this.resultsId)) return [];
    const blocks = this.blocks.map((block) => this.answers.get(block.id) ?? { call: block.id });
    const createdAt = new Date(this.context.journal.now()).toISOString();
    return [{ type: "results", data: { id: this.resultsId, createdAt, blocks } }, ...this.finishing(state)];
  };

  /** When reads came last, the results were not part of any call's commit. */
  async finish(): Promise<void> {
    if (this.finished || this.blocks.length === 0) return;
    await this.context.own.write((state) => ({
      events: this.closingWave(state, new Set()),
      result: undefined,
    }));
    failpoint("results.appended");
  }

  unsettled(): string[] {
    const { state } = this.context.own;
    return this.blocks.filter((block) => !this.hasAnswer(state, block.id)).map((block) => block.id);
  }

  private hasAnswer(state: SessionState, id: string): boolean {
    if (this.answers.has(id) || this.finished) return true;
    const call = state.calls.get(id);
    return call !== undefined && !isOpen(call.status);
  }

  private call(id: string): Call | undefined {
    return this.context.own.state.calls.get(id);
  }
}

function isOpenCall(call: Call | undefined): boolean {
  return call !== undefined && isOpen(call.status);
}

/** At most `limit` at a time; the first error is thrown after all that were started have ended. */
async function eachAtOnce<Item>(
  items: readonly Item[],
  limit: number,
  work: (item: Item) => Promise<unknown>,
): Promise<void> {
  const queue = [...items];
  const workers = Array.from({ length: Math.min(limit, queue.length) }, async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  });
  await allSettled(workers);
}

async function allSettled(work: readonly Promise<unknown>[]): Promise<void> {
  const results = await Promise.allSettled(work);
  const failure = results.find((result) => result.status === "rejected");
  if (failure) throw failure.reason;
}
