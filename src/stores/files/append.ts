/**
 * How a change becomes durable. Everything from taking the lock to releasing it happens in one turn of the event loop.
 *
 *     free ──take──▶ locked ──settle──▶ settled ──acts──▶ full ──write──▶ written ──fdatasync──▶ synced ──mark──▶ marked
 *      ▲  (busy: later)                    │ nothing to write                                                      │
 *      └────────────release────────────────┴──────────────────────────release, then every act is answered─────────┘
 *
 *  - take      the folder's lock, which frees itself when its holder dies
 *  - settle    take in what others appended; judge what lies behind the mark (below)
 *  - acts      each asks every question, then changes memory and adds a line; a refusal adds and changes nothing
 *  - write     all lines at once, behind the last
 *  - mark      tells others, without a sync, how far the journal is durable
 *
 * Invariants
 *
 *   1. What lies before the mark was synced before the mark was written.
 *   2. Nobody is answered, and nobody else reads a line, before the mark is behind it.
 *   3. Only the lock's holder writes, cuts or replaces the journal.
 *   4. A write begins only when everything before it is synced. So a bad line that a line of a later write follows was
 *      good once: that is damage and an error. Any other bad line behind the mark is a torn tail.
 *   5. Memory that ran ahead of the mark is never read: a failure on the way throws it away with the handle.
 *
 * What is left when the process dies, or the power goes, right after
 *
 *   take       nothing; the system frees the lock
 *   settle     the good part of the tail, or all of the old tail: judged again by the next holder
 *   acts       nothing, or files of artifacts that no line speaks of; rewriting the journal clears them away
 *   write      a tail that may be whole, torn or gone. Nobody was answered. Whole lines are taken in, so a resend finds
 *              its batch; the first bad line and everything behind it is cut
 *   fdatasync  whole lines behind the mark. Nobody was answered; the next holder takes them in
 *   mark       the change. After a power cut the mark may be an older one: the next holder reads on behind it
 *
 * A failed write or sync poisons the handle: its batches may or may not be durable. What the page cache shows behind
 * the mark may never reach the disk, since the system forgets what it failed to write. So whoever takes in a tail of
 * this boot first writes its bytes once more and syncs them; only then is anything built on it.
 */

import { syncFolder } from "../kit/index.ts";
import { corrupt, replaced } from "./failures.ts";
import type { PlacedLine } from "./journal-file.ts";
import { encodeLine } from "./line.ts";
import type { OpenedFolder } from "./opened-folder.ts";
import type { Act } from "./state.ts";

/** What one holding of the lock is going to write. */
export class Turn {
  readonly folder: OpenedFolder;
  /** Folders that got new names; synced before any line speaks of them. */
  readonly folders = new Set<string>();
  /** What is done once the lines are durable, while the lock is still held. */
  readonly afterwards: (() => void)[] = [];
  /** A stream was removed whose bytes must not stay on the disk. */
  mustErase = false;
  readonly #lines: Buffer[] = [];
  #bytes = 0;

  constructor(folder: OpenedFolder) {
    this.folder = folder;
  }

  /** Adds a line, and says where it will stand. Changes nothing when it throws. */
  log(act: Act, segments: readonly Buffer[] = []): Pick<PlacedLine, "offset" | "eventsAt" | "length"> {
    const { journal } = this.folder;
    const first = journal.lines + 1;
    const { bytes, eventsAt } = encodeLine(first + this.#lines.length, first, act, segments);
    const offset = journal.end + this.#bytes;
    this.#lines.push(bytes);
    this.#bytes += bytes.length;
    return { offset, eventsAt, length: bytes.length };
  }

  get lines(): readonly Buffer[] {
    return this.#lines;
  }
}

/** Under the lock: afterwards memory is what the journal says, and the journal ends where memory thinks it does. */
export function settle(folder: OpenedFolder): void {
  const mark = folder.catchUp();
  const { journal } = folder;
  const { size, end } = journal;
  if (size < end) throw replaced(journal.path, "it is shorter than what was read from it");
  if (mark && mark.end > size)
    throw corrupt(journal.path, journal.lines + 1, "acknowledged lines are missing");
  if (!journal.isUnchanged()) throw replaced(journal.path, "its last line is another");
  if (size > end) {
    folder.readTail();
    if (mark?.boot === folder.place.clock.boot) journal.rewrite(end);
    if (size > journal.end) journal.cut();
    journal.sync();
  }
  if (mark?.end !== journal.end || mark.boot !== folder.place.clock.boot) folder.setMark();
}

/** Makes a turn durable. `begun` is called before the first byte goes to the journal. */
export function commit(turn: Turn, begun: () => void): void {
  const { folder, lines } = turn;
  for (const each of turn.folders) syncFolder(each);
  if (lines.length > 0) {
    begun();
    folder.journal.append(lines);
    folder.setMark();
  }
  for (const act of turn.afterwards) act();
}
