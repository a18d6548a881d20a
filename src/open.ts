/** The composition root: makes a `Holdfast` from a store. `open-store.ts` makes a store from an address. */

import { existsSync } from "node:fs";
import { join, resolve, sep } from "node:path";
import { isAnyArrayBuffer } from "node:util/types";
import type { HoldfastConfig } from "./config/index.ts";
import type { Encryption } from "./encryption/index.ts";
import { type Goal, Goals, type OpenGoalOptions, openGoal } from "./goal/index.ts";
import type { MoveOptions, MoveReport, PayloadCodec } from "./journal/index.ts";
import * as moving from "./journal/index.ts";
import { type Companions, everyStream, Journal } from "./journal/index.ts";
import { withTimeout } from "./ledger/index.ts";
import { HoldfastError, isHoldfastError } from "./model/errors.ts";
import { goalKind } from "./model/goal/index.ts";
import { streamName } from "./model/names.ts";
import { checkOptions, type OptionRule } from "./model/options.ts";
import { sessionKind } from "./model/session/index.ts";
import { rewoundStore } from "./model/stream/index.ts";
import { openStore } from "./open-store.ts";
import { projectPlace } from "./project-place.ts";
import {
  afterOwn,
  type CloseOptions,
  OpenCalls,
  openSession,
  type RunOptions,
  type RunResult,
  type Session,
  type SessionOptions,
  Sessions,
  sessionCore,
  splitOptions,
  startRun,
} from "./session/index.ts";
import type { Problem, Store } from "./store.ts";
import { ReadOnlyStore } from "./stores/read-only-store.ts";
import type { SuperviseOptions, SweepOptions, SweepReport } from "./supervisor/index.ts";
import { noteCrash, supervise, superviseOnce, workerStreamOf } from "./supervisor/index.ts";

/** Options of `open()`. The defaults suit one project on one machine. */
export interface OpenOptions {
  /** Keeps data apart, not people: anyone may choose any. Default `default`. Example: `namespace: "acme"`. */
  readonly namespace?: string;
  /**
   * How long a crashed owner keeps others out, in milliseconds, unless it is provably dead. Default 30 s.
   * Example: `leaseMs: 60_000` for a slow store.
   */
  readonly leaseMs?: number;
  /**
   * Encrypts the whole store. Example: `encryption: aesGcm({ keys: { a: process.env.HOLDFAST_KEY } })`. Docs:
   * `docs/guides/security.md`.
   */
  readonly encryption?: Encryption;
  /**
   * Redaction of events and snapshots, before any encryption. The first codec writes, all of them read.
   * Titles, labels and the bytes of artifacts bypass it. Example: `codecs: [withoutCardNumbers]`.
   */
  readonly codecs?: readonly PayloadCodec[];
  /**
   * A store object instead of an address. Example: `open(undefined, { store: await openPostgres({ pool })
   * })`.
   */
  readonly store?: Store;
  /**
   * Reads only, even where the process has no right to write. The store must exist, and every write fails
   * with STORE_READONLY. Example: `open("./state.db", { readOnly: true })`.
   */
  readonly readOnly?: boolean;
  /** Wall clock in milliseconds, for tests. Example: `now: () => 1_700_000_000_000`. */
  readonly now?: () => number;
  /**
   * Receives errors that lost nothing. Default: a process warning. Example: `warn: (error) =>
   * log.warn(error)`.
   */
  readonly warn?: (error: unknown) => void;
}

const OPEN_OPTIONS = {
  namespace: "text",
  leaseMs: "duration",
  codecs: "list",
  encryption: "object",
  store: "object",
  readOnly: "flag",
  now: "function",
  warn: "function",
} as const satisfies Record<keyof OpenOptions, OptionRule>;

/**
 * Opens a store; everything begins here. Without an address it opens the store named by `HOLDFAST_STORE`,
 * else the one in `holdfast.config.json`, else finds or creates `.holdfast/` in the project. A configuration
 * that is code must be passed: `open` runs no code that it finds. With an address, the file is not read.
 *
 * A folder that already holds a store is opened as its kind, with or without the slash. Close the result when
 * the program ends, or declare it with `await using`.
 *
 * @example
 * await open(); // .holdfast/ of this project
 * await open(await loadConfig()); // as holdfast.config.ts says
 * await open("./state.db"); // a SQLite file
 * await open("./folder"); // a folder with a SQLite file
 * await open("./folder/"); // a folder of plain files
 * await open("postgres://db.example.com/app"); // a database that many machines share
 * await open("memory:"); // forgotten when the program ends
 */
