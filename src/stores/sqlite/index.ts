/**
 * The store in one SQLite file. Reads run at once on the connection, each in one snapshot. Writes go
 * through a queue that commits many at a time.
 *
 *     opening.ts           how a file is opened and migrated     schema-1.ts   the tables and views
 *     file-connection.ts   recovery after an I/O error           queue.ts      when a write is acknowledged
 */

import { isHoldfastError } from "../../model/errors.ts";
import type { MaybePromise } from "../../model/maybe-promise.ts";
import { rewoundStore } from "../../model/stream/index.ts";
import type * as port from "../../store.ts";
import { acceptsUtf8 } from "../../store.ts";
import type { Clock, DiskStoreOptions } from "../kit/index.ts";
import {
  bootClock,
  closedError,
  createEmptyFile,
  diskStoreOptions,
  nearestPath,
  RewindRecord,
  readOnlyError,
  refuseSealed,
  statOf,
  syncFile,
  Watchers,
} from "../kit/index.ts";
import { append, checkShape } from "./append.ts";
import type { Connection } from "./driver.ts";
import { inUse, retryWhileLocked, storeError } from "./failures.ts";
import { FileConnection } from "./file-connection.ts";
import { lease } from "./leases.ts";
import { isOneStatement, list } from "./list.ts";
import { bumpMark, emptyWal, openFirst, readEpoch, readMark, readSeal } from "./opening.ts";
import { type WriteOptions, WriteQueue } from "./queue.ts";
import { get, isHeadOnly, put, read } from "./read.ts";
import { remove } from "./remove.ts";
import { type ActResult, findStream, headIn, type Transaction } from "./rows.ts";

/** For the lock of the files store, and for tests that look behind the store. */
export { Connection } from "./driver.ts";
export { allMigrations, FORMAT, migrate } from "./opening.ts";

export type SqliteOptions = DiskStoreOptions;

export async function openSqlite(options: SqliteOptions): Promise<port.Store> {
  const { file, creation } = diskStoreOptions(options);
  const opened = await openFirst(file, creation);
  const { connection, storeId } = opened;
  const record = new RewindRecord(file.path, storeId, () => epoch, `${file.path}-record`);
  // The record comes first: what others write in between would make it seem newer than the store.
  const recorded = record.read();
  let epoch = readEpoch(connection);
  const headOf = (namespace: string, stream: string) =>
    headIn(connection, namespace, findStream(connection, namespace, stream));
  const rewind = recorded.compare({ epoch, mark: readMark(connection), headOf });
  if (rewind && !file.readOnly && !options.despiteRewind) {
    await connection.close();
    throw rewoundStore(file.path, rewind);
  }
  const accepted = (): void => {
    epoch += 1;
  };
  const clock = options.clock ?? bootClock();
  return new SqliteStore(new FileConnection(file, opened), clock, { record, rewind, accepted });
}

/** The record of the store's last writes, and whether it shows a newer store. */
interface Rewinding {
  readonly record: RewindRecord;
  readonly rewind: port.Rewind | null;
  /** Called when the store has begun its next epoch. */
  readonly accepted: () => void;
}

/** How long a short command, such as a hook, may have the file open before `vacuum` gives up. */
const IN_USE_MS = 1_000;

class SqliteStore implements port.Store {
  readonly address: string;
  readonly moving: port.Moving = {
    seal: async () => this.#readOnce(readSeal),
    // Loaded on demand, as is `check`: most processes have to start quickly, and never move a store.
    reseal: async (expect, next) => {
      const { reseal } = await import("./moving.ts");
      return this.#writeDespiteSeal((transaction) => reseal(transaction, expect, next));
    },
    dump: async (cursor, only) => {
      const { dump } = await import("./moving.ts");
      return this.#read((connection) => dump(connection, this.#clock, cursor, only));
    },
    otherUser: async () => {
      const { otherUser } = await import("./moving.ts");
      return this.#readOnce(otherUser);
    },
    restore: async (move, rows) => {
      const { restore } = await import("./moving.ts");
      return this.#writeDespiteSeal((transaction) => restore(transaction, this.#path, move, rows));
    },
  };
  readonly #file: FileConnection;
  readonly #path: string;
  readonly #queue: WriteQueue;
  readonly #clock: Clock;
  readonly #watchers: Watchers;
  readonly #rewinding: Rewinding;
  #closing: Promise<void> | null = null;

  constructor(file: FileConnection, clock: Clock, rewinding: Rewinding) {
    const { path } = file.options;
    this.#file = file;
    this.#path = path;
    this.#clock = clock;
    this.#rewinding = rewinding;
    this.#queue = new WriteQueue(file, clock, (mark) => rewinding.record.noteMark(mark));
    this.#watchers = watchersOf(file);
    this.address = `sqlite ${nearestPath(path)}`;
    acceptsUtf8.add(this);
  }

  get rewind(): port.Rewind | null {
    return this.#rewinding.rewind;
  }

