import { commitResult, type Journal, Lease } from "../journal/index.ts";
import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";
import { canonicalText } from "../model/json.ts";
import {
  type Amounts,
  addAmounts,
  BUDGET_UNITS,
  type Budget,
  type Call,
  childReservation,
  exceededLimit,
  openCallsOf,
  type SessionState,
  sessionKind,
  spentAndReserved,
} from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { escalateToPerson, type OnCrash, takeFromDead } from "./abandoned.ts";
import { incarnationOf, type SessionCore } from "./session-core.ts";

/**
 * What a person's word on a sub-agent's call takes, that it did not happen or that it did: nobody may do it
 * afterwards. So the sub-agent is stopped first, and the sub-agents below it before that, each under its
 * lease, so that nobody is at it meanwhile:
 *
 *     one of its calls is in doubt ──▶ refused, with the commands that answer for those first
 *     somebody holds its session ──▶ refused
 *     else ──▶ cancelled, durable, and only then is the outcome of the parent's call written
 *
 * A crash between the two leaves a cancelled sub-agent and an open call: the person answers once more, or the
 * next run of the parent is told that its sub-agent was cancelled, which comes to the same. A crash further
 * down leaves the lower ones cancelled.
 */

interface Stop {
  readonly journal: Journal;
  readonly outcome: "landed" | "failed";
  readonly by: string;
  readonly why: string;
  readonly onCrash: OnCrash;
}

/**
 * The call of that session's life may be one of any tool: most have no sub-agent. Resolves to what it spent,
 * null without one.
 */
export async function stopSubAgent(stop: Stop, life: string, callId: string): Promise<Amounts | null> {
  const { journal, by, why } = stop;
  const id = childId(life, callId);
  const log = await journal.open(sessionKind, id);
  if (!log.exists) return null;
  const refusal = cannotBeSaid(stop, callId);
  const below = (): Promise<Below> => stopBelow(stop, incarnationOf(id, log.head.generation), log.state);
  if (log.state.status !== "active") {
    mustBeCertain(refusal, id, openCallsOf(log.state));
    return spentWith(log.state.budget, await below());
  }
  const lease = await takeFromDead(journal, log.stream, by, stop.onCrash);
  if (!(lease instanceof Lease)) throw isHeld(refusal, id, lease.holder?.label ?? "another process");
  try {
    await log.refresh();
    const { generation } = log.head;
    mustBeCertain(refusal, id, openCallsOf(log.state));
    const stopped = await below();
    const outcome = await log.commit((state, head) => {
      if (head.generation !== generation) return { events: [], result: null };
      mustBeCertain(refusal, id, openCallsOf(state));
      const spent = spentWith(state.budget, stopped);
      return { events: cancellation(state, { by, why }, true), result: spent, guards: [lease.guard] };
    });
    return commitResult(outcome);
  } finally {
    await lease.release();
  }
}

/** What sub-agents spent, by the call that each works for. */
type Below = ReadonlyMap<string, Amounts>;

async function stopBelow(stop: Stop, life: string, state: SessionState): Promise<Below> {
  const spent = new Map<string, Amounts>();
  for (const { id } of openCallsOf(state)) {
    const amounts = await stopSubAgent(stop, life, id);
    if (amounts) spent.set(id, amounts);
  }
  return spent;
}

/**
 * Of what was set aside for those below only what they spent counts; where nothing was, what they spent is in
 * no sum yet.
 */
function spentWith({ spent, reserved }: Budget, below: Below): Amounts {
  const theirs = new Set([...below.keys()].map(childReservation));
  const own = Object.entries(reserved).filter(([id]) => !theirs.has(id));
  return [...own.map(([, amounts]) => amounts), ...below.values()].reduce(addAmounts, spent);
}

/**
 * Begun, and nobody knows what came of it. One that a person allowed once more has, by their word, not
 * happened.
 */
function isInDoubt({ status, doubt }: Call): boolean {
  return status === "issued" || doubt !== null;
}

/** How every refusal begins. */
function cannotBeSaid({ outcome }: Stop, callId: string): Refusal {
  return { callId, text: `call ${callId} cannot be said to have ${outcome}` };
}

interface Refusal {
  readonly callId: string;
  readonly text: string;
}

function mustBeCertain({ callId, text }: Refusal, session: string, open: readonly Call[]): void {
  const calls = open.filter(isInDoubt);
  if (calls.length === 0) return;
  const named = calls.map(({ id, tool, status }) => `${tool} ${id} (${status})`).join(", ");
  const commands = calls.map(({ id }) => `holdfast resolve ${id} landed|failed --session ${session}`);
  throw new HoldfastError(
    "SESSION_HAS_OPEN_CALLS",
    `${text}: of its sub-agent ${session} nobody knows whether these happened: ${named}`,
    {
      hint: `Answer for those first: ${commands.join("; ")}. Or let its agent run, which finds out what it can.`,
      data: { callId, session, calls: calls.map(({ id }) => id) },
    },
  );
}

