/** The journal: one namespace of a store, with everything between stored writes and states. */

import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";
import { artifactHash, checkId, streamName } from "../model/names.ts";
import type { Event, FoldKind, StreamKind } from "../model/stream/index.ts";
import type { Head, ListRequest, ListRows, Page, Problem, Store, StreamRow } from "../store.ts";
import { acceptsUtf8 } from "../store.ts";
import { NO_LINK } from "./chain.ts";
import { cipherOf, type PayloadCodec, type Payloads, payloadsOf } from "./codec.ts";
import { DEFAULT_LEASE_MS, LeaseKeeper } from "./leases.ts";
import { Log, type LogContext } from "./log.ts";
import { newId } from "./new-id.ts";
import { type Loaded, loadStream, readRow, readWrites, verifying } from "./reading.ts";
import type { PruneOptions, PruneReport, Removal, RemoveOptions } from "./retention.ts";
import { prune, removeStream } from "./retention.ts";
import { checkStream } from "./snapshots.ts";

/** For integrations that bring a store of their own; `open()` makes a journal from an address. */
export interface JournalOptions {
  readonly store: Store;
  readonly namespace?: string;
  readonly codecs?: readonly PayloadCodec[];
  readonly leaseMs?: number;
  /** Wall clock in milliseconds; tests pass their own. */
  readonly now?: () => number;
  /** Monotonic clock for durations. Defaults to `now` if that is set, else to `performance.now`. */
  readonly steady?: () => number;
  /** Receives errors beside the main path, which lost nothing. Defaults to `process.emitWarning`. */
  readonly warn?: (error: unknown) => void;
}

const DAY_MS = 24 * 3_600_000;

/**
 * One namespace of a store: open, read, fork and remove streams. `holdfast.journal` is one.
 *
 * @example
 * const log = await holdfast.journal.open(visits, "home"); // `visits` is a StreamKind
 * const { state } = await holdfast.journal.load(visits, "home"); // reads only
 */
export class Journal implements LogContext {
  /** The store itself, by the verbs of the port. */
  readonly store: Store;
  /** The namespace of every stream that this journal reads or writes. */
  readonly namespace: string;
  /** Encodes events into payloads, and back. */
  readonly payloads: Payloads;
  /** The leases that this process holds. */
  readonly leases: LeaseKeeper;
  /** The wall clock, in milliseconds. */
  readonly now: () => number;
  /** Milliseconds of a monotonic clock, for durations: the wall clock may be set. */
  readonly steady: () => number;
  /** Receives what went wrong without stopping an act. By default it is a process warning. */
  readonly warn: (error: unknown) => void;
  private readonly options: JournalOptions;
  private readonly unreferenced = new RecentBytes();
  private readonly left = new LeftLogs();

  constructor(options: JournalOptions) {
    this.options = options;
    this.store = options.store;
    this.namespace = checkId(options.namespace ?? "default", "namespace");
    this.payloads = payloadsOf(options.store, options.codecs, acceptsUtf8.has(options.store));
    this.leases = new LeaseKeeper(this.store, this.namespace, options.leaseMs ?? DEFAULT_LEASE_MS);
    this.now = options.now ?? Date.now;
    this.steady = options.steady ?? options.now ?? (() => performance.now());
    this.warn = neverThrowing(options.warn ?? emitWarning);
  }

  /** A new id. Later ids sort after earlier ones. */
  newId(): string {
    return newId();
  }

  /** Opens a stream for reading and writing; a stream that does not exist is created by its first commit. */
  open<State>(kind: StreamKind<State>, id: string): Promise<Log<State>> {
    const stream = streamName(kind.kind, id);
    return this.left.take(kind, stream)?.reopen() ?? Log.open(this, kind, stream);
  }

  /**
   * Takes a log that its user is done with. The next `open` of its stream reads only what was appended since:
   * a server that answers one request after another does not fold the whole conversation for each.
   *
   * @internal
   */
  leave(log: Log<unknown>): void {
    this.left.add(log);
  }

  /** The state at `upTo`, or the latest. Writes nothing and takes no lease. */
  load<State>(kind: FoldKind<State>, id: string, upTo?: number): Promise<Loaded<State>> {
    return loadStream(this, kind, streamName(kind.kind, id), upTo);
  }

  /** The row of a stream, without its events. */
  row(stream: string): Promise<StreamRow> {
    return readRow(this, stream);
  }

  /**
   * Opens a new log that shares the history of `from` up to `seq`. Nothing is written before its first
   * commit, whose decision must carry the returned `fork`.
   */
  async fork<State>(
    kind: StreamKind<State>,
    from: string,
    seq: number,
    id: string,
  ): Promise<ForkedLog<State>> {
    const stream = streamName(kind.kind, id);
    const row = await this.row(stream);
    if (row.state !== "gone") {
      throw new HoldfastError("STREAM_EXISTS", `${stream} exists already`, {
        hint: "A fork creates a new stream: choose a name that is free.",
      });
    }
    // Verified now: a fork of a damaged history could never be opened.
    const past = await loadStream(verifying(this), kind, streamName(kind.kind, from), seq);
    if (past.row.state === "gone" || past.head.seq < seq) {
      throw new HoldfastError("STREAM_NOT_FOUND", `${past.row.stream} has no position ${seq} to fork from`, {
        hint: "List its versions and fork from one of them.",
      });
    }
    const head: Head = { generation: row.head.generation, seq };
    const log = new Log(this, kind, stream, { ...past, row, head, link: NO_LINK });
    return { log, fork: { stream: past.row.stream, generation: past.head.generation, seq } };
  }

