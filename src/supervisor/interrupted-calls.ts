/**
 * Calls without an outcome in sessions that nobody holds.
 *
 *     waits for a person ──▶ listed
 *     its tool is not known here ──▶ listed, and the session left to its agent; or, if so told, put before a person
 *     all tools of the session's open calls are known here ──▶ open it like any owner, settle, close
 *     the same, but the session is past its time to live, or a sub-agent's whose call has its outcome already
 *       ──▶ nothing is run: asked about, else put before a person
 *
 * What settles is the ledger: verify before retry, each step one commit under the lease. A supervisor that dies in the
 * middle leaves what any owner leaves: a lease that runs out, and calls with what was learnt so far.
 *
 * A call that must be asked again later is left alone until then: every take-over begins its `settleMs` anew.
 *
 * Settling may take as long as the slowest tool, or for ever. So sessions are settled side by side, and a look that is one of
 * many waits for them a moment only; the others go on beside it, and what they came to is told when they have ended.
 */

import { allRows, type Journal } from "../journal/index.ts";
import { type Tool, unsure, type Verdict } from "../ledger/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import { streamId } from "../model/names.ts";
import {
  type Call,
  openCallsOf,
  type SessionState,
  sessionKind,
  verifyDelayMs,
} from "../model/session/index.ts";
import {
  escalateToPerson,
  openSession,
  type Session,
  sessionCore,
  undecidedCalls,
} from "../session/index.ts";
import type { LeaseRow } from "../store.ts";
import { worksForNobody } from "./blocked-on.ts";
import { type CrashPlace, isLive, recordCrash } from "./crashed-sessions.ts";

/**
 * Sessions in which a supervisor starts nothing: what has happened may be found out, everything else is put before a person, and
 * what waits for one is left to that one.
 *
 *     past its time to live: its own agent is refused until somebody has looked at what it says
 *     a sub-agent's, whose call has its outcome already: its parent was told that, and may have had it done once more
 */

/** Why nothing may be started. */
type Restraint = typeof STALE | typeof FORSAKEN;

const STALE = "its session is past its time to live";
const FORSAKEN = "the call that its session works for has an outcome already";

async function restraintOf(journal: Journal, id: string, state: SessionState): Promise<Restraint | null> {
  if (await worksForNobody(journal, id, state)) return FORSAKEN;
  return isStale(state, journal.now()) ? STALE : null;
}

/** What a person allowed so long ago is left to its agent, which is let in by somebody who has looked. */
function isLeftAlone(restraint: Restraint | null, unsettled: readonly Call[]): boolean {
  return restraint === STALE && unsettled.some(({ granted }) => granted);
}

/**
 * Counted from the last that happened in it. That somebody took it is no such thing: else a supervisor that died right after
 * that would have made it young. A person who allowed another attempt has looked at it.
 */
function isStale(state: SessionState, now: number): boolean {
  if (state.ttlMs === null) return false;
  const isLookedAt = openCallsOf(state).some(({ granted }) => granted);
  const since = isLookedAt ? state.updatedAt : Math.min(state.updatedAt, lastAct(state));
  return now - since > state.ttlMs;
}

function lastAct({ createdAt, messages, prompts, calls, checkpoints }: SessionState): number {
  const said = messages.at(-1);
  let last = Math.max(createdAt, said ? Date.parse(said.createdAt) : 0, prompts.at(-1)?.at ?? 0);
  for (const { issuedAt, settledAt } of calls.values()) last = Math.max(last, issuedAt, settledAt ?? 0);
  for (const { at } of checkpoints.values()) last = Math.max(last, at);
  return last;
}

/** Settles what is not left to a person, as far as asking does. */
async function settleByAsking(
  session: Session,
  tools: readonly Tool[],
  why: Restraint,
): Promise<readonly string[]> {
  await leaveUnbegun(session, why);
  const asking = tools.map((tool) => onlyToAsk(tool, why));
  return (await session.settle(asking, ({ status, granted }) => status !== "waiting" && !granted)).settled;
}

/** Calls that have not begun, as far as is known, would simply be begun: nothing can be found out about them. */
async function leaveUnbegun(session: Session, why: Restraint): Promise<void> {
  await sessionCore(session).write((state) => {
    const unbegun = openCallsOf(state).filter(
      ({ status, doubt, granted }) => status === "unknown" && doubt === null && !(granted && why === STALE),
    );
    return { events: escalateToPerson(unbegun, `it has not begun, and ${why}`), result: undefined };
  });
}

/** The tool for those who may find out what became of a call, and may not run it. */
function onlyToAsk(tool: Tool, why: Restraint): Tool {
  const verify = async (...asked: Parameters<NonNullable<Tool["verify"]>>): Promise<Verdict<unknown>> => {
    try {
      const verdict = await tool.verify?.(...asked);
      return verdict?.answer === "landed" ? verdict : unsure(`verify says ${verdict?.answer}, and ${why}`);
    } catch (error) {
      return unsure(`verify failed: ${(error as Error)?.message ?? error}; and ${why}`);
    }
  };
  // Made from the tool, and not of its parts: it may be an instance of some class.
  const asking = { idempotent: undefined, interrupted: "ask", ...(tool.verify && { verify }) };
  return Object.assign(Object.create(tool) as Tool, asking);
}

