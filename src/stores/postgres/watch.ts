/**
 * Hints that something changed. Changes of this process are known when they are committed. Those of others are looked
 * for five times a second, only while somebody watches, and never keep the process alive. Where word from other
 * processes arrives (`notify.ts`), a look a second is enough.
 *
 * A look begins with the server's own mark of which transactions have ended. While that stays the same nothing has
 * changed, and nothing more is asked. When it moves, the heads of the watched streams are compared, in one statement;
 * whoever watches a namespace is told without a closer look. No session state is needed, so that this works through any
 * pooler, and on a standby.
 */

import type { WatchRequest } from "../../store.ts";
import type { Database } from "./database.ts";
import { Listener } from "./notify.ts";
import { fromText, placeName, toText } from "./text.ts";

const POLL_MS = 200;
/** How many looks are left out while a listener is live. */
const SPARED_LOOKS = 4;

interface Watcher extends WatchRequest {
  readonly changed: () => void;
  /** What was last seen of its stream; undefined before the first look. */
  seen: string | undefined;
}

interface HeadRow {
  readonly namespace: string;
  readonly stream: string;
  readonly head: string;
}

export class Watchers {
  readonly #database: Database;
  readonly #watchers = new Set<Watcher>();
  #timer: NodeJS.Timeout | null = null;
  #snapshot: string | null = null;
  #isLooking = false;
  #sparedLooks = 0;
  #listener: Listener | null = null;
  readonly #listens: boolean;

  /** `listens`: also to what other processes say, on a connection of its own. */
  constructor(database: Database, listens: boolean) {
    this.#database = database;
    this.#listens = listens;
  }

  add(request: WatchRequest, changed: () => void): () => void {
    const watcher = { ...request, changed, seen: undefined };
    this.#watchers.add(watcher);
    this.#timer ??= setInterval(() => this.#tick(), POLL_MS).unref();
    if (this.#listens) {
      this.#listener ??= new Listener(this.#database, (place) => {
        if (place) this.announce(place.namespace, place.stream);
        else for (const each of this.#watchers) this.#tell(each);
      });
    }
    return () => {
      this.#watchers.delete(watcher);
      if (this.#watchers.size === 0) void this.clear();
    };
  }

  /** In a turn of its own, so that a watcher cannot get between a change and its caller. */
  announce(namespace: string, stream: string): void {
    for (const watcher of this.#watchers) {
      const isMeant = watcher.namespace === namespace && (watcher.stream ?? stream) === stream;
      if (isMeant) this.#tell(watcher);
    }
  }

  async clear(): Promise<void> {
    this.#watchers.clear();
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
    const listener = this.#listener;
    this.#listener = null;
    await listener?.stop();
  }

  #tell(watcher: Watcher): void {
    setImmediate(() => {
      if (this.#watchers.has(watcher)) watcher.changed();
    });
  }

  #tick(): void {
    const isNew = [...this.#watchers].some(({ seen }) => seen === undefined);
    const isSpared = this.#listener?.isLive && !isNew && this.#sparedLooks < SPARED_LOOKS;
    this.#sparedLooks = isSpared ? this.#sparedLooks + 1 : 0;
    if (!isSpared) void this.#look();
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const watchers = [...this.#watchers];
    try {
      const [now] = await this.#database.attempt<{ snapshot: string }>(
        "SELECT pg_current_snapshot()::text AS snapshot",
        [],
      );
      const snapshot = now?.snapshot ?? null;
      const isMoved = snapshot !== this.#snapshot;
      if (isMoved || watchers.some(({ seen }) => seen === undefined)) await this.#compare(watchers, isMoved);
      this.#snapshot = snapshot;
    } catch {
      // Whoever acts on the store is told what is wrong with it; a watcher only gets to look again.
      for (const each of watchers) this.#tell(each);
    } finally {
      this.#isLooking = false;
    }
  }

  /** Whoever is looked at for the first time is told: what happened since it began to watch cannot be known. */
  async #compare(watchers: readonly Watcher[], isMoved: boolean): Promise<void> {
    const ofStreams = watchers.filter(({ stream }) => stream !== undefined);
    const heads = ofStreams.length > 0 ? await this.#heads(ofStreams) : new Map<string, string>();
    for (const watcher of watchers) {
      const { namespace, stream, seen } = watcher;
      const now = stream === undefined ? "" : (heads.get(placeName(namespace, stream)) ?? "none");
      const isChanged = stream === undefined ? isMoved : now !== seen;
      if (seen === undefined || isChanged) this.#tell(watcher);
      watcher.seen = now;
    }
  }

  async #heads(watchers: readonly Watcher[]): Promise<Map<string, string>> {
    const rows = await this.#database.attempt<HeadRow>(
      `SELECT s.namespace, s.stream, concat_ws(' ', s.state, s.generation, s.seq) AS head
       FROM ${this.#database.schema}.streams AS s
       WHERE (s.namespace, s.stream) IN (SELECT * FROM unnest($1::text[], $2::text[]))`,
      [
        watchers.map(({ namespace }) => toText(namespace)),
        watchers.map(({ stream }) => toText(stream as string)),
      ],
    );
    return new Map(
      rows.map(({ namespace, stream, head }) => [placeName(fromText(namespace), fromText(stream)), head]),
    );
  }
}