export async function open(address?: string | HoldfastConfig, options: OpenOptions = {}): Promise<Holdfast> {
  checkOptions("open", options, OPEN_OPTIONS);
  const { readOnly = false } = options;
  const config = typeof address === "string" || options.store ? {} : await configOf(address);
  const { HOLDFAST_STORE, HOLDFAST_NAMESPACE } = process.env;
  // An empty variable, as in an .env file that lists all of them, counts as unset.
  const chosen = typeof address === "string" ? address : HOLDFAST_STORE || config.store;
  const store = options.store ?? (await openStore(chosen, { readOnly }));
  const namespace = options.namespace ?? (HOLDFAST_NAMESPACE || config.namespace);
  const codecs = options.codecs ?? config.codecs;
  const encryption = options.encryption ?? config.encryption;
  const usable = readOnly ? new ReadOnlyStore(store) : store;
  const isNamed = typeof address === "string" || options.store !== undefined || Boolean(HOLDFAST_STORE);
  const journal = new Journal({
    ...options,
    ...(namespace !== undefined && { namespace }),
    ...(codecs !== undefined && { codecs }),
    // Outermost: nothing below it sees a plain title.
    store: encryption?.protect(usable) ?? usable,
  });
  if (readOnly && store.rewind) journal.warn(rewoundStore(store.address, store.rewind));
  return new Holdfast(journal, isNamed);
}

/** The passed configuration, else the project's. The module that reads it is loaded only if there is one. */
async function configOf(passed: HoldfastConfig | undefined): Promise<HoldfastConfig> {
  if (passed !== undefined) {
    const { checkConfig } = await import("./config/index.ts");
    checkConfig(passed);
    return passed;
  }
  const place = projectPlace(process.cwd());
  if (place.configFile === null) return {};
  const { readConfig } = await import("./config/index.ts");
  return readConfig(place, "open()");
}

/**
 * Moves everything from one store to another, which must be new. Stop the workers first: a store with a live
 * lease is rejected, and so is one that another process has open. Afterwards the first store can only be
 * read, and its users get an error that names the second, so that nothing is done twice. After a kill, make
 * the same call again. For a backup, use `holdfast backup`.
 *
 * @example
 * await move("./.holdfast/store.db", "postgres://db.example.com/app");
 */
export function move(
  from: string | Holdfast,
  to: string | Holdfast,
  options: MoveOptions = {},
): Promise<MoveReport> {
  return withStore(from, (source) =>
    withStore(
      to,
      (target) => moving.moveStore(source, target, options),
      (address) => moving.openTarget(source, (how) => openStore(address, how)),
    ),
  );
}

/**
 * Undoes a finished move while the second store has no new writes: the first takes writes again, the second
 * none. Stop all programs that have the second store open.
 *
 * @example
 * await undoMove("./.holdfast/store.db", "postgres://db.example.com/app");
 */
export function undoMove(from: string | Holdfast, to: string | Holdfast): Promise<MoveReport> {
  const existing = (address: string) => openStore(address, { mustExist: true });
  return withStore(
    from,
    (source) => withStore(to, (target) => moving.undoMove(source, target), existing),
    existing,
  );
}

/**
 * Gives up a move that was interrupted: its source takes writes again.
 *
 * @example
 * await abandonMove("./.holdfast/store.db");
 */
export function abandonMove(from: string | Holdfast): Promise<void> {
  return withStore(from, moving.abandonMove);
}

/** Runs `act` on a store. Closes the store afterwards only if it was opened here. */
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
 * Streams about a session that `sessions.prune` and `erase` remove with it: an integration's, and the
 * supervisors' record of its workers. The list is here, since the command line loads no integration.
 */
const sessionCompanions: Companions = (id) => [
  streamName("openai-agents", id),
  streamName("claude-agent", id),
  workerStreamOf(id),
];

/**
 * An open store: sessions, goals, open calls and artifacts. `open()` returns one.
 *
 * @example
 * const holdfast = await open();
 * const session = await holdfast.session("order-4711");
 * const result = await session.run({ model, tools: [charge], prompt: "Pay order 4711" });
 * await holdfast.close();
 */
export class Holdfast {
  /** Acts on sessions without taking them: get, list, cancel, prompt, fork. */
  readonly sessions: Sessions;
  /** Acts on goals without opening them: list, prune, erase. */
  readonly goals: Goals;
  /** Calls without a known outcome, and a person's answers to them. */
  readonly calls: OpenCalls;
  /** For integrations that define their own kind of stream. */
  readonly journal: Journal;
  /** The latest handle of each session. */
  private readonly sessionsHeld = new Map<string, Session>();
  /** All handles, for `close`. Requests for one session may be many, until their first commits decide. */
  private readonly sessionsOpen = new Set<Session>();
  /** Sessions being opened. `close` ends their wait, and then closes those that got a lease anyway. */
  private readonly sessionsOpening = new Set<Promise<unknown>>();
  /** Sessions being taken, by id. A second request waits for it, instead of competing for the lease. */
  private readonly sessionsTaking = new Map<string, Promise<Session>>();
  private readonly closing = new AbortController();
  private readonly isNamed: boolean;

