/**
 * Calls without an outcome in sessions that nobody holds.
 *
 *     waits for a person ──▶ listed
 *     its tool is not known here ──▶ listed, and the session left to its agent; or, if so told, put before a person
 *     all tools of the session's open calls are known here ──▶ open it like any owner, settle, close
 *
 * What settles is the ledger: verify before retry, each step one commit under the lease. A supervisor that dies in the
 * middle leaves what any owner leaves: a lease that runs out, and calls with what was learnt so far.
 *
 * A call that must be asked again later is left alone until then: every take-over begins its `settleMs` anew.
 */

import { allRows, type Journal } from "../journal/index.ts";
import type { Tool } from "../ledger/index.ts";
import { type Call, isHoldfastError, openCallsOf, sessionKind, streamId } from "../model/index.ts";
import { openSession, type Session } from "../session/index.ts";
import type { LeaseRow } from "../store.ts";
import { isLive } from "./leases.ts";
import type { SupervisorEvent } from "./notices.ts";
import type { Try } from "./work.ts";

/** A call without an outcome in a session that nobody holds. */
export interface OpenCallNote {
  readonly session: string;
  readonly callId: string;
  readonly tool: string;
  /** True when a person has to answer; false when its agent, or a later look, finds out. */
  readonly person: boolean;
  readonly why: string;
}

export interface SettlePlace {
  readonly journal: Journal;
  readonly label: string;
  readonly tools: readonly Tool[];
  readonly unknownTools: "leave" | "ask";
  readonly stop: AbortSignal;
  /** Wall clock before which a session is not asked again. Kept over sweeps. */
  readonly notBefore: Map<string, number>;
  tell(event: SupervisorEvent): void;
  readonly attempt: Try;
}

export interface SettleReport {
  readonly settled: readonly { readonly session: string; readonly callId: string }[];
  readonly open: readonly OpenCallNote[];
}

const AGAIN_MS = 30_000;
const PAGE = 200;

export async function settleInterrupted(
  place: SettlePlace,
  leases: ReadonlyMap<string, LeaseRow>,
): Promise<SettleReport> {
  const report = { settled: [] as SettleReport["settled"][number][], open: [] as OpenCallNote[] };
  for (const stream of await sessionsWithOpenCalls(place.journal)) {
    if (place.stop.aborted) break;
    if (isLive(leases.get(stream))) continue;
    const session = streamId(stream);
    const doing = `settling calls of session ${session}`;
    report.settled.push(...(await place.attempt(doing, () => settleSession(place, session), [])));
    const look = () => place.journal.load(sessionKind, session);
    const seen = await place.attempt(`looking at session ${session}`, look, null);
    const open = seen ? openCallsOf(seen.state) : [];
    report.open.push(...open.map((call) => noteOf(place, session, call)));
  }
  return report;
}

/** Settling changes what is listed, so the list is read to its end first. */
async function sessionsWithOpenCalls(journal: Journal): Promise<string[]> {
  const asked = { of: "streams", kind: "session", openCalls: true, limit: PAGE } as const;
  const rows = await allRows((from) => journal.list<"streams">({ ...asked, ...from }));
  return rows.map(({ stream }) => stream);
}

async function settleSession(place: SettlePlace, id: string): Promise<{ session: string; callId: string }[]> {
  const { journal, notBefore } = place;
  const { state } = await journal.load(sessionKind, id);
  const unsettled = openCallsOf(state).filter(({ status }) => status !== "waiting");
  const isOurs = unsettled.every(({ tool }) => place.unknownTools === "ask" || isKnown(place, tool));
  if (unsettled.length > 0 && state.status === "cancelled") await (await take(place, id))?.close();
  if (unsettled.length === 0 || !isOurs || state.status === "cancelled") return [];
  if ((notBefore.get(id) ?? 0) > journal.now()) return [];
  const session = await take(place, id);
  if (!session) return [];
  const settled = await settleHeld(place, session);
  const after = unsettled.filter(({ id: callId }) => settled.includes(callId));
  const calls = (await journal.load(sessionKind, id)).state.calls;
  for (const { id: callId, tool } of after) {
    place.tell({
      type: "call.settled",
      session: id,
      callId,
      tool,
      status: calls.get(callId)?.status ?? "settled",
    });
  }
  const later = [...calls.values()].filter(({ status }) => status === "unknown");
  const dueAt = Math.max(...later.map(({ verify }) => verify?.againAt ?? journal.now() + AGAIN_MS));
  if (later.length > 0) notBefore.set(id, dueAt);
  else notBefore.delete(id);
  return after.map(({ id: callId }) => ({ session: id, callId }));
}

async function take({ journal, label, stop }: SettlePlace, id: string): Promise<Session | null> {
  try {
    const options = { label, ifHeld: "throw", stale: "use", signal: stop } as const;
    return await openSession(journal, id, options, () => undefined);
  } catch (error) {
    // Its agent is back, or another supervisor is at it.
    if (isHoldfastError(error, "SESSION_HELD") || isHoldfastError(error, "LEASE_LOST")) return null;
    throw error;
  }
}

async function settleHeld({ tools, stop }: SettlePlace, session: Session): Promise<string[]> {
  const close = (): void => {
    // Closing stops the settling, which waits for it; what goes wrong shows there.
    session.close().catch(() => undefined);
  };
  stop.addEventListener("abort", close, { once: true });
  try {
    return (await session.settle(tools)).settled;
  } catch (error) {
    const isEnd =
      stop.aborted || isHoldfastError(error, "LEASE_LOST") || isHoldfastError(error, "SESSION_ENDED");
    if (!isEnd) throw error;
    return [];
  } finally {
    stop.removeEventListener("abort", close);
    await session.close();
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
