/**
 * Workers for what is ready, started and watched.
 *
 *     take the lease of the work ──▶ look at it again ──▶ `started`, durable ──▶ start the process ──▶ it ends
 *       ──▶ `ended`, durable, with how ──▶ release
 *
 * The lease keeps two supervisors from starting two workers for one thing; should it fail to (a supervisor that was
 * stopped for long), the claim of the task and the lease of the session still let only one of the two work.
 *
 * What a dead supervisor leaves: before `started`, a lease that runs out. After it, a stream that says `running`; the
 * next supervisor counts that as a death, because whatever kills supervisors together with their workers must also
 * come to an end. Between the end of the process and `ended`, the same.
 *
 * A worker that ends well without having changed its task counts as dead, too: it would be started for ever. So does one
 * that leaves its session as a crash does, or with calls that it could have settled and nothing new. One that leaves calls to
 * a person has done well, its own calls or those of a sub-agent or another session that it waits for; the session, or the
 * task that it works for, gets the next worker when they are answered.
 */

import type { ChildProcess } from "node:child_process";
import { type Goal, goalCore, noteActs } from "../goal/index.ts";
import { allRows, type Journal, Lease, OwnedLog } from "../journal/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { streamId, streamName } from "../model/names.ts";
import type { Call } from "../model/session/index.ts";
import { blockedOn, sessionLeftToPerson } from "./blocked-on.ts";
import { isAbandoned } from "./crashed-sessions.ts";
import { DEFAULTS, type SuperviseOptions, type WorkerCommand } from "./options.ts";
import type { Sweeper } from "./sweep.ts";
import { outlookOf, SessionNews, whatIsLeft } from "./wanted-sessions.ts";
import {
  titleOf,
  type Work,
  type WorkerDraft,
  type WorkerState,
  workerId,
  workerKind,
} from "./worker-kind.ts";

const STDERR = 2;

/** How a process ended: null when it ended well, else what a person should read. */
interface Ended {
  readonly failure: string | null;
}

/** A started worker: a process group of its own, so that what it has started stops with it. */
class WorkerProcess {
  readonly pid: number | null;
  readonly ended: Promise<Ended>;
  #isOver = false;

  constructor(work: Work, { command, cwd, env, output = "inherit" }: WorkerCommand) {
    const [program = "", ...args] = command;
    const { spawn } = process.getBuiltinModule("node:child_process");
    let child: ChildProcess;
    try {
      child = spawn(program, args, {
        stdio: output === "stderr" ? ["ignore", STDERR, STDERR] : ["ignore", output, output],
        detached: process.platform !== "win32",
        env: { ...process.env, ...environment(work), ...env },
        ...(cwd !== undefined && { cwd }),
      });
    } catch (error) {
      // No program, or a text that no system takes: Node says that at once, and everything else later.
      this.pid = null;
      this.ended = Promise.resolve({ failure: notStarted(error as Error) });
      return;
    }
    this.pid = child.pid ?? null;
    this.ended = new Promise((resolve) => {
      const end = (failure: string | null): void => {
        this.#isOver = true;
        resolve({ failure });
      };
      child.on("error", (error) => end(notStarted(error)));
      child.on("exit", (code, signal) =>
        end(code === 0 ? null : `it ended with ${signal ?? `exit code ${code}`}`),
      );
    });
  }

