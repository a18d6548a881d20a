/**
 * From stored writes to a state: a snapshot, then the events after it, through the history that forks share.
 *
 * Reading writes nothing. The snapshot comes with the first page, in one answer. Streams only grow, so pages
 * that are read one after another form a consistent prefix. If the stream is removed and created again
 * meanwhile, its generation differs and reading starts over.
 *
 * Reading to the end must arrive at the seq that the stream's row names. If events are missing there, such as
 * in an older file under a newer WAL, the result would be a past state that looks current.
 */

import { HoldfastError } from "../model/errors.ts";
import type { Json } from "../model/json.ts";
import { applyEvent, type Event, type FoldKind } from "../model/stream/index.ts";
import type { Blob, Head, ReadPage, ReadRequest, Store, StoredWrite, StreamRow } from "../store.ts";
import { linkIn, NO_LINK } from "./chain.ts";
import { lacksSum, type Payloads, verifySum } from "./codec.ts";

const PAGE_WRITES = 1_000;

export interface Loaded<State> {
  readonly state: State;
  readonly row: StreamRow;
  /** The position of `state`; before the stream's head if an older position was asked for. */
  readonly head: Head;
  /** The link at the stream's end (`chain.ts`), for readers that verify. */
  readonly link: string;
  /** Bytes that were folded to get to `state`, snapshot included. */
  readonly replayedBytes: number;
}

export interface Reader {
  readonly store: Store;
  readonly namespace: string;
  readonly payloads: Payloads;
  readonly warn?: (error: unknown) => void;
  /** The caller acts on the events, so every record must match its checksum. */
  readonly verifies?: boolean;
}

/** A fold in progress: `state` is the fold up to `seq`. */
export interface Fold<State> {
  state: State;
  seq: number;
  link: string;
  bytes: number;
  /** An event handler threw half way: the state matches no position. */
  isBroken?: boolean;
}

/**
 * The state at `upTo`, or at the end of the stream. A stream that does not exist has the initial state at seq
 * 0.
 */
export async function loadStream<State>(
  reader: Reader,
  kind: FoldKind<State>,
  stream: string,
  upTo: number = Number.MAX_SAFE_INTEGER,
): Promise<Loaded<State>> {
  for (;;) {
    let page = await readPage(reader, stream, 0, upTo, foldName(kind));
    let fold = page.snapshot && readSnapshot(reader, kind, page.stream, page.snapshot);
    // The snapshot is of no use, so all events are needed.
    if (page.snapshot && !fold) page = await readPage(reader, stream, 0, upTo);
    fold ??= await foldParent(reader, kind, page.stream, upTo);
    if (await foldRest(reader, kind, stream, page, fold, upTo)) {
      const head = { generation: page.stream.head.generation, seq: fold.seq };
      const { state, link, bytes } = fold;
      return { state, row: page.stream, head, link, replayedBytes: bytes };
    }
  }
}

/**
 * Folds the events after `fold.seq` into `fold`, and returns the stream's row. Null if the stream is in
 * another generation now. After a throw, `fold.seq` tells how far the state goes.
 */
export async function foldNewEvents<State>(
  reader: Reader,
  kind: FoldKind<State>,
  stream: string,
  generation: number,
  fold: Fold<State>,
): Promise<StreamRow | null> {
  const page = await readPage(reader, stream, fold.seq, Number.MAX_SAFE_INTEGER);
  if (page.stream.head.generation !== generation) return null;
  // The stream was created since, as a fork: its history is in another stream.
  if (fold.seq < page.stream.base) return null;
  return (await foldRest(reader, kind, stream, page, fold, Number.MAX_SAFE_INTEGER)) ? page.stream : null;
}

/** A fork begins with the state of its parent at the point of the fork. */
async function foldParent<State>(
  reader: Reader,
  kind: FoldKind<State>,
  row: StreamRow,
  upTo: number,
): Promise<Fold<State>> {
  if (!row.parent) return { state: kind.initial(), seq: row.base, link: NO_LINK, bytes: 0 };
  const past = await loadStream(reader, kind, row.parent.stream, Math.min(row.base, upTo));
  if (past.head.generation !== row.parent.generation || past.head.seq < Math.min(row.base, upTo)) {
    throw new HoldfastError(
      "STORE_CORRUPT",
      `${row.stream}: the history it shares with ${row.parent.stream} is gone`,
      { hint: "Restore the store from a backup: another program removed a stream that forks depend on." },
    );
  }
  return { state: past.state, seq: past.head.seq, link: NO_LINK, bytes: past.replayedBytes };
}

async function foldRest<State>(
  reader: Reader,
  kind: FoldKind<State>,
  stream: string,
  first: ReadPage,
  fold: Fold<State>,
  upTo: number,
): Promise<boolean> {
  for (let page = first; ; page = await readPage(reader, stream, fold.seq, upTo)) {
    if (page.stream.head.generation !== first.stream.head.generation) return false;
    for (const write of page.writes) foldWrite(reader, kind, stream, write, fold, upTo);
    if (page.more) continue;
    // Not `!==`: a store may have read the row before the writes, and a write may have landed in between.
    if (fold.seq < Math.min(page.stream.head.seq, upTo)) throw missingEnd(page.stream, fold.seq);
    return true;
  }
}

function missingEnd({ stream, head }: StreamRow, seq: number): HoldfastError {
  return new HoldfastError(
    "STORE_CORRUPT",
    `${stream}: its events end at ${seq}, but its head is at ${head.seq}`,
    {
      hint:
        "Stop all writers and run `holdfast check`. Was an older file put in place beside a newer -wal? " +
        "Then restore a whole backup, without the -wal and -shm of the old store.",
      data: { stream, seq, head: head.seq },
    },
  );
}

