/**
 * The store in a schema of a Postgres database, shared by processes on many machines.
 * `append.ts` opens with the protocol of an append. A read is one statement on any free connection.
 */

import pg from "pg";
import { HoldfastError } from "../../model/errors.ts";
import type * as Port from "../../store.ts";
import type { Batch, Moving, Store } from "../../store.ts";
import { closedError } from "../kit/index.ts";
import { checkSchema, describe, disablesTls, isOnThisMachine, parseUrl } from "./address.ts";
import { checkPostgresBatch } from "./append.ts";
import { check } from "./check.ts";
import { Database, type WriteContext } from "./database.ts";
import { lease } from "./leases.ts";
import { list } from "./list.ts";
import { openSchema, unwritable } from "./opening.ts";
import { AppendQueue } from "./queue.ts";
import { get, put, read } from "./read-and-put.ts";
import { remove } from "./remove.ts";
import { RewindGuard } from "./rewind-guard.ts";
import { grantTenant, type Tenant, type TenantRights } from "./tenants.ts";
import { clientName, dump, otherUser, readSeal, reseal, restore } from "./transfer.ts";
import { vacuum } from "./vacuum.ts";
import { Notifier, PostgresWatchers } from "./watch.ts";

/** For tests of the internals. */
export { type Connection, Connections } from "./connections.ts";
export { Database } from "./database.ts";
export { MIGRATIONS, type Migration, migrate } from "./opening.ts";

/**
 * Options of `openPostgres`, for what an address cannot say: a pool of your own, timeouts, no NOTIFY.
 *
 * ```ts
 * const store = await openPostgres({ pool: new pg.Pool({ max: 20 }), schema: "agents", busyMs: 5_000 });
 * const holdfast = await open(undefined, { store });
 * ```
 */
export interface PostgresOptions {
  /** `postgres://user:password@host:5432/database?schema=name`. The PG* variables fill the gaps. */
  readonly url?: string;
  /** A pool of your own instead of `url`. `close()` does not end it. */
  readonly pool?: PostgresPool;
  /** The schema of the tables, created if missing. Default: `holdfast`. */
  readonly schema?: string;
  /** Throw STORE_NOT_FOUND instead of creating a store. Default: false. */
  readonly mustExist?: boolean;
  /** The most connections of the pool that is made from `url`. Default: 10. */
  readonly maxConnections?: number;
  /** How long to wait for locks of others, and for a server that restarts. Default: 30,000 (30 s). */
  readonly busyMs?: number;
  /** A connection without an answer for this long is closed. Default: 60,000 (60 s). */
  readonly statementMs?: number;
  /** Learn sooner of others' changes, for one more connection while anyone watches. Default: true. */
  readonly notify?: boolean;
  /** Accept a server with `fsync` or `synchronous_commit` off, which can lose acknowledged writes. */
  readonly allowLoss?: boolean;
}

/** A `Pool` of `pg`, described by its members, so that programs without `pg` do not need its types. */
export interface PostgresPool {
  connect(): Promise<unknown>;
  end(): Promise<void>;
  readonly totalCount: number;
  readonly idleCount: number;
  readonly waitingCount: number;
}

/**
 * Opens the store in a schema of a Postgres database, and creates the schema if it is missing.
 * `open("postgres://…")` calls this. To set options, pass its result to `open(undefined, { store })`.
 */
export async function openPostgres(options: PostgresOptions = {}): Promise<Store> {
  const { busyMs = 30_000, statementMs = 60_000 } = options;
  const { allowLoss = false, mustExist = false } = options;
  const { pool, schema } = options.pool
    ? { pool: options.pool as pg.Pool, schema: checkSchema(options.schema) }
    : makePool(options);
  const client = describedClient(pool);
  if (!options.pool) refuseUnencrypted(client, options.url);
  const address = describe(client, schema);
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
  const { url = "postgres://", maxConnections = 10 } = options;
  const { settings, schema } = parseUrl(url, options.schema);
  const pool = new pg.Pool({
    ...settings,
    max: maxConnections,
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
    allowExitOnIdle: true,
    // The URL and PGAPPNAME take precedence over `fallback_application_name`.
    fallback_application_name: clientName(schema),
  } as pg.PoolConfig);
  return { pool, schema };
}

/** Host, port, database and TLS as `pg` derives them from the URL and the PG* variables. */
function describedClient(pool: pg.Pool): pg.Client {
  try {
    return new pg.Client(pool.options);
  } catch (error) {
    // The message may quote the address with its password, so it is not passed on.
    const kind = error instanceof Error ? error.name : "Error";
    throw new HoldfastError("INPUT_INVALID", `the Postgres connection settings are invalid (${kind})`, {
      hint: "Check the URL, the files it names for TLS, and the PG* variables.",
    });
  }
}

