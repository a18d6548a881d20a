/**
 * Snapshots: when a log saves its fold, and the check that a saved fold is right.
 *
 * A snapshot pays off when replaying the log costs more than twice loading the state. The state is measured
 * only when the replay has doubled since the last measurement, or after an event that shrinks it, so
 * measuring stays cheap.
 */

import { canonicalText } from "../model/json.ts";
import type { Event, StreamKind } from "../model/stream/index.ts";
import type { Head, Problem, ReadRequest } from "../store.ts";
import { walkChain } from "./chain.ts";
import { foldName, loadStream, type Reader, readState, type SnapshotText } from "./reading.ts";

const MIN_REPLAY_BYTES = 64 * 1024;

export interface SnapshotContext extends Reader {
  /** Reports a failure beside the main path, such as a snapshot that could not be saved. */
  warn(error: unknown): void;
}

/** Decides for one open log when to save a snapshot, and saves it. */
export class SnapshotKeeper<State> {
  /** Bytes that a reader folds to reach the current state: the latest snapshot and the events after it. */
  replayedBytes: number;
  private measureAt = MIN_REPLAY_BYTES;
  private readonly context: SnapshotContext;
  private readonly kind: StreamKind<State>;
  private readonly stream: string;

  constructor(context: SnapshotContext, kind: StreamKind<State>, stream: string, replayedBytes: number) {
    this.context = context;
    this.kind = kind;
    this.stream = stream;
    this.replayedBytes = replayedBytes;
  }

  /** Whether measuring the state is worthwhile after these events. */
  isDue(events: readonly Event[]): boolean {
    if (this.replayedBytes < MIN_REPLAY_BYTES) return false;
    if (this.replayedBytes >= this.measureAt) return true;
    const { shrinking } = this.kind;
    return shrinking !== undefined && events.some(({ type }) => shrinking.includes(type));
  }

  /** Never throws: the events are durable, and only the shortcut to their fold would be missing. */
  async saveIfWorthwhile(state: State, head: Head, link: string): Promise<void> {
    try {
      await this.save(state, head, link);
    } catch (error) {
      this.measureAt = Math.max(this.measureAt, 2 * this.replayedBytes);
      this.context.warn(error);
    }
  }

  private async save(state: State, { generation, seq }: Head, link: string): Promise<void> {
    if (this.replayedBytes <= 2 * (this.kind.leastLength?.(state) ?? 0)) {
      this.measureAt = 2 * this.replayedBytes;
      return;
    }
    const text = JSON.stringify({ link, state: this.kind.encode(state) } satisfies SnapshotText);
    this.measureAt = 2 * Math.max(this.replayedBytes, text.length);
    if (this.replayedBytes <= 2 * text.length) return;
    const { namespace, store, payloads } = this.context;
    const { stream } = this;
    const encoded = payloads.encodeSnapshot(text, { namespace, stream, seq });
    const fold = foldName(this.kind);
    await store.put({ of: "snapshot", namespace, stream, generation, seq, fold, ...encoded });
    this.replayedBytes = text.length;
    this.measureAt = 2 * text.length + MIN_REPLAY_BYTES;
  }
}

/**
 * Checks the hash chain (I2), and I10: every snapshot equals the fold of the events before it, and every
 * event can be decoded, upcast and folded. `store.check()` covers all that needs no knowledge of events.
 */
export async function checkStream<State>(
  reader: Reader,
  kind: StreamKind<State>,
  stream: string,
): Promise<Problem[]> {
  const problems: Problem[] = [];
  const { namespace } = reader;
  const { problem } = await walkChain(reader, stream);
  if (problem !== null) problems.push({ invariant: "I2", where: stream, what: problem });
  const eventsOnly = withoutSnapshots(reader);
  try {
    await loadStream(eventsOnly, kind, stream);
  } catch (error) {
    problems.push({ invariant: "I10", where: stream, what: `cannot be folded: ${(error as Error).message}` });
    return problems;
  }
  const snapshots = await reader.store.list<"snapshots">({ of: "snapshots", namespace, stream });
  for (const { seq, fold } of snapshots.rows) {
    if (fold !== foldName(kind)) continue;
    const blob = await reader.store.get({ of: "snapshot", namespace, stream, fold, upTo: seq });
    if (!blob || blob.seq !== seq) continue;
    const folded = await loadStream(eventsOnly, kind, stream, seq);
    const load = () => readState({ ...reader, verifies: true }, kind, stream, blob).state;
    const what = difference(kind, load, folded.state);
    if (what !== null) problems.push({ invariant: "I10", where: `${stream} at ${seq}`, what });
  }
  return problems;
}

function difference<State>(kind: StreamKind<State>, load: () => State, folded: State): string | null {
  try {
    const isSame = canonicalText(kind.encode(load())) === canonicalText(kind.encode(folded));
    return isSame ? null : "the snapshot is not the fold of its events";
  } catch (error) {
    return `the snapshot cannot be read, its events are used instead: ${(error as Error).message}`;
  }
}

/** The same store with its snapshots hidden. */
function withoutSnapshots(reader: Reader): Reader {
  const store = new Proxy(reader.store, {
    get(target, name) {
      if (name === "read") return ({ fold: _, ...request }: ReadRequest) => target.read(request);
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return { ...reader, store };
}
