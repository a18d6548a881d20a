/**
 * Hints that something changed. Every line that memory takes in, our own or another process's, names its streams. The
 * lines of others are looked for five times a second, only while somebody watches, and that never keeps the process
 * alive.
 */

import type { WatchRequest } from "../../store.ts";

const POLL_MS = 200;

interface Watcher extends WatchRequest {
  readonly changed: () => void;
}

export class Watchers {
  readonly #look: () => Promise<unknown>;
  readonly #watchers = new Set<Watcher>();
  #timer: NodeJS.Timeout | null = null;
  #isLooking = false;

  /** `look` takes in what others have written, which calls `announce`. */
  constructor(look: () => Promise<unknown>) {
    this.#look = look;
  }

  add(request: WatchRequest, changed: () => void): () => void {
    const watcher = { ...request, changed };
    this.#watchers.add(watcher);
    this.#timer ??= setInterval(() => void this.#poll(), POLL_MS).unref();
    return () => {
      this.#watchers.delete(watcher);
      if (this.#watchers.size === 0) this.clear();
    };
  }

  /** In a turn of its own, so that a watcher cannot get between a change and its caller. */
  readonly announce = (namespace: string, stream: string): void => {
    for (const watcher of this.#watchers) {
      const isMeant = watcher.namespace === namespace && (watcher.stream ?? stream) === stream;
      if (isMeant) this.#tell(watcher);
    }
  };

  clear(): void {
    this.#watchers.clear();
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
  }

  #tell(watcher: Watcher): void {
    setImmediate(() => {
      if (this.#watchers.has(watcher)) watcher.changed();
    });
  }

  async #poll(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      await this.#look();
    } catch {
      // Whoever acts on the store is told what is wrong with it; a watcher only gets to look again.
      for (const each of this.#watchers) this.#tell(each);
    } finally {
      this.#isLooking = false;
    }
  }
}
