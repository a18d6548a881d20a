/**
 * The port: what Holdfast asks of a place where streams live.
 *
 * A store keeps append-only streams of events and a little beside them: leases, claimed keys, artifacts,
 * snapshots. It knows nothing of sessions, calls or goals. All verbs but `append` read, or touch what can be rebuilt.
 *
 * What every store promises, here and at its verbs (`holdfast/testing` has the suite that checks it):
 *
 *  - An expected outcome (`conflict`, `fenced`, `taken`, `missing`) is a value and leaves nothing behind.
 *  - A rejection is a `HoldfastError`. With `unknown: true` the batch may be durable: sent again, its id makes it safe.
 *  - Within a stream, `seq` is gapless and every write with an older lease token than the newest is refused.
 *  - The checks of an append come in this order, each over the whole batch: resend, fenced, conflict, taken,
 *    missing. A resend must match in every write and gets the heads of the first time.
 *  - A release frees only what its own stream claimed. Within a batch keys change write by write, releases first.
 *  - A hidden stream takes no more writes: every append to it is a `conflict` with its own head.
 *  - Names arrive checked (`model/names.ts`); different ones stay different, byte for byte. Nothing crosses a namespace.
 *
 * Stores hold no rules. If two stores would need the same `if`, it belongs above this line.
 */

import type { MaybePromise } from "./model/maybe-promise.ts";
import type { Item, StreamFacets } from "./model/stream/index.ts";

export type { Item, StreamFacets };

/** Where a stream ends. A stream that was removed and made again counts its lives in `generation`. */
export interface Head {
  readonly generation: number;
  readonly seq: number;
}

/** A payload as the codec left it: text stays text, so that a person can read it with any SQL shell. */
export type Payload = string | Uint8Array;

export interface Guard {
  readonly lease: string;
  readonly token: number;
}

/** Claims `key` for the write's event at index `event`. A key has one holder per namespace. */
export interface Claim {
  readonly key: string;
  readonly event: number;
}

export interface Write {
  readonly stream: string;
  /** Where the writer believes the stream ends. Mandatory: there is no unconditional append. */
  readonly expect: Head;
  /** How many events the payload holds; they get the next `count` seqs. */
  readonly count: number;
  readonly payload: Payload;
  /** The payload is text, given as its bytes in UTF-8, and comes back as text. Only for those in `acceptsUtf8`. */
  readonly isUtf8?: true;
  /** Name of the codec that made the payload; null for plain JSON text. */
  readonly codec: string | null;
  /** CRC-32 of the payload's bytes, so that `check` can tell a changed record from a good one. */
  readonly sum: number;
  /** Wall clock, milliseconds. */
  readonly at: number;
  /** On the first write: its past is `stream` up to `seq`, shared. It goes on from there: `expect.seq` is `fork.seq`. */
  readonly fork?: { readonly stream: string; readonly generation: number; readonly seq: number };
  readonly guards?: readonly Guard[];
  readonly claims?: readonly Claim[];
  readonly releases?: readonly string[];
  /** Hashes of the artifacts these events refer to; they must be stored already. */
  readonly artifacts?: readonly string[];
  readonly facets?: StreamFacets;
  readonly items?: readonly Item[];
}

/** Writes to different streams of one namespace that become durable together, or not at all. */
export interface Batch {
  readonly id: string;
  readonly namespace: string;
  readonly writes: readonly Write[];
}

export type AppendOutcome =
  /** Durable. `resent` when this very batch was there already. */
  | { readonly outcome: "ok"; readonly heads: readonly Head[]; readonly resent: boolean }
  /** Somebody else wrote first; `head` is where the stream ends now. */
  | { readonly outcome: "conflict"; readonly stream: string; readonly head: Head }
  /** The lease has another owner, or none. */
  | { readonly outcome: "fenced"; readonly lease: string; readonly now: LeaseRow | null }
  | { readonly outcome: "taken"; readonly key: string; readonly by: { stream: string; seq: number } }
  | { readonly outcome: "missing"; readonly artifact: string };

/** One write, however many events it has, is one stored row. */
export interface StoredWrite {
  readonly first: number;
  readonly last: number;
  readonly batch: string;
  readonly payload: Payload;
  readonly codec: string | null;
  readonly sum: number;
  readonly at: number;
}

/** `hidden`: removed, but a fork still shares its past. `gone`: removed, or never there. */
export type StreamState = "live" | "hidden" | "gone";

