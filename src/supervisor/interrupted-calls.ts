/**
 * Settles calls without an outcome in sessions that have no owner.
 *
 *     it waits for a person                       listed
 *     a tool of the session's open calls is       listed, and the session is left to its agent;
 *       unknown here                                with `unknownTools: "ask"` the call waits for a person
 *     all their tools are known here              open the session like any owner, settle, close
 *     the session is stale or orphaned            nothing runs: verify, otherwise a person
 *
 * The ledger does the settling: verify before retry, each step one commit under the lease. A supervisor that
 * dies in the middle leaves what any owner leaves: a lease that expires, and calls with everything learnt so
 * far.
 *
 * A call that must be verified again later is left alone until then, because every takeover restarts its
 * `settleMs`. A tool may take forever, so sessions are settled in parallel, and a supervisor that sweeps
 * repeatedly waits only a moment. The rest goes on in the background and is reported at its end.
 */

import { allRows } from "../journal/index.ts";
import { sleep, type Tool, unsure, type Verdict } from "../ledger/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import { streamId } from "../model/names.ts";
import type { Call, SessionState } from "../model/session/index.ts";
import { openCallsOf, sessionKind, verifyDelayMs } from "../model/session/index.ts";
import type { Session } from "../session/index.ts";
import { escalateToPerson, openSession, sessionCore, undecidedCalls } from "../session/index.ts";
import type { LeaseRow } from "../store.ts";
import { isOrphaned } from "./blocked-on.ts";
import { type CrashContext, isLive, recordCrash } from "./crashed-sessions.ts";
import type { OpenCallNote } from "./notices.ts";

export interface SettleContext extends CrashContext {
  readonly tools: readonly Tool[];
  readonly unknownTools: "leave" | "ask";
  readonly stop: AbortSignal;
  /** Wall clock before which a session is left alone. Kept between sweeps. */
  readonly notBefore: Map<string, { readonly since: number; readonly until: number }>;
  readonly inProgress: Map<string, Promise<void>>;
  /** How long a sweep waits for them (null: to their end), and the callback for those that take longer. */
  readonly patienceMs: number | null;
  onLate(): void;
}

export interface SettleReport {
  readonly settled: readonly { readonly session: string; readonly callId: string }[];
  readonly crashed: readonly string[];
  readonly open: readonly { readonly note: OpenCallNote; readonly attempt: number }[];
  /** Sessions whose calls were not read: they have an owner, or reading failed. */
  readonly unseen: ReadonlySet<string>;
}

const AGAIN_MS = 30_000;
const PARALLEL = 8;

export async function settleInterrupted(
  context: SettleContext,
  leases: ReadonlyMap<string, LeaseRow>,
): Promise<SettleReport> {
  const { inProgress } = context;
  // Reads the whole list first, because settling changes it.
  const asked = { of: "streams", kind: "session", openCalls: true, limit: 200 } as const;
  const rows = await allRows((from) => context.journal.list<"streams">({ ...asked, ...from }));
  const streams = rows.map(({ stream }) => stream);
  const free = streams.filter((stream) => !isLive(leases.get(stream)) && !inProgress.has(streamId(stream)));
  const done = new AbortController();
  const { patienceMs } = context;
  const limit = patienceMs === null ? [] : [sleep(patienceMs, done.signal).catch(() => undefined)];
  const settling = new Settling(context, leases);
  try {
    for (const stream of free) {
      if (inProgress.size >= PARALLEL) await Promise.race([...limit, ...inProgress.values()]);
      // All of them are slow: leave the rest to a later sweep.
      if (inProgress.size >= PARALLEL || context.stop.aborted) break;
      settling.begin(streamId(stream));
    }
    await Promise.race([...limit, Promise.all(settling.begun.values())]);
  } finally {
    done.abort();
  }
  for (const [session, end] of settling.begun) {
    if (inProgress.has(session)) end.then(context.onLate, context.onLate);
  }
  const isFree = new Set(free);
  const unseen = new Set(streams.filter((stream) => !isFree.has(stream)).map(streamId));
  for (const session of inProgress.keys()) unseen.add(session);
  const open: SettleReport["open"][number][] = [];
  for (const session of free.map(streamId)) {
    if (context.stop.aborted) break;
    const seen = unseen.has(session) ? null : await openCallsIn(context, session);
    if (seen) open.push(...seen);
    else unseen.add(session);
  }
  const { settled, crashed } = settling;
  return { settled, crashed, open, unseen };
}

