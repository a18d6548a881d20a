/**
 * The only file that knows which SQLite runs below: `node:sqlite` where Node has it, the same API from
 * `@photostructure/sqlite` where it has not (Node 20).
 *
 * Three differences between the two are hidden here:
 *
 *  - Statements. SQLite keeps a closed connection, with its descriptors, as long as one of its statements
 *    lives. `node:sqlite` finalizes them in `close()`; the other leaves that to the garbage collector. So a
 *    connection hands out no statements: it keeps them by their SQL, drops them when it closes, and waits for
 *    the collector.
 *  - Numbers. Above 2^31 both bind a JavaScript number as a float. Columns with INTEGER affinity turn that
 *    back into the same integer; expressions must use `<<`, `|` and `&`, which cast, and never `*` and `+`.
 *  - Text with a NUL ends at the NUL on one of them. `rows.ts` makes sure that no such text is bound.
 */

import { join } from "node:path";
import { setImmediate } from "node:timers";
import { HoldfastError } from "../../model/errors.ts";

const PACKAGE = "@photostructure/sqlite";

export type Value = string | number | Uint8Array | null;

interface RawStatement {
  run(...values: Value[]): { changes: number | bigint };
  get(...values: Value[]): unknown;
  all(...values: Value[]): unknown[];
  /** Not in the first versions of `node:sqlite`. */
  setReturnArrays?(returnArrays: boolean): void;
}

interface RawDatabase {
  exec(sql: string): void;
  prepare(sql: string): RawStatement;
  function(name: string, options: { varargs: boolean }, act: (...values: Value[]) => Value): void;
  close(): void;
}

interface Driver {
  readonly DatabaseSync: new (
    location: string | URL,
    options: { readOnly: boolean; defensive: boolean },
  ) => RawDatabase;
  /** Whether `close()` leaves statements, and with them descriptors, to the garbage collector. */
  readonly leavesStatements: boolean;
}

let loading: Promise<Driver> | undefined;

async function loadDriver(): Promise<Driver> {
  const builtin = loadBuiltin();
  if (builtin) return { DatabaseSync: builtin.DatabaseSync, leavesStatements: false };
  return { DatabaseSync: requirePackage().DatabaseSync, leavesStatements: true };
}

/**
 * Required and not imported: Node then reads its files at once, and a cold start is a tenth shorter. Bundlers
 * do not see it, because a bundled driver would not find its native file. In a bundle `import.meta.url` is
 * undefined, or names a file of the machine that built it: so the program and its folder count as well.
 */
function requirePackage(): Pick<Driver, "DatabaseSync"> {
  const { createRequire } = process.getBuiltinModule("node:module");
  let cause: unknown;
  for (const from of [import.meta.url, process.argv[1], join(process.cwd(), "program.js")]) {
    if (!from) continue;
    try {
      return createRequire(from)(PACKAGE) as Driver;
    } catch (error) {
      cause ??= error;
    }
  }
  throw new HoldfastError(
    "STORE_DRIVER_MISSING",
    `the SQLite driver ${PACKAGE}, which Node ${process.versions.node} needs, could not be loaded ` +
      `(${String(cause).split("\n")[0]})`,
    {
      cause,
      hint:
        `Run \`npm install ${PACKAGE}\` where the program runs, beside its bundle. ` +
        `Next: \`serverExternalPackages: ["holdfast", "${PACKAGE}"]\` in next.config. ` +
        "Or use Node 22.13 or later, which has SQLite built in.",
    },
  );
}

/** Node 22 warns that its SQLite is experimental. This hides that one warning. */
function loadBuiltin(): Pick<Driver, "DatabaseSync"> | undefined {
  const emitWarning = process.emitWarning;
  process.emitWarning = (warning: string | Error, ...rest: unknown[]) => {
    if (/SQLite/.test(String(warning)) && rest[0] === "ExperimentalWarning") return;
    Reflect.apply(emitWarning, process, [warning, ...rest]);
  };
  try {
    return process.getBuiltinModule("node:sqlite" as never);
  } finally {
    process.emitWarning = emitWarning;
  }
}

/**
 * A file may come from elsewhere: functions in its schema may not have side effects, and cells are checked
 * as they are read.
 */
const UNTRUSTED_FILE = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON";

export class Connection {
  readonly #driver: Driver;
  #database: RawDatabase | null;
  readonly #statements = new Map<string, RawStatement>();
  readonly #listings = new Map<string, RawStatement>();

  private constructor(driver: Driver, location: string | URL, readOnly: boolean) {
    this.#driver = driver;
    // Versions of Node before 24.12 ignore `defensive`; the compared schema protects there too.
    this.#database = new driver.DatabaseSync(location, { readOnly, defensive: true });
    this.#database.exec(UNTRUSTED_FILE);
  }

  static async open(location: string | URL, readOnly: boolean): Promise<Connection> {
    loading ??= loadDriver();
    return new Connection(await loading, location, readOnly);
  }

  get isOpen(): boolean {
    return this.#database !== null;
  }

  /** For statements without parameters and rows: schema, pragmas, the ends of transactions. */
  exec(sql: string): void {
    this.#opened().exec(sql);
  }

  /** Uses the driver's `get`: its `run` builds an object of counts, which costs as much as a small write. */
  run(sql: string, ...values: Value[]): void {
    this.#statement(sql).get(...values);
  }

