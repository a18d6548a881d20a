/**
 * The port: the ten verbs that Holdfast needs from a store. The interface `Store` at the end has them with
 * their contracts; the types before it are their requests and answers.
 *
 *     append   add events to streams, all or nothing        lease    take, renew or release a right to write
 *     read     the writes of one stream, in order           remove   a stream, unused artifacts, snapshots
 *     list     streams, items, leases, keys, namespaces     watch    be called after a change
 *     put      store an artifact or a snapshot              check    verify the medium and the log
 *     get      load one of them                             close    finish and release everything
 *
 * A store keeps append-only streams of events, and beside them leases, claimed keys, artifacts and snapshots.
 * It knows nothing of sessions, calls or goals. Every store promises (the suite in `holdfast/testing` checks
 * it):
 *
 *  - An expected outcome (`conflict`, `fenced`, `taken`, `missing`) is a value, and nothing was written.
 *  - A failure rejects with a `HoldfastError`. With `unknown: true` the batch may be durable; resending it is
 *    safe.
 *  - Within a stream, `seq` has no gaps, and a write with an older lease token than the newest is rejected.
 *  - An append checks in this order, each check over the whole batch: resend, fenced, conflict, taken,
 *    missing. A resend must match in every write, and gets the heads of the first time.
 *  - A release frees only keys that its own stream claimed. Within a batch, keys change write by write,
 *    releases first.
 *  - A hidden stream takes no writes: every append to it is a `conflict` with its own head.
 *  - Names arrive validated (`model/names.ts`) and are compared byte by byte. Nothing crosses a namespace.
 *
 * Stores hold no rules of the domain. If two stores need the same `if`, it belongs in `journal/` or `model/`.
 */

import type { MaybePromise } from "./model/maybe-promise.ts";
import type { Item, StreamFacets } from "./model/stream/index.ts";

export type { Item, StreamFacets };

/** The end of a stream. `generation` grows each time the stream is removed and created again. */
export interface Head {
  readonly generation: number;
  readonly seq: number;
}

/** A payload as the codec made it. Text stays text, so that a person can read it with any SQL shell. */
export type Payload = string | Uint8Array;

/** The append requires that `lease` still has this token. */
export interface Guard {
  readonly lease: string;
  readonly token: number;
}

/** Claims `key` for the write's event at index `event`. A key has one holder per namespace. */
export interface Claim {
  readonly key: string;
  readonly event: number;
}

/** Events for one stream. It becomes one stored row, however many events it has. */
export interface Write {
  readonly stream: string;
  /**
   * The head that the writer has seen; any other is a `conflict`. There is no unconditional append. A stream
   * that is gone may also begin at a later generation than its head says, as an import needs it.
   */
  readonly expect: Head;
  /** Number of events in the payload; they get the next `count` seqs. */
  readonly count: number;
  readonly payload: Payload;
  /** The payload is text given as UTF-8 bytes, and is read back as text. Only for stores in `acceptsUtf8`. */
  readonly isUtf8?: true;
  /** Name of the codec that made the payload; null for JSON text without a codec. */
  readonly codec: string | null;
  /** CRC-32 of the payload's bytes, so that `check` detects a changed record. */
  readonly sum: number;
  /** Wall clock in milliseconds. */
  readonly at: number;
  /**
   * Only on the first write of a stream: it shares the history of `fork.stream` up to `fork.seq`, and its own
   * events continue from there, so `expect.seq` equals `fork.seq`.
   */
  readonly fork?: { readonly stream: string; readonly generation: number; readonly seq: number };
  readonly guards?: readonly Guard[];
  readonly claims?: readonly Claim[];
  readonly releases?: readonly string[];
  /** Hashes of the artifacts that these events refer to; they must be stored already. */
  readonly artifacts?: readonly string[];
  readonly facets?: StreamFacets;
  readonly items?: readonly Item[];
}

/**
 * A lease that changes hands in the commit of a batch. So opening a session and its first events cost one
 * commit, and so do its last events and leaving it (decision 029). A taken lease has no previous owner: one
 * that expired is for `lease`, which tells whose it was.
 */
export type BatchLease =
  /** `fenced` unless no owner has the lease and `token` is the one that `lease` would grant. */
  | Readonly<{ act: "take"; name: string; token: number; holder: Holder; ttlMs: number }>
  /** `fenced` unless the lease has this token. */
  | Readonly<{ act: "release"; name: string; token: number }>;

