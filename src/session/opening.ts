/**
 * Opens a session: takes its lease, reads its log, and marks what the last owner left.
 *
 *     fold ──▶ one commit: the lease; the new owner; calls in flight become unknown;
 *              reservations of lost model calls count as spent
 *
 * A crash before that commit leaves everything to the next owner. A crash after it leaves calls that are
 * marked unknown already. Nothing is settled here: that needs the tools, and happens in `run` or `settle`.
 *
 * For one request (`holdfast.run`) that commit also has the prompt, unless the last owner left work open:
 *
 *     [ lease · owner · prompt · reservation ] ──▶ the model ──▶ [ answer · checkpoint · release ]
 */

import { basename } from "node:path";
import { failpoint } from "../failpoint.ts";
import { holderFor, type Journal, type Lease, type Opening, OwnedLog } from "../journal/index.ts";
import { type ChildSession, mustNotBeCancelled, withTimeout } from "../ledger/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { canonicalText } from "../model/json.ts";
import { shellWord, streamName } from "../model/names.ts";
import { checkOption, checkOptions, type OptionRule } from "../model/options.ts";
import type { Amounts, JsonObject, SessionState } from "../model/session/index.ts";
import { isChildReservation, openCallsOf, sessionKind, spentAndReserved } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { age } from "../model/time.ts";
import type { Head, Holder, LeaseRow } from "../store.ts";
import { draftChildSpent, reserveForChild } from "./budget.ts";
import { isWithinRunOf, nestedRun } from "./nested-runs.ts";
import { Session, sessionCore } from "./session.ts";
import { holderText, type Resumed, SessionCore } from "./session-core.ts";
import { childId } from "./sub-agents.ts";

const DEFAULT_TTL_MS = 72 * 3_600_000;

/**
 * The options of `holdfast.session(id, options)`. Title, metadata, goal and the like are stored. For an
 * existing session they are changes.
 *
 * @example
 * const session = await holdfast.session("order-17", { title: "Refund", goal: "checkout", ttlMs: null });
 */
export interface SessionOptions {
  /** For lists. Without it, lists show the first question. */
  readonly title?: string;
  /** A folder for the agent's notes, e.g. `"./scratch"`. Stored only. */
  readonly scratchpadRoot?: string;
  /** Merged by key, e.g. `{ customer: "c-9" }`. */
  readonly metadata?: JsonObject;
  /** Id of the goal this session works on. */
  readonly goal?: string;
  /** After this time without a change the session is stale; null for never. 72 hours unless set. */
  readonly ttlMs?: number | null;
  /** `"use"` continues a stale session. `"refuse"` (default) throws STATE_STALE. */
  readonly stale?: "refuse" | "use";
  /**
   * While another process holds the session: wait up to one lease (default), or throw at once. While this
   * program has it open itself: throw at once (default), or `"wait"` until that handle is closed.
   */
  readonly ifHeld?: "wait" | "throw";
  /** A name for this owner in messages to others, e.g. `"worker-2"`. */
  readonly label?: string;
  /** Ends the wait for the session. */
  readonly signal?: AbortSignal;
  /** For a sub-agent: the call that this session works for. */
  readonly parent?: { readonly session: string; readonly callId: string };
}

const SESSION_OPTIONS = {
  title: "text",
  scratchpadRoot: "text",
  metadata: "object",
  goal: "text",
  ttlMs: null,
  stale: ["refuse", "use"],
  ifHeld: ["wait", "throw"],
  label: "text",
  signal: "object",
  parent: "object",
} as const satisfies Record<keyof SessionOptions, OptionRule>;

/** The options of a request: those of `session()`, and those of `run()`. Both take `signal`. */
export function splitOptions<Running extends object>(options: Running & SessionOptions) {
  const { title, scratchpadRoot, metadata, goal, ttlMs, stale, ifHeld, label, parent, ...running } = options;
  const { signal } = options;
  const fields = { title, scratchpadRoot, metadata, goal, ttlMs, stale, ifHeld, label, parent, signal };
  return { opening: pick(fields) as SessionOptions, running };
}