class Settling {
  readonly begun = new Map<string, Promise<void>>();
  readonly settled: SettleReport["settled"][number][] = [];
  readonly crashed: string[] = [];
  readonly #context: SettleContext;
  readonly #leases: ReadonlyMap<string, LeaseRow>;

  constructor(context: SettleContext, leases: ReadonlyMap<string, LeaseRow>) {
    this.#context = context;
    this.#leases = leases;
  }

  begin(session: string): void {
    const { inProgress, attempt } = this.#context;
    const doing = `settling calls of session ${session}`;
    const end = attempt(doing, () => this.#settle(session), undefined).finally(() => {
      inProgress.delete(session);
    });
    // Rejects only if the store is closed, which the next sweep meets, too.
    end.catch(() => undefined);
    inProgress.set(session, end);
    this.begun.set(session, end);
  }

  async #settle(id: string): Promise<void> {
    const { journal, notBefore, unknownTools } = this.#context;
    const { state } = await journal.load(sessionKind, id);
    if (state.status === "cancelled") {
      if (undecidedCalls(state).length > 0) await (await this.#take(id))?.close();
      return;
    }
    const unsettled = openCallsOf(state).filter(({ status }) => status !== "waiting");
    const maySettle = ({ tool }: Call) => unknownTools === "ask" || isKnown(this.#context, tool);
    if (unsettled.length === 0 || !unsettled.every(maySettle)) return;
    const pause = notBefore.get(id);
    // `since` is in the future if the clock was set back: then the pause does not count.
    if (pause && pause.since <= journal.now() && journal.now() < pause.until) return;
    const isOrphan = await isOrphaned(journal, id, state);
    const why = isOrphan ? ORPHANED : isStale(state, journal.now()) ? STALE : null;
    // A retry that was granted long ago is left to the agent, after a person's look.
    if (why === STALE && unsettled.some(({ granted }) => granted)) return;
    const session = await this.#take(id);
    if (!session) return;
    const ids = await settleHeld(this.#context, session, why);
    const settled = unsettled.filter((call) => ids.includes(call.callId));
    this.#report(id, settled, (await journal.load(sessionKind, id)).state.calls);
  }

  #report(session: string, settled: readonly Call[], calls: ReadonlyMap<string, Call>): void {
    const { journal, notBefore, emit } = this.#context;
    for (const { callId, tool } of settled) {
      this.settled.push({ session, callId });
      const status = calls.get(callId)?.status ?? "settled";
      emit({ type: "call.settled", session, callId, tool, status });
    }
    const later = [...calls.values()].filter(({ status }) => status === "unknown");
    const since = journal.now();
    const waits = later.map((call) => (call.verify?.againAt == null ? AGAIN_MS : verifyDelayMs(call, since)));
    if (later.length > 0) notBefore.set(session, { since, until: since + Math.max(...waits) });
    else notBefore.delete(session);
  }

  async #take(id: string): Promise<Session | null> {
    const { journal, by, stop } = this.#context;
    try {
      const options = { label: by.name, ifHeld: "throw", stale: "use", signal: stop } as const;
      const session = await openSession(journal, id, options, () => undefined);
      if (await this.#recordCrash(session)) this.crashed.push(id);
      return session;
    } catch (error) {
      // Its agent is back, another supervisor has taken it, or this one is ending.
      const isTaken = isHoldfastError(error, "SESSION_HELD") || isHoldfastError(error, "LEASE_LOST");
      if (isTaken || stop.aborted) return null;
      throw error;
    }
  }

  async #recordCrash(session: Session): Promise<boolean> {
    try {
      const { lease } = sessionCore(session).own;
      return await recordCrash(this.#context, lease, this.#leases.get(lease.name));
    } catch (error) {
      await session.close();
      throw error;
    }
  }
}

async function openCallsIn(context: SettleContext, session: string): Promise<SettleReport["open"] | null> {
  const look = () => context.journal.load(sessionKind, session);
  const seen = await context.attempt(`looking at session ${session}`, look, null);
  if (!seen) return null;
  const open = openCallsOf(seen.state);
  return open.map((call) => ({ note: noteOf(context, session, call), attempt: call.attempt }));
}

