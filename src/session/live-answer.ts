/**
 * The chunks of an answer under way, so that a browser that reloads can join in the middle, through any
 * process. They are a cache and never truth: the answer's message in the log is.
 *
 * Place. One row per session, in the store's table of snapshots: stream `session/<id>`, fold `answer@1`,
 * position 0. Each flush replaces the row. So the port needs no new verb, and these follow from what a
 * snapshot is, on every store:
 *
 *     retention, erase   the row goes with its stream, and an erase overwrites it
 *     encryption         the session's key encrypts it, and the codec redacts it, as it does any snapshot
 *     export, move       snapshots are left out
 *     hash chain         covers events only; `check` skips folds that it does not know
 *
 * Cost. Chunks are coalesced for 200 ms, and longer the larger the answer is (100 KB a second at most). A
 * flush is one small commit that no turn waits for. An answer that is complete sooner is never flushed.
 *
 *     first chunk ──200 ms──▶ flush ──more chunks──▶ flush … ──the answer is durable──▶ cleared
 *
 * | crash                                | is left                                                          |
 * |--------------------------------------|------------------------------------------------------------------|
 * | before a flush                       | the row of the flush before, at most a moment older              |
 * | between a flush and the commit       | a row with the token of a lease whose holder is dead: no reader  |
 * |                                      | uses it, and the next owner's first flush replaces it            |
 * | between the commit and the clearing  | the same: the message in the log is what readers show            |
 *
 * A row counts only while the lease of its session has the row's token. So a zombie that flushes late writes
 * a row that no reader uses, and the owner's next flush replaces it.
 *
 * Readers poll the row while the session is held. `watch` wakes them sooner on stores that report it.
 */

import { isProvablyDead, type Journal } from "../journal/index.ts";
import type { Json } from "../model/json.ts";
import { streamName } from "../model/names.ts";
import type { SessionCore } from "./session-core.ts";

const FOLD = "answer@1";
/** No event has this position, so an encrypted row cannot stand for one. */
const SEQ = 0;
const FLUSH_MS = 200;
const BYTES_PER_MS = 100;
/** Larger answers, with files for example, are not followed beyond this. Their message is unaffected. */
const MAX_CHARS = 1 << 20;
const POLL_MS = 200;

/** An answer under way, as its readers see it. */
export interface LiveAnswer {
  /** Names one attempt at an answer: a resumed answer is another attempt. */
  readonly attempt: string;
  /** Id of the prompt that is answered. */
  readonly prompt: string;
  readonly chunks: readonly Json[];
}

type LiveRow = LiveAnswer & { readonly token: number };

/** Keeps the chunks of one attempt. All methods return at once except `end`; failures become warnings. */
export class LiveAnswerKeeper {
  private readonly core: SessionCore;
  private readonly answer: Omit<LiveAnswer, "chunks">;
  private readonly chunks: () => readonly Json[];
  private timer: NodeJS.Timeout | null = null;
  private flushing: Promise<void> = Promise.resolve();
  private hasFlushed = false;
  private lastChars = 0;
  private isOver = false;

  /** `chunks` returns all chunks so far, with the deltas of one part merged. */
  constructor(core: SessionCore, answer: Omit<LiveAnswer, "chunks">, chunks: () => readonly Json[]) {
    this.core = core;
    this.answer = answer;
    this.chunks = chunks;
  }

  /** Notes that there are more chunks. */
  changed(): void {
    if (this.isOver || this.timer !== null || this.lastChars > MAX_CHARS) return;
    this.timer = setTimeout(
      () => {
        this.timer = null;
        this.flushing = this.flushing.then(() => this.flush(this.chunks()));
      },
      FLUSH_MS + this.lastChars / BYTES_PER_MS,
    );
    this.timer.unref();
  }

  /** Clears the row. Call it when the answer is durable, or given up. */
  async end(): Promise<void> {
    this.isOver = true;
    if (this.timer !== null) clearTimeout(this.timer);
    await this.flushing;
    if (this.hasFlushed) await this.flush([]);
  }

  private async flush(chunks: readonly Json[]): Promise<void> {
    const { own, journal } = this.core;
    const { stream, head } = own.log;
    const { namespace, store, payloads } = journal;
    try {
      const text = JSON.stringify({ ...this.answer, token: own.lease.token, chunks } satisfies LiveRow);
      this.lastChars = text.length;
      const isCleared = chunks.length === 0;
      if (text.length > MAX_CHARS || (!isCleared && own.lease.lost.aborted)) return;
      const encoded = payloads.encodeSnapshot(text, { namespace, stream, seq: SEQ });
      this.hasFlushed = true;
      const { generation } = head;
      await store.put({ of: "snapshot", namespace, stream, generation, seq: SEQ, fold: FOLD, ...encoded });
    } catch (error) {
      journal.warn(error);
    }
  }
}

/** The answer under way in a session. Null if there is none, or if its process is gone. */
async function readLiveAnswer(journal: Journal, session: string): Promise<LiveAnswer | null> {
  const stream = streamName("session", session);
  const { namespace, store, payloads } = journal;
  const lease = await journal.leases.find(stream);
  if (!lease?.holder || lease.remainingMs <= 0 || isProvablyDead(lease.holder)) return null;
  const blob = await store.get({ of: "snapshot", namespace, stream, fold: FOLD, upTo: SEQ });
  if (!blob) return null;
  const place = { namespace, stream, seq: SEQ };
  const row = payloads.decodeSnapshot(blob.payload, blob.codec, place, true) as LiveRow;
  return row.token === lease.token && row.chunks.length > 0 ? row : null;
}

/**
 * Follows a session that another process holds. Yields the answer under way whenever it may have changed, or
 * null while there is none yet. Ends when no live process holds the session.
 */
export async function* followLiveAnswer(
  journal: Journal,
  session: string,
  signal: AbortSignal,
): AsyncGenerator<LiveAnswer | null> {
  const stream = streamName("session", session);
  let wake: () => void = () => undefined;
  const stop = journal.watch(stream, () => wake());
  const wakeNow = (): void => wake();
  signal.addEventListener("abort", wakeNow, { once: true });
  try {
    while (!signal.aborted && (await journal.leases.isHeld(stream))) {
      yield await readLiveAnswer(journal, session);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, POLL_MS);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  } finally {
    signal.removeEventListener("abort", wakeNow);
    stop();
  }
}