export async function openSession(
  journal: Journal,
  id: string,
  options: SessionOptions,
  onClose: (session: Session) => void,
  isRequest = false,
): Promise<Session> {
  checkOptions(`session ${id}`, options, SESSION_OPTIONS);
  if (typeof options.ttlMs !== "object")
    checkOption(`session ${id}: ttlMs`, options.ttlMs ?? DEFAULT_TTL_MS, "duration");
  const stream = streamName("session", id);
  // The title may be the whole path that node was started with.
  const label = options.label ?? `${basename(process.title) || "node"} ${process.pid}`;
  const waitMs = options.ifHeld === "throw" ? 0 : journal.leases.ttlMs + 1_000;
  const how = { waitMs, ...(options.signal && { signal: options.signal }) };
  options.signal?.throwIfAborted();
  const log = await journal.open(sessionKind, id);
  if (log.exists) refuseStale(id, log.state, journal.now(), options);
  const lease = journal.leases.expect(stream, journal.newId(), label, log.state.token + 1);
  const opening: Opening<SessionState> = {
    draft: (state, head) => openingEvents(state, head.seq > 0, lease, options),
    isQuiet,
    take: async () => {
      const holder = await journal.leases.takeExpected(lease, how);
      if (holder) throw held(id, holder);
      failpoint("session.taken");
    },
  };
  const own = new OwnedLog(log, lease, opening);
  const look = (state: SessionState, { seq }: Head): Resumed | null =>
    // Not `log.exists`: a fork may have made the session since.
    seq > 0 ? resumedFrom(state, lease.from) : null;
  try {
    const isLazy = isRequest && isQuiet(log.state);
    const resumed = isLazy ? look(log.state, log.head) : await own.open(look);
    if (!isLazy) failpoint("session.opened");
    const parts = { id, own, journal, resumed, openChild, onClose: () => onClose(session) };
    const session = new Session(new SessionCore(parts));
    return session;
  } catch (error) {
    await lease.release();
    throw error;
  }
}

/** True if the last owner left nothing for the next one to mark or to settle. */
function isQuiet({ openCalls, unfinished, budget }: SessionState): boolean {
  const isLeft = (id: string): boolean => !isChildReservation(id);
  return openCalls.size === 0 && unfinished.size === 0 && !Object.keys(budget.reserved).some(isLeft);
}

/**
 * Waits for a handle of this program that still has the session. Without `ifHeld: "wait"` it does so only if
 * the handle is being closed: nothing else would ever let go, and a lease of 30 s would pass for nothing.
 */
export async function afterOwn(
  journal: Journal,
  session: Session,
  ifHeld: SessionOptions["ifHeld"],
  signal: AbortSignal,
): Promise<void> {
  const core = sessionCore(session);
  // A request takes its lease with its first commit, which may be under way.
  if (core.own.isOpen && !(await isStillHeld(journal, core.own.lease))) return;
  if (ifHeld === "throw" || (ifHeld === undefined && !core.isLeaving)) {
    const { holder, token } = core.own.lease;
    throw held(session.id, { name: core.own.log.stream, holder, token, remainingMs: 0 });
  }
  if (isWithinRunOf(core)) throw nestedRun(session.id);
  await withTimeout(core.whenLeft(), Number.POSITIVE_INFINITY, signal, undefined);
}

/** False if another process has taken the lease over, or may: then the handle here can write nothing. */
async function isStillHeld(journal: Journal, { name, token }: Lease): Promise<boolean> {
  const row = await journal.leases.find(name);
  return row !== null && row.token === token && row.holder !== null && row.remainingMs > 0;
}

function openingEvents(state: SessionState, exists: boolean, lease: Lease, options: SessionOptions): Draft[] {
  const { title, scratchpadRoot, metadata, goal, parent } = options;
  const described = { ...pick({ title, scratchpadRoot, metadata, goal }) };
  const { label, host, pid } = lease.holder;
  const from = lease.from ? holderText(lease.from) : null;
  const who = { owner: label, token: lease.token, host, pid, from };
  if (!exists) {
    const ttlMs = options.ttlMs === undefined ? DEFAULT_TTL_MS : options.ttlMs;
    return [
      { type: "session.opened", data: { ...described, ttlMs, ...pick({ parent }) } },
      { type: "session.taken", data: who },
    ];
  }
  const events: Draft[] = [{ type: "session.taken", data: who }];
  const changed = changesOf(state, { ...described, ...pick({ ttlMs: options.ttlMs }) });
  if (Object.keys(changed).length > 0) events.push({ type: "session.described", data: changed });
  for (const call of openCallsOf(state)) {
    // Calls that were unknown already, too: `settleMs` counts from this takeover.
    if (call.status === "waiting" || (call.status === "unknown" && call.doubt === null)) continue;
    const why = call.status === "issued" ? "the process that ran it is gone" : (call.why ?? "unknown");
    const { callId, attempt, status, needsPerson } = call;
    const marks = { ...(needsPerson && { person: true }), ...(status === "issued" && { gone: true }) };
    events.push({ type: "call.lost", data: { callId, attempt, why, ...marks } });
  }
  for (const [id, amounts] of Object.entries(state.budget.reserved)) {
    if (isChildReservation(id)) continue;
    events.push({ type: "budget.settled", data: { id, spent: amounts, lost: true } });
  }
  return events;
}

