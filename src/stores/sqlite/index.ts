/**
 * The store in one SQLite file. Reads run at once on the connection, in a snapshot each; changes go through a queue
 * that commits many at a time. `opening.ts` says how a file is opened, `queue.ts` when a change is acknowledged,
 * `medium.ts` what happens after an I/O error, `schema-1.ts` what the file holds.
 */

import { relative, resolve } from "node:path";
import type { MaybePromise } from "../../model/maybe-promise.ts";
import {
  type AppendOutcome,
  type Batch,
  type Blob,
  type GetRequest,
  type LeaseOutcome,
  type LeaseRequest,
  type ListRequest,
  type ListRows,
  type Moving,
  type Page,
  type Problem,
  type PutRequest,
  type ReadPage,
  type ReadRequest,
  type RemoveOutcome,
  type RemoveRequest,
  type Store,
  takesUtf8,
  type WatchRequest,
} from "../../store.ts";
import {
  bootClock,
  type Clock,
  closedError,
  readOnlyError,
  refuseSealed,
  type Watchers,
} from "../kit/index.ts";
import { append } from "./append.ts";
import type { Connection } from "./driver.ts";
import { patiently, storeError } from "./failures.ts";
import { lease } from "./leases.ts";
import { isOneStatement, list } from "./list.ts";
import { Medium } from "./medium.ts";
import { emptyWal, openFirst } from "./opening.ts";
import { put } from "./put.ts";
import { type Submitted, WriteQueue } from "./queue.ts";
import { get, isHeadOnly, read } from "./read.ts";
import { remove } from "./remove.ts";
import { readSeal, reseal } from "./seal.ts";
import type { Done, Transaction } from "./transaction.ts";
import { changesOfOthers } from "./watch.ts";
import { checkShape } from "./write.ts";

/** Also the way to SQLite for whoever needs a lock or a look, and for tests that look behind the store. */
export { Connection } from "./driver.ts";
export { allMigrations, FORMAT, migrate } from "./migrations.ts";

export interface SqliteOptions {
  readonly path: string;
  readonly readOnly?: boolean;
  /** Do not create what is not there. */
  readonly mustExist?: boolean;
  /** How long to wait for a lock of another process before giving up. */
  readonly busyMs?: number;
  readonly allowNetworkDisk?: boolean;
  /** What leases run by; the machine's uptime unless given. */
  readonly clock?: Clock;
}

const DEFAULT_BUSY_MS = 30_000;

export async function openSqlite(options: SqliteOptions): Promise<Store> {
  const place = {
    path: resolve(options.path),
    readOnly: options.readOnly ?? false,
    busyMs: options.busyMs ?? DEFAULT_BUSY_MS,
  };
  const { mustExist = false, allowNetworkDisk = false } = options;
  const opened = await openFirst(place, { mustExist, allowNetworkDisk });
  return new SqliteStore(new Medium(place, opened), options.clock ?? bootClock());
}

class SqliteStore implements Store {
  readonly address: string;
  readonly moving: Moving = {
    seal: async () => this.#lookOnce(readSeal),
    reseal: async (expect, next) => this.#changeSealed((transaction) => reseal(transaction, expect, next)),
    // Like `check`, these are loaded when they are wanted: most processes have to start quickly, and never do.
    dump: async (cursor, only) => {
      const { dump } = await import("./dump.ts");
      return this.#look((connection) => dump(connection, this.#clock, cursor, only));
    },
    restore: async (move, rows) => {
      const { restore } = await import("./restore.ts");
      return this.#changeSealed((transaction) => restore(transaction, this.#medium.place.path, move, rows));
    },
  };
  readonly #medium: Medium;
  readonly #queue: WriteQueue;
  readonly #clock: Clock;
  readonly #watchers: Watchers;
  #closing: Promise<void> | null = null;

  constructor(medium: Medium, clock: Clock) {
    this.#medium = medium;
    this.#clock = clock;
    this.#queue = new WriteQueue(medium);
    this.#watchers = changesOfOthers((act) => medium.read(act));
    const near = relative(process.cwd(), medium.place.path);
    takesUtf8.add(this);
    this.address = `sqlite ${near.startsWith("..") ? medium.place.path : near}`;
  }