  async acceptRewind(): Promise<void> {
    const { record, accepted } = this.#rewinding;
    await this.#writeDespiteSeal((transaction) => {
      const { connection } = transaction;
      connection.run("INSERT OR IGNORE INTO meta (name, value) VALUES ('epoch', 0)");
      connection.run("UPDATE meta SET value = value + 1 WHERE name = 'epoch'");
      bumpMark(transaction);
      return { result: undefined, wrote: true };
    });
    accepted();
    record.noteMark(this.#queue.mark);
  }

  /** Blocks this process while it runs, and no other. */
  async backup(path: string): Promise<void> {
    createEmptyFile(path);
    await this.#readOnce((connection) => connection.run("VACUUM INTO ?", path));
    syncFile(path);
  }

  async vacuum(): Promise<port.Vacuumed> {
    this.#assertOpen();
    if (this.#file.options.readOnly) throw readOnlyError({ path: this.#path });
    const { vacuum, returnToWal } = await import("./vacuum.ts");
    const sizeOf = (path: string): number => statOf(path)?.size ?? 0;
    const before = sizeOf(this.#path) + sizeOf(`${this.#path}-wal`);
    const after = await this.#file
      .readOnce((connection) => {
        vacuum(connection);
        return this.#file.acceptSize();
      }, IN_USE_MS)
      .catch((error: unknown) => {
        throw isHoldfastError(error, "STORE_BUSY") ? inUse(this.#path, error) : error;
      });
    await this.#readOnce(returnToWal);
    return { before, after };
  }

  /** Not `async`: a batch that is flushed at once gets its answer without a promise. */
  append(batch: port.Batch): MaybePromise<port.AppendOutcome> {
    try {
      checkShape(batch);
      let bytes = 0;
      for (const { payload } of batch.writes) bytes += payload.length;
      const from = batch.writes[0]?.stream ?? "";
      const answered = (answer: port.AppendOutcome): void => {
        if (answer.outcome !== "ok") return;
        this.#rewinding.record.noteAppend(this.#queue.mark, batch, answer.heads);
        for (const { stream } of batch.writes) this.#watchers.announce(batch.namespace, stream);
      };
      return this.#write((transaction) => append(transaction, batch), { bytes, from, answered });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async read(request: port.ReadRequest): Promise<port.ReadPage> {
    if (isHeadOnly(request)) return this.#readOnce((connection) => read(connection, request));
    return this.#read((connection) => read(connection, request));
  }

  async list<Of extends keyof port.ListRows>(
    request: Extract<port.ListRequest, { of: Of }>,
  ): Promise<port.Page<port.ListRows[Of]>> {
    const act = (connection: Connection) =>
      list(connection, this.#clock, request) as port.Page<port.ListRows[Of]>;
    return isOneStatement(request) ? this.#readOnce(act) : this.#read(act);
  }

  async put(request: port.PutRequest): Promise<void> {
    const bytes = request.of === "artifact" ? request.bytes.length : request.payload.length;
    return this.#write((transaction) => put(transaction, request), { bytes });
  }

  async get(request: port.GetRequest): Promise<port.Blob | null> {
    return this.#readOnce((connection) => get(connection, request));
  }

  async lease(request: port.LeaseRequest): Promise<port.LeaseOutcome> {
    return this.#write((transaction) => lease(transaction, request), { urgent: request.act === "renew" });
  }

  async remove(request: port.RemoveRequest): Promise<port.RemoveOutcome> {
    const erase = request.of === "stream" && request.erase === true;
    const outcome = await this.#write((transaction) => {
      const { connection } = transaction;
      if (erase) connection.exec("PRAGMA secure_delete = ON");
      try {
        return remove(transaction, request);
      } finally {
        if (erase) connection.exec("PRAGMA secure_delete = FAST");
      }
    });
    if (request.of === "stream") this.#watchers.announce(request.namespace, request.stream);
    if (erase && request.of === "stream") this.#rewinding.record.forget(request.namespace, request.stream);
    if (erase && outcome.outcome === "removed") await this.#emptyWal();
    return outcome;
  }

  watch(request: port.WatchRequest, changed: () => void): () => void {
    this.#assertOpen();
    return this.#watchers.add(request, changed);
  }

  async check(): Promise<readonly port.Problem[]> {
    this.#assertOpen();
    const { check } = await import("./check.ts");
    return check((act) => this.#file.read(act));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#watchers.clear();
    await this.#queue.drained();
    this.#rewinding.record.close();
    await this.#file.close();
  }

  #assertOpen(): void {
    if (this.#closing) throw closedError({ path: this.#path });
  }

  #read<Result>(act: (connection: Connection) => Result): Promise<Result> {
    this.#assertOpen();
    return this.#file.read(act);
  }

  #readOnce<Result>(act: (connection: Connection) => Result): Promise<Result> {
    this.#assertOpen();
    return this.#file.readOnce(act);
  }

  #write<Result>(
    act: (transaction: Transaction) => ActResult<Result>,
    options?: WriteOptions<Result>,
  ): MaybePromise<Result> {
    return this.#writeDespiteSeal((transaction) => {
      refuseSealed(this.#path, "sqlite", transaction.seal);
      return act(transaction);
    }, options);
  }

  #writeDespiteSeal<Result>(
    act: (transaction: Transaction) => ActResult<Result>,
    options?: WriteOptions<Result>,
  ): MaybePromise<Result> {
    this.#assertOpen();
    if (this.#file.options.readOnly) throw readOnlyError({ path: this.#path });
    return this.#queue.submit(act, options);
  }

  /** The WAL still holds the erased bytes until it is copied into the file and truncated. */
  async #emptyWal(): Promise<void> {
    try {
      await retryWhileLocked(this.#path, this.#file.options.busyMs, async () => {
        await this.#file.ready();
        emptyWal(this.#file.connection);
      });
    } catch (error) {
      throw storeError(this.#path, error, true);
    }
  }
}

/** `PRAGMA data_version` does not say which stream another process changed: every watcher is notified. */
function watchersOf(file: FileConnection): Watchers {
  let known: number | null = null;
  const watchers: Watchers = new Watchers({
    started: () => {
      known = null;
      void watchers.pollNow();
    },
    poll: async () => {
      const version = await file.read((connection) => connection.number("PRAGMA data_version"));
      if (known !== null && version !== known) watchers.notifyAll();
      known = version;
    },
  });
  return watchers;
}
