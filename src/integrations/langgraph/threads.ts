import type { Journal, Log } from "../../journal/index.ts";
import { threadKind } from "./thread-kind.ts";
import { streamIdOf } from "./thread-name.ts";
import type { ThreadState } from "./thread-state.ts";

/** Threads in memory: the ones used last. One that was let go is simply read again. */
export class Threads {
  private readonly journal: Journal;
  private readonly limit: number;
  private readonly open = new Map<string, Promise<Log<ThreadState>>>();
  private readonly loaded = new WeakMap<Promise<Log<ThreadState>>, Log<ThreadState>>();

  constructor(journal: Journal, limit: number) {
    this.journal = journal;
    this.limit = limit;
  }

  /** To write: what others wrote meanwhile shows as a conflict. */
  get(thread: string): Promise<Log<ThreadState>> {
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

  /** To read: with everything that others have written until now. */
  async read(thread: string): Promise<ThreadState> {
    const known = this.open.has(thread);
    const log = await this.get(thread);
    return known ? log.refresh() : log.state;
  }

  /** As it was when it was last seen here; undefined if it is not in memory. For who cannot wait. */
  lastSeen(thread: string): ThreadState | undefined {
    const log = this.open.get(thread);
    return log && this.loaded.get(log)?.state;
  }

  forget(thread: string): void {
    this.open.delete(thread);
  }
}