  count(sql: string, ...values: Value[]): number {
    return Number(this.#statement(sql).run(...values).changes);
  }

  get<Row>(sql: string, ...values: Value[]): Row | undefined {
    return this.#statement(sql).get(...values) as Row | undefined;
  }

  all<Row>(sql: string, ...values: Value[]): Row[] {
    return this.#statement(sql).all(...values) as Row[];
  }

  number(sql: string): number {
    const statement = this.#listing(sql);
    const row = statement.get();
    return Number(statement.setReturnArrays ? (row as Value[])[0] : Object.values(row as object)[0]);
  }

  /** Rows as arrays of columns. With many rows, naming the columns costs as much as reading them. */
  rows<Row extends readonly Value[]>(sql: string, ...values: Value[]): Row[] {
    const statement = this.#listing(sql);
    const rows = statement.all(...values);
    return (statement.setReturnArrays ? rows : rows.map((row) => Object.values(row as object))) as Row[];
  }

  /** One row of expressions, read without a statement that would outlive a connection closed right after. */
  peek(...expressions: string[]): Value[] {
    let row: Value[] = [];
    this.#opened().function("holdfast_peek", { varargs: true }, (...values) => {
      row = values;
      return null;
    });
    this.exec(`SELECT holdfast_peek(${expressions.join(", ")})`);
    return row;
  }

  rollback(): void {
    rollBack(this.#opened());
  }

  /** Ends whatever is open without saving it, then closes. Resolves when the descriptors are free. */
  async close(): Promise<void> {
    const left = this.#closeNow();
    if (this.#driver.leavesStatements) await collected(left);
  }

  /** In a function of its own, so that no suspended frame keeps a statement alive. */
  #closeNow(): WeakRef<RawStatement>[] {
    const database = this.#database;
    if (!database) return [];
    const statements = [...this.#statements.values(), ...this.#listings.values()];
    const left = statements.map((statement) => new WeakRef(statement));
    this.#database = null;
    this.#statements.clear();
    this.#listings.clear();
    rollBack(database);
    database.close();
    return left;
  }

  #opened(): RawDatabase {
    if (!this.#database) throw new Error("the connection is closed");
    return this.#database;
  }

  #statement(sql: string): RawStatement {
    return this.#statements.get(sql) ?? this.#prepare(sql, this.#statements);
  }

  #listing(sql: string): RawStatement {
    const known = this.#listings.get(sql);
    if (known) return known;
    const made = this.#prepare(sql, this.#listings);
    made.setReturnArrays?.(true);
    return made;
  }

  #prepare(sql: string, into: Map<string, RawStatement>): RawStatement {
    const made = this.#opened().prepare(sql);
    into.set(sql, made);
    return made;
  }
}

function rollBack(database: RawDatabase): void {
  try {
    database.exec("ROLLBACK");
  } catch {
    // No transaction was open. Callers close the connection wherever the failure could mean anything else.
  }
}

/** A native finalizer keeps its statement alive through a minor collection: it takes a full one. */
async function collected(left: readonly WeakRef<RawStatement>[]): Promise<void> {
  const isGone = () => left.every((statement) => statement.deref() === undefined);
  for (let tries = 0; tries < COLLECTIONS; tries++) {
    // A weak reference holds until the end of the job that made or read it. Native finalizers run later.
    await nextTurn();
    if (isGone()) break;
    await nextCollection();
  }
  await nextTurn();
}

let collection: Promise<void> | undefined;

/** In the next turn. Many stores that close at once share one collection. */
function nextCollection(): Promise<void> {
  collection ??= nextTurn().then(() => {
    collection = undefined;
    collectGarbage();
  });
  return collection;
}

const COLLECTIONS = 2;

let collect: (() => void) | undefined;

function collectGarbage(): void {
  if (!collect) {
    // Asked for here: a process that only looks, and ends without closing, need not load them.
    const { setFlagsFromString } = process.getBuiltinModule("node:v8");
    const { runInNewContext } = process.getBuiltinModule("node:vm");
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as () => void;
    setFlagsFromString("--no-expose-gc");
  }
  collect();
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** SQLite's result code: `primary` says what kind of trouble, `extended` which one. Null for other errors. */
export function resultCode(error: unknown): { primary: number; extended: number } | null {
  if (!(error instanceof Error)) return null;
  const { errcode, code } = error as { errcode?: unknown; code?: unknown };
  if (typeof errcode === "number") return { primary: errcode & 0xff, extended: errcode };
  if (code !== "ERR_SQLITE_ERROR") return null;
  // Some paths of the binding for Node 20 hand on SQLite's words but not its number.
  const known = Object.entries(WORDS).find(([words]) => error.message.includes(words));
  const primary = known?.[1] ?? CODE.ERROR;
  return { primary, extended: primary };
}

export const CODE = {
  ERROR: 1,
  BUSY: 5,
  LOCKED: 6,
  READONLY: 8,
  IOERR: 10,
  CORRUPT: 11,
  FULL: 13,
  CANTOPEN: 14,
  PROTOCOL: 15,
  TOOBIG: 18,
  CONSTRAINT: 19,
  MISMATCH: 20,
  RANGE: 25,
  NOTADB: 26,
  READONLY_ROLLBACK: 776,
  READONLY_DBMOVED: 1032,
} as const;

const WORDS: Readonly<Record<string, number>> = {
  "is locked": CODE.BUSY,
  "locking protocol": CODE.PROTOCOL,
  "readonly database": CODE.READONLY,
  "disk I/O error": CODE.IOERR,
  malformed: CODE.CORRUPT,
  "disk is full": CODE.FULL,
  "unable to open": CODE.CANTOPEN,
  "too big": CODE.TOOBIG,
  "constraint failed": CODE.CONSTRAINT,
  "not a database": CODE.NOTADB,
};

export function isBusy(error: unknown): boolean {
  const primary = resultCode(error)?.primary;
  return primary === CODE.BUSY || primary === CODE.LOCKED || primary === CODE.PROTOCOL;
}
