/**
 * The floor for disk and for loading: the bare driver with the same turns, as strict as possible:
 *
 *     rows      the turn, keyed (session, seq) in one integer, the fastest layout that was tried; its
 *               session, moved to the head of the list of sessions; and the checkpoint. No other index, no
 *               lease, no batch id, no checksum
 *     bytes     the JSON of the turn's messages as the caller has them, without Holdfast's envelope
 *     commits   one per turn, by prepared statements; WAL and synchronous = FULL, like Holdfast
 *     timed     from the caller's objects to durable, so the JSON text is made inside; loads end with parsed
 *               objects. No checks, no copies, no state in memory
 *
 * The driver is chosen as the store chooses it: `node:sqlite` if Node has it, else
 * `@photostructure/sqlite`.
 */

export type BareValue = string | number | Uint8Array | null;

export interface BareStatement {
  run(...values: BareValue[]): unknown;
  get(...values: BareValue[]): unknown;
  all(...values: BareValue[]): unknown[];
}

export interface BareDatabase {
  exec(sql: string): void;
  prepare(sql: string): BareStatement;
  close(): void;
}

type DatabaseClass = new (path: string) => BareDatabase;

async function loadDriver(): Promise<DatabaseClass> {
  // The types of Node 20 do not include this module.
  const builtin: unknown = process.getBuiltinModule("node:sqlite" as "node:fs");
  if (builtin) return (builtin as { DatabaseSync: DatabaseClass }).DatabaseSync;
  return (await import("@photostructure/sqlite")).DatabaseSync as unknown as DatabaseClass;
}

const SETUP = `PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL`;

const SCHEMA = `
  CREATE TABLE turns (id INTEGER PRIMARY KEY, payload TEXT NOT NULL);
  CREATE TABLE sessions (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL,
    status TEXT NOT NULL, updated_at INTEGER NOT NULL);
  CREATE INDEX sessions_by_time ON sessions (updated_at);
  CREATE TABLE checkpoints (session INTEGER, version TEXT, seq INTEGER NOT NULL, status TEXT NOT NULL,
    created_at INTEGER NOT NULL, PRIMARY KEY (session, version)) WITHOUT ROWID`;

const SEQ_BITS = 28;

export async function openBare(path: string): Promise<BareDatabase> {
  const DatabaseSync = await loadDriver();
  const database = new DatabaseSync(path);
  database.exec(SETUP);
  return database;
}

export async function openRaw(path: string): Promise<RawDatabase> {
  const database = await openBare(path);
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
  private readonly begin: BareStatement;
  private readonly commit: BareStatement;
  private readonly insert: BareStatement;
  private readonly touch: BareStatement;
  private readonly mark: BareStatement;
  private readonly database: BareDatabase;
  private readonly select: BareStatement;

  constructor(database: BareDatabase) {
    this.database = database;
    this.insert = database.prepare(`INSERT INTO turns (id, payload) VALUES (? << ${SEQ_BITS} | ?, ?)`);
    this.begin = database.prepare("BEGIN IMMEDIATE");
    this.commit = database.prepare("COMMIT");
    this.touch = database.prepare(
      `INSERT INTO sessions (id, name, seq, status, updated_at)
       VALUES (?1, 'session/' || ?1, ?2, 'active', ?3)
        ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, updated_at = excluded.updated_at`,
    );
    this.mark = database.prepare(
      "INSERT INTO checkpoints (session, version, seq, status, created_at) VALUES (?1, ?2, ?2, 'kept', ?3)",
    );
    this.select = database.prepare(
      `SELECT payload FROM turns WHERE id > ?1 << ${SEQ_BITS} AND id <= (?1 << ${SEQ_BITS} | ?2) ORDER BY id`,
    );
  }

  /** One durable commit of one turn. */
  write(session: number, seq: number, payload: string): void {
    this.writeTogether([[session, seq, payload]]);
  }

  /** One durable commit of the turns of many sessions. */
  writeTogether(rows: readonly (readonly [session: number, seq: number, payload: string])[]): void {
    const now = Date.now();
    this.begin.run();
    for (const [session, seq, payload] of rows) {
      this.insert.run(session, seq, payload);
      this.touch.run(session, seq, now);
      this.mark.run(session, seq, now);
    }
    this.commit.run();
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
