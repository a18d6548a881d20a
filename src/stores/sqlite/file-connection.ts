/**
 * The file through one connection, which is replaced after an I/O error (`HandleState` in the kit has the
 * states).
 *
 * Every use first checks that the file at the path is still the same and has not shrunk. Writes within one
 * turn of the event loop skip the check (`queue.ts`): they notice a replaced file at most 5 ms later. The
 * store's id is read in the first write transaction, and whenever `data_version` shows a commit of another
 * process.
 */

import { HoldfastError, isHoldfastError } from "../../model/errors.ts";
import { closedError, type FileOptions, HandleState, statOf } from "../kit/index.ts";
import { type Connection, isBusy } from "./driver.ts";
import { isUnreadable, retryWhileLocked, storeError } from "./failures.ts";
import { type OpenFile, openAgain, refuseReplaced } from "./opening.ts";

export class FileConnection {
  readonly options: FileOptions;
  readonly #state = new HandleState();
  #file: OpenFile;
  #distrustWal = false;

  constructor(options: FileOptions, file: OpenFile) {
    this.options = options;
    this.#file = file;
  }

  get storeId(): string {
    return this.#file.storeId;
  }

  get connection(): Connection {
    return this.#file.connection;
  }

  /** The same as `isSound`, for a file that was checked in this turn of the event loop. */
  get isStillSound(): boolean {
    return this.#state.isSound;
  }

  /** Whether `connection` can be used at once, or `ready` must be awaited first. Throws once refused. */
  get isSound(): boolean {
    if (!this.#state.isSound) return false;
    try {
      refuseReplaced(this.options.path, this.#file);
    } catch (error) {
      throw isHoldfastError(error) ? this.refuse(error) : error;
    }
    return true;
  }

  refuse(error: Error): Error {
    return this.#state.refuse(error);
  }

  /** After an I/O error: this connection acknowledges nothing more. Returns the error to hand out. */
  poison(cause: unknown, unknown: boolean): Error {
    if (this.connection.isOpen) this.connection.rollback();
    const error = storeError(this.options.path, cause, unknown);
    if (error.code !== "STORE_FULL") this.#distrustWal = true;
    return this.#state.poison(error);
  }

  async ready(): Promise<void> {
    if (this.isSound) return;
    await this.#state.reopen(
      async () => {
        await this.connection.close();
        this.#file = await openAgain(this.options, this.#file, this.#distrustWal);
        this.#distrustWal = false;
      },
      (cause) => storeError(this.options.path, cause),
    );
  }

  /** Reads on a sound connection, in one snapshot of the file. */
  read<Result>(act: (connection: Connection) => Result): Promise<Result> {
    return this.readOnce((connection) => inSnapshot(connection, act));
  }

  /** The same for a single statement, which is a snapshot by itself. */
  async readOnce<Result>(
    act: (connection: Connection) => Result,
    busyMs = this.options.busyMs,
  ): Promise<Result> {
    try {
      // The usual case, without a retry and its promises.
      if (this.isSound) return this.#attempt(act);
    } catch (error) {
      if (!isBusy(error)) throw error;
    }
    return retryWhileLocked(this.options.path, busyMs, async () => {
      if (!this.isSound) await this.ready();
      return this.#attempt(act);
    });
  }

  /** The file may be smaller from now on. Returns its size. */
  acceptSize(): number {
    this.#file.largest = statOf(this.options.path)?.size ?? 0;
    return this.#file.largest;
  }

  #attempt<Result>(act: (connection: Connection) => Result): Result {
    try {
      return act(this.connection);
    } catch (error) {
      if (isBusy(error) || error instanceof HoldfastError) throw error;
      if (isUnreadable(error)) throw storeError(this.options.path, error);
      throw this.poison(error, false);
    }
  }

  async close(): Promise<void> {
    await this.#state.close(closedError({ path: this.options.path }));
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
