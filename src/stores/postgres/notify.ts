/**
 * Word between processes that something changed, sooner than a look at the tables would find out.
 *
 *     changed ──▶ gathered for a moment ──NOTIFY, a transaction of its own──▶ whoever listens, and only then looks
 *
 * It is never part of an append: inside one it would make all of them wait for each other. It may get lost, be late, or
 * not work at all, as through a pooler that gives every transaction another connection; nothing depends on it. A
 * listener counts as live only once it has heard a word that was sent for it alone.
 */

import { randomUUID } from "node:crypto";
import pg from "pg";
import type { Database } from "./database.ts";
import { placeName } from "./text.ts";

/** How long changes are gathered: the most that a busy process sends is five of these a second. */
const GATHER_MS = 200;
/** Postgres takes less than 8,000 bytes; with more to tell, all are told to look. */
const MAX_WORD_BYTES = 7_900;
const RECONNECT_MS = 5_000;

/** What a listener is told: this stream changed, or, with null, anything may have. */
export type Heard = (place: { readonly namespace: string; readonly stream: string } | null) => void;

const channelOf = (schema: string): string => `holdfast ${schema}`.slice(0, 63);

/** The side that sends. */
export class Notices {
  readonly #database: Database;
  readonly #changed = new Map<string, readonly [string, string]>();
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> = Promise.resolve();

  constructor(database: Database) {
    this.#database = database;
  }

  add(namespace: string, stream: string): void {
    const name = placeName(namespace, stream);
    if (this.#changed.has(name)) return;
    this.#changed.set(name, [namespace, stream]);
    this.#timer ??= setTimeout(this.#sendNow, GATHER_MS).unref();
  }

  /** What was gathered and not sent is forgotten: others find it when they look. Resolves when what is being sent is over. */
  stop(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    return this.#sending;
  }

  readonly #sendNow = (): void => {
    this.#sending = this.#send();
  };

  async #send(): Promise<void> {
    this.#timer = null;
    const places = JSON.stringify([...this.#changed.values()]);
    this.#changed.clear();
    await say(this.#database, Buffer.byteLength(places) > MAX_WORD_BYTES ? "[]" : places);
  }
}

async function say(database: Database, word: string): Promise<void> {
  try {
    await database.attempt("SELECT pg_notify($1, $2)", [channelOf(database.schema), word]);
  } catch {
    // Whoever watches also looks by itself.
  }
}

/** The side that listens, on a connection of its own that does not keep the process alive. */
export class Listener {
  readonly #database: Database;
  readonly #heard: Heard;
  readonly #probe = randomUUID();
  #client: pg.Client | null = null;
  #timer: NodeJS.Timeout | null = null;
  #isLive = false;
  #isStopped = false;

  constructor(database: Database, heard: Heard) {
    this.#database = database;
    this.#heard = heard;
    void this.#connect();
  }

  /** Whether what others say has been heard to arrive. */
  get isLive(): boolean {
    return this.#isLive;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#isLive = false;
    if (this.#timer) clearTimeout(this.#timer);
    await this.#client?.end().catch(() => undefined);
  }

  async #connect(): Promise<void> {
    const client = new pg.Client(this.#database.settings);
    this.#client = client;
    const lose = () => {
      if (this.#client !== client) return;
      this.#client = null;
      this.#isLive = false;
      if (!this.#isStopped) this.#timer = setTimeout(() => void this.#connect(), RECONNECT_MS).unref();
    };
    client.on("error", lose).on("end", lose);
    client.on("notification", ({ payload = "" }) => this.#hear(payload));
    try {
      await client.connect();
      (client as unknown as { unref(): void }).unref();
      await client.query(`LISTEN ${client.escapeIdentifier(channelOf(this.#database.schema))}`);
      if (this.#isStopped) await client.end();
      else await say(this.#database, JSON.stringify(this.#probe));
    } catch {
      lose();
    }
  }

  #hear(word: string): void {
    const said: unknown = parse(word);
    if (said === this.#probe) this.#isLive = true;
    if (!Array.isArray(said)) return;
    if (said.length === 0) this.#heard(null);
    for (const [namespace, stream] of said) this.#heard({ namespace, stream });
  }
}

function parse(word: string): unknown {
  try {
    return JSON.parse(word);
  } catch {
    // Somebody else's word on our channel.
    return undefined;
  }
}
