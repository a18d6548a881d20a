/**
 * Gives the file's free pages back to the disk: SQLite's own VACUUM, which writes the file anew.
 *
 *     WAL ──lock──▶ exclusive, rollback journal ──VACUUM──▶ smaller file ──unlock──▶ rollback journal ──▶ WAL
 *
 * Every process takes a file that shrank for an older copy (`refuseReplaced`). So no other one may have the
 * file open: leaving WAL mode needs an exclusive lock, which is then kept until the file has its new size. An
 * opener waits for it, and compares with the new size.
 *
 * A crash leaves
 *
 *     before VACUUM     a whole store in the other journal mode; the next opener changes it back
 *     during VACUUM     a rollback journal, from which the next opener restores the old file, or one that was
 *                       not used yet, which the next opener deletes
 *     after VACUUM      the smaller file, whole, in the other journal mode
 */

import { type Connection, isBusy } from "./driver.ts";

/** Throws a busy error, with nothing changed, while another connection has the file open. */
export function vacuum(connection: Connection): void {
  connection.exec("PRAGMA locking_mode = EXCLUSIVE");
  try {
    connection.all("PRAGMA journal_mode = TRUNCATE");
    // A copy of the whole store in memory would be too much.
    connection.exec("PRAGMA temp_store = FILE");
    connection.exec("VACUUM");
    connection.exec("PRAGMA temp_store = MEMORY");
  } catch (error) {
    if (isBusy(error)) unlock(connection);
    throw error;
  }
  connection.exec("PRAGMA locking_mode = NORMAL");
  // Deletes the journal, which has pages as they were before.
  connection.all("PRAGMA journal_mode = DELETE");
  unlock(connection);
}

/** The lock goes with the next read. */
function unlock(connection: Connection): void {
  connection.exec("PRAGMA locking_mode = NORMAL");
  connection.peek("(SELECT count(*) FROM sqlite_schema)");
}

/** Fails as busy while another process opens the file, which then changes the mode itself. */
export function returnToWal(connection: Connection): void {
  connection.all("PRAGMA journal_mode = WAL");
}
