/**
 * From stored writes to a state: snapshot, then later events, through the pasts that forks share.
 *
 * Reading writes nothing. The snapshot comes with the first page, in one answer. Events only ever get more, so pages
 * read one after another add up to one consistent prefix; if the stream was removed and made again in between, its
 * generation differs and reading starts over.
 */

import { HoldfastError } from "../model/errors.ts";
import type { Json } from "../model/json.ts";
import { applyEvent, type Event, type FoldKind } from "../model/stream/index.ts";
import type { Blob, Head, ReadPage, ReadRequest, Store, StoredWrite, StreamRow } from "../store.ts";
import { lacksSum, type Payloads, verifySum } from "./codec.ts";

const PAGE_WRITES = 1_000;

export interface Loaded<State> {
  readonly state: State;
  readonly row: StreamRow;
  /** How far `state` goes; less than the stream's head when an older position was asked for. */
  readonly head: Head;
  /** Bytes that were folded to get here, snapshot included. */
  readonly replayedBytes: number;
}

export interface Reader {
  readonly store: Store;
  readonly namespace: string;
  readonly payloads: Payloads;
  readonly warn?: (error: unknown) => void;
  /** Whether somebody acts on what is read: then every record has to match its checksum. Who only looks does not pay for it. */
  readonly verifies?: boolean;
}

/** A state on its way to a later position. */
export interface Fold<State> {
  state: State;
  seq: number;
  bytes: number;
  /** An event failed half way: the state is that of no position. */
  isBroken?: boolean;
}

/** The state at `upTo`, or at the end of the stream. A stream that is gone gives the initial state at seq 0. */
export async function loadStream<State>(
  reader: Reader,
  kind: FoldKind<State>,
  stream: string,
  upTo: number = Number.MAX_SAFE_INTEGER,
): Promise<Loaded<State>> {
  for (;;) {
    let page = await readPage(reader, stream, 0, upTo, foldName(kind));
    let fold = page.snapshot && readSnapshot(reader, kind, page.stream, page.snapshot);
    // One that is of no use: all events are needed.
    if (page.snapshot && !fold) page = await readPage(reader, stream, 0, upTo);
    fold ??= await foldPast(reader, kind, page.stream, upTo);
    if (await foldRest(reader, kind, stream, page, fold, upTo)) {
      const head = { generation: page.stream.head.generation, seq: fold.seq };
      return { state: fold.state, row: page.stream, head, replayedBytes: fold.bytes };
    }
  }
}

/**
 * Folds what was appended after `seq`. False when the stream has begun another life since. Also when it throws, `fold`
 * says how far the state goes.
 */
export async function foldNewEvents<State>(
  reader: Reader,
  kind: FoldKind<State>,
  stream: string,
  generation: number,
  fold: Fold<State>,
): Promise<boolean> {
  const page = await readPage(reader, stream, fold.seq, Number.MAX_SAFE_INTEGER);
  if (page.stream.head.generation !== generation) return false;
  // It has come to be since, as a fork: its past is another stream's.
  if (fold.seq < page.stream.base) return false;
  return foldRest(reader, kind, stream, page, fold, Number.MAX_SAFE_INTEGER);
}

/** A fork begins with the state of its parent at the point where it left. */
async function foldPast<State>(
  reader: Reader,
  kind: FoldKind<State>,
  row: StreamRow,
  upTo: number,
): Promise<Fold<State>> {
  if (!row.parent) return { state: kind.initial(), seq: row.base, bytes: 0 };
  const past = await loadStream(reader, kind, row.parent.stream, Math.min(row.base, upTo));
  if (past.head.generation !== row.parent.generation || past.head.seq < Math.min(row.base, upTo)) {
    throw new HoldfastError(
      "STORE_CORRUPT",
      `${row.stream}: the past it shares with ${row.parent.stream} is gone`,
      {
        hint: "Restore the store from a backup: a stream that forks depend on was removed from outside.",
      },
    );
  }
  return { state: past.state, seq: past.head.seq, bytes: past.replayedBytes };
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
    if (!page.more) return true;
  }
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
      hint: "Run `check` on the store, and restore it from a backup.",
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
  // Where there are codecs, most writes say more of themselves.
  if (!verifies && payloads.hasNoCodec) request.onlyEvents = true;
  return store.read(request);
}

type Changeable<Type> = { -readonly [Key in keyof Type]: Type[Key] };

/**
 * Every event of a stream after `after`, write by write and in order, through the pasts that forks share. Of a write that
 * begins or ends elsewhere, the events between.
 */
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

/** For whoever decides by what is read. */
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
  // Of another life, or from before the store was put back to an older copy: of this stream's events it is no fold.
  if (blob.seq > head.seq) {
    const why = new Error(`its events end at ${head.seq}`);
    reader.warn?.(unreadable(stream, blob.seq, why));
    return null;
  }
  // Whether one of the first form is sound cannot be told: the events say the same.
  if (lacksSum(blob)) return null;
  try {
    return { state: readState(reader, kind, stream, blob), seq: blob.seq, bytes: blob.payload.length };
  } catch (error) {
    reader.warn?.(unreadable(stream, blob.seq, error));
    return null;
  }
}

export function readState<State>(
  { namespace, payloads, verifies = false }: Reader,
  kind: FoldKind<State>,
  stream: string,
  { payload, codec, seq }: Blob,
): State {
  const place = { namespace, stream, seq };
  return kind.decode(payloads.decodeSnapshot(payload, codec, place, verifies) as Json);
}

/** A snapshot is never truth: a damaged one costs the time to fold all events. For want of a codec, those say so too. */
function unreadable(stream: string, seq: number, cause: unknown): HoldfastError {
  return new HoldfastError("EVENT_CORRUPT", `${stream}: its snapshot at ${seq} cannot be read`, {
    hint: "Nothing is lost, its events are read instead. Run `check` on the store: other records may be damaged.",
    cause,
    data: { stream, seq },
  });
}