/** Writes to different streams of one namespace that become durable together or not at all. */
export interface Batch {
  /** A resend carries the same id: the store recognises it in the row at `expect.seq + 1`. */
  readonly id: string;
  readonly namespace: string;
  readonly writes: readonly Write[];
  readonly lease?: BatchLease;
}

export type AppendOutcome =
  /** Durable. `resent`: this batch was there already. */
  | { readonly outcome: "ok"; readonly heads: readonly Head[]; readonly resent: boolean }
  /** Another writer was faster; `head` is the end of the stream now. */
  | { readonly outcome: "conflict"; readonly stream: string; readonly head: Head }
  /** The lease has another owner, or none. */
  | { readonly outcome: "fenced"; readonly lease: string; readonly now: LeaseRow | null }
  /** Another event holds a claimed key. */
  | { readonly outcome: "taken"; readonly key: string; readonly by: { stream: string; seq: number } }
  /** An artifact is not stored. */
  | { readonly outcome: "missing"; readonly artifact: string };

/** A write as it is read back: events `first` to `last`. */
export interface StoredWrite {
  readonly first: number;
  readonly last: number;
  readonly batch: string;
  readonly payload: Payload;
  readonly codec: string | null;
  readonly sum: number;
  readonly at: number;
}

/** `hidden`: removed, but a fork still shares its history. `gone`: removed, or never created. */
export type StreamState = "live" | "hidden" | "gone";

export interface StreamRow {
  readonly stream: string;
  readonly state: StreamState;
  /** If the stream is gone: seq 0, and the generation that it gets when it is created again. */
  readonly head: Head;
  /** The stream's own events begin at `base + 1`; earlier ones are in `parent`. */
  readonly base: number;
  readonly parent: { readonly stream: string; readonly generation: number } | null;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly facets: {
    readonly status: string | null;
    readonly title: string | null;
    readonly goal: string | null;
    readonly openCalls: number;
    readonly expiresAt: number | null;
    readonly budget: string | null;
  };
}

export interface ItemRow {
  readonly stream: string;
  readonly kind: string;
  readonly id: string;
  readonly seq: number | null;
  readonly endSeq: number | null;
  readonly status: string | null;
  readonly name: string | null;
  readonly key: string | null;
  readonly at: number | null;
  readonly doneAt: number | null;
}

/** The holder of a lease: a label for people, and facts from which a neighbour can prove that it is dead. */
export interface Holder {
  readonly owner: string;
  readonly label: string;
  readonly host: string;
  readonly pid: number;
  /** Start time of the process in the kernel's own unit; null if the system does not tell. */
  readonly started: string | null;
  readonly boot: string | null;
  readonly pidNamespace: string | null;
  /** The clock of `started`. Without it, two start times cannot be compared. */
  readonly timeNamespace?: string | null;
}

export interface LeaseRow {
  readonly name: string;
  readonly token: number;
  /** Null if released. */
  readonly holder: Holder | null;
  /** By the store's own clock; 0 or less if anyone may take the lease. */
  readonly remainingMs: number;
}

export type LeaseRequest =
  /**
   * Granted if the lease is free, released, expired or this owner's already, or if `evict` names its current
   * token (its holder is provably dead). A change of owner adds 1 to the token; the same owner keeps it.
   */
  | {
      readonly act: "take";
      readonly namespace: string;
      readonly name: string;
      readonly holder: Holder;
      readonly ttlMs: number;
      readonly evict?: number;
    }
  /** Renews all leases that still have their token, in one round trip. */
  | Readonly<{ act: "renew"; namespace: string; leases: readonly Guard[]; ttlMs: number }>
  /** Ends the lease if it still has this token, which stays: the next owner gets a higher one. */
  | { readonly act: "release"; readonly namespace: string; readonly lease: Guard };

export type LeaseOutcome =
  /** `from`: the previous holder, if the owner changed and that one did not release the lease. */
  | { readonly outcome: "granted"; readonly lease: LeaseRow; readonly from: Holder | null }
  | { readonly outcome: "held"; readonly lease: LeaseRow }
  /** `lost`: leases that no longer have their token. */
  | { readonly outcome: "renewed"; readonly lost: readonly Guard[] }
  | { readonly outcome: "released"; readonly wasOurs: boolean };

