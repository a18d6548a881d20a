/**
 * The composition root: the only place that turns an address into a store.
 *
 * An address is what the caller says, else `HOLDFAST_STORE`, else `.holdfast/` beside the git directory that all
 * worktrees of a repository share, else the nearest `.holdfast/` above the working directory, else a new one there.
 */

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type Goal, type OpenGoalOptions, openGoal } from "./goal/index.ts";
import { Journal, type PayloadCodec } from "./journal/index.ts";
import { goalKind, HoldfastError, sessionKind } from "./model/index.ts";
import { CallDesk, openSession, type Session, type SessionOptions, Sessions } from "./session/index.ts";
import type { Problem, Store } from "./store.ts";
import { openMemory } from "./stores/memory/index.ts";
import { openSqlite } from "./stores/sqlite/index.ts";

export interface OpenOptions {
  /** A tenant: nothing crosses it. */
  readonly namespace?: string;
  /** How long a crashed owner keeps others out, unless it is provably dead. 30 s unless set. */
  readonly leaseMs?: number;
  /**
   * Encryption or redaction of what events say. The first one writes, all of them read. Titles, labels and the bytes of
   * artifacts are not covered: they stay readable.
   */
  readonly codecs?: readonly PayloadCodec[];
  /** A store of one's own, instead of an address. */
  readonly store?: Store;
  /** Wall clock in milliseconds; for tests. */
  readonly now?: () => number;
  /** Told of what went wrong without hurting anybody; a process warning unless set. */
  readonly warn?: (error: unknown) => void;
}

/**
 * Opens a store. `open()` finds or makes `.holdfast/` in the project; `open("./state.db")` names a SQLite file,
 * `open("./folder")` a folder for one, `open("memory:")` forgets everything.
 */
export async function open(address?: string, options: OpenOptions = {}): Promise<Holdfast> {
  const store = options.store ?? (await openStore(address ?? process.env["HOLDFAST_STORE"]));
  return new Holdfast(new Journal({ ...options, store }));
}

async function openStore(address: string | undefined): Promise<Store> {
  if (address === "memory:") return openMemory();
  if (address !== undefined && /^[a-z][a-z0-9+.-]+:/i.test(address) && !address.startsWith("file:")) {
    throw new HoldfastError(
      "STORE_NOT_FOUND",
      `no store understands the address ${withoutPassword(address)}`,
      {
        hint: 'Use a path to a file or folder, or "memory:".',
      },
    );
  }
  const path = address?.replace(/^file:(\/\/)?/, "");
  if (path === undefined) return openSqlite({ path: join(findFolder(), "store.db") });
  return openSqlite({
    path: /\.(db|sqlite3?)$/.test(path) ? resolve(path) : join(resolve(path), "store.db"),
  });
}

function withoutPassword(address: string): string {
  return address.replace(/\/\/[^@/]*@/, "//");
}

function findFolder(): string {
  refuseEphemeralDisk();
  const repository = gitFolder();
  if (repository) return join(repository, ".holdfast");
  for (let folder = process.cwd(); ; folder = dirname(folder)) {
    if (existsSync(join(folder, ".holdfast"))) return join(folder, ".holdfast");
    if (dirname(folder) === folder) return join(process.cwd(), ".holdfast");
  }
}

/** The folder that holds the git directory shared by all worktrees, or null outside a repository. */
function gitFolder(): string | null {
  try {
    const args = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    const common = execFileSync("git", args, {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
    return common.endsWith("/.git") ? dirname(common) : null;
  } catch {
    // No git here, or not inside a repository: the nearest folder decides.
    return null;
  }
}

const EPHEMERAL = ["VERCEL", "AWS_LAMBDA_FUNCTION_NAME", "NETLIFY", "CF_PAGES"] as const;

/** A default store on a disk that is thrown away would look durable until it mattered. */
function refuseEphemeralDisk(): void {
  const platform = EPHEMERAL.find((name) => process.env[name]);
  if (!platform) return;
  throw new HoldfastError("STORE_NOT_DURABLE", `this platform (${platform} is set) does not keep its disk`, {
    hint: "Pass the address of a store that lasts, or set HOLDFAST_STORE to one.",
  });
}

/** An open store, and everything that can be done with it. */
export class Holdfast {
  /** Sessions from outside: read, listed, cancelled, prompted, forked, without taking them. */
  readonly sessions: Sessions;
  /** Calls whose outcome nobody knows yet, and a person's answers to them. */
  readonly calls: CallDesk;
  /** For integrations that bring their own kind of stream. */
  readonly journal: Journal;
  private readonly held = new Set<Pick<Session, "close">>();

  constructor(journal: Journal) {
    this.journal = journal;
    this.sessions = new Sessions(journal);
    this.calls = new CallDesk(journal);
  }

  get address(): string {
    return this.journal.store.address;
  }

  /**
   * Takes a session, new or existing. While another process holds it this waits up to one lease; a process that is
   * provably dead is not waited for.
   */
  async session(id: string, options: SessionOptions = {}): Promise<Session> {
    const session = await openSession(this.journal, id, options, (closed) => this.held.delete(closed));
    this.held.add(session);
    return session;
  }

  /**
   * Opens a goal, or makes it when a statement is given and it is not there. Many programs may have it open: nobody
   * holds the whole, and a task is claimed by whoever works on it.
   */
  goal(id: string, options: OpenGoalOptions = {}): Promise<Goal> {
    return openGoal(this.journal, id, options);
  }

  /** Stores bytes once by their content, durably, and returns the hash under which events can refer to them. */
  putArtifact(bytes: Uint8Array): Promise<string> {
    return this.journal.putArtifact(bytes);
  }

  getArtifact(hash: string): Promise<Uint8Array> {
    return this.journal.getArtifact(hash);
  }

  /** Removes artifacts that nothing refers to any more; those younger than a day are spared. */
  collectArtifacts(): Promise<number> {
    return this.journal.collectArtifacts();
  }

  /** Verifies the medium, the log's invariants, and that every snapshot is the fold of its events. */
  async check(): Promise<readonly Problem[]> {
    const problems = [...(await this.journal.store.check())];
    for await (const stream of this.streams("session")) {
      problems.push(...(await this.journal.check(sessionKind, stream)));
    }
    for await (const stream of this.streams("goal"))
      problems.push(...(await this.journal.check(goalKind, stream)));
    return problems;
  }

  private async *streams(kind: string): AsyncGenerator<string> {
    let cursor: string | null = null;
    do {
      const from: { cursor?: string } = cursor === null ? {} : { cursor };
      const page = await this.journal.list<"streams">({ of: "streams", kind, limit: 200, ...from });
      for (const { stream } of page.rows) yield stream;
      cursor = page.cursor;
    } while (cursor !== null);
  }

  /** Releases every session that this handle holds, then the store. */
  async close(): Promise<void> {
    await Promise.all([...this.held].map((session) => session.close()));
    await this.journal.store.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
