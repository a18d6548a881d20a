/**
 * Starts workers for tasks and sessions, and watches them.
 *
 *     take the lease of the work ──▶ check it again ──▶ `started`, durable ──▶ start the process ──▶ it ends
 *       ──▶ `ended`, durable, with the way it ended ──▶ release
 *
 * The lease keeps two supervisors from starting two workers for one piece of work. If one was stopped for
 * long, the task's claim or the session's lease still lets only one of the two work.
 *
 * A supervisor that dies leaves:
 *
 *     before `started`                      a lease that expires
 *     after `started` and before `ended`    a stream that says `running`: the next supervisor counts a death,
 *                                           so that killing supervisors with their workers ends, too
 *
 * A worker that ends well still counts as dead if it
 *
 *     - has not changed its task: it would be started forever
 *     - leaves its session as a crash does
 *     - leaves calls that it could have settled, and no news
 *
 * A worker that leaves calls to a person has done well: its own calls, those of a sub-agent, or those of
 * another session that it waits for. Its session or task gets the next worker when they are answered.
 */

import type { ChildProcess } from "node:child_process";
import { type Goal, goalCore, noteActs } from "../goal/index.ts";
import { allRows, type Journal, Lease, OwnedLog } from "../journal/index.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { streamId, streamName } from "../model/names.ts";
import type { Call } from "../model/session/index.ts";
import { blockedOn, sessionWaitingForPerson } from "./blocked-on.ts";
import { isAbandoned } from "./crashed-sessions.ts";
import { DEFAULTS, type SuperviseOptions, type WorkerCommand } from "./options.ts";
import type { Sweeper } from "./sweep.ts";
import { outlookOf, remainingWork, SessionNews } from "./wanted-sessions.ts";
import type { Work, WorkerDraft, WorkerState } from "./worker-kind.ts";
import { titleOf, workerId, workerKind } from "./worker-kind.ts";

type Own = OwnedLog<WorkerState>;

interface Start {
  readonly at: number;
  hasChanged(): Promise<boolean>;
  /** Ids of prompts that were queued when it started. */
  readonly prompts: ReadonlySet<string>;
}

interface End {
  readonly how: "done" | "waiting" | "died" | "stopped";
  readonly why: string | null;
  /** With `waiting`: the earliest time for the next worker, if calls can be settled without a person. */
  readonly notBefore?: number;
  readonly session?: string;
}

const RETRY_MS = 30_000;

export class Workers {
  readonly #sweeper: Sweeper;
  readonly #options: SuperviseOptions;
  readonly #running = new Map<string, { process: WorkerProcess; done: Promise<void> }>();
  readonly #news: SessionNews;
  #isStopping = false;
  onChange: () => void = () => undefined;

  constructor(sweeper: Sweeper, options: SuperviseOptions) {
    this.#sweeper = sweeper;
    this.#options = options;
    this.#news = new SessionNews(sweeper.journal);
  }

