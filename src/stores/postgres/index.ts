/**
 * The store in a schema of a Postgres database, shared by processes on many machines. Reads are one statement each, on
 * whatever connection is free; appends fly together (`append.ts` opens with the protocol). `database.ts` says what a
 * failure tells of a transaction, `opening.ts` what is refused, `schema-1.ts` what the schema holds.
 */

import pg from "pg";
import { HoldfastError } from "../../model/errors.ts";
import type {
  AppendOutcome,
  Batch,
  Blob,
  GetRequest,
  LeaseOutcome,
  LeaseRequest,
  ListRequest,
  ListRows,
  Moving,
  Page,
  Problem,
  PutRequest,
  ReadPage,
  ReadRequest,
  RemoveOutcome,
  RemoveRequest,
  Store,
  WatchRequest,
} from "../../store.ts";
import { Acknowledged } from "./acknowledged.ts";
import { checkSchema, describe, parseUrl } from "./address.ts";
import { checkShape } from "./append.ts";
import { check } from "./check.ts";
import { Database, type Entry } from "./database.ts";
import { dump } from "./dump.ts";
import { closed } from "./failures.ts";
import { lease } from "./leases.ts";
import { list } from "./list.ts";
import { Notices } from "./notify.ts";
import { openSchema } from "./opening.ts";
import { put } from "./put.ts";
import { AppendQueue } from "./queue.ts";
import { get, read } from "./read.ts";
import { remove } from "./remove.ts";
import { restore } from "./restore.ts";
import { readSeal, reseal } from "./seal.ts";
import { unwritable } from "./unwritable.ts";
import { Watchers } from "./watch.ts";

/** For tests that look behind the store. */
export { Connections, type Held } from "./connections.ts";
export { Database } from "./database.ts";
export { MIGRATIONS, type Migration, migrate } from "./migrations.ts";

/** For `openPostgres`, where the address alone does not say it all: a pool of your own, time-outs, no NOTIFY. */
export interface PostgresOptions {
  /** `postgres://user:password@host:5432/database?schema=name`. What it leaves out comes from the PG* variables. */
  readonly url?: string;
  /** The caller's own pool instead. It is never ended here. */
  readonly pool?: PostgresPool;
  /** Where the tables are; `holdfast` unless given. It is created when it is not there. */
  readonly schema?: string;
  /** Do not create what is not there. */
  readonly mustExist?: boolean;
  /** How many connections at most, of a pool that is not the caller's. 10 unless given. */
  readonly maxConnections?: number;
  /** How long to wait for locks of others, and for a server that restarts. 30 s unless given. */
  readonly busyMs?: number;
  /** After how long without an answer a connection is given up. 60 s unless given. */
  readonly statementMs?: number;
  /**
   * Tell other processes of changes, and listen for theirs, with NOTIFY: they are noticed sooner, for at most five small
   * transactions a second and one connection while somebody watches. Without it, and wherever it does not get through,
   * changes are found by looking. On unless set to false.
   */
  readonly notify?: boolean;
  /** Work on a server that forgets acknowledged writes when it crashes (`fsync` or `synchronous_commit` is off). */
  readonly allowLoss?: boolean;
}

/** A `Pool` of `pg`, named by what tells one, so that programs without it need no types of `pg`. */
export interface PostgresPool {
  connect(): Promise<unknown>;
  end(): Promise<void>;
  readonly totalCount: number;
  readonly idleCount: number;
  readonly waitingCount: number;
}

const DEFAULT_MAX_CONNECTIONS = 10;
const DEFAULT_BUSY_MS = 30_000;
const DEFAULT_STATEMENT_MS = 60_000;
const CONNECT_MS = 10_000;

/**
 * Opens the store in a schema of a Postgres database, and makes the schema where it is not there. `open("postgres://…")` does it
 * for you; use this for the options, with `open(undefined, { store })`.
 */
export async function openPostgres(options: PostgresOptions = {}): Promise<Store> {
  const { busyMs = DEFAULT_BUSY_MS, statementMs = DEFAULT_STATEMENT_MS } = options;
  const { allowLoss = false, mustExist = false } = options;
  const { pool, schema } = options.pool
    ? { pool: options.pool as pg.Pool, schema: checkSchema(options.schema) }
    : makePool(options);
  const address = describe(whereabouts(pool), schema);
  const database = new Database(pool, !options.pool, address, schema, { busyMs, statementMs });
  try {
    const store = await openSchema(database, { schema, allowLoss, mustExist });
    return new PostgresStore(database, { store, allowLoss }, options.notify ?? true);
  } catch (error) {
    await database.close();
    throw error;
  }
}

