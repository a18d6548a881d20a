/**
 * When the fold of a log is kept beside it. A snapshot pays when replaying costs more than twice loading the state. The state's size
 * is measured only when the replay has doubled since the last look, or after an event that shrinks it, so looking stays cheap.
 */

import type { Event, StreamKind } from "../model/stream/index.ts";
import type { Head } from "../store.ts";
import { foldName, type Reader } from "./reading.ts";

const LEAST_BYTES = 64 * 1024;

export interface SnapshotContext extends Reader {
  /** Told of what went wrong beside the main path, such as a snapshot that could not be kept. */
  warn(error: unknown): void;
}

export class SnapshotKeeper<State> {
  /** How much a reader has to go through to get to the state as it is. */
  replayedBytes: number;
  private measureAt = LEAST_BYTES;
  private readonly context: SnapshotContext;
  private readonly kind: StreamKind<State>;
  private readonly stream: string;

  constructor(context: SnapshotContext, kind: StreamKind<State>, stream: string, replayedBytes: number) {
    this.context = context;
    this.kind = kind;
    this.stream = stream;
    this.replayedBytes = replayedBytes;
  }

  /** Whether it is worth a look, after these events. */
  isDue(events: readonly Event[]): boolean {
    if (this.replayedBytes < LEAST_BYTES) return false;
    if (this.replayedBytes >= this.measureAt) return true;
    const { shrinking } = this.kind;
    return shrinking !== undefined && events.some(({ type }) => shrinking.includes(type));
  }

  async saveIfWorthwhile(state: State, head: Head): Promise<void> {
    try {
      await this.keep(state, head);
    } catch (error) {
      // The events themselves are durable; only the shortcut to them is missing.
      this.measureAt = Math.max(this.measureAt, 2 * this.replayedBytes);
      this.context.warn(error);
    }
  }

  private async keep(state: State, { generation, seq }: Head): Promise<void> {
    if (this.replayedBytes <= 2 * (this.kind.leastLength?.(state) ?? 0)) {
      this.measureAt = 2 * this.replayedBytes;
      return;
    }
    const text = JSON.stringify(this.kind.encode(state));
    this.measureAt = 2 * Math.max(this.replayedBytes, text.length);
    if (this.replayedBytes <= 2 * text.length) return;
    const { namespace, store, payloads } = this.context;
    const { stream } = this;
    const encoded = payloads.encodeSnapshot(text, { namespace, stream, seq });
    const fold = foldName(this.kind);
    await store.put({ of: "snapshot", namespace, stream, generation, seq, fold, ...encoded });
    this.replayedBytes = text.length;
    this.measureAt = 2 * text.length + LEAST_BYTES;
  }
}