function foldWrite<State>(
  reader: Reader,
  kind: FoldKind<State>,
  stream: string,
  write: StoredWrite,
  fold: Fold<State>,
  upTo: number,
): void {
  const place = { namespace: reader.namespace, stream, seq: write.first };
  if (reader.verifies) verifySum(write, place);
  const events = reader.payloads.decodeEvents(write.payload, write.codec, place);
  if (events.length !== write.last - write.first + 1 || write.first > fold.seq + 1) {
    throw new HoldfastError("EVENT_CORRUPT", `${stream}: the log has a gap before seq ${write.first}`, {
      hint: "Run `check` on the store, then restore it from a backup.",
      data: { stream, after: fold.seq, first: write.first, last: write.last },
    });
  }
  try {
    for (
      let index = fold.seq + 1 - write.first;
      index < events.length && write.first + index <= upTo;
      index++
    ) {
      applyEvent(kind, fold.state, events[index] as never, write.first + index);
      fold.seq = write.first + index;
    }
  } catch (error) {
    fold.isBroken = true;
    throw error;
  }
  fold.link = linkIn(write.batch);
  fold.bytes += write.payload.length;
}

function readPage(
  { store, namespace, payloads, verifies }: Reader,
  stream: string,
  after: number,
  upTo: number,
  fold?: string,
): Promise<ReadPage> {
  const request: Changeable<ReadRequest> = { namespace, stream, after, limit: PAGE_WRITES };
  if (upTo !== Number.MAX_SAFE_INTEGER) request.upTo = upTo;
  if (fold !== undefined) request.fold = fold;
  // With codecs, the store must also return each write's codec.
  if (!verifies && payloads.hasNoCodec) request.onlyEvents = true;
  return store.read(request);
}

type Changeable<Type> = { -readonly [Key in keyof Type]: Type[Key] };

/** Every event with `after < seq <= upTo`, write by write, through the history that forks share. */
export async function* readWrites(
  reader: Reader,
  stream: string,
  after: number,
  upTo: number,
): AsyncGenerator<[seq: number, Event][]> {
  const { namespace, payloads } = reader;
  let seq = after;
  for (;;) {
    const page = await reader.store.read({ namespace, stream, after: seq, upTo, limit: 500 });
    const { parent, base } = page.stream;
    if (seq < base && parent) {
      yield* readWrites(reader, parent.stream, seq, Math.min(base, upTo));
      seq = base;
    }
    for (const write of page.writes) {
      const place = { namespace, stream, seq: write.first };
      if (reader.verifies) verifySum(write, place);
      const events = payloads.decodeEvents(write.payload, write.codec, place);
      const placed = events.map((each, index): [number, Event] => [write.first + index, each]);
      yield placed.filter(([at]) => at > seq && at <= upTo);
      seq = write.last;
    }
    if (!page.more) return;
  }
}

/** The same reader for callers that act on the events: it verifies checksums. */
export function verifying({ store, namespace, payloads, warn }: Reader): Reader {
  return { store, namespace, payloads, ...(warn && { warn }), verifies: true };
}

/** The row of a stream, without its events. */
export async function readRow(
  { store, namespace }: Pick<Reader, "store" | "namespace">,
  stream: string,
): Promise<StreamRow> {
  return (await store.read({ namespace, stream, after: Number.MAX_SAFE_INTEGER - 1, limit: 1 })).stream;
}

export function foldName<State>(kind: FoldKind<State>): string {
  return `${kind.kind}@${kind.foldVersion}`;
}

function readSnapshot<State>(
  reader: Reader,
  kind: FoldKind<State>,
  { stream, head }: StreamRow,
  blob: Blob,
): Fold<State> | null {
  // A snapshot of another generation, or of a newer copy of the store, is not a fold of these events.
  if (blob.seq > head.seq) {
    const why = new Error(`its events end at ${head.seq}`);
    reader.warn?.(unusableSnapshot(stream, blob.seq, why));
    return null;
  }
  // Damage in a snapshot without a checksum could not be detected: fold the events instead.
  if (lacksSum(blob)) return null;
  try {
    const { state, link } = readState(reader, kind, stream, blob);
    return { state, link, seq: blob.seq, bytes: blob.payload.length };
  } catch (error) {
    reader.warn?.(unusableSnapshot(stream, blob.seq, error));
    return null;
  }
}

export function readState<State>(
  { namespace, payloads, verifies = false }: Reader,
  kind: FoldKind<State>,
  stream: string,
  { payload, codec, seq }: Blob,
): { state: State; link: string } {
  const place = { namespace, stream, seq };
  const { link, state } = payloads.decodeSnapshot(payload, codec, place, verifies) as SnapshotText;
  if (typeof link !== "string") throw new Error("it has no link to the events before it");
  return { state: kind.decode(state), link };
}

/** A snapshot as JSON, with the link of the write at its position. */
export type SnapshotText = { readonly link: string; readonly state: Json };

/**
 * A damaged snapshot costs only time: all events are folded instead. If a codec is missing, they report that
 * too.
 */
function unusableSnapshot(stream: string, seq: number, cause: unknown): HoldfastError {
  return new HoldfastError("EVENT_CORRUPT", `${stream}: its snapshot at ${seq} cannot be read`, {
    hint: "Nothing is lost: its events are read instead. Run `check` on the store to find other damage.",
    cause,
    data: { stream, seq },
  });
}
