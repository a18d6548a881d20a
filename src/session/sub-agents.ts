/**
 * Sessions of sub-agents. A sub-agent works for one open call of its parent, and is named by that call.
 *
 * Cancelling a session cancels its sub-agents, and theirs. A person may say that a sub-agent's call landed or
 * failed. Then it is stopped first, and the sub-agents below it before that, each under its lease:
 *
 *     one of its calls is in doubt   rejected, with the commands that settle those first
 *     a process holds its session    rejected
 *     otherwise                      cancelled; once that is durable, the parent's call gets its outcome
 *
 * A crash between the two leaves a cancelled sub-agent and an open call. The person answers again, or the
 * parent's next run finds the sub-agent cancelled, with the same result. A crash further down leaves the
 * lower ones cancelled.
 */

import { commitResult, type Journal, Lease } from "../journal/index.ts";
import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";
import { shellWord } from "../model/names.ts";
import type { Amounts, Budget, Call, SessionState } from "../model/session/index.ts";
import { addAmounts, childReservation, openCallsOf, sessionKind } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { escalateToPerson, type OnCrash, takeFromDead } from "./abandoned.ts";
import { incarnationOf } from "./session-core.ts";

/** The actor and its reason, recorded with the act: `{ by: "ann", why: "wrong order" }`. */
export interface Spoken {
  readonly by: string;
  readonly why?: string;
  /** The surface that the person used, recorded with the act: `"web"`. */
  readonly via?: string;
}

/** The id of a sub-agent's session. It follows from the call, so a resumed call finds it again. */
export function childId(parentIncarnation: string, callId: string): string {
  return `sub-${sha256(JSON.stringify([parentIncarnation, callId])).slice(0, 32)}`;
}

export async function cancelChildren(
  journal: Journal,
  incarnation: string,
  state: SessionState,
  spoken: Spoken,
): Promise<void> {
  for (const call of openCallsOf(state)) {
    const id = childId(incarnation, call.callId);
    const log = await journal.open(sessionKind, id);
    if (!log.exists) continue;
    const { generation, seq } = log.head;
    const isHeld = await journal.leases.isHeld(log.stream);
    const outcome = await log.commit((child, head) => {
      const isSame = head.generation === generation;
      const events = isSame ? cancellation(child, spoken, !isHeld && head.seq === seq) : [];
      return { events, result: undefined };
    });
    commitResult(outcome);
    await cancelChildren(journal, incarnationOf(id, generation), log.state, spoken);
  }
}

/** `isAbandoned`: the session had no owner, and no new owner has written to it since that look. */
export function cancellation(state: SessionState, { by, why, via }: Spoken, isAbandoned: boolean): Draft[] {
  const data = { status: "cancelled", why: why ?? null, by, ...(via !== undefined && { via }) };
  const isActive = state.status === "active";
  const ended = isActive ? [{ type: "session.status", data }] : [];
  const isCancelled = isActive || state.status === "cancelled";
  return [...ended, ...(isAbandoned && isCancelled ? escalateToPerson(openCallsOf(state)) : [])];
}

interface Stop extends Required<Omit<Spoken, "via">> {
  readonly journal: Journal;
  readonly outcome: "landed" | "failed";
  readonly onCrash: OnCrash;
}

export async function stopSubAgent(stop: Stop, incarnation: string, callId: string): Promise<Amounts | null> {
  const { journal, by, why } = stop;
  const id = childId(incarnation, callId);
  const log = await journal.open(sessionKind, id);
  if (!log.exists) return null;
  const refusal = { callId, text: `call ${callId} cannot be said to have ${stop.outcome}` };
  const stopBelow = () => stopSubAgentsOf(stop, incarnationOf(id, log.head.generation), log.state);
  if (log.state.status !== "active") {
    mustBeCertain(refusal, id, openCallsOf(log.state));
    return totalSpent(log.state.budget, await stopBelow());
  }
  const lease = await takeFromDead(journal, log.stream, by, stop.onCrash);
  if (!(lease instanceof Lease)) throw isHeld(refusal, id, lease.holder?.label ?? "another process");
  try {
    await log.refresh();
    const { generation } = log.head;
    mustBeCertain(refusal, id, openCallsOf(log.state));
    const below = await stopBelow();
    const outcome = await log.commit((state, head) => {
      if (head.generation !== generation) return { events: [], result: null };
      mustBeCertain(refusal, id, openCallsOf(state));
      const spent = totalSpent(state.budget, below);
      return { events: cancellation(state, { by, why }, true), result: spent, guards: [lease.guard] };
    });
    return commitResult(outcome);
  } finally {
    await lease.release();
  }
}

type SpentBelow = ReadonlyMap<string, Amounts>;

async function stopSubAgentsOf(stop: Stop, incarnation: string, state: SessionState): Promise<SpentBelow> {
  const spent = new Map<string, Amounts>();
  for (const { callId: id } of openCallsOf(state)) {
    const amounts = await stopSubAgent(stop, incarnation, id);
    if (amounts) spent.set(id, amounts);
  }
  return spent;
}

/** Own spending and reservations. Real spending of the sub-agents below replaces theirs. */
function totalSpent({ spent, reserved }: Budget, below: SpentBelow): Amounts {
  const replaced = new Set([...below.keys()].map(childReservation));
  const own = Object.entries(reserved).filter(([id]) => !replaced.has(id));
  return [...own.map(([, amounts]) => amounts), ...below.values()].reduce(addAmounts, spent);
}

type Refusal = { readonly callId: string; readonly text: string };

function mustBeCertain({ callId, text }: Refusal, session: string, open: readonly Call[]): void {
  // Started, with an unknown outcome. A granted retry means that it has not happened.
  const calls = open.filter(({ status, doubt }) => status === "issued" || doubt !== null);
  if (calls.length === 0) return;
  const named = calls.map(({ callId: id, tool, status }) => `${tool} ${id} (${status})`).join(", ");
  const commands = calls.map(
    ({ callId: id }) => `holdfast resolve ${id} landed|failed --session ${shellWord(session)}`,
  );
  const problem = `${text}: of its sub-agent ${session} nobody knows whether these happened: ${named}`;
  throw new HoldfastError("SESSION_HAS_OPEN_CALLS", problem, {
    hint: `Answer for those first: ${commands.join("; ")}. Or run its agent, which finds out what it can.`,
    data: { callId, session, calls: calls.map(({ callId: id }) => id) },
  });
}

function isHeld({ callId, text }: Refusal, session: string, holder: string): HoldfastError {
  return new HoldfastError("SESSION_HELD", `${text}: its sub-agent ${session} is held by ${holder}`, {
    hint: "Answer when that process has released it, or cancel the session.",
    data: { callId, session },
  });
}