/** Refuses to send a password and everything else in clear to another machine, unless that was asked for. */
function refuseUnencrypted(client: pg.Client, url: string | undefined): void {
  const { host, ssl } = client as pg.Client & { readonly ssl?: unknown };
  if (ssl || isOnThisMachine(host) || disablesTls(url ?? "")) return;
  throw new HoldfastError("INPUT_INVALID", `the connection to ${host} would not be encrypted`, {
    hint:
      "Add `sslmode=verify-full` to the address, or set PGSSLMODE. If the network between this machine and " +
      "the server is trusted, add `sslmode=disable`.",
    data: { host },
  });
}

class PostgresStore implements Store {
  readonly address: string;
  readonly moving: Moving = {
    seal: () => this.#use(readSeal),
    reseal: (expect, next) => this.#use((database) => reseal(database, expect, next)),
    dump: (cursor, only) => this.#use((database) => dump(database, cursor, only)),
    restore: (move, rows) => this.#use((database) => restore(database, move, rows)),
    otherUser: () => this.#use(otherUser),
  };
  readonly #database: Database;
  readonly #context: WriteContext;
  readonly #queue: AppendQueue;
  readonly #rewindGuard: RewindGuard;
  readonly #watchers: PostgresWatchers;
  readonly #notifier: Notifier | null;
  readonly #inProgress = new Set<Promise<unknown>>();
  #closing: Promise<void> | null = null;

  constructor(database: Database, context: WriteContext, notify: boolean) {
    this.address = database.address;
    this.#database = database;
    this.#context = context;
    this.#queue = new AppendQueue(database, context);
    this.#rewindGuard = new RewindGuard(database.address);
    this.#watchers = new PostgresWatchers(database, notify);
    this.#notifier = notify ? new Notifier(database) : null;
  }

  /** Not `async`, which would put another promise between the server's answer and the caller. */
  append(batch: Batch): Promise<Port.AppendOutcome> {
    try {
      if (this.#closing) throw closedError({ address: this.address });
      checkPostgresBatch(batch);
      const { namespace, writes } = batch;
      const known = writes.map(({ stream }) => this.#rewindGuard.headOf(namespace, stream));
      return this.#queue.submit(batch, (outcome) => {
        this.#rewindGuard.noteAppend(batch, outcome, known);
        if (outcome.outcome !== "ok") return;
        for (const { stream } of writes) this.#announce(namespace, stream);
      });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async read(request: Port.ReadRequest): Promise<Port.ReadPage> {
    const known = this.#rewindGuard.headOf(request.namespace, request.stream);
    const page = await this.#use((database) => read(database, request));
    this.#rewindGuard.checkHead(request.stream, page.stream.head, known);
    return page;
  }

  async list<Of extends keyof Port.ListRows>(
    request: Extract<Port.ListRequest, { of: Of }>,
  ): Promise<Port.Page<Port.ListRows[Of]>> {
    return this.#use((database) => list(database, request) as Promise<Port.Page<Port.ListRows[Of]>>);
  }

  async put(request: Port.PutRequest): Promise<void> {
    return this.#use((database) => put(database, this.#context, request));
  }

  async get(request: Port.GetRequest): Promise<Port.Blob | null> {
    return this.#use((database) => get(database, request));
  }

  async lease(request: Port.LeaseRequest): Promise<Port.LeaseOutcome> {
    const { namespace } = request;
    const known = request.act === "take" ? this.#rewindGuard.tokenOf(namespace, request.name) : undefined;
    const outcome = await this.#use((database) => lease(database, this.#context, request));
    this.#rewindGuard.noteLease(namespace, outcome, known);
    return outcome;
  }

  async remove(request: Port.RemoveRequest): Promise<Port.RemoveOutcome> {
    const outcome = await this.#use((database) => remove(database, this.#context, request));
    if (request.of === "stream") this.#announce(request.namespace, request.stream);
    return outcome;
  }

  watch(request: Port.WatchRequest, changed: () => void): () => void {
    if (this.#closing) throw closedError({ address: this.address });
    return this.#watchers.add(request, changed);
  }

  async check(): Promise<readonly Port.Problem[]> {
    return this.#use((database) => check(database));
  }

  async unwritable(): Promise<{ why: string; hint: string } | null> {
    return this.#use(unwritable);
  }

  async vacuum(): Promise<Port.Vacuumed> {
    return this.#use(vacuum);
  }

  async grantTenant(tenant: Tenant, options: { readonly dryRun: boolean }): Promise<TenantRights> {
    return this.#use((database) => grantTenant(database, tenant, options));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.allSettled([this.#watchers.clear(), this.#queue.drained(), ...this.#inProgress]);
    // Together: a notification that waits for a connection is only rejected when the database closes.
    await Promise.all([this.#notifier?.stop(), this.#database.close()]);
  }

  #announce(namespace: string, stream: string): void {
    this.#watchers.announce(namespace, stream);
    this.#notifier?.add(namespace, stream);
  }

  async #use<Result>(act: (database: Database) => Promise<Result>): Promise<Result> {
    if (this.#closing) throw closedError({ address: this.address });
    const running = act(this.#database);
    this.#inProgress.add(running);
    try {
      return await running;
    } finally {
      this.#inProgress.delete(running);
    }
  }
}
