/** The composition root: a store becomes a `Holdfast`. `open-store.ts` says how an address becomes a store. */

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { isAnyArrayBuffer } from "node:util/types";
import { type Goal, type OpenGoalOptions, openGoal } from "./goal/index.ts";
import {
  abandonMove,
  type CopyOptions,
  type CopyReport,
  copyStore,
  everyStream,
  Journal,
  openTarget,
  type PayloadCodec,
} from "./journal/index.ts";
import { HoldfastError, isHoldfastError } from "./model/errors.ts";
import { goalKind } from "./model/goal/index.ts";
import { checkOptions, type OptionRule } from "./model/options.ts";
import { sessionKind } from "./model/session/index.ts";
import { openStore } from "./open-store.ts";
import { OpenCalls, openSession, type Session, type SessionOptions, Sessions } from "./session/index.ts";
import type { Problem, Store } from "./store.ts";
import { ReadOnlyStore } from "./stores/read-only-store.ts";
import {
  noteCrash,
  type SuperviseOptions,
  type SweepOptions,
  type SweepReport,
  supervise,
  superviseOnce,
} from "./supervisor/index.ts";

/** What everything that is opened from one store shares. The defaults are right for one project on one machine. */
export interface OpenOptions {
  /** A tenant: nothing crosses it. */
  readonly namespace?: string;
  /** How long a crashed owner keeps others out, unless it is provably dead. 30 s unless set. */
  readonly leaseMs?: number;
  /**
   * Encryption or redaction of what events and snapshots say. The first one writes, all of them read. Titles, labels and
   * the bytes of artifacts are not covered: they stay readable.
   */
  readonly codecs?: readonly PayloadCodec[];
  /** A store of one's own, instead of an address. */
  readonly store?: Store;
  /**
   * Look, and change nothing: also where the file, the folder or the role in the database may not write. The store has to be
   * there, and what writes is refused with STORE_READONLY.
   */
  readonly readOnly?: boolean;
  /** Wall clock in milliseconds; for tests. */
  readonly now?: () => number;
  /** Told of what went wrong without hurting anybody; a process warning unless set. */
  readonly warn?: (error: unknown) => void;
}

const OPEN_OPTIONS = {
  namespace: "text",
  leaseMs: "duration",
  codecs: "list",
  store: "object",
  readOnly: "flag",
  now: "function",
  warn: "function",
} as const satisfies Record<keyof OpenOptions, OptionRule>;

/**
 * Opens a store, which is where everything begins. `open()` opens what `HOLDFAST_STORE` names, else finds or makes
 * `.holdfast/` in the project; `open("./state.db")` names a SQLite file, `open("./folder")` a folder for one,
 * `open("./folder/")` a folder of plain files, `open("postgres://…")` a database that many machines share,
 * `open("memory:")` forgets everything. A folder that holds a store already is opened as what it is, with or without the
 * slash. Close it when the program ends, or write `await using`.
 */
export async function open(address?: string, options: OpenOptions = {}): Promise<Holdfast> {
  checkOptions("open", options, OPEN_OPTIONS);
  const { readOnly = false } = options;
  // A variable that is empty, as in a file that lists all of them, names nothing.
  const named = address ?? (process.env["HOLDFAST_STORE"] || undefined);
  const store = options.store ?? (await openStore(named, { readOnly }));
  return new Holdfast(new Journal({ ...options, store: readOnly ? new ReadOnlyStore(store) : store }));
}

/**
 * Moves everything from one store to another: `copy("./.holdfast/store.db", "./elsewhere.db")`. Stop the workers first: a
 * store that somebody still holds a lease in is refused. Afterwards the first store can only be read, and whoever
 * still has it open is told where it went, so that nothing is done twice. The second must be new. A copy that was
 * killed is made again by the same call; until then neither store takes writes.
 */
export function copy(
  from: string | Holdfast,
  to: string | Holdfast,
  options: CopyOptions = {},
): Promise<CopyReport> {
  return withStore(from, (source) =>
    withStore(
      to,
      (target) => copyStore(source, target, options),
      (address) => openTarget(source, (how) => openStore(address, how)),
    ),
  );
}

/** Gives up a copy that was killed before it ended: its source takes writes again. */
export function abandonCopy(from: string | Holdfast): Promise<void> {
  return withStore(from, abandonMove);
}

/** What came open stays open. */
async function withStore<Result>(
  place: string | Holdfast,
  act: (store: Store) => Promise<Result>,
  opener: (address: string) => Promise<Store> = openStore,
): Promise<Result> {
  if (typeof place !== "string") return act(place.journal.store);
  const store = await opener(place);
  try {
    return await act(store);
  } finally {
    await store.close();
  }
}

/**
 * Kinds of streams that integrations store under a session's id. `sessions.prune` and `erase` remove them, too. The list
 * is here, since the command line prunes without loading an integration.
 */