export interface StreamRow {
  readonly stream: string;
  readonly state: StreamState;
  /** For a stream that is gone: the generation that its next life gets, and seq 0. */
  readonly head: Head;
  /** Own events begin at `base + 1`. */
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

/** Who holds a lease, in words and in facts from which a neighbour can prove that the holder is dead. */
export interface Holder {
  readonly owner: string;
  readonly label: string;
  readonly host: string;
  readonly pid: number;
  /** Start time of the process in the kernel's own unit, or null where it cannot be known. */
  readonly started: string | null;
  readonly boot: string | null;
  readonly pidNamespace: string | null;
  /** What `started` counts from; without it two start times cannot be compared. */
  readonly timeNamespace?: string | null;
}

export interface LeaseRow {
  readonly name: string;
  readonly token: number;
  /** Null when released. */
  readonly holder: Holder | null;
  /** By the store's own clock: 0 or less when anyone may take it. */
  readonly remainingMs: number;
}

export type LeaseRequest =
  /**
   * Granted when free, released, run out, already this owner's, or when `evict` names the current token (its
   * holder is provably dead). A change of owner adds 1 to the token; the same owner keeps it.
   */
  | {
      readonly act: "take";
      readonly namespace: string;
      readonly name: string;
      readonly holder: Holder;
      readonly ttlMs: number;
      readonly evict?: number;
    }
  /** Prolongs all that still carry their token; one round trip however many there are. */
  | Readonly<{ act: "renew"; namespace: string; leases: readonly Guard[]; ttlMs: number }>
  /** Ends the lease if it still carries this token; the token itself is kept for the next owner to exceed. */
  | { readonly act: "release"; readonly namespace: string; readonly lease: Guard };

export type LeaseOutcome =
  /** `from`: whoever had it and did not release it, when the owner changed. */
  | { readonly outcome: "granted"; readonly lease: LeaseRow; readonly from: Holder | null }
  | { readonly outcome: "held"; readonly lease: LeaseRow }
  /** Those that no longer carry their token. */
  | { readonly outcome: "renewed"; readonly lost: readonly Guard[] }
  | { readonly outcome: "released"; readonly wasOurs: boolean };

export interface ReadRequest {
  readonly namespace: string;
  readonly stream: string;
  /** Events after this seq … */
  readonly after: number;
  /** … and up to this one. Whole writes are returned: the first and last may reach beyond the range. */
  readonly upTo?: number;
  /** At most this many writes in one page. */
  readonly limit?: number;
  /** Also the latest snapshot by this fold at or before `upTo`, of the same moment; the writes are those after it. */
  readonly fold?: string;
  /** Nobody acts on what is read: of a write, a store may leave out whose it is (`batch` "", `sum` and `at` 0). */
  readonly onlyEvents?: true;
}

export interface ReadPage {
  readonly stream: StreamRow;
  /** Null where there is none, or none was asked for. */
  readonly snapshot: Blob | null;
  readonly writes: readonly StoredWrite[];
  /** More writes in the asked range follow. */
  readonly more: boolean;
}

export type ListRequest =
  /** Latest change first. `parent`: forks of that stream. `hidden`: also those whose forks keep them. */
  | {
      readonly of: "streams";
      readonly namespace: string;
      readonly kind?: string;
      readonly status?: string;
      readonly goal?: string;
      readonly openCalls?: true;
      /** Only what counts as stale at this wall clock. */
      readonly expiredAt?: number;
      readonly updatedBefore?: number;
      readonly parent?: string;
      readonly hidden?: true;
      readonly limit: number;
      readonly cursor?: string;
    }
  /** Items of one stream in order of their seq, or of all streams, oldest first; `open`: only those. */
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
  /** By name. `prefix` is literal. */
  | Readonly<{ of: "leases"; namespace: string; prefix?: string; limit: number; cursor?: string }>
  /** Which event holds each of these keys; keys that nobody holds are left out. */
  | { readonly of: "keys"; readonly namespace: string; readonly keys: readonly string[] }
  | { readonly of: "snapshots"; readonly namespace: string; readonly stream: string };

export type KeyRow = Readonly<{ key: string; stream: string; seq: number }>;

export type SnapshotRow = Readonly<{ seq: number; fold: string; bytes: number }>;

/** What each kind of list holds. */
export interface ListRows {
  streams: StreamRow;
  items: ItemRow;
  leases: LeaseRow;
  keys: KeyRow;
  snapshots: SnapshotRow;
}

export interface Page<Row> {
  readonly rows: readonly Row[];
  /** Where the next page begins; null after the last. */
  readonly cursor: string | null;
}

export type PutRequest =
  /** Stored once however often it is put. `hash` is the lower-case SHA-256 of `bytes`. */
  | {
      readonly of: "artifact";
      readonly namespace: string;
      readonly hash: string;
      readonly bytes: Uint8Array;
      readonly at: number;
    }
  /** A cached fold of `stream` at `seq`; ignored when the stream is not live, or in another generation. */
  | {
      readonly of: "snapshot";
      readonly namespace: string;
      readonly stream: string;
      readonly generation: number;
      readonly seq: number;
      /** Kind and version of the fold that made it. */
      readonly fold: string;
      readonly payload: Payload;
      readonly codec: string | null;
    };

export type GetRequest =
  | { readonly of: "artifact"; readonly namespace: string; readonly hash: string }
  /** The latest snapshot by this fold at or before `upTo`. */
  | {
      readonly of: "snapshot";
      readonly namespace: string;
      readonly stream: string;
      readonly fold: string;
      readonly upTo: number;
    };

/** A snapshot says where it was taken, and in which life of its stream. Of an artifact both are 0. */
export interface Blob extends Head {
  readonly payload: Payload;
  readonly codec: string | null;
}

export type RemoveRequest =
  /**
   * Takes the whole stream, its items, snapshots and references, and leaves a tombstone. The keys that it
   * claimed stay claimed: "once, ever" outlives the record of it. `erase` also sees to it that the bytes are
   * overwritten on the medium as well as the store can.
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
  /** Forks share its past: it no longer shows, and goes with the last of them. */
  | { readonly outcome: "hidden" }
  | { readonly outcome: "conflict"; readonly head: Head }
  | { readonly outcome: "fenced"; readonly lease: string; readonly now: LeaseRow | null };

export interface Problem {
  /** The invariant that does not hold (`I2`, `I7`, …), or `medium` for the store's own format. */
  readonly invariant: string;
  readonly where: string;
  readonly what: string;
}

export interface WatchRequest {
  readonly namespace: string;
  /** One stream; without it, all of the namespace. */
  readonly stream?: string;
}

/** `journal/copy` gives the phases their meaning. But for `arrived`, a store with a seal takes no writes. */
export type Seal = Readonly<Record<"move" | "other", string>> & {
  readonly phase: "leaving" | "left" | "entering" | "arrived";
};

type In<Of, Row> = Readonly<Row & { of: Of; namespace: string }>;

/** All that a store holds, but for snapshots; a stream that is gone is its tombstone. */
export type MovedRow =
  | In<"lease", LeaseRow & { ttlMs: number }>
  | In<"stream", StreamRow & { artifacts: readonly string[] }>
  | In<"write", StoredWrite & { stream: string }>
  | In<"item", ItemRow>
  | In<"key", KeyRow>
  | In<"artifact", { hash: string; bytes: Uint8Array; putAt: number }>;

export interface Moving {
  seal(): Promise<Seal | null>;
  /** False, and nothing done, unless the seal is `expect`. */
  reseal(expect: Seal | null, next: Seal | null): Promise<boolean>;
  /** Leases first; `only` these kinds of rows, or more. `restore` puts rows over those that are there, while `move` is entering. */
  dump(cursor: string | null, only?: readonly MovedRow["of"][]): Promise<Page<MovedRow>>;
  restore(move: string, rows: readonly MovedRow[]): Promise<void>;
}

/** To keep state elsewhere: implement it, prove it with `storeSuite`, pass it to `open(undefined, { store })`. */
export interface Store {
  /** What it is and where, for messages: `sqlite ./.holdfast/store.db`. Never holds a password. */
  readonly address: string;
  /** What `copy` needs of both its stores. A store without it cannot be moved. */
  readonly moving?: Moving;
  /** Conditional, all or nothing over its batch, durable against power loss once answered, maybe at once: the only way truth changes. */
  append(batch: Batch): MaybePromise<AppendOutcome>;
  /** A stream's own writes, in order. The past that a fork shares is read from its parent, up to `base`. */
  read(request: ReadRequest): Promise<ReadPage>;
  /** What can be seen without a payload: streams by their facets, items, leases, who holds a key. */
  list<Of extends keyof ListRows>(request: Extract<ListRequest, { of: Of }>): Promise<Page<ListRows[Of]>>;
  /** What truth refers to (artifacts), or can be folded from it (snapshots). Put again, an artifact is young again. */
  put(request: PutRequest): Promise<void>;
  /** What was put; null where it is not there any more. */
  get(request: GetRequest): Promise<Blob | null>;
  /** Who may write. Time, by the store's own clock, decides only who may take over; an append asks for the token. */
  lease(request: LeaseRequest): Promise<LeaseOutcome>;
  /** A whole stream, of which a tombstone stays; artifacts that nothing refers to; snapshots. */
  remove(request: RemoveRequest): Promise<RemoveOutcome>;
  /** A hint, maybe late, maybe spurious, also for one's own changes: reread from your seq. Returns the way to stop. */
  watch(request: WatchRequest, changed: () => void): () => void;
  /** Everything that can be verified without knowing what the events mean. An empty list is good news. */
  check(): Promise<readonly Problem[]>;
  /** Why nothing can be written here, told without writing; null where nothing is against it. Absent where opening tells. */
  unwritable?(): Promise<{ readonly why: string; readonly hint: string } | null>;
  /** Waits for appends under way, then lets go of every resource. Closing twice is fine. */
  close(): Promise<void>;
}

/** May be given plain text as UTF-8 (`isUtf8`), made faster than a string. Not a mark: who stands in between, and looks, gets text. */
export const acceptsUtf8 = new WeakSet<Store>();
