/**
 * One look at everything: sessions, then goals, then calls.
 *
 * Sessions come first, so that a crash is recorded with what its lease tells before the session's tasks go back. Each
 * finding is handled by itself: what goes wrong with one goal or session is reported, and the others are still looked
 * at. Nothing is kept between two looks but what was already told, so a supervisor that starts anew loses nothing.
 */

import { hostname } from "node:os";
import { type Goal, goalCore, type LostClaim, openGoal, resetLostClaims } from "../goal/index.ts";
import { allRows, type Journal, Lease } from "../journal/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import { type Actor, blockedTasks, type HistoryEntry } from "../model/goal/index.ts";
import { streamId, streamName } from "../model/names.ts";
import { exactAge } from "../model/time.ts";
import type { LeaseRow } from "../store.ts";
import { type CrashPlace, isLive, leasesUnder, markCrashedSessions } from "./crashed-sessions.ts";
import {
  type OpenCallNote,
  type SettlePlace,
  type SettleReport,
  settleInterrupted,
} from "./interrupted-calls.ts";
import { Notices, type SupervisorEvent } from "./notices.ts";
import { DEFAULTS, type SweepOptions } from "./options.ts";
import type { Try, Work } from "./worker-kind.ts";

/**
 * One look at a goal: tasks whose holder is gone or stuck go back, runs and sessions that are only known to the goal
 * and gave no sign are marked as crashed, and what is ready or stopped is reported.
 *
 * Every change is one commit, guarded by the lease of what it is about or decided on the state as it then is, so a
 * crash between two of them leaves the rest for the next look, and two supervisors write nothing twice.
 */

interface GoalPlace {
  readonly journal: Journal;
  readonly by: Actor;
  readonly staleAfterMs: number;
  tell(event: SupervisorEvent): void;
}

interface GoalReport {
  readonly reset: readonly (LostClaim & { readonly goal: string })[];
  readonly ready: readonly Work[];
  /** Set when nothing can move before a person helps. */
  readonly stopped: string | null;
  readonly blocked: ReadonlySet<string>;
}

async function sweepGoal(
  place: GoalPlace,
  goal: Goal,
  sessions: ReadonlyMap<string, LeaseRow>,
): Promise<GoalReport> {
  await goal.refresh();
  const living = await livingSessions(place, goal, sessions);
  const lost = await resetLostClaims(goal, place.by, { staleAfterMs: place.staleAfterMs, living });
  for (const each of lost) place.tell({ type: "task.reset", goal: goal.id, ...each });
  await markSilent(place, goal, sessions);
  const next = await goal.next();
  return {
    reset: lost.map((each) => ({ goal: goal.id, ...each })),
    ready: next.tasks.map(({ id }) => ({ kind: "task", goal: goal.id, task: id })),
    stopped: next.outlook === "blocked" || next.outlook === "stuck" ? next.why : null,
    blocked: new Set(blockedTasks(goal.state).keys()),
  };
}

/** Of those that hold tasks: who still has their own session, and when they last wrote to it. */
async function livingSessions(
  { journal }: GoalPlace,
  goal: Goal,
  sessions: ReadonlyMap<string, LeaseRow>,
): Promise<Map<string, number>> {
  const living = new Map<string, number>();
  for (const { claim } of goal.state.tasks.values()) {
    const stream = claim?.session ? sessionStream(claim.session) : null;
    if (!claim?.session || !stream || !(await isLiveNow(journal, sessions, stream))) continue;
    living.set(claim.session, (await journal.row(stream)).updatedAt);
  }
  return living;
}

/** The leases were listed when the sweep began: who is not among the living by then may have come since. */
async function isLiveNow(
  journal: Journal,
  listed: ReadonlyMap<string, LeaseRow>,
  stream: string,
): Promise<boolean> {
  return isLive(listed.get(stream)) || isLive((await journal.leases.find(stream)) ?? undefined);
}

/** The name that an agent gave itself need not be one that a session can have. */
function sessionStream(session: string): string | null {
  try {
    return streamName("session", session);
  } catch {
    // No stream can have this name, so no lease has it.
    return null;
  }
}

/** Entries that say active, hold no task, and whose own session or run is not alive. */
async function markSilent(
  place: GoalPlace,
  goal: Goal,
  sessions: ReadonlyMap<string, LeaseRow>,
): Promise<void> {
  const busy = new Set([...goal.state.tasks.values()].map(({ claim }) => claim?.session));
  const active = [...goal.state.history.values()].filter(
    ({ status, id }) => status === "active" && !busy.has(id),
  );
  if (active.length === 0) return;
  const own = await leasesUnder(place.journal, `goal/${goal.id}/`);
  for (const entry of active) {
    const run = own.get(`goal/${goal.id}/${entry.id}`);
    const stream = sessionStream(entry.id);
    if (stream !== null && (await isLiveNow(place.journal, sessions, stream))) continue;
    if (run) await markDeadRun(place, goal, entry, run);
    else await markStale(place, goal, entry);
  }
}

