/**
 * From a path to a connection that may be trusted.
 *
 *     nothing there ──create empty, 0600──┐
 *     empty file ─────────────────────────┤
 *     ours ──look, read-only──────────────┴──▶ open ──▶ migrate ──▶ WAL, FULL ─▶ store id ─▶ (prove) ─▶ use
 *     foreign, newer, no database ──look, read-only──▶ refused, nothing written
 *     empty or nothing there, and writes in a WAL beside it ──▶ refused, nothing opened
 *
 * A crash after creating leaves an empty file, which the next opener fills. That opener first makes the names
 * of the file and its folders durable, because the process that made them may have ended too early. A crash
 * while migrating leaves a rollback journal or an unfinished WAL transaction, which SQLite undoes. A crash
 * between migrating and WAL leaves a whole schema in the old journal mode; the next opener switches. Two
 * processes may do all this at once: the migration is one transaction, and the second process finds it done.
 *
 * Only after an I/O error must the connection prove itself, by one commit. Data of a failed fsync may still
 * read well from the page cache and never reach the disk. So unless the disk was merely full, the WAL is
 * first copied into the file, which writes and syncs all of it once more, and emptied.
 *
 * A process that ended without `close()` may have left frames of such a failed fsync. Nothing shows which
 * ones: later syncs of the WAL succeed, and a power cut drops the failed frames with every commit behind
 * them. So the first opener for writing empties every WAL that it finds, before it acknowledges anything.
 *
 * Before a doubtful WAL is copied, its bytes are written and synced once more. Otherwise a power cut during
 * the copy could leave half of the failed frames in the file, and none of them in the WAL to repair it.
 *
 * Nothing here opens the file or its -shm by other means than SQLite: closing any descriptor of theirs would
 * drop the locks that SQLite holds in this process. `createFile` is the exception: a new file has no lock.
 * The -wal never has one.
 */