export interface ReadRequest {
  readonly namespace: string;
  readonly stream: string;
  /** Returns events after this seq … */
  readonly after: number;
  /** … up to this one. Writes are returned whole: the first and the last may reach beyond the range. */
  readonly upTo?: number;
  /** At most this many writes in one page. */
  readonly limit?: number;
  /** Also returns the latest snapshot of this fold at or before `upTo`, and only the writes after it. */
  readonly fold?: string;
  /** The caller only displays the events: a store may leave out `batch` (""), `sum` and `at` (0). */
  readonly onlyEvents?: true;
}

export interface ReadPage {
  readonly stream: StreamRow;
  /** Null if there is none, or the request has no `fold`. */
  readonly snapshot: Blob | null;
  readonly writes: readonly StoredWrite[];
  /** More writes of the range follow. */
  readonly more: boolean;
}

export type ListRequest =
  /** Latest change first. `parent`: only forks of that stream. `hidden`: also hidden streams. */
  | {
      readonly of: "streams";
      readonly namespace: string;
      readonly kind?: string;
      readonly status?: string;
      readonly goal?: string;
      readonly openCalls?: true;
      /** Only streams that are stale at this wall clock. */
      readonly expiredAt?: number;
      readonly updatedBefore?: number;
      readonly parent?: string;
      readonly hidden?: true;
      readonly limit: number;
      readonly cursor?: string;
    }
  /** Items of one stream by seq, or of all streams, oldest first. `open`: only items without `doneAt`. */
  | {
      readonly of: "items";
      readonly namespace: string;
      readonly kind: string;
      readonly stream?: string;
      readonly id?: string;
      readonly open?: true;
      readonly limit: number;
      readonly cursor?: string;
    }
  /**
   * By name. `prefix` is literal, not a pattern. `names` are exact; absent ones are left out. They must be
   * looked up, one by one or together, so that the other leases of the store do not matter.
   */
  | Readonly<{
      of: "leases";
      namespace: string;
      prefix?: string;
      names?: readonly string[];
      limit: number;
      cursor?: string;
    }>
  /** The event that holds each of these keys; free keys are left out. */
  | { readonly of: "keys"; readonly namespace: string; readonly keys: readonly string[] }
  | { readonly of: "snapshots"; readonly namespace: string; readonly stream: string }
  /** Every namespace that has or had a stream, by name, on one page. The only list that spans namespaces. */
  | { readonly of: "namespaces" };

export type NamespaceRow = Readonly<{ namespace: string }>;

export type KeyRow = Readonly<{ key: string; stream: string; seq: number }>;

export type SnapshotRow = Readonly<{ seq: number; fold: string; bytes: number }>;

/** The row type of each kind of list. */
export interface ListRows {
  streams: StreamRow;
  items: ItemRow;
  leases: LeaseRow;
  keys: KeyRow;
  snapshots: SnapshotRow;
  namespaces: NamespaceRow;
}

export interface Page<Row> {
  readonly rows: readonly Row[];
  /** Pass it in the next request; null after the last page. */
  readonly cursor: string | null;
}

export type PutRequest =
  /** Stored once, however often it is put. `hash` is the lower-case SHA-256 of `bytes`. */
  | {
      readonly of: "artifact";
      readonly namespace: string;
      readonly hash: string;
      readonly bytes: Uint8Array;
      readonly at: number;
    }
  /** A cached fold of `stream` at `seq`; ignored if the stream is not live, or in another generation. */
  | {
      readonly of: "snapshot";
      readonly namespace: string;
      readonly stream: string;
      readonly generation: number;
      readonly seq: number;
      /** Kind and version of the fold: `session@6`. */
      readonly fold: string;
      readonly payload: Payload;
      readonly codec: string | null;
    };

export type GetRequest =
  | { readonly of: "artifact"; readonly namespace: string; readonly hash: string }
  /** The latest snapshot of this fold at or before `upTo`. */
  | {
      readonly of: "snapshot";
      readonly namespace: string;
      readonly stream: string;
      readonly fold: string;
      readonly upTo: number;
    };

/** An artifact or a snapshot, with the position of the snapshot (0 for an artifact). */
export interface Blob extends Head {
  readonly payload: Payload;
  readonly codec: string | null;
}