  /** Every event of a stream in order, with the history that a fork shares: for display and exports. */
  async *events(
    stream: string,
    after = 0,
    upTo = Number.MAX_SAFE_INTEGER,
  ): AsyncGenerator<[seq: number, Event]> {
    for await (const events of readWrites(this, stream, after, upTo)) yield* events;
  }

  /** `events` for callers that act on them: checksums are verified, and events of one write come together. */
  recorded(
    stream: string,
    after = 0,
    upTo = Number.MAX_SAFE_INTEGER,
  ): AsyncGenerator<[seq: number, Event][]> {
    return readWrites(verifying(this), stream, after, upTo);
  }

  /** One page of a list; see `Store.list`. */
  list<Of extends keyof ListRows>(
    request: DistributiveOmit<Extract<ListRequest, { of: Of }>, "namespace">,
  ): Promise<Page<ListRows[Of]>> {
    const whole = { ...request, namespace: this.namespace } as unknown as Extract<ListRequest, { of: Of }>;
    return this.store.list<Of>(whole);
  }

  /** All namespaces of the store, by name, whichever this journal is in. */
  async namespaces(): Promise<string[]> {
    const { rows } = await this.store.list<"namespaces">({ of: "namespaces" });
    return rows.map(({ namespace }) => namespace);
  }

  /** The same store and settings in another namespace: `journal.inNamespace("acme")`. */
  inNamespace(namespace: string): Journal {
    return new Journal({ ...this.options, namespace });
  }

  /** Removes a whole stream and leaves a tombstone. A parent of forks is only hidden. */
  remove(stream: string, options: RemoveOptions = {}): Promise<Removal> {
    // Its forks may go along, and an erased text must not stay in memory either.
    this.left.clear();
    return removeStream(this, stream, options);
  }

  /** Removes the streams that match, each in an append of its own. */
  prune(options: PruneOptions): Promise<PruneReport> {
    this.left.clear();
    return prune(this, options);
  }

  /**
   * Stores bytes durably under their hash, and returns a reference to them: the hash, followed by a secret if
   * the store is encrypted. Store first, refer afterwards: the store rejects an append that names a missing
   * artifact, so a log never refers to bytes that a crash lost.
   */
  async putArtifact(bytes: Uint8Array): Promise<string> {
    const sealed = cipherOf(this.store)?.sealArtifact(bytes);
    if (sealed) return (await this.putStoredArtifact(sealed.bytes)) + sealed.secret;
    // A copy: the store writes it later, when the caller may have reused its buffer.
    return this.putStoredArtifact(new Uint8Array(bytes));
  }

  /**
   * Stores bytes as another store had them, encrypted or not, and returns their hash.
   *
   * @internal
   */
  async putStoredArtifact(bytes: Uint8Array): Promise<string> {
    const hash = sha256(bytes);
    await this.store.put({ of: "artifact", namespace: this.namespace, hash, bytes, at: this.now() });
    this.unreferenced.add(hash, bytes);
    return hash;
  }

  /**
   * Puts an artifact again that an erase has removed before the append that refers to it.
   *
   * @internal
   */
  async putAgain(hash: string): Promise<boolean> {
    // Dropped, so that an append that stays refused is not tried for ever.
    const bytes = this.unreferenced.drop(hash)?.bytes;
    if (!bytes) return false;
    await this.store.put({ of: "artifact", namespace: this.namespace, hash, bytes, at: this.now() });
    return true;
  }

  /**
   * Forgets artifacts that a durable event refers to now.
   *
   * @internal
   */
  noteReferences(hashes: readonly string[]): void {
    for (const hash of hashes) this.unreferenced.referred(hash);
  }

  /** The bytes of an artifact, verified against their hash. By the hash alone they come as stored. */
  async getArtifact(reference: string): Promise<Uint8Array> {
    const hash = artifactHash(reference);
    const secret = reference.slice(hash.length);
    const bytes = await this.storedArtifact(hash);
    if (secret === "") return bytes;
    const cipher = cipherOf(this.store);
    if (cipher) return cipher.openArtifact(bytes, secret);
    throw new HoldfastError("CODEC_UNKNOWN", `artifact ${hash} is encrypted`, {
      hint: "Pass `encryption` with its key to open(), or set it in holdfast.config.ts.",
      data: { hash },
    });
  }