async function markDeadRun(place: GoalPlace, goal: Goal, entry: HistoryEntry, run: LeaseRow): Promise<void> {
  if (isLive(run)) return;
  const { journal, by } = place;
  const lease = await journal.leases.take(run.name, journal.newId(), { label: by.name, waitMs: 0 });
  if (!(lease instanceof Lease)) return;
  try {
    await crash(place, goal, entry, "its run ended without a word");
  } finally {
    await lease.release();
  }
}

async function markStale(place: GoalPlace, goal: Goal, entry: HistoryEntry): Promise<void> {
  const idleMs = place.journal.now() - (await changedAt(goal, entry));
  if (idleMs < place.staleAfterMs) return;
  await crash(place, goal, entry, `no sign of it for ${exactAge(idleMs)}`);
}

async function changedAt(goal: Goal, { revision, startedAt }: HistoryEntry): Promise<number> {
  for await (const [seq, { at }] of goal.events(revision - 1)) {
    if (seq === revision) return at;
  }
  return startedAt;
}

async function crash(place: GoalPlace, goal: Goal, { id }: HistoryEntry, why: string): Promise<void> {
  const notes = `Agent unresponsive: ${why}`;
  const wrote = await goalCore(goal).commit(place.by, (state) => {
    if (state.history.get(id)?.status !== "active") return { events: [], result: false };
    return {
      events: [{ type: "session.crashed", data: { by: place.by, session: id, notes } }],
      result: true,
    };
  });
  if (wrote) place.tell({ type: "session.crashed", session: id, goal: goal.id, why });
}

/** What one look at everything came to. */
export interface SweepReport {
  /** Sessions that this sweep found dead. */
  readonly crashed: readonly string[];
  /** Tasks that this sweep put back. */
  readonly reset: GoalReport["reset"];
  /** Calls that this sweep found the outcome of. */
  readonly settled: SettleReport["settled"];
  /** Calls that are still without an outcome in sessions that nobody holds; `person`: they wait for an answer. */
  readonly open: readonly OpenCallNote[];
  /** Tasks that could be claimed now. */
  readonly ready: readonly Work[];
  /** What could not be looked at or handled, and why. */
  readonly errors: readonly { readonly doing: string; readonly error: unknown }[];
}

const PATIENCE_MS = 1_000;

export class Sweeper {
  readonly by: Actor;
  readonly journal: Journal;
  readonly notices: Notices;
  readonly #options: SweepOptions;
  readonly #goals = new Map<string, Goal>();
  readonly #notBefore: SettlePlace["notBefore"] = new Map();
  readonly #unmarked: CrashPlace["unmarked"] = new Map();
  readonly #told = new Set<string>();
  /** Calls that were told of as open, by what was told, with their session. */
  readonly #toldCalls = new Map<string, string>();
  readonly #settling: SettlePlace["underWay"] = new Map();
  readonly #ending = new AbortController();
  readonly #stop: AbortSignal;
  #patienceMs: number | null = null;
  #onLate: () => void = () => undefined;
  readonly #blocked = new Map<string, ReadonlySet<string>>();
  readonly #want: CrashPlace["want"];

  constructor(journal: Journal, options: SweepOptions, want: CrashPlace["want"] = async () => undefined) {
    this.journal = journal;
    this.#options = options;
    this.#want = want;
    this.by = {
      name: (options.name ?? `supervisor ${hostname()} ${process.pid}`).slice(0, 128),
      role: "supervisor",
    };
    this.notices = new Notices(options, journal.warn);
    this.#stop = AbortSignal.any([this.#ending.signal, ...(options.signal ? [options.signal] : [])]);
  }

  /** For one who looks again and again: a look waits a moment for calls to be settled, and `onLate` tells when more are. */
  settleBeside(onLate: () => void): void {
    this.#patienceMs = PATIENCE_MS;
    this.#onLate = onLate;
  }

  isSettling(session: string): boolean {
    return this.#settling.has(session);
  }

