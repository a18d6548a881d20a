/**
 * The file through one connection, which is replaced after an I/O error.
 *
 *     sound ──error while reading, writing or committing──▶ poisoned ──next use: reopened and proven──▶ sound
 *       │                                                      └──cannot be proven──▶ poisoned, and the caller is told
 *       └──another file in its place, or another store in the file──▶ refused, for good (I12)
 *
 * Nothing is acknowledged while poisoned (I13). The file's place is looked at before every use, but for changes that
 * follow each other within one turn of the event loop (`queue.ts`), where the look would cost more than most of what it
 * is made for: at most 5 ms then pass until a replaced file is noticed. The store's id is read inside every write transaction that comes after somebody else's commit, and in
 * the first of a connection: as long as SQLite's `data_version` stands still, it cannot have changed.
 */

import { HoldfastError } from "../../model/errors.ts";
import { closedError, statOf } from "../kit/index.ts";
import { type Connection, isBusy } from "./driver.ts";
import { isUnreadable, patiently, replaced, storeError } from "./failures.ts";
import { isSame } from "./file.ts";
import { type Opened, openAgain, type Place } from "./opening.ts";

export class Medium {
  readonly place: Place;
  #opened: Opened;
  #isPoisoned = false;
  #distrustWal = false;
  #refusal: Error | null = null;
  #reopening: Promise<void> | null = null;

  constructor(place: Place, opened: Opened) {
    this.place = place;
    this.#opened = opened;
  }

  get storeId(): string {
    return this.#opened.storeId;
  }

  /** The same as `isSound`, for a file whose place was looked at in this turn of the event loop. */
  get isSoundStill(): boolean {
    if (this.#refusal) throw this.#refusal;
    return !this.#isPoisoned;
  }

  /** Whether `connection` can be used at once, or `ready` must be awaited first. Throws once refused. */
  get isSound(): boolean {
    if (!this.isSoundStill) return false;
    if (!isSame(this.#opened.identity, statOf(this.place.path))) {
      throw this.refuse(replaced(this.place.path, "another file, an empty one, or none, is in its place"));
    }
    return true;
  }

  get connection(): Connection {
    return this.#opened.connection;
  }

  /** From here on every use fails with this error. */
  refuse(error: Error): Error {
    this.#refusal ??= error;
    return this.#refusal;
  }

  /** After an I/O error: this connection acknowledges nothing more. Returns the error to hand out. */
  poison(cause: unknown, unknown: boolean): Error {
    this.#isPoisoned = true;
    if (this.connection.isOpen) this.connection.rollback();
    const error = storeError(this.place.path, cause, unknown);
    if (error.code !== "STORE_FULL") this.#distrustWal = true;
    if (error.code === "STORE_REPLACED") this.refuse(error);
    return error;
  }

  /** Resolves when there is a connection that has proven itself. */
  async ready(): Promise<void> {
    if (this.isSound) return;
    this.#reopening ??= this.#reopen().finally(() => {
      this.#reopening = null;
    });
    await this.#reopening;
  }

  async #reopen(): Promise<void> {
    try {
      await this.connection.close();
      this.#opened = await openAgain(this.place, this.#opened, this.#distrustWal);
      this.#isPoisoned = false;
      this.#distrustWal = false;
    } catch (error) {
      const told = storeError(this.place.path, error);
      throw told.code === "STORE_REPLACED" ? this.refuse(told) : told;
    }
  }

  /** Reads on a sound connection, in one snapshot of the file. */
  read<Result>(act: (connection: Connection) => Result): Promise<Result> {
    return this.readOnce((connection) => inSnapshot(connection, act));
  }

  /** The same for a single statement, which is a snapshot by itself. */
  async readOnce<Result>(act: (connection: Connection) => Result): Promise<Result> {
    try {
      // Nearly always: nothing has to be waited for, and so no promise made.
      if (this.isSound) return this.#reading(act);
    } catch (error) {
      if (!isBusy(error)) throw error;
    }
    return patiently(this.place.path, this.place.busyMs, async () => {
      if (!this.isSound) await this.ready();
      return this.#reading(act);
    });
  }

  #reading<Result>(act: (connection: Connection) => Result): Result {
    try {
      return act(this.connection);
    } catch (error) {
      if (isBusy(error) || error instanceof HoldfastError) throw error;
      if (isUnreadable(error)) throw storeError(this.place.path, error);
      throw this.poison(error, false);
    }
  }

  async close(): Promise<void> {
    this.refuse(closedError({ path: this.place.path }));
    await this.#reopening?.catch(() => undefined);
    await this.connection.close();
  }
}

function inSnapshot<Result>(connection: Connection, act: (connection: Connection) => Result): Result {
  connection.run("BEGIN");
  try {
    const result = act(connection);
    connection.run("COMMIT");
    return result;
  } catch (error) {
    connection.rollback();
    throw error;
  }
}
