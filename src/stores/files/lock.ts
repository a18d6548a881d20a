/**
 * One process at a time: an exclusive transaction on a small SQLite file without data. The operating system
 * takes the lock from a process that dies, however it dies, and leaves it with one that is merely stopped.
 * Two handles of one process keep each other out as well, which bare POSIX locks would not do.
 *
 * A process that uses the file must never open it by other means: closing any descriptor of it would drop the
 * lock. And it must stay the same file: a lock on another file protects nothing, so its identity is checked
 * each time.
 *
 * A second file of the same kind tells who has the folder open. Each handle keeps a shared lock on it, and
 * only a handle that is alone can get the exclusive one.
 */

import { dirname } from "node:path";
import {
  BUSY_TIMEOUT_MS,
  createEmptyFile,
  type FileIdentity,
  identityOf,
  isSameFile,
  retryUntil,
  statOf,
  syncFolder,
} from "../kit/index.ts";
import { Connection } from "../sqlite/index.ts";
import { busy, replaced } from "./disk.ts";

/** Not empty, or SQLite would write the file anew with every transaction. */
const FILL = `PRAGMA application_id = 1212568652;
  CREATE TABLE IF NOT EXISTS lock (note TEXT);
  INSERT INTO lock SELECT 'Held by a process that uses this folder. Holds nothing itself.'
    WHERE NOT EXISTS (SELECT 1 FROM lock);`;

export class FolderLock {
  readonly #path: string;
  readonly #connection: Connection;
  readonly #identity: FileIdentity;
  readonly #use: Connection;

  private constructor(path: string, connection: Connection, identity: FileIdentity, use: Connection) {
    this.#path = path;
    this.#connection = connection;
    this.#identity = identity;
    this.#use = use;
  }

  /** Opens the lock's file, and makes it if it is missing or a crash left it empty. */
  static async open(path: string, usePath: string, busyMs: number): Promise<FolderLock> {
    const connection = await openFilled(path, busyMs);
    try {
      const stats = statOf(path);
      if (!stats) throw replaced(path, "it was deleted while it was opened");
      const use = await openFilled(usePath, busyMs);
      await retryUntilLocked(usePath, busyMs, () => isNotBusy(() => share(use)));
      return new FolderLock(path, connection, identityOf(stats), use);
    } catch (error) {
      await connection.close();
      throw error;
    }
  }

  /** Another handle that has the folder open, in words; null if this one is alone. Readers do not count. */
  otherUser(): string | null {
    this.#use.rollback();
    try {
      const isAlone = isNotBusy(() => this.#use.run("BEGIN EXCLUSIVE"));
      return isAlone ? null : "another process, or another handle of this one, has the folder open";
    } finally {
      this.#use.rollback();
      share(this.#use);
    }
  }

  take(): boolean {
    const isTaken = isNotBusy(() => this.#connection.run("BEGIN EXCLUSIVE"));
    if (isTaken && !isSameFile(this.#identity, statOf(this.#path))) {
      this.release();
      throw replaced(this.#path, "another file, or none, is in its place");
    }
    return isTaken;
  }

  release(): void {
    this.#connection.rollback();
  }

  async close(): Promise<void> {
    await this.#use.close();
    await this.#connection.close();
  }
}

async function openFilled(path: string, busyMs: number): Promise<Connection> {
  createFile(path);
  const connection = await Connection.open(path, false);
  try {
    connection.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    await retryUntilLocked(path, busyMs, () => fill(connection));
    return connection;
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/** Takes a shared lock, which a read transaction keeps until it ends. */
function share(connection: Connection): void {
  connection.run("BEGIN");
  try {
    connection.peek("(SELECT count(*) FROM lock)");
  } catch (error) {
    connection.rollback();
    throw error;
  }
}

/** Even reading has to wait while another process holds the lock. */
function fill(connection: Connection): boolean {
  return isNotBusy(() => {
    if (connection.peek("(SELECT count(*) FROM sqlite_schema)")[0] !== 0) return;
    connection.exec("BEGIN EXCLUSIVE");
    try {
      connection.exec(FILL);
      connection.exec("COMMIT");
    } catch (error) {
      connection.rollback();
      throw error;
    }
  });
}

function createFile(path: string): void {
  if (statOf(path)) return;
  createEmptyFile(path);
  syncFolder(dirname(path));
}

function isNotBusy(act: () => unknown): boolean {
  try {
    act();
    return true;
  } catch (error) {
    if (isBusy(error)) return false;
    throw error;
  }
}

const BUSY = 5;

function isBusy(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { errcode } = error as { errcode?: unknown };
  return typeof errcode === "number" ? (errcode & 0xff) === BUSY : error.message.includes("is locked");
}

export function retryUntilLocked(path: string, busyMs: number, attempt: () => boolean): Promise<void> {
  return retryUntil(attempt, busyMs, (waitedMs) => busy(path, waitedMs));
}
