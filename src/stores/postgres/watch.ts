/**
 * Hints that something changed.
 *
 * Changes of this process are announced when they are committed. Changes of others are polled five times a
 * second while anyone watches. Nothing is asked before the first poll, so a short run costs nothing. A poll
 * reads the server's snapshot of transactions; when it moves, one statement compares the heads of the
 * watched streams. This works through any pooler and on a standby.
 *
 * NOTIFY brings the hints sooner; while it is known to arrive, one poll a second is enough:
 *
 *     changed ──▶ collected for 200 ms ──NOTIFY, a transaction of its own──▶ listeners, which then look
 *
 * A notification holds digests, not names: every role of a database can listen to every channel.
 *
 * NOTIFY is never part of an append: it would make all appends wait for each other. It may be lost, be
 * late, or not work at all, for example through a transaction pooler; nothing depends on it.
 */

import { randomUUID } from "node:crypto";
import { clearTimeout, setTimeout } from "node:timers";
import pg from "pg";
import { sha256 } from "../../model/digest.ts";
import type { WatchRequest } from "../../store.ts";
import { type Watcher, Watchers } from "../kit/index.ts";
import { closeSocket } from "./connections.ts";
import type { Database } from "./database.ts";
import { fromText, placeName, toText } from "./rows.ts";

/** How many polls are skipped after each one while NOTIFY arrives. */
const SKIPPED_POLLS = 4;

export class PostgresWatchers {
  readonly #database: Database;
  readonly #usesNotify: boolean;
  readonly #watchers: Watchers;
  /** The last seen head of each watcher's stream; a new watcher has none. */
  readonly #heads = new WeakMap<Watcher, string>();
  #snapshot: string | null = null;
  #skippedPolls = 0;
  #listener: Listener | null = null;
  #stopping: Promise<void> | undefined;

  constructor(database: Database, usesNotify: boolean) {
    this.#database = database;
    this.#usesNotify = usesNotify;
    this.#watchers = new Watchers({
      poll: (watchers) => this.#poll(watchers),
      stopped: () => {
        this.#stopping = this.#listener?.stop();
        this.#listener = null;
      },
    });
  }

  add(request: WatchRequest, changed: () => void): () => void {
    return this.#watchers.add(request, changed);
  }

  announce(namespace: string, stream: string): void {
    this.#watchers.announce(namespace, stream);
  }

  async clear(): Promise<void> {
    this.#watchers.clear();
    await this.#stopping;
  }

  #listen(): void {
    if (!this.#usesNotify || this.#listener) return;
    this.#listener = new Listener(this.#database, (change) => {
      this.#watchers.notifyAll(change ? (watcher) => concerns(watcher, change) : undefined);
    });
  }

  async #poll(watchers: readonly Watcher[]): Promise<void> {
    this.#listen();
    const hasNew = watchers.some((watcher) => !this.#heads.has(watcher));
    const isSkipped = this.#listener?.isLive && !hasNew && this.#skippedPolls < SKIPPED_POLLS;
    this.#skippedPolls = isSkipped ? this.#skippedPolls + 1 : 0;
    if (isSkipped) return;
    const [now] = await this.#database.attempt<{ snapshot: string }>(
      "SELECT pg_current_snapshot()::text AS snapshot",
      [],
    );
    const snapshot = now?.snapshot ?? null;
    const hasMoved = snapshot !== this.#snapshot;
    if (hasMoved || hasNew) await this.#compare(watchers, hasMoved);
    this.#snapshot = snapshot;
  }

  /** Calls a new watcher in any case: a change since it began to watch cannot be excluded. */
  async #compare(watchers: readonly Watcher[], hasMoved: boolean): Promise<void> {
    const ofStreams = watchers.filter(({ stream }) => stream !== undefined);
    const heads = ofStreams.length > 0 ? await this.#readHeads(ofStreams) : new Map<string, string>();
    for (const watcher of watchers) {
      const { namespace, stream } = watcher;
      const before = this.#heads.get(watcher);
      const now = stream === undefined ? "" : (heads.get(placeName(namespace, stream)) ?? "none");
      const hasChanged = stream === undefined ? hasMoved : now !== before;
      if (before === undefined || hasChanged) this.#watchers.notify(watcher);
      this.#heads.set(watcher, now);
    }
  }

  async #readHeads(watchers: readonly Watcher[]): Promise<Map<string, string>> {
    const rows = await this.#database.attempt<Record<"namespace" | "stream" | "head", string>>(
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

