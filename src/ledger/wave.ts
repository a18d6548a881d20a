/**
 * The calls of one assistant message, in waves.
 *
 * The message is durable before any of its calls (the caller sees to that). Only what starts now is issued: one
 * wave of parallel calls, one commit, conditional on the lease; the rest of the message's calls are not in the log
 * yet, so a crash leaves as little unknown as possible. In the commit that issues them each call is decided on the
 * log as it then is:
 *
 *     key free ──▶ issued                                key held by a finished call ──▶ repeated
 *     key held by an open call ──▶ not yet               claimed by another session ──▶ its outcome is read there
 *     no such tool, bad input, fork without effects ──▶ failed, never issued
 *
 * Reads write nothing and simply run; after a crash they run again.
 */

import { failpoint } from "../failpoint.ts";
import type { OwnedOutcome } from "../journal/index.ts";
import { copyArgs, type Json } from "../model/json.ts";
import { andThen, type MaybePromise } from "../model/maybe-promise.ts";
import {
  type Call,
  draftIssued,
  isOpen,
  reactivation,
  type SessionState,
  type ToolCallBlock,
} from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import type { Outcome } from "./attempt.ts";
import { callOf, type LedgerContext, mustNotBeCancelled } from "./context.ts";
import { describeError } from "./error-text.ts";
import { failuresOf } from "./failure-marks.ts";
import { type CallKey, callKey, withoutReason } from "./keys.ts";
import type { Closing } from "./recording.ts";
import { validate } from "./standard-schema.ts";
import { startAndRecord } from "./starting.ts";
import type { Tool } from "./tool.ts";

/** A call that can be started: its tool is here and its input is accepted. */
export interface Ready {
  readonly callId: string;
  readonly messageId: string | null;
  readonly tool: Tool;
  readonly raw: Json;
  readonly args: unknown;
  readonly key: CallKey;
}

/** A call that cannot be started, and what its model is told. */
export interface Refused {
  readonly callId: string;
  readonly messageId: string | null;
  readonly tool: string;
  readonly raw: Json;
  readonly error: string;
  readonly by: "tool" | "input";
}

/**
 * Looks at a call before anything is written about it. Not a promise where its schema answers at once. The arguments of a call
 * outside any message are those that `copyArgs` has made.
 */
export function prepareCall(
  context: LedgerContext,
  block: Pick<ToolCallBlock, "id" | "name" | "args">,
  messageId: string | null,
): MaybePromise<Ready | Refused> {
  const tool = context.tools.get(block.name);
  const refuse = (by: "tool" | "input", error: string, raw: Json = block.args): Refused => {
    return { callId: block.id, messageId, tool: block.name, raw, error, by };
  };
  if (!tool) {
    const known = [...context.tools.keys()].join(", ") || "none";
    return refuse("tool", `There is no tool ${JSON.stringify(block.name)}. The tools are: ${known}.`);
  }
  let raw: Json = null;
  const decide = (input: Awaited<ReturnType<typeof validate>>): Ready | Refused => {
    if ("problem" in input) return refuse("input", `Invalid input for ${tool.name}: ${input.problem}`, raw);
    const { doubted } = context.own.state;
    const isDoubted = (of: string): boolean => doubted.has(of);
    const key = callKey(context.journal.namespace, tool, block.id, raw, input.value, isDoubted);
    return { callId: block.id, messageId, tool, raw, args: input.value, key };
  };
  // Arguments that are no JSON, or that have no key: only other arguments can help, and those come from the model.
  const unfit = (error: unknown): Refused => refuse("input", describeError(error).message, raw);
  try {
    raw = messageId === null ? block.args : copyArgs(block.args, `args of ${tool.name}`);
    const input = validate(tool.input, withoutReason(tool, raw));
    return input instanceof Promise ? input.then(decide).catch(unfit) : decide(input);
  } catch (error) {
    return unfit(error);
  }
}

export interface Issued {
  /** Started now. */
  readonly started: readonly Ready[];
  /** Wait for a call with the same key. */
  readonly held: readonly Ready[];
  /** Somebody else's claim stands in the way. */
  readonly taken: { readonly ready: Ready; readonly by: { stream: string; seq: number } } | null;
}

/** One commit: every call of the wave is issued, repeated or failed; or the wave must shrink because a key is taken. */
export function issueWave(
  context: LedgerContext,
  wave: readonly Ready[],
  refused: readonly Refused[],
  closing: ClosingWave,
): MaybePromise<Issued> {
  failpoint("wave.planned");
  const issue = (failures: ReadonlyMap<string, number>): MaybePromise<Issued> => {
    const decide = (state: SessionState) => decideWave(context, state, wave, failures, refused, closing);
    return andThen(context.own.commit(decide), (outcome) => issued(context, wave, refused, outcome));
  };
  const isGlobal = wave.some(({ key }) => key.scope === "global");
  return isGlobal ? failuresOfAll(context, wave).then(issue) : issue(NO_FAILURES);
}

/** Drafts that close the message once all its calls are settled; they ride on the commit that settles the last of them. */
type ClosingWave = (state: SessionState, settled: ReadonlySet<string>) => readonly Draft[];

