/**
 * One sweep over everything: sessions, then goals, then calls.
 *
 * Sessions come first, so that a crash is recorded with what its lease shows before the session's tasks are
 * reset. An error in one goal or session is reported, and the others are still handled. Between sweeps only
 * memories of what was reported are kept, so a supervisor that restarts loses nothing.
 */

import { hostname } from "node:os";
import { type Goal, goalCore, type LostClaim, openGoal, resetLostClaims } from "../goal/index.ts";
import { allRows, type Journal, Lease } from "../journal/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import { type Actor, blockedTasks, type HistoryEntry } from "../model/goal/index.ts";
import { streamId, streamName } from "../model/names.ts";
import { exactAge } from "../model/time.ts";
import type { LeaseRow } from "../store.ts";
import { type CrashContext, isLive, leasesUnder, markCrashedSessions } from "./crashed-sessions.ts";
import { type SettleContext, type SettleReport, settleInterrupted } from "./interrupted-calls.ts";
import { Notices, type OpenCallNote, type SupervisorEvent } from "./notices.ts";
import { DEFAULTS, type SweepOptions } from "./options.ts";
import { wantPrompted } from "./wanted-sessions.ts";
import type { Attempt, Work } from "./worker-kind.ts";

/** The result of one sweep, `holdfast.superviseOnce()`. */
export interface SweepReport {
  readonly crashed: readonly string[];
  readonly reset: GoalReport["reset"];
  readonly settled: SettleReport["settled"];
  /** In sessions without an owner. `person`: the call waits for an answer. */
  readonly open: readonly OpenCallNote[];
  readonly ready: readonly Work[];
  readonly errors: readonly { readonly doing: string; readonly error: unknown }[];
}

const PATIENCE_MS = 1_000;

export class Sweeper {
  readonly by: Actor;
  readonly journal: Journal;
  readonly notices: Notices;
  readonly #options: SweepOptions;
  readonly #goals = new Map<string, Goal>();
  readonly #notBefore: SettleContext["notBefore"] = new Map();
  readonly #unmarked: CrashContext["unmarked"] = new Map();
  readonly #reported = new Set<string>();
  readonly #reportedCalls = new Map<string, string>();
  readonly #settling: SettleContext["inProgress"] = new Map();
  readonly #ending = new AbortController();
  readonly #stop: AbortSignal;
  #patienceMs: number | null = null;
  #onLate: () => void = () => undefined;
  readonly #blocked = new Map<string, ReadonlySet<string>>();
  readonly #want: CrashContext["want"];

