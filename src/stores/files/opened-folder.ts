/**
 * An open folder: its lock, its journal, what processes tell each other, and what all of it comes to. One of these is
 * a handle that can be thrown away: after an I/O error the next one reads everything anew.
 *
 *     journal.jsonl    truth: one line per batch, for all streams
 *     live.jsonl       how far the journal is durable, and until when leases run; never synced
 *     lock.db          who may write
 *     artifacts/       bytes by their hash, in a folder for each namespace
 *     snapshots/       cached folds, in a folder for each stream
 *     unnamed.new      one of these two on its way to its name: what a crash leaves of it is found without a search
 */

import { join } from "node:path";
import { type Clock, systemCode, UNKNOWN_BOOT } from "../kit/index.ts";
import { TEMPORARY } from "./disk.ts";
import { replaced } from "./failures.ts";
import { JournalFile } from "./journal-file.ts";
import { LiveFile, type Mark } from "./live.ts";
import type { FolderLock } from "./lock.ts";
import { State, type Touched } from "./state.ts";

export interface Place {
  readonly folder: string;
  readonly readOnly: boolean;
  readonly busyMs: number;
  /** The journal is rewritten when this much of it, and half of it, is of no use any more. */
  readonly wasteBytes: number;
  readonly clock: Clock;
}

export interface Paths {
  readonly folder: string;
  readonly journal: string;
  readonly live: string;
  readonly lock: string;
  readonly artifacts: string;
  readonly snapshots: string;
  readonly unnamed: string;
}

export function pathsIn(folder: string): Paths {
  return {
    folder,
    journal: join(folder, "journal.jsonl"),
    live: join(folder, "live.jsonl"),
    lock: join(folder, "lock.db"),
    artifacts: join(folder, "artifacts"),
    snapshots: join(folder, "snapshots"),
    unnamed: join(folder, `unnamed${TEMPORARY}`),
  };
}

export class OpenedFolder {
  readonly place: Place;
  readonly paths: Paths;
  /** Null for a reader, which needs none. */
  readonly lock: FolderLock | null;
  readonly #touched: Touched;
  #live: LiveFile | null;
  #journal: JournalFile;
  #state: State;

  constructor(place: Place, lock: FolderLock | null, touched: Touched) {
    this.place = place;
    this.paths = pathsIn(place.folder);
    this.lock = lock;
    this.#touched = touched;
    this.#journal = JournalFile.open(this.paths.journal, place.readOnly);
    this.#state = this.#newState();
    this.#live = this.#openLive();
  }

  get journal(): JournalFile {
    return this.#journal;
  }

  get state(): State {
    return this.#state;
  }

  get live(): LiveFile | null {
    return this.#live;
  }

  /** Of the journal that is open; null when there is none for it. */
  #mark(): Mark | null {
    const mark = this.#live?.mark();
    return mark?.store === this.#journal.store && mark.journal === this.#journal.number ? mark : null;
  }

  /** Whether a mark is certain to have been written since the machine was switched on. */
  #isOfThisBoot(mark: Mark | null): boolean {
    const { boot } = this.place.clock;
    return mark?.boot === boot && boot !== UNKNOWN_BOOT;
  }

  setMark(): void {
    const { store, number, end } = this.#journal;
    this.#live?.setMark({ store, journal: number, end, boot: this.place.clock.boot });
  }

  get isWasteful(): boolean {
    const { dead } = this.#state;
    return dead > this.place.wasteBytes && dead > this.#journal.end / 2;
  }

  /** Takes in what others have made durable since. Needs no lock: it stops at the mark, which it returns. */
  catchUp(): Mark | null {
    if (!this.#journal.isInPlace()) this.#follow();
    if (this.#live?.isInPlace() !== true) {
      this.#live?.close();
      this.#live = this.#openLive();
    }
    const mark = this.#mark();
    if (mark && mark.end > this.#journal.end) this.#readTo(mark.end);
    // A mark of another boot may be an old one. All that a power cut has left is on the disk; a torn tail is passed over.
    if (this.place.readOnly && !this.#isOfThisBoot(mark)) this.readTail();
    return mark;
  }

  /** Takes in every good line behind the mark; only under the lock may anybody build on that. */
  readTail(): void {
    for (const line of this.#journal.readTail()) this.#state.apply(line, this.#journal);
  }

  /** A journal that was written by `rewriting.ts` is now in the old one's place. */
  adopt(journal: JournalFile, state: State): void {
    this.#journal.close();
    this.#journal = journal;
    this.#state = state;
  }

  /** What a journal comes to when it is read anew. */
  load(journal: JournalFile, upTo: number): State {
    const state = this.#newState();
    for (const line of journal.read(upTo)) state.apply(line, journal);
    return state;
  }

  close(): void {
    this.#live?.close();
    this.#live = null;
    this.#journal.close();
  }

  /** Another journal is in the place of ours: the next one of the same store, or something else altogether. */
  #follow(): void {
    const next = this.#openNext();
    try {
      if (next.store !== this.#journal.store) throw replaced(next.path, "it is the journal of another store");
      if (next.number <= this.#journal.number) throw replaced(next.path, "it is an older or another copy");
      const mark = this.#live?.mark();
      const isMarked = mark?.store === next.store && mark.journal === next.number;
      // Nobody appends to a journal before it is marked, and a rewritten one is synced before it gets its name.
      const state = this.load(next, isMarked ? mark.end : next.size);
      if (!this.#state.isContinuedBy(state)) throw replaced(next.path, "it lacks what was read before");
      this.adopt(next, state);
    } catch (error) {
      if (next !== this.#journal) next.close();
      throw error;
    }
  }

  #openNext(): JournalFile {
    try {
      return JournalFile.open(this.paths.journal, this.place.readOnly);
    } catch (error) {
      if (systemCode(error) !== "ENOENT") throw error;
      throw replaced(this.paths.journal, "it is gone");
    }
  }

  #openLive(): LiveFile | null {
    const { live } = this.paths;
    return this.place.readOnly ? LiveFile.openForReading(live) : LiveFile.open(live);
  }

  #newState(): State {
    return new State(this.place.clock, this.#touched);
  }

  #readTo(end: number): void {
    for (const line of this.#journal.read(end)) this.#state.apply(line, this.#journal);
  }
}