export type RemoveRequest =
  /**
   * Removes the whole stream with its items, snapshots and references, and leaves a tombstone. Its keys stay
   * claimed, because "once, ever" outlives the record. `erase` also removes the artifacts that only this
   * stream refers to, and overwrites the bytes on the medium, as far as possible. An artifact that was put
   * after the stream's last write stays: another writer is about to refer to it.
   *
   * `erase` leaves no tombstone and no lease of this name, or below it (`session/a/…`). Its keys go to the
   * stream `ERASED`. Its generation and tokens are not used again: from then on unused names of the namespace
   * begin after them. A stream that is gone already is forgotten in the same way.
   */
  | {
      readonly of: "stream";
      readonly namespace: string;
      readonly stream: string;
      readonly expect: Head;
      readonly guards?: readonly Guard[];
      readonly erase?: true;
    }
  /** Artifacts that no stream refers to and that were put before this wall clock. */
  | { readonly of: "artifacts"; readonly namespace: string; readonly putBefore: number }
  | { readonly of: "snapshots"; readonly namespace: string; readonly stream: string };

export type RemoveOutcome =
  | { readonly outcome: "removed"; readonly count: number }
  /** Forks share its history: lists no longer show it, and it goes with the last of them. */
  | { readonly outcome: "hidden" }
  | { readonly outcome: "conflict"; readonly head: Head }
  | { readonly outcome: "fenced"; readonly lease: string; readonly now: LeaseRow | null };

/** A finding of `check`: `{ invariant: "I10", where: "session/alpha at 7", what: "the snapshot …" }`. */
export interface Problem {
  /** The violated invariant (`I2`, `I7`, …), or `medium` for the store's own format. */
  readonly invariant: string;
  readonly where: string;
  readonly what: string;
}

/** The writes that a store is known to lack: a backup was restored over it. */
export interface Rewind {
  /** When the last known write was made that the store lacks, by the wall clock. */
  readonly lastWriteAt: number;
  /** Whether the record reaches back to the restored copy. Otherwise more may have happened than it lists. */
  readonly isComplete: boolean;
  /** Streams that end before a known position. */
  readonly streams: readonly Readonly<{
    namespace: string;
    stream: string;
    head: Head;
    known: Head;
    at: number;
  }>[];
  /** Items, such as calls, that were written since, with the last status that is known. */
  readonly items: readonly (Readonly<{ namespace: string; stream: string; kind: string; id: string }> &
    Readonly<{ name: string | null; status: string | null; at: number }>)[];
}

/** The size of a store on the disk in bytes, before and after `vacuum`. */
export type Vacuumed = Readonly<{ before: number; after: number }>;

export interface WatchRequest {
  readonly namespace: string;
  /** One stream; all streams of the namespace if absent. */
  readonly stream?: string;
}

/** The state of a store in a move (`journal/move.ts`). All phases but `arrived` refuse every write. */
export type Seal = Readonly<Record<"move" | "other", string>> & {
  readonly phase: "leaving" | "left" | "entering" | "arrived" | "returning";
  /** While `returning`: the move that is undone. */
  readonly of?: string;
};

type In<Of, Row> = Readonly<Row & { of: Of; namespace: string }>;

/** Any row of a store except snapshots, which can be rebuilt. A stream that is gone is its tombstone. */
export type MovedRow =
  | In<"lease", LeaseRow & { ttlMs: number }>
  | In<"stream", StreamRow & { artifacts: readonly string[] }>
  | In<"write", StoredWrite & { stream: string }>
  | In<"item", ItemRow>
  | In<"key", KeyRow>
  | In<"artifact", { hash: string; bytes: Uint8Array; putAt: number }>;

/** The verbs of a move between two stores. */
export interface Moving {
  seal(): Promise<Seal | null>;
  /** Replaces the seal if it is `expect`; otherwise changes nothing and returns false. */
  reseal(expect: Seal | null, next: Seal | null): Promise<boolean>;
  /** A page of all rows, leases first. With `only`, other kinds of rows may be left out. */
  dump(cursor: string | null, only?: readonly MovedRow["of"][]): Promise<Page<MovedRow>>;
  /** Inserts rows, or replaces those that are there. Only while the seal is `entering` for this `move`. */
  restore(move: string, rows: readonly MovedRow[]): Promise<void>;
  /**
   * Another user of the store, in words: "another process has the file open". Null if there is none, or if
   * the store cannot tell. A move refuses a store that is in use.
   */
  otherUser?(): Promise<string | null>;
}