async function settleHeld(
  context: SettleContext,
  session: Session,
  why: NoStartReason | null,
): Promise<readonly string[]> {
  const { tools, stop } = context;
  const onStop = (): void => {
    // Closing stops the settling below, which awaits the same promise and gets its errors.
    session.close().catch(() => undefined);
  };
  stop.addEventListener("abort", onStop, { once: true });
  try {
    if (why !== null) return await settleByVerifyOnly(session, tools, why);
    return (await session.settle(tools)).settled;
  } catch (error) {
    const isEnd =
      stop.aborted || isHoldfastError(error, "LEASE_LOST") || isHoldfastError(error, "SESSION_ENDED");
    if (!isEnd) throw error;
    return [];
  } finally {
    stop.removeEventListener("abort", onStop);
    await session.close();
  }
}

function isKnown({ tools }: SettleContext, name: string): boolean {
  return tools.some((tool) => tool.name === name);
}

function noteOf(context: SettleContext, session: string, call: Call): OpenCallNote {
  const { callId, tool, status, why } = call;
  const person = status === "waiting";
  const reason =
    isKnown(context, tool) || person
      ? (why ?? "its outcome is unknown")
      : `no tool ${tool} here: its agent settles it`;
  return { session, callId, tool, person, why: reason };
}

// ---- Sessions in which nothing may be started
//
// A supervisor may find out what happened in them. Everything else waits for a person.
//
//     stale       past its time to live: its own agent is refused, too, until a person has read it
//     orphaned    a sub-agent whose call has an outcome already: its parent may have had the work done again

type NoStartReason = typeof STALE | typeof ORPHANED;

const STALE = "its session is past its time to live";
const ORPHANED = "the call that its session works for has an outcome already";

/** A takeover is no activity: a supervisor that dies after one would make the session young again. */
function isStale(state: SessionState, now: number): boolean {
  if (state.ttlMs === null) return false;
  const hasGrant = openCallsOf(state).some(({ granted }) => granted);
  const since = hasGrant ? state.updatedAt : Math.min(state.updatedAt, lastActivity(state));
  return now - since > state.ttlMs;
}

function lastActivity({ createdAt, messages, prompts, calls, checkpoints }: SessionState): number {
  const message = messages.at(-1);
  let last = Math.max(createdAt, message ? Date.parse(message.createdAt) : 0, prompts.at(-1)?.at ?? 0);
  for (const { issuedAt, settledAt } of calls.values()) last = Math.max(last, issuedAt, settledAt ?? 0);
  for (const { at } of checkpoints.values()) last = Math.max(last, at);
  return last;
}

async function settleByVerifyOnly(
  session: Session,
  tools: readonly Tool[],
  why: NoStartReason,
): Promise<readonly string[]> {
  // Calls that never started wait for a person: settling would simply start them.
  await sessionCore(session).writeEvents((state) => {
    const unstarted = openCallsOf(state).filter(
      ({ status, doubt, granted }) => status === "unknown" && doubt === null && !(granted && why === STALE),
    );
    return escalateToPerson(unstarted, `it has not begun, and ${why}`);
  });
  const verifying = tools.map((tool) => verifyOnly(tool, why));
  return (await session.settle(verifying, ({ status, granted }) => status !== "waiting" && !granted)).settled;
}

/** The tool with `verify` only: it cannot run again, and asks a person if `verify` does not say `landed`. */
function verifyOnly(tool: Tool, why: NoStartReason): Tool {
  const verify = async (...asked: Parameters<NonNullable<Tool["verify"]>>): Promise<Verdict<unknown>> => {
    try {
      const verdict = await tool.verify?.(...asked);
      return verdict?.answer === "landed" ? verdict : unsure(`verify says ${verdict?.answer}, and ${why}`);
    } catch (error) {
      return unsure(`verify failed: ${(error as Error)?.message ?? error}; and ${why}`);
    }
  };
  // Inherits from the tool instead of copying its fields: the tool may be an instance of a class.
  const overrides = { idempotent: undefined, interrupted: "ask", ...(tool.verify && { verify }) };
  return Object.assign(Object.create(tool) as Tool, overrides);
}
