/**
 * What was read before it was written: `put` alone does not say whether a run wants to branch from an older checkpoint,
 * or does not know that there is a newer one. Who read a checkpoint by its id wanted that one; who read "the latest"
 * wanted to follow it. Old entries are forgotten: then a branch has to be read again before it is written.
 */

const LIMIT = 10_000;

export class ReadMemory {
  /** Checkpoints that were asked for by their id, by thread and namespace. */
  private readonly asked = new Set<string>();
  /** Threads and namespaces that somebody has seen without any checkpoint. */
  private readonly empty = new Set<string>();
  /** Threads that were removed, as far as this process knows, and that nobody has begun again. */
  private readonly removed = new Set<string>();

  /** Subgraphs, by their namespace, whose node a retry policy has begun again. */
  private readonly retried = new Set<string>();

  /** LangGraph reads the checkpoint of a subgraph when it begins it, and says which attempt at its node this is. */
  beganAt(thread: string, ns: string, attempt: number): void {
    if (attempt > 1) remember(this.retried, key(thread, ns));
    else this.retried.delete(key(thread, ns));
  }

  isRetried(thread: string, ns: string): boolean {
    return this.retried.has(key(thread, ns));
  }

  askedFor(thread: string, ns: string, id: string): void {
    remember(this.asked, key(thread, ns, id));
  }

  sawNothing(thread: string, ns: string): void {
    remember(this.empty, key(thread, ns));
  }

  /** Also to before its first checkpoint. */
  wantsToGoBack(thread: string, ns: string): void {
    this.empty.delete(key(thread, ns));
  }

  of(thread: string, ns: string, parent: string | null): { wantsBranch: boolean; sawNothing: boolean } {
    return {
      wantsBranch: parent !== null && this.asked.size > 0 && this.asked.has(key(thread, ns, parent)),
      sawNothing: this.empty.size > 0 && this.empty.has(key(thread, ns)),
    };
  }

  wasRemoved(thread: string): void {
    remember(this.removed, thread);
  }

  isRemoved(thread: string): boolean {
    return this.removed.size > 0 && this.removed.has(thread);
  }

  beginsAnew(thread: string): void {
    this.removed.delete(thread);
  }

  forget(thread: string): void {
    const prefix = `${JSON.stringify([thread]).slice(0, -1)},`;
    for (const entry of this.empty) if (entry.startsWith(prefix)) this.empty.delete(entry);
  }
}

function key(...parts: string[]): string {
  return JSON.stringify(parts);
}

function remember(entries: Set<string>, entry: string): void {
  entries.delete(entry);
  entries.add(entry);
  for (const oldest of entries) {
    if (entries.size <= LIMIT) break;
    entries.delete(oldest);
  }
}