import { randomUUID } from "node:crypto";
import {
  chmodSync,
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readSync,
  realpathSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { pathToFileURL } from "node:url";
import { sha256 } from "../../model/digest.ts";
import { HoldfastError, isHoldfastError } from "../../model/errors.ts";
import type { Seal } from "../../store.ts";
import type { CreateOptions, Failure, FileIdentity, FileOptions } from "../kit/index.ts";
import {
  BUSY_TIMEOUT_MS,
  createEmptyFile,
  foreignError,
  identityOf,
  isSameFile,
  isWritable,
  notFoundError,
  refuseNetworkDisk,
  statOf,
  syncNames,
  systemCode,
  tooNewError,
} from "../kit/index.ts";
import { CODE, Connection, resultCode } from "./driver.ts";
import { replaced, retryWhileLocked, storeError } from "./failures.ts";
import type { Transaction } from "./rows.ts";

export interface OpenFile {
  readonly connection: Connection;
  readonly identity: FileIdentity;
  /** The largest size seen so far, in bytes. Only `vacuum` makes a store smaller, while it is alone. */
  largest: number;
  readonly storeId: string;
}

/** Opens for the first time, and creates the file if there is none. */
export async function openFirst(
  options: FileOptions,
  { mustExist, allowNetworkDisk }: CreateOptions,
): Promise<OpenFile> {
  const { path, readOnly } = options;
  if (!allowNetworkDisk) refuseNetworkDisk(path);
  try {
    refuseEmptied(path);
    const stats = statOf(path);
    if (!stats && (mustExist || readOnly)) throw notFoundError({ path });
    if (stats && !stats.isFile()) throw foreignError({ path }, "it is not a regular file");
    if (stats && !readOnly && !isWritable(path)) throw cannotWrite(path);
    if (!readOnly && !stats?.size) createFile(path);
    else if (stats && !readOnly) {
      mendCompanions(path, stats.mode);
      await refuseForeign(options);
    }
    return readOnly ? await openForReading(options) : await openWithoutOldWal(options);
  } catch (error) {
    throw systemCode(error)?.startsWith("E") && !resultCode(error)
      ? fileError(path, error)
      : storeError(path, error);
  }
}

/** Opens the same store again after an I/O error, and returns only when it has durably written. */
export async function openAgain(
  options: FileOptions,
  before: OpenFile,
  distrustWal: boolean,
): Promise<OpenFile> {
  const { path } = options;
  refuseReplaced(path, before);
  const opened = await (options.readOnly ? openForReading(options) : openForWriting(options));
  try {
    if (opened.storeId !== before.storeId) throw replaced(path, "it holds another store");
    if (!options.readOnly) {
      await retryWhileLocked(path, options.busyMs, () => prove(path, opened.connection, distrustWal));
    }
    opened.largest = Math.max(opened.largest, before.largest);
    return opened;
  } catch (error) {
    await opened.connection.close();
    throw error;
  }
}

/**
 * Throws if the file at the path is not the one that was opened. A smaller file is an older copy, written
 * over this one: `cp backup.db store.db` keeps the inode.
 */
export function refuseReplaced(path: string, file: OpenFile): void {
  const stats = statOf(path);
  if (!stats || !isSameFile(file.identity, stats) || stats.size === 0) {
    throw replaced(path, "another file, an empty one, or none, is in its place");
  }
  if (stats.size < file.largest) {
    throw replaced(path, `it shrank from ${file.largest} to ${stats.size} bytes while it was open`);
  }
  file.largest = stats.size;
}

/** How long an opener waits for other connections before it leaves the WAL to them. */
const OLD_WAL_MS = 50;

/**
 * Opens for writing, and empties a WAL that an earlier process left. A WAL that stays in use has other
 * connections, whose first one for writing has emptied it: this opener leaves it as it is.
 */
async function openWithoutOldWal(options: FileOptions): Promise<OpenFile> {
  const { path } = options;
  const opened = await openForWriting(options);
  removeOldJournal(path);
  try {
    if ((statOf(walOf(path))?.size ?? 0) > 0) {
      await retryWhileLocked(path, OLD_WAL_MS, () => settleWal(path, opened.connection));
    }
  } catch (error) {
    if (isHoldfastError(error, "STORE_BUSY")) return opened;
    await opened.connection.close();
    throw error;
  }
  return opened;
}

/**
 * A process that was killed while it left WAL mode (`vacuum.ts`) may leave a journal that it had not begun to
 * use, and that SQLite ignores for ever. This connection is in WAL mode, and its lock keeps others from
 * leaving it: so a journal is in use by none.
 */
function removeOldJournal(path: string): void {
  const journal = `${realpathSync(path)}-journal`;
  if (statOf(journal)) rmSync(journal, { force: true });
}

function prove(path: string, connection: Connection, distrustWal: boolean): void {
  if (distrustWal) settleWal(path, connection);
  connection.exec("BEGIN IMMEDIATE");
  try {
    bumpProof(connection);
    connection.exec("COMMIT");
  } catch (error) {
    connection.rollback();
    throw error;
  }
}

/** Makes every frame of a doubtful WAL durable, then empties the WAL. */
function settleWal(path: string, connection: Connection): void {
  connection.exec("BEGIN IMMEDIATE");
  try {
    rewrite(walOf(path));
  } finally {
    connection.rollback();
  }
  emptyWal(connection);
}

/** SQLite keeps the WAL beside the file that a symbolic link leads to. */
function walOf(path: string): string {
  return `${realpathSync(path)}-wal`;
}

/** Writes the same bytes again, so that the next sync cannot skip them. The caller holds the write lock. */
function rewrite(path: string): void {
  const descriptor = openSync(path, "r+");
  try {
    const chunk = Buffer.allocUnsafe(1_048_576);
    for (let at = 0; ; ) {
      const length = readSync(descriptor, chunk, 0, chunk.length, at);
      if (length === 0) break;
      for (let done = 0; done < length; )
        done += writeSync(descriptor, chunk, done, length - done, at + done);
      at += length;
    }
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Copies the WAL into the file and truncates it. Fails as busy while others read from it. */
export function emptyWal(connection: Connection): void {
  const outcome = connection.get<{ busy: number }>("PRAGMA wal_checkpoint(TRUNCATE)");
  if (outcome?.busy !== 0) throw Object.assign(new Error("the WAL is in use"), { errcode: CODE.BUSY });
}

/** A change to commit where nothing else changes, but a commit must prove durability. */
export function bumpProof(connection: Connection): void {
  connection.run("UPDATE meta SET value = value + 1 WHERE name = 'proof'");
}

/** The same within a transaction of the queue, which then knows the new number. */
export function bumpMark(transaction: Transaction): void {
  bumpProof(transaction.connection);
  transaction.mark += 1;
}

export function readMark(connection: Connection): number {
  return connection.number("SELECT value FROM meta WHERE name = 'proof'");
}

/** How often a rewind of this store was accepted. */
export function readEpoch(connection: Connection): number {
  return connection.get<{ value: number }>("SELECT value FROM meta WHERE name = 'epoch'")?.value ?? 0;
}

export function readStoreId(connection: Connection): string | undefined {
  return connection.get<{ value: string }>("SELECT value FROM meta WHERE name = 'store'")?.value;
}

export function readSeal(connection: Connection): Seal | null {
  const row = connection.get<{ value: string }>("SELECT value FROM meta WHERE name = 'seal'");
  return row ? (JSON.parse(row.value) as Seal) : null;
}

/** Makes the folders and the empty file for this user alone. Their names are durable first. */
function createFile(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  createEmptyFile(path);
  syncNames(dirname(path));
}

/** Looks without writing. In the middle of a rollback the format shows only on opening for writing. */
async function refuseForeign(options: FileOptions): Promise<void> {
  let connection: Connection | undefined;
  try {
    connection = await openReadOnly(options);
    const looking = connection;
    await retryWhileLocked(options.path, options.busyMs, () => checkFormat(options.path, looking));
  } catch (error) {
    if (resultCode(error)?.extended !== CODE.READONLY_ROLLBACK) throw error;
  } finally {
    await connection?.close();
  }
}

/**
 * SQLite discards a WAL beside an empty file, and with it acknowledged writes. No crash leaves that state.
 * The WAL is checked first, or a store that another process creates in between would be refused.
 */
function refuseEmptied(path: string): void {
  const wal = `${path}-wal`;
  const bytes = statOf(wal)?.size ?? 0;
  if (bytes === 0) return;
  const stats = statOf(path);
  if (stats && (stats.size > 0 || !stats.isFile())) return;
  throw new HoldfastError(
    "STORE_CORRUPT",
    `${path} is ${stats ? "empty" : "gone"}, but writes of its store are still in ${wal}`,
    {
      hint:
        "Put back the very file that was there; nothing was changed. " +
        `If it is lost, move ${wal} away first, then put a backup in place or begin anew.`,
      data: { path, wal, bytes },
    },
  );
}

/**
 * A reader of a read-only file leaves its -wal and -shm unwritable, which would keep out all writers later.
 * Changing their mode is safe even while they are open.
 */
function mendCompanions(path: string, mode: number): void {
  for (const companion of [`${path}-wal`, `${path}-shm`]) {
    if (!statOf(companion) || isWritable(companion)) continue;
    try {
      chmodSync(companion, mode & 0o777);
    } catch (error) {
      if (systemCode(error) === "ENOENT") continue;
      throw cannotWrite(companion, error);
    }
  }
}

/** Tables that answer in place of a pragma. */
const SHADOWS = "(SELECT count(*) FROM sqlite_schema WHERE name LIKE 'pragma%')";
const TABLES = "(SELECT count(*) FROM sqlite_schema)";
const VERSION = "(SELECT user_version FROM pragma_user_version)";

/** Everything that the schema of a file defines, in one text. ANALYZE adds statistics, which do no harm. */
const SCHEMA = `(
  SELECT group_concat(type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, ''), char(10))
  FROM (SELECT * FROM sqlite_schema WHERE NOT (type = 'table' AND name IN ('sqlite_stat1', 'sqlite_stat4'))
        ORDER BY type, name))`;

/** The digest of `SCHEMA` in a new file. It changes only together with FORMAT, once that is released. */
const SCHEMA_DIGEST = "9af1f4cb0406fb145bec6163673a64482021b347b6d7fb71ff3aad549af72d0b";

/**
 * Only `sqlite_schema` is read before the schema is known: a view in its place could make any other name
 * answer falsely or never, even that of a pragma.
 */
function checkFormat(path: string, connection: Connection): void {
  if (connection.peek(SHADOWS)[0] !== 0) throw changedSchema(path);
  const applicationId = "(SELECT application_id FROM pragma_application_id)";
  // One statement is one snapshot: another process may migrate the file meanwhile.
  const [schema, ...numbers] = connection.peek(SCHEMA, applicationId, TABLES, VERSION);
  const [application, tables, version] = numbers.map(Number) as [number, number, number];
  if (application === 0 && version === 0 && tables === 0) {
    // Texts go in and out as UTF-8, which SQLite takes for the encoding that the file's first table fixes.
    const [encoding] = connection.peek("(SELECT encoding FROM pragma_encoding)");
    if (encoding !== "UTF-8") throw foreignError({ path }, `its text is ${encoding}, not UTF-8`);
    return;
  }
  if (application !== APPLICATION_ID) {
    throw foreignError({ path }, "it is an SQLite database of another program");
  }
  if (version > FORMAT) throw tooNewError({ path }, version, FORMAT);
  if (version === FORMAT && sha256(String(schema)) !== SCHEMA_DIGEST) throw changedSchema(path);
}

function changedSchema(path: string): HoldfastError {
  return new HoldfastError(
    "STORE_FOREIGN",
    `${path}: its tables, views or triggers are not exactly those that Holdfast creates`,
    {
      hint:
        "Nothing was read. If you added a view, index or trigger, drop it: sqlite3 can attach the store " +
        "to a database of yours instead. If you did not, restore a backup.",
      data: { path },
    },
  );
}

async function openForWriting({ path, busyMs }: FileOptions): Promise<OpenFile> {
  const connection = await Connection.open(path, false);
  try {
    connection.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    await retryWhileLocked(path, busyMs, async () => {
      checkFormat(path, connection);
      if (userVersion(connection) < FORMAT) migrate(connection, await allMigrations());
      configure(connection);
    });
    return identified(path, connection);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

async function openForReading(options: FileOptions): Promise<OpenFile> {
  const { path, busyMs } = options;
  const connection = await openReadOnly(options);
  try {
    await retryWhileLocked(path, busyMs, () => checkFormat(path, connection));
    if (userVersion(connection) < FORMAT) throw mustMigrate(path);
    return identified(path, connection);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/** Opens a file without a WAL as immutable, if the medium cannot have the shared memory that WAL needs. */
async function openReadOnly({ path, busyMs }: FileOptions): Promise<Connection> {
  const connection = await Connection.open(path, true);
  try {
    connection.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    await retryWhileLocked(path, busyMs, () => connection.peek(TABLES));
    return connection;
  } catch (error) {
    await connection.close();
    const primary = resultCode(error)?.primary;
    const cannotShare = primary === CODE.CANTOPEN || primary === CODE.READONLY;
    if (!cannotShare || isWritable(path) || (statOf(`${path}-wal`)?.size ?? 0) > 0) throw error;
  }
  const location = pathToFileURL(path);
  location.searchParams.set("immutable", "1");
  return Connection.open(location, true);
}

/** Sets durability and reads it back: some build of SQLite may ignore one of these pragmas. */
function configure(connection: Connection): void {
  // `all` steps to the end: the mode change is committed after its row was returned, and can fail there.
  connection.all("PRAGMA journal_mode = WAL");
  const mode = connection.get<{ journal_mode: string }>("PRAGMA journal_mode")?.journal_mode;
  connection.exec("PRAGMA synchronous = FULL");
  const level = connection.get<{ synchronous: number }>("PRAGMA synchronous")?.synchronous;
  if (mode !== "wal" || level !== 2) {
    throw new Error(`SQLite does not write ahead and sync here: journal mode ${mode}, synchronous ${level}`);
  }
  if (process.platform === "darwin") {
    connection.exec("PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON");
  }
  // wal_autocheckpoint: syncing a WAL that still grows takes half as long again; more checkpoints cost more.
  connection.exec(`
    PRAGMA foreign_keys = OFF;
    PRAGMA secure_delete = FAST;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -8000;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA wal_autocheckpoint = 1000;
  `);
}

function identified(path: string, connection: Connection): OpenFile {
  const stats = statOf(path);
  const storeId = readStoreId(connection);
  if (!stats) throw replaced(path, "it was deleted while it was opened");
  if (storeId === undefined) throw foreignError({ path }, "it has no store id");
  return { connection, identity: identityOf(stats), largest: stats.size, storeId };
}

/** "Hold" in ASCII: tells our files from other SQLite files. */
const APPLICATION_ID = 0x486f6c64;

/** The version that all migrations lead to. A file's version is in `PRAGMA user_version`. */
export const FORMAT = 1;

/**
 * The migration at index n brings a file from version n to n + 1. A released migration never changes.
 * Loaded only for a file that lacks some: nearly every file lacks none, and a start has to be short.
 */
export async function allMigrations(): Promise<readonly string[]> {
  const { SCHEMA_1 } = await import("./schema-1.ts");
  return [SCHEMA_1];
}

function userVersion(connection: Connection): number {
  return Number(connection.peek(VERSION)[0]);
}

/** One transaction: a crash leaves the old version or the newest, and a second process finds it done. */
export function migrate(connection: Connection, migrations: readonly string[]): void {
  connection.exec("BEGIN IMMEDIATE");
  try {
    const from = userVersion(connection);
    for (const sql of migrations.slice(from)) connection.exec(sql);
    if (from === 0) {
      connection.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
      connection.run("INSERT INTO meta (name, value) VALUES ('store', ?), ('proof', 0)", randomUUID());
    }
    if (from < migrations.length) connection.exec(`PRAGMA user_version = ${migrations.length}`);
    connection.exec("COMMIT");
  } catch (error) {
    connection.rollback();
    throw error;
  }
}

function cannotWrite(path: string, cause?: unknown): HoldfastError {
  return new HoldfastError("STORE_READONLY", `${path} cannot be written`, {
    hint:
      "Check its owner, its permissions and how the disk is mounted. " +
      "It can still be read (in code: `readOnly: true`).",
    cause,
    data: { path },
  });
}

function mustMigrate(path: string): HoldfastError {
  return new HoldfastError(
    "STORE_READONLY",
    `${path} is empty or of an older format and must be brought up to date`,
    { hint: "Open it once where it can be written: holdfast migrate", data: { path } },
  );
}

const NO_SPACE: Failure = {
  code: "STORE_FULL",
  what: "created: the disk is full",
  hint: "Free some space on this disk.",
};
const NOT_ALLOWED: Failure = {
  code: "STORE_READONLY",
  what: "created",
  hint: "Check the permissions of the folder and how the disk is mounted, or choose another path.",
};
const NOT_OPENED: Failure = {
  code: "STORE_IO",
  what: "opened",
  hint: "Check that every part of the path but the last is a folder.",
};
const BY_CODE: Readonly<Record<string, Failure>> = {
  ENOSPC: NO_SPACE,
  EDQUOT: NO_SPACE,
  EROFS: NOT_ALLOWED,
  EACCES: NOT_ALLOWED,
  EPERM: NOT_ALLOWED,
};

function fileError(path: string, cause: unknown): HoldfastError {
  if (cause instanceof HoldfastError) return cause;
  const { code, what, hint } = BY_CODE[systemCode(cause) ?? ""] ?? NOT_OPENED;
  const message = cause instanceof Error ? cause.message : String(cause);
  return new HoldfastError(code, `${path} could not be ${what} (${message})`, {
    hint,
    cause,
    data: { path },
  });
}