/**
 * A store. To keep state elsewhere, implement this interface, prove it with `storeSuite` from
 * `holdfast/testing`, and pass it to `open`.
 *
 * @example
 * const holdfast = await open(undefined, { store: await openMyStore() });
 */
export interface Store {
  /** Kind and place, for messages: `sqlite ./.holdfast/store.db`. Must not contain a password. */
  readonly address: string;
  /** Needed by `move`. A store without it cannot be moved. */
  readonly moving?: Moving;
  /**
   * Appends all writes of the batch, or none. It is the only way to change events. The batch is durable
   * against power loss when the outcome is there, at once or by a promise. A failure always rejects a
   * promise.
   */
  append(batch: Batch): MaybePromise<AppendOutcome>;
  /**
   * The writes of one stream, in order, with its row and perhaps a snapshot, all of one moment. The history
   * that a fork shares is read from its parent, up to `base`. A stream that does not exist is an empty page
   * with state `gone`.
   */
  read(request: ReadRequest): Promise<ReadPage>;
  /**
   * One page of rows that need no payload: streams by facets, items, leases, keys, snapshots.
   *
   * @example
   * await store.list<"streams">({ of: "streams", namespace: "default", kind: "session", limit: 50 });
   */
  list<Of extends keyof ListRows>(request: Extract<ListRequest, { of: Of }>): Promise<Page<ListRows[Of]>>;
  /** Stores an artifact or a snapshot durably. An artifact that is put again is young again. */
  put(request: PutRequest): Promise<void>;
  /** Loads an artifact or a snapshot; null if there is none. */
  get(request: GetRequest): Promise<Blob | null>;
  /**
   * Takes, renews or releases leases. The store's own clock decides only when another owner may take over; an
   * append checks the token and never the clock.
   */
  lease(request: LeaseRequest): Promise<LeaseOutcome>;
  /**
   * Removes a whole stream (a tombstone stays), artifacts that no stream refers to, or the snapshots of a
   * stream.
   */
  remove(request: RemoveRequest): Promise<RemoveOutcome>;
  /**
   * Calls `changed` after changes, by this process too. It is a hint that may come late or for nothing:
   * reread from your seq. Returns a function that stops it.
   */
  watch(request: WatchRequest, changed: () => void): () => void;
  /** Verifies everything that needs no knowledge of the events. An empty list means that all is well. */
  check(): Promise<readonly Problem[]>;
  /** Set if the store is older than it was; only a store that is open for reading can be. */
  readonly rewind?: Rewind | null;
  /** Accepts that the store is older than it was: from now on it counts as the newest. */
  acceptRewind?(): Promise<void>;
  /**
   * Writes a consistent copy of the whole store to a new file or folder, which must not exist, while others
   * write. Absent if the store has tools of its own for that.
   */
  backup?(path: string): Promise<void>;
  /**
   * Gives the space of what was removed back to the disk, as far as the store can. Rejects with STORE_BUSY if
   * others have the store open and would take it for another one. A crash leaves the store as before or
   * after.
   */
  vacuum?(): Promise<Vacuumed>;
  /**
   * Why the store cannot be written, found out without writing; null if nothing prevents it. Absent if `open`
   * already fails in that case.
   */
  unwritable?(): Promise<{ readonly why: string; readonly hint: string } | null>;
  /**
   * Lets a database role see the rows of one namespace and no others; with `dryRun`, only returns the
   * statements. Absent in stores without roles.
   */
  grantTenant?(
    tenant: { readonly role: string; readonly namespace: string },
    options: { readonly dryRun: boolean },
  ): Promise<{ readonly sql: readonly string[]; readonly others: readonly string[] }>;
  /** Waits for appends in flight, then releases all resources. Closing twice is fine. */
  close(): Promise<void>;
}

/**
 * Stores that take text as UTF-8 bytes (`Write.isUtf8`), which are made faster than a string. This is a set
 * and not a property, because a wrapper around a store would inherit the property, and it must see text.
 */
export const acceptsUtf8 = new WeakSet<Store>();
