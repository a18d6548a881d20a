/**
 * Callbacks that hint at changes, maybe late and maybe for nothing; a watcher rereads from its seq.
 *
 * The store announces the changes of this process. For those of others it passes `poll`, which runs five
 * times a second, only while anyone watches. The timer never keeps the process alive.
 */

import { clearInterval, setImmediate, setInterval } from "node:timers";
import type { WatchRequest } from "../../store.ts";

export interface Watcher extends WatchRequest {
  readonly changed: () => void;
}

interface WatchersOptions {
  /** Looks for changes of others, and calls `notify` or `announce`. If it throws, all are notified. */
  readonly poll?: (watchers: readonly Watcher[]) => Promise<unknown>;
  readonly started?: () => void;
  readonly stopped?: () => void;
}

const POLL_MS = 200;

export class Watchers {
  readonly #options: WatchersOptions;
  readonly #watchers = new Set<Watcher>();
  #timer: NodeJS.Timeout | null = null;
  #isPolling = false;

  constructor(options: WatchersOptions = {}) {
    this.#options = options;
  }

  add(request: WatchRequest, changed: () => void): () => void {
    const watcher = { ...request, changed };
    this.#watchers.add(watcher);
    if (this.#watchers.size === 1) {
      if (this.#options.poll) this.#timer = setInterval(() => void this.pollNow(), POLL_MS).unref();
      this.#options.started?.();
    }
    return () => {
      if (this.#watchers.delete(watcher) && this.#watchers.size === 0) this.#stop();
    };
  }

  readonly announce = (namespace: string, stream: string): void => {
    this.notifyAll((watcher) => watcher.namespace === namespace && (watcher.stream ?? stream) === stream);
  };

  /** Calls back in the next turn of the event loop: never between a change and its caller. */
  notify(watcher: Watcher): void {
    setImmediate(() => {
      if (this.#watchers.has(watcher)) watcher.changed();
    });
  }

  notifyAll(isConcerned: (watcher: Watcher) => boolean = () => true): void {
    for (const watcher of this.#watchers) if (isConcerned(watcher)) this.notify(watcher);
  }

  clear(): void {
    if (this.#watchers.size === 0) return;
    this.#watchers.clear();
    this.#stop();
  }

  async pollNow(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      await this.#options.poll?.([...this.#watchers]);
    } catch {
      // The next act on the store reports what is wrong with it. A watcher only learns that it should look.
      this.notifyAll();
    } finally {
      this.#isPolling = false;
    }
  }

  #stop(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
    this.#options.stopped?.();
  }
}
