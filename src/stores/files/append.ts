/**
 * How a change becomes durable. Everything from taking the lock to releasing it happens in one turn of the
 * event loop.
 *
 *     free ─take─▶ locked ─settle─▶ settled ─acts─▶ full ─write─▶ written ─fdatasync─▶ synced ─mark─▶ marked
 *      ▲  (busy: later)                │ nothing to write                                               │
 *      └────────────release────────────┴───────────────────release, then every act is answered──────────┘
 *
 *  - take      the folder's lock, which frees itself when its holder dies
 *  - settle    read the lines that others appended; judge the bytes behind the mark (below)
 *  - acts      each checks everything, then changes memory and adds a line; a refusal does neither
 *  - write     all lines at once, behind the last
 *  - mark      tells others, without a sync, how far the journal is durable
 *
 * Invariants
 *
 *   1. Everything before the mark was synced before the mark was written.
 *   2. No caller is answered, and no other process reads a line, before the mark is behind it.
 *   3. Only the lock's holder writes, cuts or replaces the journal.
 *   4. A write begins only when everything before it is synced. So a bad line that a line of a later write
 *      follows was good once: that is damage and an error. Any other bad line behind the mark is a torn tail.
 *   5. Memory that ran ahead of the mark is never read: a failure on the way discards it with the handle.
 *
 * The process dies, or the power goes, right after
 *
 *     take        nothing is left; the system frees the lock
 *     settle      the good part of the tail, or all of the old tail: judged again by the next holder
 *     acts        nothing, or artifact files without a line; compaction deletes them
 *     write       a tail that may be whole, torn or gone. No caller was answered. The next holder keeps whole
 *                 lines, so a resend finds its batch; it cuts the first bad line and everything behind it
 *     fdatasync   whole lines behind the mark. No caller was answered; the next holder keeps them
 *     mark        the change. After a power cut the mark may be an older one: the next holder reads on
 *
 * A failed write or sync poisons the handle: its batches may or may not be durable. The page cache may show
 * bytes behind the mark that never reach the disk, since the system forgets pages that it failed to write. So
 * a holder that keeps a tail of this boot first writes its bytes once more and syncs them, and only then
 * builds on it. A holder that finds another mark than its own first syncs the folder. The last one may have
 * ended between a journal's rename and the sync of its name.
 */

import type { Batch, Head } from "../../store.ts";
import { syncFolder } from "../kit/index.ts";
import { corrupt, replaced } from "./disk.ts";
import { encodeLine, type LinePosition } from "./journal-file.ts";
import type { OpenFolder } from "./open-folder.ts";
import type { JournalRecord } from "./state.ts";

export class Flush {
  readonly folder: OpenFolder;
  /** Folders that got new names; synced before any line names their files. */
  readonly foldersToSync = new Set<string>();
  /** Runs once the lines are durable, while the lock is still held. */
  readonly afterSync: (() => void)[] = [];
  /** For the record of the last writes. */
  readonly appended: { readonly batch: Batch; readonly heads: readonly Head[] }[] = [];
  /** A stream was removed whose bytes must not stay on the disk. */
  mustErase = false;
  /** The journal is written anew, however little of it is dead. */
  mustCompact = false;
  readonly #lines: Buffer[] = [];
  #bytes = 0;

  constructor(folder: OpenFolder) {
    this.folder = folder;
  }

  /** Adds a line, and returns its future position. Changes nothing when it throws. */
  addLine(record: JournalRecord, segments: readonly Buffer[] = []): LinePosition {
    const { journal } = this.folder;
    const first = journal.lines + 1;
    const { bytes, eventsAt } = encodeLine(first + this.#lines.length, first, record, segments);
    const offset = journal.end + this.#bytes;
    this.#lines.push(bytes);
    this.#bytes += bytes.length;
    return { offset, eventsAt, length: bytes.length };
  }

  get lines(): readonly Buffer[] {
    return this.#lines;
  }
}

/** Under the lock: afterwards memory and the journal agree, and the journal ends where memory says. */
export function settle(folder: OpenFolder): void {
  const mark = folder.catchUp();
  const { journal } = folder;
  const { boot } = folder.options.clock;
  const { size, end } = journal;
  if (size < end) throw replaced(journal.path, "it is shorter than what was read from it");
  if (mark && mark.end > size) {
    throw corrupt(journal.path, journal.lines + 1, "acknowledged lines are missing");
  }
  if (!journal.isUnchanged()) throw replaced(journal.path, "its last line is another");
  if (size > end) {
    folder.readTail();
    if (mark?.boot === boot) journal.rewrite(end);
    if (size > journal.end) journal.cut();
    journal.sync();
  }
  if (mark?.end === journal.end && mark.boot === boot) return;
  // The last holder ended in the middle, maybe before the journal's name was durable.
  syncFolder(folder.paths.folder);
  folder.setMark();
}

/** Makes a flush durable. `begun` is called before the first byte goes to the journal. */
export function commit(flush: Flush, begun: () => void): void {
  const { folder, lines } = flush;
  for (const each of flush.foldersToSync) {
    syncFolder(each);
    folder.synced.add(each);
  }
  if (lines.length > 0) {
    begun();
    folder.journal.append(lines);
    folder.setMark();
  }
  for (const act of flush.afterSync) act();
}
