import { v7 as uuid } from "uuid";
import { HoldfastError } from "../model/errors.ts";
import { checkId, streamName } from "../model/names.ts";
import type { Event, FoldKind, StreamKind } from "../model/stream/index.ts";
import {
  type Head,
  type ListRequest,
  type ListRows,
  type Page,
  type Problem,
  type Store,
  type StreamRow,
  takesUtf8,
} from "../store.ts";
import { getArtifact, putArtifact } from "./artifacts.ts";
import { checkStream } from "./check.ts";
import { type PayloadCodec, Payloads } from "./codec.ts";
import { DEFAULT_LEASE_MS, LeaseKeeper } from "./leases.ts";
import { Log, type LogContext } from "./log.ts";
import { type Loaded, loadStream, readRow, readWrites, verifying } from "./reading.ts";
import {
  type PruneOptions,
  type PruneReport,
  prune,
  type Removal,
  type RemoveOptions,
  removeStream,
} from "./retention.ts";
import { emitSafely } from "./telling.ts";
import { utf8Of } from "./utf-8.ts";

/** For integrations that bring a store of their own; `open()` makes a journal from an address. */
export interface JournalOptions {
  readonly store: Store;
  readonly namespace?: string;
  readonly codecs?: readonly PayloadCodec[];
  readonly leaseMs?: number;
  /** Wall clock in milliseconds; tests pass their own. */
  readonly now?: () => number;
  /** For how long something takes; `now` unless given, where that is a test's own. */
  readonly steady?: () => number;
  /** Told of what went wrong beside the main path and lost nothing. Node's own warnings unless given. */
  readonly warn?: (error: unknown) => void;
}

const YOUNG_MS = 24 * 3_600_000;

/** One namespace of a store, with everything that stands between bare writes and meaning. */
export class Journal implements LogContext {
  readonly store: Store;
  readonly namespace: string;
  readonly payloads: Payloads;
  readonly leases: LeaseKeeper;
  readonly now: () => number;
  /** Milliseconds for how long something takes: the wall clock may be set, this one only goes on. */
  readonly steady: () => number;
  readonly warn: (error: unknown) => void;

  constructor(options: JournalOptions) {
    this.store = options.store;
    this.namespace = checkId(options.namespace ?? "default", "namespace");
    this.payloads = new Payloads(options.codecs ?? [], takesUtf8.has(options.store) ? utf8Of : undefined);
    this.leases = new LeaseKeeper(this.store, this.namespace, options.leaseMs ?? DEFAULT_LEASE_MS);
    this.now = options.now ?? Date.now;
    this.steady = options.steady ?? options.now ?? (() => performance.now());
    this.warn = safely(options.warn ?? emitWarning);
  }

  /** A new id, in order of time. */
  newId(): string {
    return uuid();
  }

  open<State>(kind: StreamKind<State>, id: string): Promise<Log<State>> {
    return Log.open(this, kind, streamName(kind.kind, id));
  }

  /** Reads without opening: writes nothing, takes no lease. */
  load<State>(kind: FoldKind<State>, id: string, upTo?: number): Promise<Loaded<State>> {
    return loadStream(this, kind, streamName(kind.kind, id), upTo);
  }

  /** The row of a stream, without its events. */
  row(stream: string): Promise<StreamRow> {
    return readRow(this, stream);
  }

  /**
   * A log whose past is `from` up to `seq`, shared with it. Nothing is written before its first commit, which must
   * carry the returned `fork`.
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
        hint: "A fork makes a new one: choose a name that is free.",
      });
    }
    // What is damaged is told now: a fork of it could never be opened.
    const past = await loadStream(verifying(this), kind, streamName(kind.kind, from), seq);
    if (past.row.state === "gone" || past.head.seq < seq) {
      throw new HoldfastError("STREAM_NOT_FOUND", `${past.row.stream} has no position ${seq} to fork from`, {
        hint: "List its versions and fork from one of them.",
      });
    }
    const head: Head = { generation: row.head.generation, seq };
    const log = new Log(this, kind, stream, { ...past, row, head });
    return { log, fork: { stream: past.row.stream, generation: past.head.generation, seq } };
  }

  /** Every event of a stream in order, forks' shared past included, as it was written: for logs and exports. */
  async *events(
    stream: string,
    after = 0,
    upTo = Number.MAX_SAFE_INTEGER,
  ): AsyncGenerator<[seq: number, Event]> {
    for await (const events of readWrites(this, stream, after, upTo)) yield* events;
  }

  /** The same for whoever acts on it: what was written at once comes at once, and has to match its checksum. */
  recorded(
    stream: string,
    after = 0,
    upTo = Number.MAX_SAFE_INTEGER,
  ): AsyncGenerator<[seq: number, Event][]> {
    return readWrites(verifying(this), stream, after, upTo);
  }

  list<Of extends keyof ListRows>(
    request: DistributiveOmit<Extract<ListRequest, { of: Of }>, "namespace">,
  ): Promise<Page<ListRows[Of]>> {
    const whole = { ...request, namespace: this.namespace } as unknown as Extract<ListRequest, { of: Of }>;
    return this.store.list<Of>(whole);
  }

  remove(stream: string, options: RemoveOptions = {}): Promise<Removal> {
    return removeStream(this, stream, options);
  }

  prune(options: PruneOptions): Promise<PruneReport> {
    return prune(this, options);
  }

  putArtifact(bytes: Uint8Array): Promise<string> {
    return putArtifact(this.store, this.namespace, bytes, this.now());
  }

  getArtifact(hash: string): Promise<Uint8Array> {
    return getArtifact(this.store, this.namespace, hash);
  }

  /** Removes artifacts that nothing refers to. Young ones are spared: their reference may be on the way. */
  async collectArtifacts(olderThanMs: number = YOUNG_MS): Promise<number> {
    const putBefore = this.now() - olderThanMs;
    const outcome = await this.store.remove({ of: "artifacts", namespace: this.namespace, putBefore });
    return outcome.outcome === "removed" ? outcome.count : 0;
  }

  check<State>(kind: StreamKind<State>, stream: string): Promise<Problem[]> {
    return checkStream(this, kind, stream);
  }

  watch(stream: string | null, changed: () => void): () => void {
    return this.store.watch({ namespace: this.namespace, ...(stream === null ? {} : { stream }) }, changed);
  }
}

/** Much is told from where nobody waits for it: one who cannot be told leaves it to Node, with what kept him from it. */
function safely(warn: (error: unknown) => void): (error: unknown) => void {
  return (error) =>
    emitSafely(
      () => warn(error),
      (complaint) => {
        emitWarning(error);
        emitWarning(complaint);
      },
    );
}

/** Node takes texts and errors, and throws at anything else, which is what others may have thrown. */
function emitWarning(error: unknown): void {
  // Asked for when needed, which is as good as never: to load it takes longer than to open a session.
  process.emitWarning(error instanceof Error ? error : process.getBuiltinModule("node:util").inspect(error));
}

export interface ForkedLog<State> {
  readonly log: Log<State>;
  readonly fork: { readonly stream: string; readonly generation: number; readonly seq: number };
}

type DistributiveOmit<Type, Key extends PropertyKey> = Type extends unknown ? Omit<Type, Key> : never;