function issued(
  context: LedgerContext,
  wave: readonly Ready[],
  refused: readonly Refused[],
  outcome: OwnedOutcome<ReturnType<typeof decideWave>["result"]>,
): Issued {
  if (outcome.outcome === "taken") {
    const ready = wave.find((each) => each.key.scope === "global" && each.key.key === outcome.key);
    if (!ready) throw new Error(`key ${outcome.key} was refused but never claimed`);
    return { started: [], held: [], taken: { ready, by: outcome.by } };
  }
  failpoint("wave.issued");
  for (const each of outcome.result.started) {
    context.on({ type: "call.issued", callId: each.callId, tool: each.tool.name, attempt: 1 });
  }
  for (const each of outcome.result.repeated) {
    const of = callOf(context.own.state, each.callId).repeats?.callId ?? "";
    context.on({ type: "call.repeated", callId: each.callId, tool: each.tool.name, of });
  }
  for (const each of refused) tellRefused(context, each);
  for (const each of outcome.result.refusedNow) tellRefused(context, each);
  return { started: outcome.result.started, held: outcome.result.held, taken: null };
}

function tellRefused(context: LedgerContext, { callId, tool, error }: Refused): void {
  context.on({ type: "call.failed", callId, tool, error });
}

const NO_FAILURES: ReadonlyMap<string, number> = new Map();

/** Counted right before the wave is issued: others may have failed with a key since the call was looked at. */
async function failuresOfAll(context: LedgerContext, wave: readonly Ready[]): Promise<Map<string, number>> {
  const failures = new Map<string, number>();
  for (const { key } of wave) {
    if (key.scope === "global") failures.set(key.key, await failuresOf(context.journal, key.key));
  }
  return failures;
}

function decideWave(
  context: LedgerContext,
  state: SessionState,
  wave: readonly Ready[],
  failures: ReadonlyMap<string, number>,
  refused: readonly Refused[],
  closing: ClosingWave,
) {
  mustNotBeCancelled(context.session, state);
  const events: Draft[] = [];
  const started: Ready[] = [];
  const repeated: Ready[] = [];
  const held: Ready[] = [];
  const refusedNow: Refused[] = [];
  const keys = new Set<string>();
  const settled = new Set<string>();
  let latest = state.latestEffect;
  const end = (callId: string, draft: Draft): void => {
    settled.add(callId);
    events.push(draft);
  };
  for (const each of refused) if (!state.calls.has(each.callId)) end(each.callId, refusal(each));
  for (const each of wave) {
    if (state.calls.has(each.callId)) continue;
    const holder = state.calls.get(state.keys.get(each.key.key) ?? "");
    if (keys.has(each.key.key) || (holder && isOpen(holder.status))) held.push(each);
    else if (holder && replays(each.tool, holder, latest)) {
      repeated.push(each);
      end(each.callId, repetition(context.session, each, holder));
    } else if (state.effects === "refused") {
      const off = refuseEffect(each, state);
      refusedNow.push(off);
      end(each.callId, refusal(off));
    } else {
      keys.add(each.key.key);
      latest = each.callId;
      started.push(each);
      const failed = Math.max(state.failures.get(each.key.key) ?? 0, failures.get(each.key.key) ?? 0);
      // Of a global key the marks of all sessions tell.
      const known = each.key.scope === "global" ? undefined : state.doubted.get(each.key.key)?.vendorKey;
      const vendorKey = known ?? context.vendorKeys.of(each.key, failed, holder?.id ?? null);
      events.push(issue(context, each, failed, vendorKey));
    }
  }
  if (started.length === 0 && held.length === 0) events.push(...closing(state, settled));
  // With the intent, and not after it: a process that dies in between is to be missed.
  if (started.length > 0 && state.status !== "active") events.unshift(...reactivation(state));
  return { events, result: { started, repeated, held, refusedNow } };
}

/**
 * A finished `mutate` is repeated whenever its key comes again. A `write` sets a state: it is a repeat only while
 * nothing else has been done since, or v1, v2, v1 would end with v2.
 */
function replays(tool: Tool, holder: Call, latestEffect: string | null): boolean {
  if (holder.status !== "completed") return false;
  return tool.effect !== "write" || holder.id === latestEffect;
}

function issue(context: LedgerContext, ready: Ready, failures: number, vendorKey: string): Draft {
  const { callId, messageId, raw: args, key } = ready;
  return draftIssued({
    callId,
    messageId,
    tool: ready.tool.name,
    effect: ready.tool.effect,
    scope: key.scope,
    args,
    key: key.key,
    vendorKey,
    failures,
    attempt: 1,
    token: context.own.lease.token,
  });
}

function repetition(session: string, ready: Ready, first: Call): Draft {
  const { callId, messageId, raw: args, key, tool } = ready;
  const of = { session, callId: first.id };
  const since = first.settledAt ?? first.issuedAt;
  return {
    type: "call.repeated",
    data: { callId, messageId, tool: tool.name, effect: tool.effect, args, key: key.key, of, since },
  };
}

function refusal(refused: Refused): Draft {
  const { callId, messageId, tool, raw: args, by, error } = refused;
  return {
    type: "call.failed",
    data: { callId, attempt: 0, error: { message: error }, by, messageId, tool, args },
  };
}

function refuseEffect(ready: Ready, state: SessionState): Refused {
  const from = state.forked ? ` of ${state.forked.session}` : "";
  const error = `Not run: this is a fork${from}, and its effects are off. A person can switch them on: holdfast session effects <session> on`;
  return {
    callId: ready.callId,
    messageId: ready.messageId,
    tool: ready.tool.name,
    raw: ready.raw,
    error,
    by: "tool",
  };
}

/** Runs one issued call and records what it came to. */
export function runIssued(context: LedgerContext, ready: Ready, closing: Closing): Promise<Outcome> {
  const { id, attempt, vendorKey: key, tool } = callOf(context.own.state, ready.callId);
  const { generation } = context.own.log.head;
  return startAndRecord(context, { id, attempt, tool, generation }, key, ready.tool, ready.args, closing);
}