function isHeld({ callId, text }: Refusal, session: string, holder: string): HoldfastError {
  return new HoldfastError("SESSION_HELD", `${text}: its sub-agent ${session} is held by ${holder}`, {
    hint: "Answer when that has let go of it, or cancel the session.",
    data: { callId, session },
  });
}

/** A sub-agent's session is named by the call that started it, so that a resumed call finds it again. */
export function childId(life: string, callId: string): string {
  return `sub-${sha256(JSON.stringify([life, callId])).slice(0, 32)}`;
}

/** Cancels the sub-agents that work for a session's open calls, and theirs. */
export async function cancelChildren(
  journal: Journal,
  life: string,
  state: SessionState,
  spoken: { readonly by: string; readonly why?: string },
): Promise<void> {
  for (const call of openCallsOf(state)) {
    const id = childId(life, call.id);
    const log = await journal.open(sessionKind, id);
    if (!log.exists) continue;
    const { generation, seq } = log.head;
    const held = await journal.leases.isHeld(log.stream);
    const outcome = await log.commit((child, head) => {
      const isThere = head.generation === generation;
      const events = isThere ? cancellation(child, spoken, !held && head.seq === seq) : [];
      return { events, result: undefined };
    });
    commitResult(outcome);
    await cancelChildren(journal, incarnationOf(id, generation), log.state, spoken);
  }
}

/**
 * `isAbandoned`: nobody held it when it was looked at, and nobody has written since, who may have taken it
 * over.
 */
export function cancellation(
  state: SessionState,
  spoken: { readonly by: string; readonly why?: string },
  isAbandoned: boolean,
): Draft[] {
  const data = { status: "cancelled", why: spoken.why ?? null, by: spoken.by };
  const isActive = state.status === "active";
  const ended = isActive ? [{ type: "session.status", data }] : [];
  const isOver = isActive || state.status === "cancelled";
  return [...ended, ...(isAbandoned && isOver ? escalateToPerson(openCallsOf(state)) : [])];
}

/** Sets aside what a sub-agent may spend: what it was given, else all that is left. Null without limits. */
export async function reserveForChild(
  parent: SessionCore,
  callId: string,
  budget: Amounts | undefined,
): Promise<Amounts | null> {
  return parent.write((state) => {
    const id = childReservation(callId);
    if (Object.keys(state.budget.limit).length === 0) return { events: [], result: budget ?? null };
    // What was set aside before counts as free for it, so that a raised budget reaches a sub-agent that ran
    // out.
    const { [id]: earlier, ...reserved } = state.budget.reserved;
    const without = { ...state.budget, reserved };
    const amounts = { ...remaining(without), ...budget };
    const over = exceededLimit(without, amounts);
    if (over) throw overBudget(parent.id, over);
    if (earlier && canonicalText(earlier) === canonicalText(amounts)) return { events: [], result: amounts };
    return { events: [{ type: "budget.reserved", data: { id, amounts } }], result: amounts };
  });
}

/** Turns the reservation into what was really spent; rides on the commit of the call's outcome. */
export function settleForChild(parent: SessionCore, callId: string, spent: Amounts): void {
  parent.addRider(callId, [childSpent(parent.state.budget, callId, spent)]);
}

/** Stands before the call's outcome, with which the whole reservation would count as spent. */
export function childSpent(budget: Budget, callId: string, spent: Amounts): Draft {
  const id = childReservation(callId);
  if (Object.hasOwn(budget.reserved, id)) return { type: "budget.settled", data: { id, spent } };
  return { type: "budget.spent", data: { amounts: spent } };
}

function remaining(budget: Budget): Amounts {
  const used = spentAndReserved(budget);
  const left: { -readonly [Unit in keyof Amounts]: Amounts[Unit] } = {};
  for (const unit of BUDGET_UNITS) {
    const limit = budget.limit[unit];
    if (limit !== undefined) left[unit] = Math.max(0, limit - (used[unit] ?? 0));
  }
  return left;
}

function overBudget(id: string, over: { unit: string; limit: number; would: number }): HoldfastError {
  return new HoldfastError(
    "BUDGET_EXCEEDED",
    `session ${id}: a sub-agent would take ${over.unit} to ${over.would} of ${over.limit}`,
    {
      hint: "Give the sub-agent a smaller budget, or raise the session's.",
      data: { session: id, ...over },
    },
  );
}
