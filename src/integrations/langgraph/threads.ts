import type { Journal, Log } from "../../journal/index.ts";
import type { Draft } from "../../model/stream/index.ts";
import { removeLeftoverEffects } from "./removal.ts";
import { type ThreadState, threadKind } from "./thread-state.ts";
import { streamIdOf } from "./thread-streams.ts";

/** A cache of the threads used last. An evicted thread is read from the store again. */
export class Threads {
  private readonly journal: Journal;
  private readonly limit: number;
  private readonly ttlMs: number | null;
  private readonly open = new Map<string, Promise<Log<ThreadState>>>();
  private readonly loaded = new WeakMap<Promise<Log<ThreadState>>, Log<ThreadState>>();

  constructor(journal: Journal, limit: number, ttlMs: number | null) {
    this.journal = journal;
    this.limit = limit;
    this.ttlMs = ttlMs;
  }

  /** The log as cached. It may be stale: a commit then meets a conflict and decides again. */
  log(thread: string): Promise<Log<ThreadState>> {
    const known = this.open.get(thread);
    const log = known ?? this.journal.open(threadKind, streamIdOf(thread));
    this.open.delete(thread);
    this.open.set(thread, log);
    if (!known) {
      log.then(
        (loaded) => this.loaded.set(log, loaded),
        () => this.forget(thread),
      );
      for (const [oldest] of this.open) {
        if (this.open.size <= this.limit) break;
        this.open.delete(oldest);
      }
    }
    return log;
  }

  /** The state with everything that other processes have written until now. */
  async read(thread: string): Promise<ThreadState> {
    const isCached = this.open.has(thread);
    const log = await this.log(thread);
    return isCached ? log.refresh() : log.state;
  }

  /** The cached state, maybe stale, without waiting; undefined if the thread is not in memory. */
  peek(thread: string): ThreadState | undefined {
    const log = this.open.get(thread);
    return log && this.loaded.get(log)?.state;
  }

  forget(thread: string): void {
    this.open.delete(thread);
  }

  /**
   * After a conflict `decide` runs again. `wasRemoved`: the thread was removed, and maybe begun again, since
   * this process last read it. The first commit also describes the thread, after effects of an earlier one of
   * its name were removed.
   */
  async commit(
    thread: string,
    decide: (state: ThreadState, wasRemoved: boolean) => readonly Draft[],
  ): Promise<void> {
    const log = await this.log(thread);
    const { generation } = log.head;
    for (let isCleared = false; ; isCleared = true) {
      const outcome = await log.commit((state, head) => {
        const events = decide(state, head.generation !== generation);
        const isDescribed = state.thread === thread && state.ttlMs === this.ttlMs;
        if (isDescribed || events.length === 0) return { events, result: "done" };
        if (state.thread === null && !isCleared) return { events: [], result: "is new" };
        const described = { type: "thread.described", data: { thread, ttlMs: this.ttlMs } };
        return { events: [described, ...events], result: "done" };
      });
      if (outcome.outcome !== "ok" || outcome.result === "done") return;
      await removeLeftoverEffects(this.journal, thread);
    }
  }
}
