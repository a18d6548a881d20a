/**
 * From a path to a connection that may be trusted.
 *
 *   nothing there ──create empty, 0600──┐
 *   empty file ─────────────────────────┤
 *   ours ──look, read-only──────────────┼──▶ open ──▶ migrate ──▶ WAL, FULL ──▶ check store id ──▶ (prove) ──▶ use
 *   foreign, newer, no database ──look, read-only──▶ refused, nothing written
 *   empty or nothing there, and writes in a WAL beside it ──▶ refused, nothing opened
 *
 * What a crash leaves: after creating, an empty file, which the next opener fills. While migrating, a rollback
 * journal or an unfinished WAL transaction, which SQLite undoes. Between migrating and WAL, a whole schema in the
 * old journal mode; the next opener switches. Two processes may do all this at once: the migration is a
 * transaction, and whoever comes second finds it done.
 *
 * Proving comes after an I/O error only: one commit must succeed. What a failed fsync left in the page cache may read
 * well and yet never reach the disk, so unless the disk was merely full, the WAL is first copied into the file, which
 * writes and syncs all of it once more, and emptied.
 */

import { chmodSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { HoldfastError } from "../../model/errors.ts";
import {
  type FileIdentity,
  foreignError,
  identityOf,
  isWritable,
  notFoundError,
  refuseNetworkDisk,
  statOf,
  systemCode,
  tooNewError,
} from "../kit/index.ts";
import { CODE, Connection, resultCode } from "./driver.ts";
import { BUSY_TIMEOUT_MS, patiently, replaced, storeError } from "./failures.ts";
import { createFile, isSame } from "./file.ts";
import { APPLICATION_ID, allMigrations, FORMAT, migrate, userVersion } from "./migrations.ts";

export interface Place {
  readonly path: string;
  readonly readOnly: boolean;
  readonly busyMs: number;
}

/** An open file: the connection, which file it is, which store it holds. */
export interface Opened {
  readonly connection: Connection;
  readonly identity: FileIdentity;
  readonly storeId: string;
}

export interface Creation {
  readonly mustExist: boolean;
  readonly allowNetworkDisk: boolean;
}

/** Opens for the first time, and creates what is not there. */
export async function openFirst(place: Place, { mustExist, allowNetworkDisk }: Creation): Promise<Opened> {
  const { path, readOnly } = place;
  if (!allowNetworkDisk) refuseNetworkDisk(path);
  try {
    refuseEmptied(path);
    const stats = statOf(path);
    if (!stats && (mustExist || readOnly)) throw notFoundError({ path });
    if (stats && !stats.isFile()) throw foreignError({ path }, "it is not a regular file");
    if (!stats) createFile(path);
    else if (!readOnly && !isWritable(path)) throw cannotWrite(path);
    else if (!readOnly && stats.size > 0) {
      mendBeside(path, stats.mode);
      await refuseForeign(place);
    }
    return readOnly ? await openForReading(place) : await openForWriting(place);
  } catch (error) {
    throw systemCode(error)?.startsWith("E") && !resultCode(error)
      ? fileError(path, error)
      : storeError(path, error);
  }
}

/** Opens the same store again after an I/O error, and returns only when it has durably written. */
export async function openAgain(place: Place, before: Opened, distrustWal: boolean): Promise<Opened> {
  const { path } = place;
  if (!isSame(before.identity, statOf(path))) {
    throw replaced(path, "another file, an empty one, or none, is in its place");
  }
  const opened = await (place.readOnly ? openForReading(place) : openForWriting(place));
  try {
    if (opened.storeId !== before.storeId) throw replaced(path, "it holds another store");
    if (!place.readOnly) await patiently(path, place.busyMs, () => prove(opened.connection, distrustWal));
    return opened;
  } catch (error) {
    await opened.connection.close();
    throw error;
  }
}

function prove(connection: Connection, distrustWal: boolean): void {
  if (distrustWal) emptyWal(connection);
  connection.exec("BEGIN IMMEDIATE");
  try {
    proof(connection);
    connection.exec("COMMIT");
  } catch (error) {
    connection.rollback();
    throw error;
  }
}

/** Copies the WAL into the file and cuts it to nothing. Fails as busy while others read from it. */
export function emptyWal(connection: Connection): void {
  const outcome = connection.get<{ busy: number }>("PRAGMA wal_checkpoint(TRUNCATE)");
  if (outcome?.busy !== 0) throw Object.assign(new Error("the WAL is in use"), { errcode: CODE.BUSY });
}

/** Something to commit where nothing else changes but durability must be had. */
export function proof(connection: Connection): void {
  connection.run("UPDATE meta SET value = value + 1 WHERE name = 'proof'");
}

export function readStoreId(connection: Connection): string | undefined {
  return connection.get<{ value: string }>("SELECT value FROM meta WHERE name = 'store'")?.value;
}

/** Looks without writing. A file that was left in the middle of a rollback shows what it is only once opened. */
async function refuseForeign(place: Place): Promise<void> {
  let connection: Connection | undefined;
  try {
    connection = await openReadOnly(place);
    const looking = connection;
    await patiently(place.path, place.busyMs, () => checkFormat(place.path, looking));
  } catch (error) {
    if (resultCode(error)?.extended !== CODE.READONLY_ROLLBACK) throw error;
  } finally {
    await connection?.close();
  }
}

/**
 * SQLite throws away a WAL that it finds beside an empty file, even one that it may only read, and with it all that was
 * acknowledged and not yet copied. No crash leaves that: a new file is filled and synced before it gets its first WAL.
 * Therefore the WAL is looked at first, or a store that somebody else makes between the two looks would be refused.
 */
function refuseEmptied(path: string): void {
  const wal = `${path}-wal`;
  const waiting = statOf(wal)?.size ?? 0;
  if (waiting === 0) return;
  const stats = statOf(path);
  if (stats && (stats.size > 0 || !stats.isFile())) return;
  throw new HoldfastError(
    "STORE_CORRUPT",
    `${path} is ${stats ? "empty" : "gone"}, but writes of its store are still in ${wal}`,
    {
      hint: `Put back the very file that was there; nothing was changed. If it is lost, move ${wal} away first, then put a backup in place or begin anew.`,
      data: { path, wal, bytes: waiting },
    },
  );
}

/**
 * SQLite gives the -wal and the -shm the mode that the file has at that moment. Whoever looks at a file that may not be
 * written leaves them unwritable too, and they would keep out all writers after the file may be written again. Changing
 * a mode is safe whoever has them open; their owner may, and others are told what is in the way.
 */
function mendBeside(path: string, mode: number): void {
  for (const each of [`${path}-wal`, `${path}-shm`]) {
    if (!statOf(each) || isWritable(each)) continue;
    try {
      chmodSync(each, mode & 0o777);
    } catch (error) {
      if (systemCode(error) === "ENOENT") continue;
      throw cannotWrite(each, error);
    }
  }
}

const TABLES = "(SELECT count(*) FROM sqlite_schema)";

function checkFormat(path: string, connection: Connection): void {
  const [application, tables, version] = connection
    .peek(
      "(SELECT application_id FROM pragma_application_id)",
      TABLES,
      "(SELECT user_version FROM pragma_user_version)",
    )
    .map(Number) as [number, number, number];
  if (application === 0 && version === 0 && tables === 0) {
    refuseOtherText(path, connection);
    return;
  }
  if (application !== APPLICATION_ID)
    throw foreignError({ path }, "it is an SQLite database of another program");
  if (version <= FORMAT) return;
  throw tooNewError({ path }, version, FORMAT);
}

/**
 * A file keeps the encoding that it had with its first table. Texts go in and out as UTF-8 bytes, which SQLite takes for what
 * the file has. Only asked of a file that is to become a store: what is one was asked before.
 */
function refuseOtherText(path: string, connection: Connection): void {
  const [encoding] = connection.peek("(SELECT encoding FROM pragma_encoding)");
  if (encoding !== "UTF-8") throw foreignError({ path }, `its text is ${encoding}, not UTF-8`);
}

async function openForWriting(place: Place): Promise<Opened> {
  const { path, busyMs } = place;
  const connection = await Connection.open(path, false);
  try {
    connection.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    await patiently(path, busyMs, async () => {
      checkFormat(path, connection);
      if (userVersion(connection) < FORMAT) migrate(connection, await allMigrations());
      setUp(connection);
    });
    return identified(path, connection);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

async function openForReading(place: Place): Promise<Opened> {
  const connection = await openReadOnly(place);
  try {
    await patiently(place.path, place.busyMs, () => checkFormat(place.path, connection));
    if (userVersion(connection) < FORMAT) throw mustMigrate(place.path);
    return identified(place.path, connection);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/**
 * In WAL mode even readers need shared memory beside the file. On a medium that cannot have it the file is read as
 * one that nobody changes, which is right as long as no WAL waits beside it.
 */
async function openReadOnly({ path, busyMs }: Place): Promise<Connection> {
  const connection = await Connection.open(path, true);
  try {
    connection.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    await patiently(path, busyMs, () => connection.peek(TABLES));
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

/** Durability is asked for and then read back: a build of SQLite that ignores one of these must not be trusted. */
function setUp(connection: Connection): void {
  // Stepped to its end: the change of mode is committed after its row was given, and can fail there.
  connection.all("PRAGMA journal_mode = WAL");
  const mode = connection.get<{ journal_mode: string }>("PRAGMA journal_mode")?.journal_mode;
  connection.exec("PRAGMA synchronous = FULL");
  const level = connection.get<{ synchronous: number }>("PRAGMA synchronous")?.synchronous;
  if (mode !== "wal" || level !== 2) {
    throw new Error(`SQLite does not write ahead and sync here: journal mode ${mode}, synchronous ${level}`);
  }
  if (process.platform === "darwin")
    connection.exec("PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON");
  // Syncing a WAL that grows takes half as long again as syncing one that is written over, and it grows until it is
  // copied into the file for the first time. Copying more often than this costs commits of many sessions more than it saves.
  connection.exec(`
    PRAGMA foreign_keys = OFF;
    PRAGMA trusted_schema = OFF;
    PRAGMA secure_delete = FAST;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -8000;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA wal_autocheckpoint = 1000;
  `);
}

function identified(path: string, connection: Connection): Opened {
  const stats = statOf(path);
  const storeId = readStoreId(connection);
  if (!stats) throw replaced(path, "it was deleted while it was opened");
  if (storeId === undefined) throw foreignError({ path }, "it has no store id");
  return { connection, identity: identityOf(stats), storeId };
}

function cannotWrite(path: string, cause?: unknown): HoldfastError {
  return new HoldfastError("STORE_READONLY", `${path} cannot be written`, {
    hint: "Check its owner, its permissions and how the disk is mounted. It can still be looked at (in code: `readOnly: true`).",
    cause,
    data: { path },
  });
}

function mustMigrate(path: string): HoldfastError {
  return new HoldfastError(
    "STORE_READONLY",
    `${path} is empty or of an older format and must be brought up to date`,
    {
      hint: "Open it once where it can be written: holdfast migrate",
      data: { path },
    },
  );
}

/** The folder could not be made, or the file not created or looked at. */
function fileError(path: string, cause: unknown): HoldfastError {
  if (cause instanceof HoldfastError) return cause;
  const code = systemCode(cause);
  const said = cause instanceof Error ? cause.message : String(cause);
  if (code === "ENOSPC" || code === "EDQUOT") {
    return new HoldfastError("STORE_FULL", `${path} could not be created: the disk is full (${said})`, {
      hint: "Free some space on this disk.",
      cause,
      data: { path },
    });
  }
  if (code === "EROFS" || code === "EACCES" || code === "EPERM") {
    return new HoldfastError("STORE_READONLY", `${path} could not be created (${said})`, {
      hint: "Check the permissions of the folder and how the disk is mounted, or choose another path.",
      cause,
      data: { path },
    });
  }
  return new HoldfastError("STORE_IO", `${path} could not be opened (${said})`, {
    hint: "Check that every part of the path but the last is a folder.",
    cause,
    data: { path },
  });
}
