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
 * A worker that ends well without having changed its task counts as dead, too: it would be started for ever.
 */

import { type Goal, noteActs } from "../goal/index.ts";
import { allRows, type Journal, Lease, OwnedLog } from "../journal/index.ts";
import { sessionKind, streamName } from "../model/index.ts";
import type { SuperviseOptions } from "./options.ts";
import { DEFAULTS } from "./options.ts";
import type { Sweeper } from "./sweep.ts";
import { titleOf, type Work, workerId } from "./work.ts";
import { type WorkerDraft, type WorkerState, workerKind } from "./worker-kind.ts";
import { type Ended, WorkerProcess } from "./worker-process.ts";

type Own = OwnedLog<WorkerState>;

export class Workers {
  readonly #sweeper: Sweeper;
  readonly #options: SuperviseOptions;
  readonly #running = new Map<string, { process: WorkerProcess; done: Promise<void> }>();
  #isStopping = false;
  /** Something may be ready that was not: a worker has ended, or has waited long enough. */
  onChange: () => void = () => undefined;

  constructor(sweeper: Sweeper, options: SuperviseOptions) {
    this.#sweeper = sweeper;
    this.#options = options;
  }

  /** As many as there is room for, in this order. Returns when the earliest that has to wait may be started. */
  async start(ready: readonly Work[]): Promise<number | null> {
    let earliest: number | null = null;
    for (const work of ready) {
      if (this.#isStopping || this.#running.size >= (this.#options.parallel ?? DEFAULTS.parallel)) break;
      if (this.#running.has(workerId(work)) || this.#commandFor(work) === null) continue;
      const at = await this.#tryStart(work);
      if (at !== null) earliest = Math.min(earliest ?? at, at);
    }
    return earliest;
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

  /** Sessions whose process died and for which nobody has come yet. */
  async wanted(): Promise<Work[]> {
    const works: Work[] = [];
    for (const status of ["wanted", "running", "looping"] as const) {
      const asked = { of: "streams", kind: "worker", status, limit: 500 } as const;
      const rows = await allRows((from) => this.#journal.list<"streams">({ ...asked, ...from }));
      for (const { stream } of rows) {
        const { state } = await this.#journal.load(workerKind, stream.slice("worker/".length));
        if (state.work?.kind === "session") works.push(state.work);
      }
    }
    return works;
  }

  /** A session of a goal goes on with its task, and a sub-agent with its parent: those are wanted for themselves. */
  async want(session: string): Promise<void> {
    const work: Work = { kind: "session", session };
    if (this.#commandFor(work) === null) return;
    const { state: found } = await this.#journal.load(sessionKind, session);
    if (found.goal !== null || found.parent !== null) return;
    const log = await this.#journal.open(workerKind, workerId(work));
    await log.commit((state) => {
      if (state.status !== "idle") return { events: [], result: undefined };
      return { events: [{ type: "worker.wanted", data: { work } }], result: undefined };
    });
  }

  get #journal(): Journal {
    return this.#sweeper.journal;
  }

  #commandFor(work: Work) {
    const { start } = this.#options;
    return typeof start === "function" ? start(work) : (start ?? null);
  }

  /** Null when it runs now, or is nothing to wait for; else when to come back. */
  async #tryStart(work: Work): Promise<number | null> {
    const stream = streamName("worker", workerId(work));
    const { by } = this.#sweeper;
    const lease = await this.#journal.leases.take(stream, this.#journal.newId(), {
      label: by.name,
      waitMs: 0,
    });
    if (!(lease instanceof Lease)) return null;
    let isStarted = false;
    try {
      const own = new OwnedLog(await this.#journal.open(workerKind, workerId(work)), lease);
      if (!(await this.#isStillWanted(own, work))) return null;
      const at = await this.#clearance(own, work);
      if (at !== "now" || this.#isStopping) return at === "now" ? null : at;
      await write(own, { type: "worker.started", data: { work, by: by.name } });
      await this.#launch(own, work);
      isStarted = true;
      return null;
    } finally {
      if (!isStarted) await lease.release();
    }
  }

  /** Its last worker may have ended between the look that found it and our lease: then it is done, or blocked. */
  async #isStillWanted({ state }: Own, work: Work): Promise<boolean> {
    if (work.kind === "session") return state.status !== "idle";
    const next = await (await this.#sweeper.goal(work.goal))?.next();
    return next?.tasks.some(({ id }) => id === work.task) ?? false;
  }

  /** Whether it may be started: now, at a later time, or (null) not before something changes. */
  async #clearance(own: Own, work: Work): Promise<"now" | number | null> {
    if (own.state.status === "running") await this.#recordEnd(own, "died", "its supervisor is gone");
    if (own.state.status === "looping" && (await this.#isPardoned(own, work))) {
      await write(own, { type: "worker.pardoned", data: { why: "it was looked at" } });
    }
    if (own.state.status === "looping") return null;
    if (own.state.deaths >= (this.#options.maxDeaths ?? DEFAULTS.maxDeaths)) {
      await this.#stopLoop(own, work);
      return null;
    }
    return own.state.notBefore > this.#journal.now() ? own.state.notBefore : "now";
  }

  /** A task that is ready is blocked no more; a session was written to, by a person or by a settled call. */
  async #isPardoned({ state }: Own, work: Work): Promise<boolean> {
    if (work.kind === "task") return true;
    const row = await this.#journal.row(streamName("session", work.session));
    return row.updatedAt > (state.loopedAt ?? 0);
  }

  async #launch(own: Own, work: Work): Promise<void> {
    const command = this.#commandFor(work) ?? { command: [] };
    const revision = await this.#revisionOf(work);
    const process = new WorkerProcess(work, command);
    this.#sweeper.tell({ type: "worker.started", work, pid: process.pid });
    const done = process.ended
      .then((ended) => this.#afterEnd(own, work, ended, revision))
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

  async #afterEnd(own: Own, work: Work, { failure }: Ended, revision: number | null): Promise<void> {
    const isIdle = failure === null && revision !== null && (await this.#revisionOf(work)) === revision;
    const why = failure ?? (isIdle ? "it ended without having touched the task" : null);
    const how = this.#isStopping ? "stopped" : why === null ? "done" : "died";
    await this.#recordEnd(own, how, why);
    this.#sweeper.tell({ type: "worker.ended", work, how, why });
    if (own.state.deaths >= (this.#options.maxDeaths ?? DEFAULTS.maxDeaths)) await this.#stopLoop(own, work);
  }

  async #recordEnd(own: Own, how: "done" | "died" | "stopped", why: string | null): Promise<void> {
    const { backoffMs = DEFAULTS.backoffMs, maxBackoffMs = DEFAULTS.maxBackoffMs } = this.#options;
    const waitMs = Math.min(maxBackoffMs, backoffMs * 2 ** Math.min(own.state.deaths, 30));
    const notBefore = how === "died" ? this.#journal.now() + waitMs : 0;
    await write(own, { type: "worker.ended", data: { how, why, notBefore } });
  }

  /** Blocks the task with the reason, then notes that it loops. A crash in between costs the person one more look. */
  async #stopLoop(own: Own, work: Work): Promise<void> {
    const { deaths, lastDeath } = own.state;
    const why = `${CRASH_LOOP} the worker for ${titleOf(work)} died ${deaths} times in a row; at last ${lastDeath}`;
    const goal = work.kind === "task" ? await this.#sweeper.goal(work.goal) : null;
    const blocker = goal && work.kind === "task" ? await block(this.#sweeper, goal, work.task, why) : null;
    await write(own, { type: "worker.looping", data: { why: why.slice(0, 1_000), blocker } });
    this.#sweeper.tell({ type: "worker.looping", work, deaths, blocker, why });
  }

  async #revisionOf(work: Work): Promise<number | null> {
    if (work.kind === "session") return null;
    const goal = await this.#sweeper.goal(work.goal);
    return goal?.state.tasks.get(work.task)?.revision ?? null;
  }
}

const CRASH_LOOP = "Crash loop:";

async function block({ by }: Sweeper, goal: Goal, task: string, description: string): Promise<string> {
  return goal.commit(by, (state) => {
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
function write(own: Own, draft: WorkerDraft): Promise<void> {
  return own.write(() => ({ events: [draft], result: undefined }));
}