  constructor(journal: Journal, options: SweepOptions, want: CrashContext["want"] = async () => undefined) {
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

  /** For repeated sweeps: settling goes on in the background. `onLate` is called at its end. */
  settleInBackground(onLate: () => void): void {
    this.#patienceMs = PATIENCE_MS;
    this.#onLate = onLate;
  }

  isSettling(session: string): boolean {
    return this.#settling.has(session);
  }

  async end(): Promise<void> {
    this.#ending.abort();
    await Promise.allSettled(this.#settling.values());
  }

  async sweep(): Promise<SweepReport> {
    const errors: SweepReport["errors"][number][] = [];
    const attempt: Attempt = async (doing, act, fallback) =>
      this.#stop.aborted ? fallback : this.attempt(doing, act, fallback, errors);
    const context = {
      journal: this.journal,
      by: this.by,
      emit: (event: SupervisorEvent) => this.emit(event),
      attempt,
      unmarked: this.#unmarked,
      want: this.#want,
      goal: (id: string) => this.goal(id),
    };
    const leases = await leasesUnder(this.journal, "session/");
    const crashed = await attempt("marking crashed sessions", () => markCrashedSessions(context, leases), []);
    await attempt("looking for queued prompts", () => wantPrompted(this.journal, leases), undefined);
    const reset: GoalReport["reset"][number][] = [];
    const ready: Work[] = [];
    for (const id of await this.#goalIds()) {
      const report = await attempt(`looking at goal ${id}`, () => this.#sweepGoal(id, leases), null);
      reset.push(...(report?.reset ?? []));
      ready.push(...(report?.ready ?? []));
    }
    const calls = await attempt("settling calls", () => this.#settle(leases, context), null);
    if (calls) this.#reportOpen(calls);
    return {
      crashed: [...crashed, ...(calls?.crashed ?? [])],
      reset,
      ready,
      errors,
      settled: calls?.settled ?? [],
      open: calls?.open.map(({ note }) => note) ?? [],
    };
  }

  /** Reports an error, so that other acts still run. */
  async attempt<T>(
    doing: string,
    act: () => Promise<T>,
    fallback: T,
    errors: SweepReport["errors"][number][] = [],
  ): Promise<T> {
    try {
      const result = await act();
      this.clearError(doing);
      return result;
    } catch (error) {
      if (isHoldfastError(error, "STORE_CLOSED")) throw error;
      errors.push({ doing, error });
      this.emitError(doing, error);
      return fallback;
    }
  }

  emit(event: SupervisorEvent): void {
    this.notices.emit(event);
  }

  emitError(doing: string, error: unknown): void {
    this.#once(`error ${doing}`, doing, () => this.emit({ type: "error", doing, error }));
  }

  clearError(doing: string): void {
    this.#reported.delete(`error ${doing}`);
  }

  /** Returns a cached handle, so that a sweep reads only changes. Null if there is no such goal. */
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

  async #sweepGoal(id: string, leases: Leases): Promise<GoalReport | null> {
    const goal = await this.goal(id);
    if (!goal) return null;
    const staleAfterMs = this.#options.staleAfterMs ?? DEFAULTS.staleAfterMs;
    const emit = (event: SupervisorEvent): void => this.emit(event);
    const report = await sweepGoal({ journal: this.journal, by: this.by, staleAfterMs, emit }, goal, leases);
    const unblocked = [...(this.#blocked.get(id) ?? [])].filter((task) => !report.blocked.has(task));
    this.#blocked.set(id, report.blocked);
    if (unblocked.length > 0) this.emit({ type: "task.unblocked", goal: id, tasks: unblocked });
    const { stopped } = report;
    this.#once(`goal ${id}`, stopped, (why) => this.emit({ type: "goal.blocked", goal: id, why }));
    return report;
  }

  #settle(leases: Leases, context: CrashContext): Promise<SettleReport> {
    const { tools = [], unknownTools = "leave" } = this.#options;
    const settleContext: SettleContext = {
      ...context,
      tools,
      unknownTools,
      stop: this.#stop,
      notBefore: this.#notBefore,
      inProgress: this.#settling,
      patienceMs: this.#patienceMs,
      onLate: this.#onLate,
    };
    return settleInterrupted(settleContext, leases);
  }

  /** Reports a call that waits for a person once per attempt, and again if it was settled in between. */
  #reportOpen({ open, unseen }: SettleReport): void {
    const current = new Map<string, string>();
    for (const { note, attempt } of open) {
      const about = JSON.stringify([note.session, note.callId, note.person, note.person ? attempt : 0]);
      current.set(about, note.session);
      if (!this.#reportedCalls.has(about)) this.emit({ type: "call.open", ...note });
    }
    for (const [about, session] of this.#reportedCalls)
      if (!unseen.has(session)) this.#reportedCalls.delete(about);
    for (const [about, session] of current) this.#reportedCalls.set(about, session);
  }

  /** Reports a state when it begins, not at every sweep. `why` is null when it is over. */
  #once(about: string, why: string | null, report: (why: string) => void): void {
    if (why === null) this.#reported.delete(about);
    if (why === null || this.#reported.has(about)) return;
    this.#reported.add(about);
    report(why);
  }
}

// ---- Goals
//
// Every change is one commit, guarded by a lease or decided on the state it is applied to. A crash between
// two of them leaves the rest to the next sweep, and two supervisors write nothing twice.

interface GoalContext extends Pick<CrashContext, "journal" | "by" | "emit"> {
  readonly staleAfterMs: number;
}

interface GoalReport {
  readonly reset: readonly (LostClaim & { readonly goal: string })[];
  readonly ready: readonly Work[];
  readonly stopped: string | null;
  readonly blocked: ReadonlySet<string>;
}

type Leases = ReadonlyMap<string, LeaseRow>;

async function sweepGoal(context: GoalContext, goal: Goal, sessions: Leases): Promise<GoalReport> {
  await goal.refresh();
  const living = await livingSessions(context, goal, sessions);
  const lost = await resetLostClaims(goal, context.by, { staleAfterMs: context.staleAfterMs, living });
  for (const each of lost) context.emit({ type: "task.reset", goal: goal.id, ...each });
  await markSilent(context, goal, sessions);
  const next = await goal.next();
  return {
    reset: lost.map((each) => ({ goal: goal.id, ...each })),
    ready: next.tasks.map(({ id }) => ({ kind: "task", goal: goal.id, task: id })),
    stopped: next.outlook === "blocked" || next.outlook === "stuck" ? next.why : null,
    blocked: new Set(blockedTasks(goal.state).keys()),
  };
}

async function livingSessions({ journal }: GoalContext, goal: Goal, sessions: Leases) {
  const living = new Map<string, number>();
  for (const { claim } of goal.state.tasks.values()) {
    const stream = claim?.session ? sessionStream(claim.session) : null;
    if (!claim?.session || !stream || !(await isLiveNow(journal, sessions, stream))) continue;
    living.set(claim.session, (await journal.row(stream)).updatedAt);
  }
  return living;
}

/** Looks again if the lease was not live when the sweep listed it: a process may have come since. */
async function isLiveNow(journal: Journal, listed: Leases, stream: string): Promise<boolean> {
  return isLive(listed.get(stream)) || isLive((await journal.leases.find(stream)) ?? undefined);
}

/** Null if an agent's self-given name is not valid for a session. */
function sessionStream(session: string): string | null {
  try {
    return streamName("session", session);
  } catch {
    return null;
  }
}

/** Marks active entries that hold no task and whose session or run is not alive. */
async function markSilent(context: GoalContext, goal: Goal, sessions: Leases): Promise<void> {
  const busy = new Set([...goal.state.tasks.values()].map(({ claim }) => claim?.session));
  const entries = [...goal.state.history.values()];
  const active = entries.filter(({ status, id }) => status === "active" && !busy.has(id));
  if (active.length === 0) return;
  const own = await leasesUnder(context.journal, `goal/${goal.id}/`);
  for (const entry of active) {
    const run = own.get(`goal/${goal.id}/${entry.id}`);
    const stream = sessionStream(entry.id);
    if (stream !== null && (await isLiveNow(context.journal, sessions, stream))) continue;
    if (run) await markDeadRun(context, goal, entry, run);
    else await markStale(context, goal, entry);
  }
}

async function markDeadRun(context: GoalContext, goal: Goal, entry: HistoryEntry, run: LeaseRow) {
  if (isLive(run)) return;
  const { journal, by } = context;
  const lease = await journal.leases.take(run.name, journal.newId(), { label: by.name, waitMs: 0 });
  if (!(lease instanceof Lease)) return;
  try {
    await recordSilentCrash(context, goal, entry, "its run ended without a word");
  } finally {
    await lease.release();
  }
}

async function markStale(context: GoalContext, goal: Goal, entry: HistoryEntry): Promise<void> {
  const idleMs = context.journal.now() - (await changedAt(goal, entry));
  if (idleMs < context.staleAfterMs) return;
  await recordSilentCrash(context, goal, entry, `no sign of it for ${exactAge(idleMs)}`);
}

async function changedAt(goal: Goal, { revision, startedAt }: HistoryEntry): Promise<number> {
  for await (const [seq, { at }] of goal.events(revision - 1)) {
    if (seq === revision) return at;
  }
  return startedAt;
}

async function recordSilentCrash(context: GoalContext, goal: Goal, { id }: HistoryEntry, why: string) {
  const { by } = context;
  const notes = `Agent unresponsive: ${why}`;
  const wrote = await goalCore(goal).commit(by, (state) => {
    if (state.history.get(id)?.status !== "active") return { events: [], result: false };
    return { events: [{ type: "session.crashed", data: { by, session: id, notes } }], result: true };
  });
  if (wrote) context.emit({ type: "session.crashed", session: id, goal: goal.id, why });
}