/** A call without an outcome in a session that nobody holds. */
export interface OpenCallNote {
  readonly session: string;
  readonly callId: string;
  readonly tool: string;
  /** True when a person has to answer; false when its agent, or a later look, finds out. */
  readonly person: boolean;
  readonly why: string;
}

export interface SettlePlace extends CrashPlace {
  readonly label: string;
  readonly tools: readonly Tool[];
  readonly unknownTools: "leave" | "ask";
  readonly stop: AbortSignal;
  /** Wall clock before which a session is not asked again. Kept over sweeps. */
  readonly notBefore: Map<string, { readonly since: number; readonly until: number }>;
  /** Sessions whose calls are being settled. Kept over sweeps. */
  readonly underWay: Map<string, Promise<void>>;
  /** How long a look waits for those; null: to their end. */
  readonly patienceMs: number | null;
  /** Told when one has ended that was not waited for. */
  onLate(): void;
}

export interface SettleReport {
  readonly settled: readonly { readonly session: string; readonly callId: string }[];
  /** Sessions that turned out to be left by somebody who died. */
  readonly crashed: readonly string[];
  readonly open: readonly { readonly note: OpenCallNote; readonly attempt: number }[];
  /** Sessions whose calls were not looked at: somebody holds them, or they could not be read. */
  readonly unseen: ReadonlySet<string>;
}

const AGAIN_MS = 30_000;
const PAGE = 200;
/** Sessions that are settled at once. */
const AT_ONCE = 8;

export async function settleInterrupted(
  place: SettlePlace,
  leases: ReadonlyMap<string, LeaseRow>,
): Promise<SettleReport> {
  const { underWay } = place;
  const streams = await sessionsWithOpenCalls(place.journal);
  const free = streams.filter((stream) => !isLive(leases.get(stream)) && !underWay.has(streamId(stream)));
  const patience = new Patience(place.patienceMs);
  const settling = new Settling(place, leases);
  try {
    for (const stream of free) {
      if (underWay.size >= AT_ONCE) await patience.race(underWay.values());
      // All are slow: the rest is for a later look.
      if (underWay.size >= AT_ONCE || place.stop.aborted) break;
      settling.begin(streamId(stream));
    }
    await patience.race([Promise.all(settling.begun.values())]);
  } finally {
    patience.end();
  }
  for (const [session, end] of settling.begun) {
    if (underWay.has(session)) end.then(place.onLate, place.onLate);
  }
  const ours = new Set(free);
  const unseen = new Set(streams.filter((stream) => !ours.has(stream)).map(streamId));
  for (const session of underWay.keys()) unseen.add(session);
  const open: SettleReport["open"][number][] = [];
  for (const session of free.map(streamId)) {
    if (place.stop.aborted) break;
    const seen = unseen.has(session) ? null : await openCallsIn(place, session);
    if (seen) open.push(...seen);
    else unseen.add(session);
  }
  const { settled, crashed } = settling;
  return { settled, crashed, open, unseen };
}

/** The sessions that one look begins to settle, and what they have come to so far. */
class Settling {
  readonly begun = new Map<string, Promise<void>>();
  readonly settled: SettleReport["settled"][number][] = [];
  readonly crashed: string[] = [];
  readonly #place: SettlePlace;
  readonly #leases: ReadonlyMap<string, LeaseRow>;

  constructor(place: SettlePlace, leases: ReadonlyMap<string, LeaseRow>) {
    this.#place = place;
    this.#leases = leases;
  }

