/**
 * The floor for commits: the same rows and bytes by the bare driver. A first, untimed run notes every
 * statement with which Holdfast changed its file. The floor repeats them, commit by commit, in a second
 * file with the same tables and indexes, by prepared statements and with the same settings. It reads
 * nothing, checks nothing, and keeps nothing in memory. Its JSON text is ready, unless the measure makes it
 * inside.
 */

import { open } from "../src/index.ts";
import { Connection } from "../src/stores/sqlite/index.ts";
import { type BareDatabase, type BareStatement, type BareValue, openBare } from "./raw-database.ts";

interface Change {
  readonly sql: string;
  readonly values: readonly BareValue[];
}

export type Commit = readonly Change[];

/** The text of a payload that Holdfast binds as UTF-8. Encoding it is work that the floor must do as well. */
const TEXT_AS_BYTES = "CAST(? AS TEXT)";
const asText = (value: BareValue): BareValue =>
  value instanceof Uint8Array ? Buffer.from(value).toString() : value;

const CHANGES = /^\s*(INSERT|UPDATE|DELETE)/;

/** Runs `work` on an open store and returns its commits, in order. */
export async function recordCommits(work: (soFar: () => number) => Promise<void>): Promise<Commit[]> {
  const commits: Commit[] = [];
  let changes: Change[] = [];
  const { run, get } = Connection.prototype;
  const note = (sql: string, values: readonly BareValue[]): void => {
    const said = sql.includes(TEXT_AS_BYTES) ? values.map(asText) : values;
    if (CHANGES.test(sql)) changes.push({ sql, values: said });
    if (sql !== "COMMIT") return;
    // A heartbeat may come at any moment; it is not part of the work.
    if (changes.some((each) => !each.sql.startsWith("UPDATE leases"))) commits.push(changes);
    changes = [];
  };
  Connection.prototype.run = function (sql, ...values) {
    note(sql, values);
    return run.call(this, sql, ...values);
  };
  Connection.prototype.get = function <Row>(sql: string, ...values: BareValue[]) {
    note(sql, values);
    return get.call(this, sql, ...values) as Row | undefined;
  };
  try {
    await work(() => commits.length);
  } finally {
    Connection.prototype.run = run;
    Connection.prototype.get = get;
  }
  return commits;
}

export class Replay {
  private readonly database: BareDatabase;
  private readonly statements = new Map<string, BareStatement>();

  private constructor(database: BareDatabase) {
    this.database = database;
  }

  /** An empty file with the tables of a store. */
  static async open(file: string): Promise<Replay> {
    await (await open(file)).close();
    return new Replay(await openBare(file));
  }

  commit(changes: Commit): void {
    this.statement("BEGIN IMMEDIATE").run();
    for (const { sql, values } of changes) this.statement(sql).run(...values);
    this.statement("COMMIT").run();
  }

  close(): void {
    this.statements.clear();
    this.database.close();
  }

  private statement(sql: string): BareStatement {
    const known = this.statements.get(sql);
    if (known) return known;
    const made = this.database.prepare(sql);
    this.statements.set(sql, made);
    return made;
  }
}