function makePool(options: PostgresOptions): { pool: pg.Pool; schema: string } {
  const { url = "postgres://", maxConnections = DEFAULT_MAX_CONNECTIONS } = options;
  const { settings, schema } = parseUrl(url, options.schema);
  const pool = new pg.Pool({
    ...settings,
    max: maxConnections,
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    // A store that nobody uses does not keep the process alive.
    allowExitOnIdle: true,
    // `fallback_application_name` gives way to what the URL or PGAPPNAME says.
    fallback_application_name: "holdfast",
  } as pg.PoolConfig);
  return { pool, schema };
}

/** What the pool's connections will make of URL and PG* variables. */
function whereabouts(pool: pg.Pool): Pick<pg.Client, "host" | "port" | "database"> {
  try {
    return new pg.Client(pool.options);
  } catch (error) {
    // The message may quote the address, password included, so it is not passed on.
    const kind = error instanceof Error ? error.name : "Error";
    throw new HoldfastError(
      "INPUT_INVALID",
      `the settings of the Postgres connection are not valid (${kind})`,
      {
        hint: "Check the URL, the files it names for TLS, and the PG* variables.",
      },
    );
  }
}

class PostgresStore implements Store {
  readonly address: string;
  readonly moving: Moving = {
    seal: () => this.#use(readSeal),
    reseal: (expect, next) => this.#use((database) => reseal(database, expect, next)),
    dump: (cursor, only) => this.#use((database) => dump(database, cursor, only)),
    restore: (move, rows) => this.#use((database) => restore(database, move, rows)),
  };
  readonly #database: Database;
  readonly #entry: Entry;
  readonly #queue: AppendQueue;
  readonly #acknowledged: Acknowledged;
  readonly #watchers: Watchers;
  readonly #notices: Notices | null;
  readonly #running = new Set<Promise<unknown>>();
  #closing: Promise<void> | null = null;

  constructor(database: Database, entry: Entry, notify: boolean) {
    this.address = database.address;
    this.#database = database;
    this.#entry = entry;
    this.#queue = new AppendQueue(database, entry);
    this.#acknowledged = new Acknowledged(database.address);
    this.#watchers = new Watchers(database, notify);
    this.#notices = notify ? new Notices(database) : null;
  }

  /** Not `async`: between the server's answer and whoever waits for it stands one promise. */
  append(batch: Batch): Promise<AppendOutcome> {
    try {
      if (this.#closing) throw closed(this.address);
      checkShape(batch);
      const { namespace, writes } = batch;
      const known = writes.map(({ stream }) => this.#acknowledged.headOf(namespace, stream));
      return this.#queue.submit(batch, (outcome) => {
        this.#acknowledged.noteAppend(batch, outcome, known);
        if (outcome.outcome !== "ok") return;
        for (const { stream } of writes) this.#announce(namespace, stream);
      });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async read(request: ReadRequest): Promise<ReadPage> {
    const known = this.#acknowledged.headOf(request.namespace, request.stream);
    const page = await this.#use((database) => read(database, request));
    this.#acknowledged.checkHead(request.stream, page.stream.head, known);
    return page;
  }

  async list<Of extends keyof ListRows>(
    request: Extract<ListRequest, { of: Of }>,
  ): Promise<Page<ListRows[Of]>> {
    return this.#use((database) => list(database, request) as Promise<Page<ListRows[Of]>>);
  }

  async put(request: PutRequest): Promise<void> {
    return this.#use((database) => put(database, this.#entry, request));
  }

  async get(request: GetRequest): Promise<Blob | null> {
    return this.#use((database) => get(database, request));
  }

  async lease(request: LeaseRequest): Promise<LeaseOutcome> {
    const { namespace } = request;
    const known = request.act === "take" ? this.#acknowledged.tokenOf(namespace, request.name) : undefined;
    const outcome = await this.#use((database) => lease(database, this.#entry, request));
    this.#acknowledged.noteLease(namespace, outcome, known);
    return outcome;
  }

  async remove(request: RemoveRequest): Promise<RemoveOutcome> {
    const outcome = await this.#use((database) => remove(database, this.#entry, request));
    if (request.of === "stream") this.#announce(request.namespace, request.stream);
    return outcome;
  }

  watch(request: WatchRequest, changed: () => void): () => void {
    if (this.#closing) throw closed(this.address);
    return this.#watchers.add(request, changed);
  }

  async check(): Promise<readonly Problem[]> {
    return this.#use((database) => check(database));
  }

  async unwritable(): Promise<{ why: string; hint: string } | null> {
    return this.#use(unwritable);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.allSettled([this.#watchers.clear(), this.#queue.drained(), ...this.#running]);
    // Together: one that waits for a connection is told only by the end of them.
    await Promise.all([this.#notices?.stop(), this.#database.close()]);
  }

  #announce(namespace: string, stream: string): void {
    this.#watchers.announce(namespace, stream);
    this.#notices?.add(namespace, stream);
  }

  async #use<Result>(act: (database: Database) => Promise<Result>): Promise<Result> {
    if (this.#closing) throw closed(this.address);
    const running = act(this.#database);
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }
}