  begin(session: string): void {
    const { underWay, attempt } = this.#place;
    const doing = `settling calls of session ${session}`;
    const end = attempt(doing, () => this.#settle(session), undefined).finally(() => {
      underWay.delete(session);
    });
    // That the store was closed is met by whoever waits, and by the next look.
    end.catch(() => undefined);
    underWay.set(session, end);
    this.begun.set(session, end);
  }

  async #settle(id: string): Promise<void> {
    const { journal, notBefore } = this.#place;
    const { state } = await journal.load(sessionKind, id);
    if (state.status === "cancelled") {
      if (undecidedCalls(state).length > 0) await (await this.#take(id))?.close();
      return;
    }
    const unsettled = openCallsOf(state).filter(({ status }) => status !== "waiting");
    if (unsettled.length === 0 || !unsettled.every(({ tool }) => this.#isOurs(tool))) return;
    const rest = notBefore.get(id);
    // Not by a clock that was set back since.
    if (rest && rest.since <= journal.now() && journal.now() < rest.until) return;
    const restraint = await restraintOf(journal, id, state);
    if (isLeftAlone(restraint, unsettled)) return;
    const session = await this.#take(id);
    if (!session) return;
    const settled = await settleHeld(this.#place, session, restraint);
    this.#tell(
      id,
      unsettled.filter((call) => settled.includes(call.id)),
      (await journal.load(sessionKind, id)).state.calls,
    );
  }

  #isOurs(tool: string): boolean {
    return this.#place.unknownTools === "ask" || isKnown(this.#place, tool);
  }

  #tell(session: string, settled: readonly Call[], calls: ReadonlyMap<string, Call>): void {
    const { journal, notBefore, tell } = this.#place;
    for (const { id: callId, tool } of settled) {
      this.settled.push({ session, callId });
      tell({
        type: "call.settled",
        session,
        callId,
        tool,
        status: calls.get(callId)?.status ?? "settled",
      });
    }
    const later = [...calls.values()].filter(({ status }) => status === "unknown");
    const since = journal.now();
    const waits = later.map((call) => (call.verify?.againAt == null ? AGAIN_MS : verifyDelayMs(call, since)));
    if (later.length > 0) notBefore.set(session, { since, until: since + Math.max(...waits) });
    else notBefore.delete(session);
  }

  async #take(id: string): Promise<Session | null> {
    const { journal, label, stop } = this.#place;
    try {
      const options = { label, ifHeld: "throw", stale: "use", signal: stop } as const;
      const session = await openSession(journal, id, options, () => undefined);
      if (await this.#recordCrash(session)) this.crashed.push(id);
      return session;
    } catch (error) {
      // Its agent is back, another supervisor is at it, or this one is about to end.
      const isTaken = isHoldfastError(error, "SESSION_HELD") || isHoldfastError(error, "LEASE_LOST");
      if (isTaken || stop.aborted) return null;
      throw error;
    }
  }

  async #recordCrash(session: Session): Promise<boolean> {
    try {
      const { lease } = sessionCore(session).own;
      return await recordCrash(this.#place, lease, this.#leases.get(lease.name));
    } catch (error) {
      await session.close();
      throw error;
    }
  }
}

/** Waiting that comes to an end. */
class Patience {
  readonly #isOver: Promise<void>;
  #timer: NodeJS.Timeout | null = null;

  constructor(ms: number | null) {
    this.#isOver = new Promise((resolve) => {
      if (ms !== null) this.#timer = setTimeout(resolve, ms);
    });
  }

  async race(work: Iterable<Promise<unknown>>): Promise<void> {
    await Promise.race([this.#isOver, ...work]);
  }

  end(): void {
    if (this.#timer) clearTimeout(this.#timer);
  }
}

/** Settling changes what is listed, so the list is read to its end first. */
async function sessionsWithOpenCalls(journal: CrashPlace["journal"]): Promise<string[]> {
  const asked = { of: "streams", kind: "session", openCalls: true, limit: PAGE } as const;
  const rows = await allRows((from) => journal.list<"streams">({ ...asked, ...from }));
  return rows.map(({ stream }) => stream);
}

async function openCallsIn(place: SettlePlace, session: string): Promise<SettleReport["open"] | null> {
  const look = () => place.journal.load(sessionKind, session);
  const seen = await place.attempt(`looking at session ${session}`, look, null);
  return (
    seen &&
    openCallsOf(seen.state).map((call) => ({ note: noteOf(place, session, call), attempt: call.attempt }))
  );
}

async function settleHeld(
  place: SettlePlace,
  session: Session,
  restraint: Restraint | null,
): Promise<readonly string[]> {
  const { tools, stop } = place;
  let closed: Promise<void> | null = null;
  const close = (): Promise<void> => {
    closed ??= session.close();
    return closed;
  };
  const onStop = (): void => {
    // Closing stops the settling, which waits for it; what goes wrong shows there.
    close().catch(() => undefined);
  };
  stop.addEventListener("abort", onStop, { once: true });
  try {
    if (restraint !== null) return await settleByAsking(session, tools, restraint);
    return (await session.settle(tools)).settled;
  } catch (error) {
    const isEnd =
      stop.aborted || isHoldfastError(error, "LEASE_LOST") || isHoldfastError(error, "SESSION_ENDED");
    if (!isEnd) throw error;
    return [];
  } finally {
    stop.removeEventListener("abort", onStop);
    await close();
  }
}

function isKnown({ tools }: SettlePlace, name: string): boolean {
  return tools.some((tool) => tool.name === name);
}

function noteOf(place: SettlePlace, session: string, call: Call): OpenCallNote {
  const { id: callId, tool, status, why } = call;
  const person = status === "waiting";
  const reason =
    isKnown(place, tool) || person
      ? (why ?? "its outcome is unknown")
      : `no tool ${tool} here: its agent settles it`;
  return { session, callId, tool, person, why: reason };
}