  /** Stops what goes on beside the looks, and waits for that. */
  async end(): Promise<void> {
    this.#ending.abort();
    await Promise.allSettled(this.#settling.values());
  }

  async sweep(): Promise<SweepReport> {
    const errors: SweepReport["errors"][number][] = [];
    const attempt: Try = async (doing, act, none) => {
      if (this.#stop.aborted) return none;
      try {
        const result = await act();
        this.worksAgain(doing);
        return result;
      } catch (error) {
        if (isHoldfastError(error, "STORE_CLOSED")) throw error;
        errors.push({ doing, error });
        this.tellError(doing, error);
        return none;
      }
    };
    const place = {
      journal: this.journal,
      by: this.by,
      tell: (event: SupervisorEvent) => this.tell(event),
      attempt,
      unmarked: this.#unmarked,
      want: this.#want,
      goal: (id: string) => this.goal(id),
    };
    const leases = await leasesUnder(this.journal, "session/");
    const crashed = await attempt("marking crashed sessions", () => markCrashedSessions(place, leases), []);
    const reset: GoalReport["reset"][number][] = [];
    const ready: Work[] = [];
    for (const id of await this.#goalIds()) {
      const report = await attempt(`looking at goal ${id}`, () => this.#sweepGoal(id, leases), null);
      reset.push(...(report?.reset ?? []));
      ready.push(...(report?.ready ?? []));
    }
    const calls = await attempt("settling calls", () => this.#settle(leases, place), null);
    if (calls) this.#tellOpen(calls);
    return {
      crashed: [...crashed, ...(calls?.crashed ?? [])],
      reset,
      ready,
      errors,
      settled: calls?.settled ?? [],
      open: calls?.open.map(({ note }) => note) ?? [],
    };
  }

  tell(event: SupervisorEvent): void {
    this.notices.tell(event);
  }

  /** Of the same trouble once, until it is over. */
  tellError(doing: string, error: unknown): void {
    this.#once(`error ${doing}`, doing, () => this.tell({ type: "error", doing, error }));
  }

  worksAgain(doing: string): void {
    this.#told.delete(`error ${doing}`);
  }

  /** A handle that is kept: looking again costs what has changed. Null when there is no such goal. */
  async goal(id: string): Promise<Goal | null> {
    const known = this.#goals.get(id);
    if (known) {
      await known.refresh();
      if (known.state.id !== "") return known;
      this.#goals.delete(id);
    }
    try {
      const goal = await openGoal(this.journal, id, { by: this.by, stale: "use" });
      this.#goals.set(id, goal);
      return goal;
    } catch (error) {
      if (isHoldfastError(error, "GOAL_NOT_FOUND") || isHoldfastError(error, "NAME_INVALID")) return null;
      throw error;
    }
  }

  async #goalIds(): Promise<string[]> {
    const goals = await allRows((from) =>
      this.journal.list<"streams">({ of: "streams", kind: "goal", limit: 200, ...from }),
    );
    const unfinished = goals.filter(({ facets }) => facets.status !== "done");
    return unfinished.map(({ stream }) => streamId(stream));
  }

  async #sweepGoal(id: string, leases: Parameters<typeof sweepGoal>[2]): Promise<GoalReport | null> {
    const goal = await this.goal(id);
    if (!goal) return null;
    const staleAfterMs = this.#options.staleAfterMs ?? DEFAULTS.staleAfterMs;
    const tell = (event: SupervisorEvent): void => this.tell(event);
    const report = await sweepGoal({ journal: this.journal, by: this.by, staleAfterMs, tell }, goal, leases);
    const woken = [...(this.#blocked.get(id) ?? [])].filter((task) => !report.blocked.has(task));
    this.#blocked.set(id, report.blocked);
    if (woken.length > 0) this.tell({ type: "task.unblocked", goal: id, tasks: woken });
    const { stopped } = report;
    this.#once(`goal ${id}`, stopped, (why) => this.tell({ type: "goal.blocked", goal: id, why }));
    return report;
  }

  #settle(leases: Parameters<typeof settleInterrupted>[1], place: CrashPlace): Promise<SettleReport> {
    const settlePlace: SettlePlace = {
      ...place,
      label: this.by.name,
      tools: this.#options.tools ?? [],
      unknownTools: this.#options.unknownTools ?? "leave",
      stop: this.#stop,
      notBefore: this.#notBefore,
      underWay: this.#settling,
      patienceMs: this.#patienceMs,
      onLate: this.#onLate,
    };
    return settleInterrupted(settlePlace, leases);
  }

  /** One that waits for a person is told of once for each attempt; one that was over in between is told of again. */
  #tellOpen({ open, unseen }: SettleReport): void {
    const now = new Map<string, string>();
    for (const { note, attempt } of open) {
      const about = JSON.stringify([note.session, note.callId, note.person, note.person ? attempt : 0]);
      now.set(about, note.session);
      if (!this.#toldCalls.has(about)) this.tell({ type: "call.open", ...note });
    }
    for (const [about, session] of this.#toldCalls) if (!unseen.has(session)) this.#toldCalls.delete(about);
    for (const [about, session] of now) this.#toldCalls.set(about, session);
  }

  /** Tells of a state when it begins, not at every look. `why` null: it is over. */
  #once(about: string, why: string | null, tell: (why: string) => void): void {
    if (why === null) this.#told.delete(about);
    if (why === null || this.#told.has(about)) return;
    this.#told.add(about);
    tell(why);
  }
}