/** The part of a description that is new: programs pass the same one at every start. */
function changesOf(state: SessionState, description: Partial<SessionOptions>): Draft["data"] & object {
  const isSame = ([name, value]: [string, unknown]): boolean => {
    const known = state[name as "title"] as unknown;
    if (name !== "metadata") return known === value;
    const stored = known as JsonObject;
    return Object.entries(value as JsonObject).every(
      ([key, each]) => Object.hasOwn(stored, key) && canonicalText(stored[key]) === canonicalText(each),
    );
  };
  return Object.fromEntries(Object.entries(description).filter((entry) => !isSame(entry)));
}

/** Reserves its budget in the parent's, so that parallel sub-agents cannot spend the same money. */
async function openChild(
  parent: SessionCore,
  callId: string,
  budget: Amounts | undefined,
  drain: AbortSignal,
): Promise<ChildSession> {
  const { journal } = parent;
  const limit = await reserveForChild(parent, callId, budget).catch(async (error: unknown) => {
    if (!isHoldfastError(error, "BUDGET_EXCEEDED")) throw error;
    // The limit may have been raised since the last refresh.
    await parent.refresh();
    return reserveForChild(parent, callId, budget);
  });
  const options = { parent: { session: parent.id, callId }, ttlMs: null };
  const child = await openSession(journal, childId(parent.incarnation, callId), options, () => undefined);
  // A sub-agent is drained with its parent: the call that it works for stays open for the next process.
  const startDraining = (): void => sessionCore(child).startDraining();
  if (drain.aborted) startDraining();
  else drain.addEventListener("abort", startDraining, { once: true });
  // Includes open reservations, as the next process would count them.
  const finished = (): void => {
    const spent = spentAndReserved(child.budget);
    parent.riders.set(callId, [draftChildSpent(parent.state.budget, callId, spent)]);
  };
  try {
    if (limit) await child.limit(limit);
    // The parent may have been cancelled before the child existed.
    await parent.refresh();
    const { state } = parent.own;
    const why = `session ${parent.id}, which it works for, was cancelled`;
    if (state.status === "cancelled" && child.status === "active") await child.cancel(why);
    mustNotBeCancelled(parent.id, state);
  } catch (error) {
    // The call ends here, at the cost of what was spent before.
    if (isHoldfastError(error, "SESSION_ENDED")) finished();
    await child.close();
    throw error;
  }
  return { session: child, finished };
}

function resumedFrom(state: SessionState, from: Holder | null): Resumed {
  return {
    version: state.version,
    messages: state.messages.length,
    from: from ? holderText(from) : null,
    interrupted: openCallsOf(state).map((call) => call.callId),
    settled: [],
    replayed: [],
  };
}

function refuseStale(id: string, state: SessionState, now: number, options: SessionOptions): void {
  const ttlMs = options.ttlMs === undefined ? state.ttlMs : options.ttlMs;
  const ageMs = now - state.updatedAt;
  if (ttlMs === null || ageMs <= ttlMs || options.stale === "use") return;
  throw new HoldfastError(
    "STATE_STALE",
    `session ${id} was last changed ${age(ageMs)} ago (stale after ${age(ttlMs)})`,
    {
      hint:
        'Read it first. Then pass stale: "use" to continue it, or run: ' +
        `holdfast session retry ${shellWord(id)}. ` +
        `Or start a new session. Its ttlMs is ${age(ttlMs)}; null means forever.`,
      data: { session: id, ageMs, ttlMs },
    },
  );
}

function held(id: string, lease: LeaseRow): HoldfastError {
  const who = lease.holder ? holderText(lease.holder) : "another process";
  const isHere = lease.holder !== null && isThisProcess(lease.holder);
  const seconds = Math.max(1, Math.ceil(lease.remainingMs / 1000));
  const advice = isHere
    ? 'Use the handle that holdfast.session() returned, or close that first. ifHeld: "wait" queues for it.'
    : "Wait, stop that process, or cancel the session.";
  const where = isHere ? ", which is this very process" : "";
  return new HoldfastError("SESSION_HELD", `session ${id} is held by ${who}${where}`, {
    hint: `It can be taken over in ${seconds} s unless it is renewed. ${advice}`,
    data: { session: id, holder: lease.holder, remainingMs: lease.remainingMs, token: lease.token },
  });
}

function isThisProcess({ host, pid, started, boot, pidNamespace }: Holder): boolean {
  const own = holderFor("", "");
  const isSame = own.host === host && own.pid === pid && own.pidNamespace === pidNamespace;
  return isSame && own.started === started && own.boot === boot;
}

function pick<Fields extends object>(
  fields: Fields,
): { [Key in keyof Fields]?: Exclude<Fields[Key], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