  signal(signal: NodeJS.Signals): void {
    if (this.#isOver || this.pid === null) return;
    try {
      process.kill(process.platform === "win32" ? this.pid : -this.pid, signal);
    } catch (error) {
      // It has just ended.
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
}

function notStarted(error: Error): string {
  return `it could not be started: ${error.message}`;
}

function environment(work: Work): Record<string, string> {
  if (work.kind === "session") return { HOLDFAST_SESSION: work.session };
  return { HOLDFAST_GOAL: work.goal, HOLDFAST_TASK: work.task };
}

type Own = OwnedLog<WorkerState>;

/** When a worker was started, and whether anything has changed since. */
interface Start {
  readonly at: number;
  isTouched(): Promise<boolean>;
}

interface End {
  readonly how: "done" | "waiting" | "died" | "stopped";
  readonly why: string | null;
  /** Of one that waits: when to see whether calls can be settled that no person is asked about. */
  readonly notBefore?: number;
  /** Of a task that waits: the session in which a person has to answer. */
  readonly session?: string;
}

const AGAIN_MS = 30_000;

export class Workers {
  readonly #sweeper: Sweeper;
  readonly #options: SuperviseOptions;
  readonly #running = new Map<string, { process: WorkerProcess; done: Promise<void> }>();
  readonly #news: SessionNews;
  #isStopping = false;
  /** Something may be ready that was not: a worker has ended, or has waited long enough. */
  onChange: () => void = () => undefined;

  constructor(sweeper: Sweeper, options: SuperviseOptions) {
    this.#sweeper = sweeper;
    this.#options = options;
    this.#news = new SessionNews(sweeper.journal);
  }

  /** As many as there is room for, in this order. Returns when the earliest that has to wait may be started. */
  async start(ready: readonly Work[]): Promise<number | null> {
    let earliest: number | null = null;
    for (const work of ready) {
      if (this.#isStopping || this.#isFull) break;
      if (this.#running.has(workerId(work))) continue;
      const start = async () => (this.#commandFor(work) === null ? null : this.#tryStart(work));
      const at = await this.#orTell(`starting ${titleOf(work)}`, start);
      if (at !== null) earliest = Math.min(earliest ?? at, at);
    }
    return earliest;
  }

  /** What goes wrong with one does not keep the others from being started. */
  async #orTell<Result>(doing: string, act: () => Promise<Result>): Promise<Result | null> {
    try {
      const result = await act();
      this.#sweeper.worksAgain(doing);
      return result;
    } catch (error) {
      if (isHoldfastError(error, "STORE_CLOSED")) throw error;
      this.#sweeper.tellError(doing, error);
      return null;
    }
  }

  /** Asks all to stop, kills those that do not, and records what became of them. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const all = [...this.#running.values()];
    for (const { process } of all) process.signal("SIGTERM");
    const kill = setTimeout(() => {
      for (const { process } of all) process.signal("SIGKILL");
    }, this.#options.graceMs ?? DEFAULTS.graceMs);
    await Promise.allSettled(all.map(({ done }) => done));
    clearTimeout(kill);
  }

  /** Sessions whose process died, for which nobody has come yet, and in which something can be done now. */
  async wanted(): Promise<Work[]> {
    const works: Work[] = [];
    if (this.#isFull) return works;
    for (const status of ["wanted", "running", "waiting", "looping"] as const) {
      const asked = { of: "streams", kind: "worker", status, limit: 500 } as const;
      const rows = await allRows((from) => this.#journal.list<"streams">({ ...asked, ...from }));
      for (const { stream, facets } of rows) {
        const look = () => this.#wantedIn(streamId(stream));
        const work = await this.#orTell(`looking for work in ${facets.title}`, look);
        if (work) works.push(work);
      }
    }
    return works;
  }

  /** Looks without the lease: whatever has to wait would be written to at every look. */
  async #wantedIn(id: string): Promise<Work | null> {
    if (this.#running.has(id)) return null;
    const { state } = await this.#journal.load(workerKind, id);
    const { work } = state;
    if (work?.kind !== "session" || this.#sweeper.isSettling(work.session)) return null;
    const outlook = await outlookOf(this.#journal, work.session, state, this.#news);
    if (typeof outlook === "object") await this.#forget(work);
    return outlook === "start" ? work : null;
  }

  async #forget(work: Work): Promise<void> {
    const own = await this.#own(work);
    if (!own) return;
    try {
      await this.#isStillWanted(own, work);
    } finally {
      await own.lease.release();
    }
  }

  get #isFull(): boolean {
    return this.#running.size >= (this.#options.parallel ?? DEFAULTS.parallel);
  }

  get #journal(): Journal {
    return this.#sweeper.journal;
  }

  #commandFor(work: Work) {
    const { start } = this.#options;
    return typeof start === "function" ? start(work) : (start ?? null);
  }

  /** Null when another supervisor is at it. */
  async #own(work: Work): Promise<Own | null> {
    const stream = streamName("worker", workerId(work));
    const options = { label: this.#sweeper.by.name, waitMs: 0 };
    const lease = await this.#journal.leases.take(stream, this.#journal.newId(), options);
    if (!(lease instanceof Lease)) return null;
    try {
      return new OwnedLog(await this.#journal.open(workerKind, workerId(work)), lease);
    } catch (error) {
      await lease.release();
      throw error;
    }
  }

  /** Null when it runs now, or is nothing to wait for; else when to come back. */
  async #tryStart(work: Work): Promise<number | null> {
    const own = await this.#own(work);
    if (!own) return null;
    let isStarted = false;
    try {
      if (!(await this.#isStillWanted(own, work))) return null;
      const at = await this.#clearance(own, work);
      const command = at === "now" ? this.#commandFor(work) : null;
      if (command === null || this.#isStopping) return at === "now" ? null : at;
      await write(own, { type: "worker.started", data: { work, by: this.#sweeper.by.name } });
      await this.#launch(own, work, command);
      isStarted = true;
      return null;
    } finally {
      if (!isStarted) await own.lease.release();
    }
  }

  /** Its last worker may have ended between the look that found it and our lease: then it is done, or blocked. */
  async #isStillWanted(own: Own, work: Work): Promise<boolean> {
    if (work.kind === "task") {
      const next = await (await this.#sweeper.goal(work.goal))?.next();
      return next?.tasks.some(({ id }) => id === work.task) ?? false;
    }
    if (own.state.status === "idle") return false;
    const outlook = await outlookOf(this.#journal, work.session, own.state, this.#news);
    if (typeof outlook === "object") {
      await write(own, { type: "worker.unwanted", data: { why: outlook.over } });
    }
    return outlook === "start";
  }

  /** Whether it may be started: now, at a later time, or (null) not before something changes. */
  async #clearance(own: Own, work: Work): Promise<"now" | number | null> {
    if (own.state.status === "running") await this.#recordEnd(own, died("its supervisor is gone"));
    // A task that is ready is blocked no more, and in a session that is wanted something has happened since.
    if (own.state.status === "looping") {
      await write(own, { type: "worker.pardoned", data: { why: "it was looked at" } });
    }
    if (own.state.deaths >= (this.#options.maxDeaths ?? DEFAULTS.maxDeaths)) {
      await this.#stopLoop(own, work);
      return null;
    }
    const { notBefore, endedAt, waitsIn } = own.state;
    if (waitsIn !== null && (await blockedOn(this.#journal, waitsIn)) === "person") return null;
    const now = this.#journal.now();
    // By a clock that was set back since, nobody can tell how long it has waited.
    const isResting = notBefore > now && (endedAt === null || endedAt <= now);
    return isResting ? notBefore : "now";
  }

  async #launch(own: Own, work: Work, command: WorkerCommand): Promise<void> {
    const start = await this.#startOf(work);
    const process = new WorkerProcess(work, command);
    this.#sweeper.tell({ type: "worker.started", work, pid: process.pid });
    const done = process.ended
      .then((ended) => this.#afterEnd(own, work, ended, start))
      .catch((error: unknown) =>
        this.#sweeper.tell({ type: "error", doing: `watching ${titleOf(work)}`, error }),
      )
      .finally(async () => {
        this.#running.delete(workerId(work));
        await own.lease.release().catch(this.#journal.warn);
        this.onChange();
      });
    this.#running.set(workerId(work), { process, done });
  }

  async #afterEnd(own: Own, work: Work, { failure }: Ended, start: Start): Promise<void> {
    await own.log.refresh();
    const end =
      failure !== null
        ? died(failure)
        : work.kind === "task"
          ? await this.#taskEnd(work, start)
          : await this.#sessionEnd(own, work.session, start);
    const { how, why } = this.#isStopping ? ({ ...end, how: "stopped" } as const) : end;
    await this.#recordEnd(own, { ...end, how });
    this.#sweeper.tell({ type: "worker.ended", work, how, why });
    if (work.kind === "session" && how === "died") await this.#isStillWanted(own, work);
    if (own.state.deaths >= (this.#options.maxDeaths ?? DEFAULTS.maxDeaths)) await this.#stopLoop(own, work);
  }

  async #taskEnd({ goal: id, task }: Extract<Work, { kind: "task" }>, start: Start): Promise<End> {
    if (!(await start.isTouched())) return died("it ended without having touched the task");
    const status = (await this.#sweeper.goal(id))?.state.tasks.get(task)?.status;
    if (status !== "open" && status !== "in_progress") return DONE;
    const session = await sessionLeftToPerson(this.#journal, id, start.at);
    if (session === null) return DONE;
    return { how: "waiting", why: `session ${session} waits for a person`, session };
  }

  async #sessionEnd(own: Own, session: string, start: Start): Promise<End> {
    const left = await whatIsLeft(this.#journal, session, own.state);
    if ("over" in left) return DONE;
    const hindrance = left.isUnfinished ? await blockedOn(this.#journal, session) : null;
    if (hindrance === "person") return { how: "waiting", why: null };
    const lease = await this.#journal.leases.find(streamName("session", session));
    if (own.state.isWantedAgain || isAbandoned(lease ?? undefined)) {
      return died("it ended without having closed the session");
    }
    if (!left.isUnfinished) return DONE;
    const now = this.#journal.now();
    const due = left.open.map((call) => dueAt(call, now) ?? start.at);
    const isToldWhen = due.length > 0 && due.every((at) => at > start.at);
    if (hindrance === null && !isToldWhen && !(await start.isTouched())) {
      return died("it ended without having touched the session, which has calls without an outcome");
    }
    const later = isToldWhen ? 0 : now + AGAIN_MS;
    return { how: "waiting", why: null, notBefore: Math.max(later, ...due) };
  }

  async #recordEnd(own: Own, { how, why, notBefore = 0, session }: End): Promise<void> {
    const { backoffMs = DEFAULTS.backoffMs, maxBackoffMs = DEFAULTS.maxBackoffMs } = this.#options;
    const waitMs = Math.min(maxBackoffMs, backoffMs * 2 ** Math.min(own.state.deaths, 30));
    const from = how === "died" ? this.#journal.now() + waitMs : notBefore;
    await write(own, {
      type: "worker.ended",
      data: { how, why, notBefore: from, ...(session && { session }) },
    });
  }

  /** Blocks the task with the reason, then notes that it loops. A crash in between costs the person one more look. */
  async #stopLoop(own: Own, work: Work): Promise<void> {
    const { deaths, lastDeath } = own.state;
    const why = `${CRASH_LOOP} the worker for ${titleOf(work)} died ${deaths} times in a row; at last ${lastDeath}`;
    const goal = work.kind === "task" ? await this.#sweeper.goal(work.goal) : null;
    const blocker = goal && work.kind === "task" ? await block(this.#sweeper, goal, work.task, why) : null;
    const places = work.kind === "session" ? Object.fromEntries(await this.#news.places(work.session)) : {};
    await write(own, { type: "worker.looping", data: { why: why.slice(0, 1_000), blocker, places } });
    this.#sweeper.tell({ type: "worker.looping", work, deaths, blocker, why });
  }

  async #startOf(work: Work): Promise<Start> {
    const at = this.#journal.now();
    if (work.kind === "session") {
      const places = await this.#news.places(work.session);
      return { at, isTouched: () => this.#news.hasComeBehind(work.session, places) };
    }
    const revision = await this.#revisionOf(work);
    return { at, isTouched: async () => revision === null || (await this.#revisionOf(work)) !== revision };
  }

  async #revisionOf({ goal: id, task }: Extract<Work, { kind: "task" }>): Promise<number | null> {
    const goal = await this.#sweeper.goal(id);
    return goal?.state.tasks.get(task)?.revision ?? null;
  }
}

const DONE: End = { how: "done", why: null };

function died(why: string): End {
  return { how: "died", why };
}

/** When its tool wants to be asked again; the clock of the worker that heard so may be ahead of ours. */
function dueAt({ verify }: Call, now: number): number | null {
  if (verify === null || verify.againAt === null) return null;
  return Math.min(verify.againAt, now + verify.againAt - verify.at);
}

const CRASH_LOOP = "Crash loop:";

async function block({ by }: Sweeper, goal: Goal, task: string, description: string): Promise<string> {
  return goalCore(goal).commit(by, (state) => {
    const known = [...state.blockers.values()].find(
      (each) =>
        each.status === "active" &&
        each.affects.tasks.includes(task) &&
        each.description.startsWith(CRASH_LOOP),
    );
    if (known) return { events: [], result: known.id };
    return noteActs.block(state, by, {
      description: description.slice(0, 2_000),
      affects: { tasks: [task] },
    });
  });
}

/** Throws LEASE_LOST when another supervisor watches over this work now: its count is the one that counts. */
function write(own: Own, draft: WorkerDraft): MaybePromise<void> {
  return own.write(() => ({ events: [draft], result: undefined }));
}