  /** Starts workers, in this order, while there is room. Returns the earliest time for waiting work. */
  async start(ready: readonly Work[]): Promise<number | null> {
    let earliest: number | null = null;
    for (const work of ready) {
      if (this.#isStopping || this.#isFull) break;
      if (this.#running.has(workerId(work))) continue;
      const start = async () => (this.#commandFor(work) === null ? null : this.#tryStart(work));
      const at = await this.#sweeper.attempt(`starting ${titleOf(work)}`, start, null);
      if (at !== null) earliest = Math.min(earliest ?? at, at);
    }
    return earliest;
  }

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

  async wanted(): Promise<Work[]> {
    const works: Work[] = [];
    if (this.#isFull) return works;
    for (const status of ["wanted", "running", "waiting", "looping"] as const) {
      const asked = { of: "streams", kind: "worker", status, limit: 500 } as const;
      const rows = await allRows((from) => this.#journal.list<"streams">({ ...asked, ...from }));
      for (const { stream, facets } of rows) {
        const look = () => this.#wantedIn(streamId(stream));
        const work = await this.#sweeper.attempt(`looking for work in ${facets.title}`, look, null);
        if (work) works.push(work);
      }
    }
    return works;
  }

  /** Looks without the lease. Taking it would write to every waiting session at every sweep. */
  async #wantedIn(id: string): Promise<Work | null> {
    if (this.#running.has(id)) return null;
    const { state } = await this.#journal.load(workerKind, id);
    const { work } = state;
    if (work?.kind !== "session" || this.#sweeper.isSettling(work.session)) return null;
    const outlook = await outlookOf(this.#journal, work.session, state, this.#news);
    if (typeof outlook === "object") await this.#dismiss(work);
    return outlook === "start" ? work : null;
  }

  async #dismiss(work: Work): Promise<void> {
    const own = await this.#own(work);
    if (own) await this.#dismissUnlessWanted(own, work).finally(() => own.lease.release());
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

  async #tryStart(work: Work): Promise<number | null> {
    const own = await this.#own(work);
    if (!own) return null;
    let isStarted = false;
    try {
      if (!(await this.#dismissUnlessWanted(own, work))) return null;
      const at = await this.#startTime(own, work);
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

  /** Another worker may have ended meanwhile. Appends `worker.unwanted` if nothing is left to do. */
  async #dismissUnlessWanted(own: Own, work: Work): Promise<boolean> {
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

  /** Returns the time to start: now, later, or (null) after a change. Records overdue ends first. */
  async #startTime(own: Own, work: Work): Promise<"now" | number | null> {
    if (own.state.status === "running") await this.#recordEnd(own, died("its supervisor is gone"));
    // It is wanted again: a person has removed the task's blocker, or there is news in the session.
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
    // `endedAt` is in the future if the clock was set back: then the pause does not count.
    const isPaused = notBefore > now && (endedAt === null || endedAt <= now);
    return isPaused ? notBefore : "now";
  }

  async #launch(own: Own, work: Work, command: WorkerCommand): Promise<void> {
    const start = await this.#startOf(work);
    const process = new WorkerProcess(work, command);
    const doing = `watching ${titleOf(work)}`;
    this.#sweeper.emit({ type: "worker.started", work, pid: process.pid });
    const done = process.ended
      .then((failure) => this.#afterEnd(own, work, failure, start))
      .catch((error: unknown) => this.#sweeper.emit({ type: "error", doing, error }))
      .finally(async () => {
        this.#running.delete(workerId(work));
        await own.lease.release().catch(this.#journal.warn);
        this.onChange();
      });
    this.#running.set(workerId(work), { process, done });
  }

  async #afterEnd(own: Own, work: Work, failure: string | null, start: Start): Promise<void> {
    await own.log.refresh();
    const isTask = work.kind === "task";
    const ended = () => (isTask ? this.#taskEnd(work, start) : this.#sessionEnd(own, work.session, start));
    const end = failure === null ? await ended() : died(failure);
    const { how, why } = this.#isStopping ? ({ ...end, how: "stopped" } as const) : end;
    await this.#recordEnd(own, { ...end, how });
    this.#sweeper.emit({ type: "worker.ended", work, how, why });
    if (work.kind === "session" && how === "died") await this.#dismissUnlessWanted(own, work);
    if (own.state.deaths >= (this.#options.maxDeaths ?? DEFAULTS.maxDeaths)) await this.#stopLoop(own, work);
  }

  async #taskEnd({ goal: id, task }: Extract<Work, { kind: "task" }>, start: Start): Promise<End> {
    if (!(await start.hasChanged())) return died("it ended without having touched the task");
    const status = (await this.#sweeper.goal(id))?.state.tasks.get(task)?.status;
    if (status !== "open" && status !== "in_progress") return DONE;
    const session = await sessionWaitingForPerson(this.#journal, id, start.at);
    if (session === null) return DONE;
    return { how: "waiting", why: `session ${session} waits for a person`, session };
  }

  async #sessionEnd(own: Own, session: string, start: Start): Promise<End> {
    const rest = await remainingWork(this.#journal, session, own.state);
    if ("over" in rest) return DONE;
    const blocked = rest.isUnfinished ? await blockedOn(this.#journal, session) : null;
    if (blocked === "person") return { how: "waiting", why: null };
    const lease = await this.#journal.leases.find(streamName("session", session));
    if (own.state.isWantedAgain || isAbandoned(lease ?? undefined)) {
      return died("it ended without having closed the session");
    }
    if (!rest.isUnfinished) {
      // Counted as a death, else every sweep would start a worker that ignores the prompt.
      const isIgnored = rest.prompts.some((id) => start.prompts.has(id));
      return isIgnored ? died("it ended without having taken a queued prompt") : DONE;
    }
    const now = this.#journal.now();
    const due = rest.open.map((call) => dueAt(call, now) ?? start.at);
    const hasDueTimes = due.length > 0 && due.every((at) => at > start.at);
    if (blocked === null && !hasDueTimes && !(await start.hasChanged())) {
      return died("it ended without having touched the session, which has calls without an outcome");
    }
    const later = hasDueTimes ? 0 : now + RETRY_MS;
    return { how: "waiting", why: null, notBefore: Math.max(later, ...due) };
  }

  async #recordEnd(own: Own, { how, why, notBefore = 0, session }: End): Promise<void> {
    const { backoffMs = DEFAULTS.backoffMs, maxBackoffMs = DEFAULTS.maxBackoffMs } = this.#options;
    const waitMs = Math.min(maxBackoffMs, backoffMs * 2 ** Math.min(own.state.deaths, 30));
    const from = how === "died" ? this.#journal.now() + waitMs : notBefore;
    const data = { how, why, notBefore: from, ...(session && { session }) };
    await write(own, { type: "worker.ended", data });
  }

  /** Blocks the task, then records the loop. A crash between the two costs a person one more look. */
  async #stopLoop(own: Own, work: Work): Promise<void> {
    const { deaths, lastDeath } = own.state;
    const title = titleOf(work);
    const why = `${CRASH_LOOP} the worker for ${title} died ${deaths} times in a row; at last ${lastDeath}`;
    const goal = work.kind === "task" ? await this.#sweeper.goal(work.goal) : null;
    const blocker = goal && work.kind === "task" ? await block(this.#sweeper, goal, work.task, why) : null;
    const places = work.kind === "session" ? await this.#news.positions(work.session) : new Map();
    const data = { why: why.slice(0, 1_000), blocker, places: Object.fromEntries(places) };
    await write(own, { type: "worker.looping", data });
    this.#sweeper.emit({ type: "worker.looping", work, deaths, blocker, why });
  }

  async #startOf(work: Work): Promise<Start> {
    const at = this.#journal.now();
    if (work.kind === "session") {
      const positions = await this.#news.positions(work.session);
      const rest = await remainingWork(this.#journal, work.session, { life: null });
      const prompts = new Set("over" in rest ? [] : rest.prompts);
      return { at, prompts, hasChanged: () => this.#news.hasNewsAfter(work.session, positions) };
    }
    const revision = await this.#revisionOf(work);
    const prompts = new Set<string>();
    return {
      at,
      prompts,
      hasChanged: async () => revision === null || (await this.#revisionOf(work)) !== revision,
    };
  }

  async #revisionOf({ goal, task }: Extract<Work, { kind: "task" }>): Promise<number | null> {
    return (await this.#sweeper.goal(goal))?.state.tasks.get(task)?.revision ?? null;
  }
}

const DONE: End = { how: "done", why: null };

function died(why: string): End {
  return { how: "died", why };
}

/** The time at which `verify` wants to be asked again. The worker's clock may be ahead of ours. */
function dueAt({ verify }: Call, now: number): number | null {
  if (verify === null || verify.againAt === null) return null;
  return Math.min(verify.againAt, now + verify.againAt - verify.at);
}

const CRASH_LOOP = "Crash loop:";

async function block({ by }: Sweeper, goal: Goal, task: string, description: string): Promise<string> {
  return goalCore(goal).commit(by, (state) => {
    const active = [...state.blockers.values()].filter(({ status }) => status === "active");
    const ofTask = active.filter(({ affects }) => affects.tasks.includes(task));
    const known = ofTask.find((each) => each.description.startsWith(CRASH_LOOP));
    if (known) return { events: [], result: known.id };
    const blocker = { description: description.slice(0, 2_000), affects: { tasks: [task] } };
    return noteActs.block(state, by, blocker);
  });
}

/** Throws LEASE_LOST if another supervisor has this work now: then that one counts the deaths. */
function write(own: Own, draft: WorkerDraft): MaybePromise<void> {
  return own.write(() => ({ events: [draft], result: undefined }));
}

// ---- The worker's process

const STDERR = 2;

/** A worker's process. It has a process group of its own, so that its children stop with it. */
class WorkerProcess {
  readonly pid: number | null;
  /** Resolves to null if the process ended well, otherwise to a text for people. */
  readonly ended: Promise<string | null>;
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
      // Node throws for an empty or invalid program name. All other errors are events.
      this.pid = null;
      this.ended = Promise.resolve(notStarted(error as Error));
      return;
    }
    this.pid = child.pid ?? null;
    this.ended = new Promise((resolve) => {
      const end = (failure: string | null): void => {
        this.#isOver = true;
        resolve(failure);
      };
      child.on("error", (error) => end(notStarted(error)));
      const problem = (code: number | null, signal: string | null) =>
        code === 0 ? null : `it ended with ${signal ?? `exit code ${code}`}`;
      child.on("exit", (code, signal) => end(problem(code, signal)));
    });
  }

  signal(signal: NodeJS.Signals): void {
    if (this.#isOver || this.pid === null) return;
    try {
      process.kill(process.platform === "win32" ? this.pid : -this.pid, signal);
    } catch (error) {
      // ESRCH: it has just ended.
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