  private async storedArtifact(hash: string): Promise<Uint8Array> {
    const blob = await this.store.get({ of: "artifact", namespace: this.namespace, hash });
    if (!blob) {
      throw new HoldfastError("ARTIFACT_MISSING", `artifact ${hash} is not in ${this.store.address}`, {
        hint: "It was never stored here, or was collected after everything that referred to it was removed.",
        data: { hash },
      });
    }
    const bytes = blob.payload as Uint8Array;
    if (sha256(bytes) !== hash) {
      throw new HoldfastError("ARTIFACT_CORRUPT", `artifact ${hash} does not match its hash`, {
        hint: "The medium changed it. Restore the store from a backup; `check` lists what else is damaged.",
        data: { hash },
      });
    }
    return bytes;
  }

  /**
   * Removes artifacts that no stream refers to. Young ones stay: the append that refers to one may be in
   * flight.
   */
  async collectArtifacts(olderThanMs: number = DAY_MS): Promise<number> {
    const putBefore = this.now() - olderThanMs;
    const outcome = await this.store.remove({ of: "artifacts", namespace: this.namespace, putBefore });
    return outcome.outcome === "removed" ? outcome.count : 0;
  }

  /** Verifies one stream: its events can be folded, and its snapshots equal their fold. */
  check<State>(kind: StreamKind<State>, stream: string): Promise<Problem[]> {
    return checkStream(this, kind, stream);
  }

  /** Calls `changed` after a write to the stream, or to any (null). Returns a function that stops it. */
  watch(stream: string | null, changed: () => void): () => void {
    return this.store.watch({ namespace: this.namespace, ...(stream === null ? {} : { stream }) }, changed);
  }
}

const MAX_RECENT_BYTES = 16 << 20;

/** Bytes that were put more often than referred to; the oldest go first, the latest always stay. */
class RecentBytes {
  private readonly known = new Map<string, { readonly bytes: Uint8Array; readonly puts: number }>();
  private total = 0;

  add(hash: string, bytes: Uint8Array): void {
    const puts = (this.drop(hash)?.puts ?? 0) + 1;
    this.known.set(hash, { bytes, puts });
    this.total += bytes.length;
    for (const [oldest] of this.known) {
      if (this.total <= MAX_RECENT_BYTES || oldest === hash) return;
      this.drop(oldest);
    }
  }

  referred(hash: string): void {
    const known = this.known.get(hash);
    if (known && known.puts > 1) this.known.set(hash, { ...known, puts: known.puts - 1 });
    else this.drop(hash);
  }

  drop(hash: string): { readonly bytes: Uint8Array; readonly puts: number } | undefined {
    const known = this.known.get(hash);
    if (known && this.known.delete(hash)) this.total -= known.bytes.length;
    return known;
  }
}

const MAX_LEFT_BYTES = 16 << 20;
/** About the memory of an empty session's state. */
const LOG_BYTES = 16 << 10;

/** Logs that their users have left, each for one next user; the oldest go first. */
class LeftLogs {
  private readonly logs = new Map<string, { readonly log: Log<unknown>; readonly bytes: number }>();
  private total = 0;

  add(log: Log<unknown>): void {
    this.drop(log.stream);
    const bytes = LOG_BYTES + log.storedBytes;
    this.logs.set(log.stream, { log, bytes });
    this.total += bytes;
    for (const [oldest] of this.logs) {
      if (this.total <= MAX_LEFT_BYTES) return;
      this.drop(oldest);
    }
  }

  take<State>(kind: StreamKind<State>, stream: string): Log<State> | undefined {
    const log = this.drop(stream);
    return log?.kind === kind ? (log as unknown as Log<State>) : undefined;
  }

  clear(): void {
    this.logs.clear();
    this.total = 0;
  }

  private drop(stream: string): Log<unknown> | undefined {
    const left = this.logs.get(stream);
    if (!left) return undefined;
    this.logs.delete(stream);
    this.total -= left.bytes;
    return left.log;
  }
}

/** Runs a callback of the user. An error of it, now or later, goes to `warn` and stops nothing. */
export function emitSafely(callback: () => unknown, warn: (error: unknown) => void): void {
  try {
    const result = callback();
    if (result instanceof Promise) result.catch(warn);
  } catch (error) {
    warn(error);
  }
}

/** Often no caller waits. If `warn` throws, Node gets the warning and the new error. */
function neverThrowing(warn: (error: unknown) => void): (error: unknown) => void {
  return (error) =>
    emitSafely(
      () => warn(error),
      (another) => {
        emitWarning(error);
        emitWarning(another);
      },
    );
}

/** `process.emitWarning` takes strings and errors only, but anything can be thrown. */
function emitWarning(error: unknown): void {
  // node:util is loaded when needed, which is rare: loading it takes longer than opening a session.
  process.emitWarning(error instanceof Error ? error : process.getBuiltinModule("node:util").inspect(error));
}

export interface ForkedLog<State> {
  readonly log: Log<State>;
  readonly fork: { readonly stream: string; readonly generation: number; readonly seq: number };
}

type DistributiveOmit<Type, Key extends PropertyKey> = Type extends unknown ? Omit<Type, Key> : never;
