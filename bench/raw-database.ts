/**
 * The floor: what the bare driver needs to keep the same turns. It is meant to be as low as a sensible program
 * could lay it, so it is held strictly:
 *
 *   rows      one per turn, in one table without any other index, keyed (session, seq). The key is both in one
 *             integer: of the layouts tried (that, a table without rowid, a rowid table with its index) it commits
 *             fastest, and its file is within 2 % of the smallest
 *   bytes     the JSON of the turn's messages as the caller has them; none of the envelope (event types, versions,
 *             checksums, batch ids) that Holdfast stores around them, and no row for the checkpoint
 *   commits   one per turn, by a single prepared INSERT; WAL and synchronous = FULL, as Holdfast has them
 *   timed     from the caller's objects to durable, so the JSON text is made inside (as the floor of a load ends with
 *             parsed objects); no checks, no copies, no state kept in memory
 *
 * The driver is chosen as the store chooses it: `node:sqlite` where Node has it, else `@photostructure/sqlite`.
 */

type Value = string | number | null;

interface Statement {
  run(...values: Value[]): unknown;
  get(...values: Value[]): unknown;
  all(...values: Value[]): unknown[];
}

interface Database {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

type DatabaseClass = new (path: string) => Database;

async function loadDriver(): Promise<DatabaseClass> {
  // The types of Node 20 do not know this module.
  const builtin: unknown = process.getBuiltinModule("node:sqlite" as "node:fs");
  if (builtin) return (builtin as { DatabaseSync: DatabaseClass }).DatabaseSync;
  return (await import("@photostructure/sqlite")).DatabaseSync as unknown as DatabaseClass;
}

const SETUP = `PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL`;

const SCHEMA = "CREATE TABLE turns (id INTEGER PRIMARY KEY, payload TEXT NOT NULL)";

const SEQ_BITS = 28;

export async function openRaw(path: string): Promise<RawDatabase> {
  const DatabaseSync = await loadDriver();
  const database = new DatabaseSync(path);
  database.exec(SETUP);
  database.exec(SCHEMA);
  return new RawDatabase(database);
}

/** Size in bytes of any SQLite file, ours or raw, once its WAL is copied into it. */
export async function sizeOnDisk(path: string): Promise<number> {
  const DatabaseSync = await loadDriver();
  const database = new DatabaseSync(path);
  try {
    const { busy } = database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get() as { busy: number };
    if (busy !== 0) throw new Error(`${path}: the WAL is in use`);
    const size = "SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size";
    return (database.prepare(size).get() as { bytes: number }).bytes;
  } finally {
    database.close();
  }
}

export class RawDatabase {
  private readonly database: Database;
  private readonly insert: Statement;
  private readonly select: Statement;

  constructor(database: Database) {
    this.database = database;
    this.insert = database.prepare(`INSERT INTO turns (id, payload) VALUES (? << ${SEQ_BITS} | ?, ?)`);
    this.select = database.prepare(
      `SELECT payload FROM turns WHERE id > ?1 << ${SEQ_BITS} AND id <= (?1 << ${SEQ_BITS} | ?2) ORDER BY id`,
    );
  }

  /** One durable commit of one row. */
  write(session: number, seq: number, payload: string): void {
    this.insert.run(session, seq, payload);
  }

  /** One durable commit of many rows. */
  writeTogether(rows: readonly (readonly [session: number, seq: number, payload: string])[]): void {
    this.database.exec("BEGIN IMMEDIATE");
    for (const row of rows) this.insert.run(...row);
    this.database.exec("COMMIT");
  }

  /** The turns of a session up to one of them, parsed. */
  read(session: number, upTo: number): unknown[] {
    const rows = this.select.all(session, upTo) as { payload: string }[];
    return rows.map(({ payload }) => JSON.parse(payload));
  }

  close(): void {
    this.database.close();
  }
}