  /** Not `async`: one who writes alone is answered at once. */
  append(batch: Batch): MaybePromise<AppendOutcome> {
    try {
      checkShape(batch);
      let bytes = 0;
      for (const { payload } of batch.writes) bytes += payload.length;
      const from = batch.writes[0]?.stream ?? "";
      const act = (transaction: Transaction) => {
        refuseSealed(this.#medium.place.path, "sqlite", transaction.seal);
        return append(transaction, this.#clock, batch);
      };
      const answered = ({ outcome }: AppendOutcome): void => {
        if (outcome !== "ok") return;
        for (const { stream } of batch.writes) this.#watchers.announce(batch.namespace, stream);
      };
      return this.#changeSealed(act, { bytes, from, answered });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async read(request: ReadRequest): Promise<ReadPage> {
    if (isHeadOnly(request)) return this.#lookOnce((connection) => read(connection, request));
    return this.#look((connection) => read(connection, request));
  }

  async list<Of extends keyof ListRows>(
    request: Extract<ListRequest, { of: Of }>,
  ): Promise<Page<ListRows[Of]>> {
    const act = (connection: Connection) => list(connection, this.#clock, request) as Page<ListRows[Of]>;
    return isOneStatement(request) ? this.#lookOnce(act) : this.#look(act);
  }

  async put(request: PutRequest): Promise<void> {
    const bytes = request.of === "artifact" ? request.bytes.length : request.payload.length;
    return this.#change((transaction) => put(transaction, request), { bytes });
  }

  async get(request: GetRequest): Promise<Blob | null> {
    return this.#lookOnce((connection) => get(connection, request));
  }

  async lease(request: LeaseRequest): Promise<LeaseOutcome> {
    const options = { urgent: request.act === "renew" };
    return this.#change((transaction) => lease(transaction, this.#clock, request), options);
  }

  async remove(request: RemoveRequest): Promise<RemoveOutcome> {
    const erase = request.of === "stream" && request.erase === true;
    const outcome = await this.#change((transaction) => {
      const { connection } = transaction;
      if (erase) connection.exec("PRAGMA secure_delete = ON");
      try {
        return remove(transaction, this.#clock, request);
      } finally {
        if (erase) connection.exec("PRAGMA secure_delete = FAST");
      }
    });
    if (request.of === "stream") this.#watchers.announce(request.namespace, request.stream);
    if (erase && outcome.outcome === "removed") await this.#emptyWal();
    return outcome;
  }

  watch(request: WatchRequest, changed: () => void): () => void {
    if (this.#closing) throw closedError({ path: this.#medium.place.path });
    return this.#watchers.add(request, changed);
  }

  async check(): Promise<readonly Problem[]> {
    if (this.#closing) throw closedError({ path: this.#medium.place.path });
    const { check } = await import("./check.ts");
    return check((act) => this.#medium.read(act));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#watchers.clear();
    await this.#queue.drained();
    await this.#medium.close();
  }

  /** Throws at once what only the caller's promise may tell, as does the next. */
  #look<Result>(act: (connection: Connection) => Result): Promise<Result> {
    if (this.#closing) throw closedError({ path: this.#medium.place.path });
    return this.#medium.read(act);
  }

  #lookOnce<Result>(act: (connection: Connection) => Result): Promise<Result> {
    if (this.#closing) throw closedError({ path: this.#medium.place.path });
    return this.#medium.readOnce(act);
  }

  #change<Result>(
    act: (transaction: Transaction) => Done<Result>,
    options?: Submitted<Result>,
  ): MaybePromise<Result> {
    return this.#changeSealed((transaction) => {
      refuseSealed(this.#medium.place.path, "sqlite", transaction.seal);
      return act(transaction);
    }, options);
  }

  /** For the acts of a copy, which a seal does not stop. Throws at once what only the caller's promise may tell. */
  #changeSealed<Result>(
    act: (transaction: Transaction) => Done<Result>,
    options?: Submitted<Result>,
  ): MaybePromise<Result> {
    if (this.#closing) throw closedError({ path: this.#medium.place.path });
    if (this.#medium.place.readOnly) throw readOnlyError({ path: this.#medium.place.path });
    return this.#queue.submit(act, options);
  }

  /** The WAL still holds what was erased from the file, until it is copied over and cut to nothing. */
  async #emptyWal(): Promise<void> {
    const { path, busyMs } = this.#medium.place;
    try {
      await patiently(path, busyMs, async () => {
        await this.#medium.ready();
        emptyWal(this.#medium.connection);
      });
    } catch (error) {
      throw storeError(path, error, true);
    }
  }
}