  /** `isNamed`: the caller chose the store, so it need not be the one of the project around it. */
  constructor(journal: Journal, isNamed = true) {
    this.journal = journal;
    this.isNamed = isNamed;
    this.sessions = new Sessions(journal, sessionCompanions);
    this.goals = new Goals(journal, (id, root) => this.removeGoalFiles(id, root));
    this.calls = new OpenCalls(journal, (lease, by, found) => noteCrash(journal, lease, by, found));
  }

  /** Where the store lies, without a password: `/app/.holdfast/store.db`. */
  get address(): string {
    return this.journal.store.address;
  }

  /**
   * Takes a session, new or existing. If another process holds it, this waits up to one lease; it does not
   * wait for a process that is provably dead. If this handle has it open itself, it fails at once with
   * SESSION_HELD, because only this program can close it; `ifHeld: "wait"` queues until then.
   *
   * An id may be that of a user: `auth0|abc`, `ann@example.com`, `user:42`. It has 1 to 128 letters, digits,
   * `._-:@|+=,~!#$%&*();^`, and no leading dot or dash. Slashes, quotes and spaces are rejected.
   *
   * @example
   * const session = await holdfast.session("order-4711", { goal: "checkout" });
   */
  async session(id: string, options: SessionOptions = {}): Promise<Session> {
    return this.takeSession(id, options, false);
  }

  /**
   * Answers one request: takes the session, runs the prompt and lets go of the session. It takes two commits,
   * the first with the prompt and the second with the answer, where `session()`, `run()` and `close()` take
   * four. If the session is held, it waits, in this program too. Takes the options of both.
   *
   * @example
   * const { text } = await holdfast.run("chat-17", { model, tools, prompt: "Where is my order?" });
   */
  async run(id: string, options: RunOptions & SessionOptions): Promise<RunResult> {
    const { opening, running } = splitOptions(options);
    const session = await this.takeSession(id, { ifHeld: "wait", ...opening }, true);
    try {
      return await startRun(sessionCore(session), running, true);
    } finally {
      await session.close();
    }
  }

  private async takeSession(id: string, options: SessionOptions, isRequest: boolean): Promise<Session> {
    const { signal } = this.closing;
    const until = options?.signal ? AbortSignal.any([options.signal, signal]) : signal;
    const forget = (closed: Session): void => {
      this.sessionsOpen.delete(closed);
      if (this.sessionsHeld.get(id) === closed) this.sessionsHeld.delete(id);
    };
    const take = () => openSession(this.journal, id, { ...options, signal: until }, forget, isRequest);
    const opening = this.inTurn(id, options.ifHeld, until, take);
    this.sessionsOpening.add(opening);
    try {
      return await opening;
    } finally {
      this.sessionsOpening.delete(opening);
    }
  }

  /** Waits for other handles of this program first: for one that is being taken, and for one that has it. */
  private async inTurn(
    id: string,
    ifHeld: SessionOptions["ifHeld"],
    until: AbortSignal,
    take: () => Promise<Session>,
  ): Promise<Session> {
    for (let waitedFor: Session | undefined; ; ) {
      const taking = ifHeld === "throw" ? undefined : this.sessionsTaking.get(id);
      if (taking) {
        const taken = taking.catch(() => undefined);
        await withTimeout(taken, Number.POSITIVE_INFINITY, until, undefined);
        continue;
      }
      const held = this.sessionsHeld.get(id);
      if (!held || held === waitedFor) break;
      await afterOwn(this.journal, held, ifHeld, until);
      waitedFor = held;
    }
    const taking = take();
    this.sessionsTaking.set(id, taking);
    try {
      const session = await taking;
      this.sessionsHeld.set(id, session);
      this.sessionsOpen.add(session);
      return session;
    } finally {
      if (this.sessionsTaking.get(id) === taking) this.sessionsTaking.delete(id);
    }
  }