const SESSION_COMPANIONS = ["openai-agents"] as const;

/** An open store, and everything that can be done with it. */
export class Holdfast {
  /** Sessions from outside: read, listed, cancelled, prompted, forked, without taking them. */
  readonly sessions: Sessions;
  /** Calls whose outcome nobody knows yet, and a person's answers to them. */
  readonly calls: OpenCalls;
  /** For integrations that bring their own kind of stream. */
  readonly journal: Journal;
  private readonly held = new Set<Pick<Session, "close">>();
  /** Sessions that are being taken: closing ends the wait for them, and lets go of those that were taken all the same. */
  private readonly taking = new Set<Promise<unknown>>();
  private readonly closing = new AbortController();

  constructor(journal: Journal) {
    this.journal = journal;
    this.sessions = new Sessions(journal, SESSION_COMPANIONS);
    this.calls = new OpenCalls(journal, (lease, by, found) => noteCrash(journal, lease, by, found));
  }

  get address(): string {
    return this.journal.store.address;
  }

  /**
   * Takes a session, new or existing. While another process holds it this waits up to one lease; a process that is
   * provably dead is not waited for.
   */
  async session(id: string, options: SessionOptions = {}): Promise<Session> {
    const { signal } = this.closing;
    const until = options?.signal ? AbortSignal.any([options.signal, signal]) : signal;
    const taking = openSession(this.journal, id, { ...options, signal: until }, (closed) =>
      this.held.delete(closed),
    );
    this.taking.add(taking);
    try {
      const session = await taking;
      this.held.add(session);
      return session;
    } finally {
      this.taking.delete(taking);
    }
  }

  /**
   * Opens a goal, or makes it when a statement is given and it is not there. Many programs may have it open: nobody
   * holds the whole, and a task is claimed by whoever works on it. What git brought of it into `.planning/events/` below
   * `root` is taken in first, so that a fresh clone has the goal.
   */
  async goal(id: string, options: OpenGoalOptions = {}): Promise<Goal> {
    const folder = resolve(options.root ?? ".", ".planning");
    if (existsSync(join(folder, "events"))) {
      // Most programs have no such folder, and need not load what reads it.
      const { mergeEventFolder } = await import("./projections/index.ts");
      await mergeEventFolder(this.journal, folder, id).catch((error: unknown) => {
        // A store that is only looked at shows what it has, and so does one beside a folder that keeps us out.
        if (!isHoldfastError(error, "STORE_READONLY") && !isHoldfastError(error, "STORE_IO")) throw error;
        this.journal.warn(error);
      });
    }
    return openGoal(this.journal, id, options);
  }

  /**
   * Looks after what nobody holds any more until `signal` aborts: marks sessions whose process died, puts their tasks
   * back, settles their calls as far as `tools` can, starts workers for what is ready. Any number may run at once.
   */
  supervise(options: SuperviseOptions): Promise<void> {
    return supervise(this.journal, options);
  }

  /** One such look, without starting workers: for a cron job, a test, or before a person asks how things stand. */
  superviseOnce(options: SweepOptions = {}): Promise<SweepReport> {
    return superviseOnce(this.journal, options);
  }

  /**
   * Stores bytes once by their content, durably, and returns the hash under which events can refer to them. What is no
   * bytes, such as a string, is refused.
   */
  async putArtifact(bytes: ArrayBuffer | ArrayBufferView): Promise<string> {
    return this.journal.putArtifact(bytesOf(bytes));
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
    for await (const { stream } of everyStream(this.journal, { kind: "session" })) {
      problems.push(...(await this.journal.check(sessionKind, stream)));
    }
    for await (const { stream } of everyStream(this.journal, { kind: "goal" }))
      problems.push(...(await this.journal.check(goalKind, stream)));
    return problems;
  }

  /** Closes every session that this handle holds, which waits for their writes under way, then the store. */
  async close(): Promise<void> {
    this.closing.abort(closedMeanwhile(this.address));
    await Promise.allSettled(this.taking);
    await Promise.all([...this.held].map((session) => session.close()));
    await this.journal.store.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function closedMeanwhile(address: string): HoldfastError {
  return new HoldfastError("STORE_CLOSED", `${address} was closed by this program`, {
    hint: "Open it again, or close it only when nothing is under way.",
  });
}

/** A view by the bytes below it: as a list of its numbers, all but the lowest byte of each would be lost. */
function bytesOf(value: unknown): Uint8Array {
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  if (isAnyArrayBuffer(value)) return new Uint8Array(value);
  const what = value === null ? "null" : typeof value;
  throw new HoldfastError("INPUT_INVALID", `putArtifact takes bytes, and got ${what}`, {
    hint: "Pass a Uint8Array, another view or an ArrayBuffer: of a text Buffer.from(text), of a Blob await blob.arrayBuffer().",
  });
}