/** How long changes are collected: a busy process sends at most five notifications a second. */
const COLLECT_MS = 200;
/** Postgres takes less than 8,000 bytes. A longer list becomes an empty one, which means "anything". */
const MAX_PAYLOAD_BYTES = 7_900;
const RECONNECT_MS = 5_000;
/** How long a closing store waits for the server to close the connection. */
const END_MS = 2_000;

const channelOf = (schema: string): string => `holdfast ${schema}`.slice(0, 63);

async function notify(database: Database, payload: string): Promise<void> {
  try {
    await database.attempt("SELECT pg_notify($1, $2)", [channelOf(database.schema), payload]);
  } catch {
    // Watchers also poll.
  }
}

/** Sends notifications of this process's changes. */
export class Notifier {
  readonly #database: Database;
  readonly #changed = new Map<string, Change>();
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> = Promise.resolve();

  constructor(database: Database) {
    this.#database = database;
  }

  add(namespace: string, stream: string): void {
    const name = placeName(namespace, stream);
    if (this.#changed.has(name)) return;
    this.#changed.set(name, [digest(namespace), digest(name)]);
    this.#timer ??= setTimeout(() => {
      this.#sending = this.#send();
    }, COLLECT_MS).unref();
  }

  /** Drops what is collected: other processes find it by polling. */
  stop(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    return this.#sending;
  }

  async #send(): Promise<void> {
    this.#timer = null;
    const changes = JSON.stringify([...this.#changed.values()]);
    this.#changed.clear();
    await notify(this.#database, Buffer.byteLength(changes) > MAX_PAYLOAD_BYTES ? "[]" : changes);
  }
}

/** The digests of a namespace and of a stream in it. */
type Change = readonly [namespace: string, place: string];

const digest = (name: string): string => sha256(name).slice(0, 16);

function concerns({ namespace, stream }: Watcher, [inNamespace, place]: Change): boolean {
  return stream === undefined
    ? digest(namespace) === inNamespace
    : digest(placeName(namespace, stream)) === place;
}

/** Called with the stream that changed, or with null if anything may have. */
type OnChange = (change: Change | null) => void;

/** Receives notifications, on a connection of its own. It is live once its own probe has arrived. */
class Listener {
  readonly #database: Database;
  readonly #onChange: OnChange;
  readonly #probe = randomUUID();
  #client: pg.Client | null = null;
  #timer: NodeJS.Timeout | null = null;
  isLive = false;
  #isStopped = false;

  constructor(database: Database, onChange: OnChange) {
    this.#database = database;
    this.#onChange = onChange;
    void this.#connect();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.isLive = false;
    if (this.#timer) clearTimeout(this.#timer);
    if (this.#client) await end(this.#client);
  }

  async #connect(): Promise<void> {
    const client = new pg.Client(this.#database.settings);
    this.#client = client;
    const reconnect = () => {
      if (this.#client !== client) return;
      this.#client = null;
      this.isLive = false;
      if (!this.#isStopped) this.#timer = setTimeout(() => void this.#connect(), RECONNECT_MS).unref();
    };
    client.on("error", reconnect).on("end", reconnect);
    client.on("notification", ({ payload = "" }) => this.#receive(payload));
    try {
      await client.connect();
      (client as unknown as { unref(): void }).unref();
      await client.query(`LISTEN ${client.escapeIdentifier(channelOf(this.#database.schema))}`);
      if (this.#isStopped) await end(client);
      else await notify(this.#database, JSON.stringify(this.#probe));
    } catch {
      reconnect();
    }
  }

  #receive(payload: string): void {
    const message = parse(payload);
    if (message === this.#probe) this.isLive = true;
    if (!Array.isArray(message)) return;
    if (message.length === 0) this.#onChange(null);
    for (const change of message) if (Array.isArray(change)) this.#onChange(change as unknown as Change);
  }
}

/**
 * Waits until the server has closed the connection, or for `END_MS`. The listener's socket does not keep the
 * process alive, and the timer does: without it, Node would end a program in its `await holdfast.close()`
 * with exit code 13.
 */
async function end(client: pg.Client): Promise<void> {
  const timer = setTimeout(() => {
    closeSocket(client, `the server did not close the connection within ${END_MS} ms`);
  }, END_MS);
  await client.end().catch(() => undefined);
  clearTimeout(timer);
}

function parse(payload: string): unknown {
  try {
    return JSON.parse(payload);
  } catch {
    // Another program uses our channel.
    return undefined;
  }
}
