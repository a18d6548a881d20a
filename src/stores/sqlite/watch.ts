/**
 * Hints that something changed. Changes of this process are known when they are committed; those of others show in
 * `PRAGMA data_version`, which is looked at five times a second, only while somebody watches, and never keeps the
 * process alive.
 */

import type { WatchRequest } from "../../store.ts";
import type { Connection } from "./driver.ts";

const POLL_MS = 200;

interface Watcher extends WatchRequest {
  readonly changed: () => void;
}

export class Watchers {
  readonly #read: <Result>(act: (connection: Connection) => Result) => Promise<Result>;
  readonly #watchers = new Set<Watcher>();
  #timer: NodeJS.Timeout | null = null;
  #version: number | null = null;
  #isLooking = false;

  constructor(read: <Result>(act: (connection: Connection) => Result) => Promise<Result>) {
    this.#read = read;
  }

  add(request: WatchRequest, changed: () => void): () => void {
    const watcher = { ...request, changed };
    this.#watchers.add(watcher);
    if (!this.#timer) {
      this.#version = null;
      this.#timer = setInterval(() => void this.#look(), POLL_MS).unref();
      void this.#look();
    }
    return () => {
      this.#watchers.delete(watcher);
      if (this.#watchers.size === 0) this.clear();
    };
  }

  /** In a turn of its own, so that a watcher cannot get between a change and its caller. */
  announce(namespace: string, stream: string): void {
    for (const watcher of this.#watchers) {
      const isMeant = watcher.namespace === namespace && (watcher.stream ?? stream) === stream;
      if (isMeant) this.#tell(watcher);
    }
  }

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

  /** Which stream another process changed is not known; a spurious hint is allowed, a missing one is not. */
  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      const version = await this.#read((connection) => connection.number("PRAGMA data_version"));
      if (this.#version !== null && version !== this.#version)
        for (const each of this.#watchers) this.#tell(each);
      this.#version = version;
    } catch {
      // Whoever acts on the store is told what is wrong with it; a watcher only gets to look again.
      for (const each of this.#watchers) this.#tell(each);
    } finally {
      this.#isLooking = false;
    }
  }
}