  /**
   * Opens a goal, or creates it if `statement` is given. Any number of programs may have it open; each claims
   * the tasks that it works on. Events that git brought into `.planning/events/` below `root` are merged
   * first, so that a fresh clone has the goal. Without `root`, that is the project's folder for the project's
   * own store, and none for a store that the caller named: `open("memory:")` begins empty.
   *
   * @example
   * const goal = await holdfast.goal("checkout", { statement: "Customers can pay by card" });
   */
  async goal(id: string, options: OpenGoalOptions = {}): Promise<Goal> {
    const root = options.root ?? this.projectRoot();
    const folder = root === null ? null : resolve(root, ".planning");
    if (folder !== null && existsSync(join(folder, "events"))) {
      // Loaded only here: most programs have no such folder.
      const { mergeEventFolder } = await import("./projections/index.ts");
      await mergeEventFolder(this.journal, folder, id).catch((error: unknown) => {
        // A read-only store, or an unreadable folder: show what the store has.
        if (!isHoldfastError(error, "STORE_READONLY") && !isHoldfastError(error, "STORE_IO")) throw error;
        this.journal.warn(error);
      });
    }
    return openGoal(this.journal, id, options);
  }

  private async removeGoalFiles(id: string, given: string | undefined): Promise<void> {
    const root = given ?? this.projectRoot();
    const folder = root === null ? null : resolve(root, ".planning");
    if (folder === null || !existsSync(folder)) return;
    const { removeGoalFiles } = await import("./projections/index.ts");
    await removeGoalFiles(folder, id);
  }

  /** The root of the project around the working directory, if this is its store. */
  private projectRoot(): string | null {
    const { root, home } = projectPlace(process.cwd());
    return !this.isNamed || resolve(this.address.replace(/^\w+ /, "")).startsWith(home + sep) ? root : null;
  }

  /**
   * Recovers crashed work until `signal` aborts: marks sessions whose process died, returns their tasks,
   * settles their calls with `tools`, and starts workers for work that is ready. Any number of supervisors
   * may run at once.
   */
  supervise(options: SuperviseOptions): Promise<void> {
    return supervise(this.journal, options);
  }

  /** One round of `supervise` without starting workers: for a cron job, a test, or before a status report. */
  superviseOnce(options: SweepOptions = {}): Promise<SweepReport> {
    return superviseOnce(this.journal, options);
  }

  /**
   * Stores bytes durably, once per content, and returns their hash. Messages refer to them by it.
   *
   * @example
   * const artifact = await holdfast.putArtifact(await readFile("chart.png"));
   * await session.append({ role: "user", blocks: [{ kind: "file", artifact, mediaType: "image/png" }] });
   */
  async putArtifact(bytes: ArrayBuffer | ArrayBufferView): Promise<string> {
    return this.journal.putArtifact(bytesOf(bytes));
  }

  /** The bytes of an artifact, verified against their hash. */
  getArtifact(hash: string): Promise<Uint8Array> {
    return this.journal.getArtifact(hash);
  }

  /** Removes artifacts that nothing refers to and that are older than a day; returns their number. */
  collectArtifacts(): Promise<number> {
    return this.journal.collectArtifacts();
  }

  /**
   * Verifies the medium, the invariants of the log, and that every snapshot of this namespace is the fold of
   * its events.
   */
  async check(): Promise<readonly Problem[]> {
    return [...(await this.journal.store.check()), ...(await checkEvents(this.journal))];
  }

  /**
   * Closes every session of this handle, which waits for writes in flight, then the store. Tools in flight
   * are cut off, unless `finish: "call"` waits for them.
   *
   * @example
   * process.once("SIGTERM", () => holdfast.close({ finish: "call", withinMs: 20_000 }));
   */
  async close(options?: CloseOptions): Promise<void> {
    this.closing.abort(storeClosed(this.address));
    await Promise.allSettled(this.sessionsOpening);
    await Promise.all([...this.sessionsOpen].map((session) => session.close(options)));
    await this.journal.store.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Verifies that every event of a namespace can be folded, and that every snapshot is such a fold. */
export async function checkEvents(journal: Journal): Promise<Problem[]> {
  const problems: Problem[] = [];
  for await (const { stream } of everyStream(journal, { kind: "session" }))
    problems.push(...(await journal.check(sessionKind, stream)));
  for await (const { stream } of everyStream(journal, { kind: "goal" }))
    problems.push(...(await journal.check(goalKind, stream)));
  return problems;
}

function storeClosed(address: string): HoldfastError {
  return new HoldfastError("STORE_CLOSED", `${address} was closed by this program`, {
    hint: "Open it again, or close it only when nothing is in flight.",
  });
}

/** The bytes behind any view. `new Uint8Array(view)` would keep only the lowest byte of each number. */
function bytesOf(value: unknown): Uint8Array {
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  if (isAnyArrayBuffer(value)) return new Uint8Array(value);
  const what = value === null ? "null" : typeof value;
  throw new HoldfastError("INPUT_INVALID", `putArtifact takes bytes, not ${what}`, {
    hint: "Pass a Uint8Array or an ArrayBuffer, such as Buffer.from(text) or await blob.arrayBuffer().",
  });
}
