/**
 * `events/`: the events of goals as immutable files. Branches merge without conflict, and a clone has
 * everything. Each file belongs to one goal.
 *
 *     look    reads files that are new, and returns the events that the goal does not know
 *     trust   replaces the first look after a command that has just merged the folder
 *     save    writes events that no file holds into a new file, or into several
 *     tidy    combines small files that git does not track into one, then removes them
 *
 * Invariants
 *  - A file is written whole under the hash of its content and never written again: two writers of one name
 *    write the same bytes.
 *  - A file is removed only when every event in it stands in a file that was synced before.
 *  - A file that git tracks is never removed. A commit, a clone or another branch may have it, and git would
 *    take a removed and an added file that are half alike for a rename. See `docs/decisions/012-*.md`.
 *  - An invalid file is left alone and reported, and none of its events is merged. If the goal knows some of
 *    its events, they are saved again in another file. The store remembers it, so that it is read once and
 *    named by every command (`seen-event-files.ts`).
 *
 * | crash in | leaves |
 * |---|---|
 * | `save` | a temporary file, or a file that the store has not recorded: the next look finds it |
 * | `tidy` | events in two files: the next `tidy` combines them |
 */

import { rmSync, type Stats, statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Goal, MergeReport } from "../goal/index.ts";
import {
  actSigners,
  eventFileNames,
  eventsUnreadable,
  FITS_NAME,
  fileSignature,
  goalCore,
  goalWaits,
  markEventFilesSeen,
  mergeGoal,
  REFUSED_PER_LOOK,
  type RefusedEventFile,
  refusedEventFiles,
  rememberRefused,
  seenBy,
  unseenEventFiles,
  waitingGoals,
} from "../goal/index.ts";
import type { Journal } from "../journal/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import { type Entry, EntryReader, type EventIds, goalKind } from "../model/goal/index.ts";
import { quoteValue, streamName } from "../model/names.ts";
import { prepareFile, readBounded, syncFolder, UnreadableText } from "../state-files/index.ts";
import {
  type EntryLine,
  EVENT_FILE,
  FutureEvents,
  goalOfEvents,
  InvalidEvents,
  lineOf,
  makeEventFile,
  readEventFile,
} from "./event-file-format.ts";
import { gitDirectory, newerThanIndex, untrackedFiles } from "./git.ts";
import { type SourceOf, sourcesOf } from "./git-authors.ts";
import { eventFileNotes, notReadYet } from "./refusals.ts";

export const EVENTS = "events";
/** Larger files are not read. The files that we write are far smaller, since readers load a whole file. */
const FILE_BYTES = 16 * 1024 * 1024;
/** One look reads no more; the next one continues. */
const LOOK_BYTES = 256 * 1024 * 1024;
const MADE_BYTES = 8 * 1024 * 1024;
const HEAD_BYTES = 512;
/** More than `above` files that no commit has become one; a file of `sealedBytes` is left alone. */
const TIDY = { above: 3, sealedBytes: 256 * 1024 };

/**
 * Merges the event files of a folder into the store, as after a clone or a pull, and reports on the goals
 * that had new events. Writes nothing into the folder. With `only`, it handles that goal alone and throws its
 * errors; otherwise an invalid file or goal does not stop the others: `warn` gets the error. Throws
 * `GOAL_NOT_FOUND` if `only` is not in the store and its events wait for their time. A goal that is created
 * instead would compete with the one that waits.
 */
export async function mergeEventFolder(
  journal: Journal,
  folder = ".planning",
  only?: string,
  warn: (error: unknown) => void = journal.warn,
): Promise<ReadonlyMap<string, MergeReport>> {
  const { reports, waiting } = await mergeAllEvents(journal, folder, warn, only);
  const until = only === undefined ? undefined : waiting.get(only);
  if (only === undefined || until === undefined) return reports;
  if ((await journal.row(streamName(goalKind.kind, only))).head.seq === 0) throw goalWaits(only, until);
  return reports;
}

interface FolderMerge {
  readonly reports: ReadonlyMap<string, MergeReport>;
  readonly names: readonly string[];
  readonly failed: ReadonlyMap<string, unknown>;
  /** Goals with events that are merged at a later time. */
  readonly waiting: ReadonlyMap<string, number>;
}

export async function mergeAllEvents(
  journal: Journal,
  folder: string,
  warn: (error: unknown) => void,
  only?: string,
): Promise<FolderMerge> {
  const path = resolve(folder);
  const reports = new Map<string, MergeReport>();
  const failed = new Map<string, unknown>();
  const names = eventFileNames(path);
  const now = journal.now();
  const before = await refusedEventFiles(journal, path, names, now);
  const tell = (refused: readonly RefusedEventFile[]): void => {
    eventFileNotes(path, refused.map(reported)).forEach(warn);
  };
  const asked = { goal: only, listed: names, now, refused: before };
  const unseen = await unseenEventFiles(journal, path, asked);
  if (unseen.length === 0) {
    tell(before);
    return { reports, names, failed, waiting: waitingGoals(before) };
  }
  const { goals, refused, fileOf, unread } = await readEventsFolder(path, unseen, now);
  const sourceOf = await sourcesOf(path, EVENTS, fileOf);
  const signerOf = actSigners(dirname(path), warn);
  tell([...before, ...refused]);
  if (unread > 0) warn(notReadYet(path, unread));
  for (const [goal, { entries, files }] of goals) {
    if (only !== undefined && goal !== only) continue;
    try {
      const by = { name: "holdfast", role: "supervisor" } as const;
      const report = await mergeGoal(journal, goal, by, { entries, sourceOf, signerOf });
      if (report) reports.set(goal, report);
      await markEventFilesSeen(journal, goal, { own: files, others: [] });
    } catch (error) {
      // An error of the store concerns all goals.
      const isOfOneGoal = isHoldfastError(error) && !error.code.startsWith("STORE_");
      if (only !== undefined || !isOfOneGoal) throw error;
      failed.set(goal, error);
      warn(error);
    }
  }
  if (only !== undefined) {
    const others = [...goals].flatMap(([goal, { files }]) => (goal === only ? [] : files));
    if (others.length > 0) await markEventFilesSeen(journal, only, { own: [], others });
  }
  await rememberRefused(journal, refused);
  return { reports, names, failed, waiting: waitingGoals([...before, ...refused]) };
}

export interface RefusedFile {
  readonly file: string;
  readonly why: string;
  /** The file is sound, and merged from then on. */
  readonly until?: number;
}

interface HeldFile {
  readonly bytes: number;
  /** Null: not read. The store records that the file holds events up to `mark`. */
  readonly uids: readonly string[] | null;
}

export interface EventLook {
  readonly fresh: readonly Entry[];
  readonly refused: RefusedFile[];
  readonly sourceOf: SourceOf;
}

function reported({ name, why, waiting }: RefusedEventFile): RefusedFile {
  const shown = EVENT_FILE.test(name) ? name : quoteValue(name);
  return { file: `${EVENTS}/${shown}`, why, ...(waiting && { until: waiting.until }) };
}

const NO_FILES: ReadonlyMap<string, string> = new Map();

export class EventFiles {
  private readonly planning: string;
  private readonly folder: string;
  private readonly goal: string;
  private readonly held = new Map<string, HeldFile>();
  private readonly journal: Journal;
  private refused: Map<string, RefusedEventFile> | null = null;
  private readonly others = new Set<string>();
  /** The uids of all events in the files that were read. */
  private readonly uids = new Set<string>();
  private pending: Entry[] = [];
  private readonly fileOf = new Map<string, string>();
  /** Everything up to here was saved when this process last looked. */
  private mark: { seq: number; clock: EntryReader["clock"]; revision: number } | null = null;

  constructor(folder: string, goal: Goal) {
    this.planning = folder;
    this.folder = join(folder, EVENTS);
    this.goal = goal.id;
    this.journal = goalCore(goal).journal;
  }

  /** False unless the store records that exactly these files, in their sizes, hold the goal's events. */
  async trust(goal: Goal, names: readonly string[]): Promise<boolean> {
    const { own, saved } = await seenBy(goalCore(goal).journal, this.goal);
    const merged = new Set(own);
    const present = names.filter((name) => merged.has(name));
    if (!saved || saved.seq > goal.seq || hasMergedSince(goal, saved.seq)) return false;
    if (!sameNames(present, saved.files)) return false;
    // A file that was cut or changed: a look reports it, and its events are saved again.
    const sizes = saved.files.map(
      (name) => statSync(join(this.folder, name), { throwIfNoEntry: false })?.size,
    );
    if (sizes.some((size, index) => size === undefined || size !== saved.bytes?.[index])) return false;
    saved.files.forEach((name, index) => {
      this.held.set(name, { bytes: sizes[index] ?? 0, uids: null });
    });
    this.mark = { seq: saved.seq, clock: saved.clock, revision: saved.revision };
    return true;
  }

  /** True if events of this goal are dated ahead of the clock. */
  get areWaiting(): boolean {
    return [...(this.refused?.values() ?? [])].some(({ waiting }) => waiting?.goal === this.goal);
  }

  /** Returns events that the goal does not know, and files that are refused for the first time here. */
  async look(known: Pick<EventIds, "has">): Promise<EventLook> {
    const names = (await namesIn(this.folder)).filter((name) => name.endsWith(".jsonl")).sort();
    this.forget(names);
    const now = this.journal.now();
    const isFirst = this.refused === null;
    const before = await refusedEventFiles(this.journal, this.planning, names, now, this.refused?.values());
    const told = isFirst ? before : [];
    this.refused = new Map(before.map((each) => [each.name, each]));
    const refused: RefusedEventFile[] = [];
    for (const name of names) {
      if (refused.length >= REFUSED_PER_LOOK) break;
      if (this.held.has(name) || this.others.has(name) || this.refused.has(name)) continue;
      const found = await refusalOf(this.folder, name, async (onStat) => {
        for (const { entry } of await this.read(name, now, onStat))
          if (!known.has(entry.uid)) {
            this.pending.push(entry);
            this.fileOf.set(entry.uid, name);
          }
      });
      if (!found) continue;
      this.refused.set(name, found);
      refused.push(found);
    }
    await rememberRefused(this.journal, refused);
    this.pending = this.pending.filter(({ uid }) => !known.has(uid));
    const reports = [...told, ...refused].map(reported);
    const fileOf = this.pending.length === 0 ? NO_FILES : this.fileOf;
    const sourceOf = await sourcesOf(this.planning, EVENTS, fileOf);
    return { fresh: this.pending, refused: reports, sourceOf };
  }

  /** Writes new files for events that no file holds. Calls `isOurs` right before each rename. */
  async save(goal: Goal, isOurs: () => Promise<boolean>): Promise<boolean> {
    const { seq, state } = goal;
    const { clock, revision, known } = state;
    const here = { seq, clock, revision };
    if (this.hasUnread() && !this.walkFrom(goal)) {
      // A merge has renamed items: read all events again, and know every event that a file holds.
      this.forgetAll();
      await this.look(known);
    }
    // Without unread files, all held events are known by now, so equal numbers mean equal sets.
    const isBehind = this.hasUnread() ? seq > (this.mark?.seq ?? 0) : known.size > this.uids.size;
    if (isBehind) {
      const missing: EntryLine[] = [];
      for await (const entry of goalCore(goal).entries(this.walkFrom(goal))) {
        if (!this.uids.has(entry.uid)) missing.push(lineOf(entry));
      }
      const own: string[] = [];
      for (const lines of parts(missing)) {
        const file = makeEventFile(this.goal, lines);
        if (!(await this.place(file, lines, isOurs))) return false;
        own.push(file.name);
      }
      this.mark = here;
      if (own.length > 0) await this.record(goal, own);
    }
    this.mark = here;
    return true;
  }

  /** Records in the store which files hold everything, so that later commands need not read them. */
  private async record(goal: Goal, own: readonly string[]): Promise<void> {
    const bytes = [...this.held.values()].map((file) => file.bytes);
    const saved = this.mark && { files: [...this.held.keys()], bytes, ...this.mark };
    await markEventFilesSeen(goalCore(goal).journal, this.goal, { own, others: [], ...(saved && { saved }) });
  }

  /** Leaves about one file per commit: each save adds one, and a commit seals those that are there. */
  async tidy(goal: Goal, isOurs: () => Promise<boolean>): Promise<void> {
    const small = [...this.held].filter(([, { bytes }]) => bytes < TIDY.sealedBytes).map(([name]) => name);
    if (small.length <= TIDY.above) return;
    const recent = newerThanIndex(this.folder, gitDirectory(this.folder), small);
    if (recent.length <= TIDY.above) return;
    const some = (await untrackedFiles(this.folder, recent)).slice(0, MADE_BYTES / TIDY.sealedBytes);
    if (some.length <= TIDY.above) return;
    const lines: EntryLine[] = [];
    for (const name of some) lines.push(...(await this.read(name, this.journal.now())));
    const whole = makeEventFile(this.goal, lines);
    if (!(await this.place(whole, lines, isOurs))) return;
    // A `git add` may have come meanwhile. It takes the lock of the index before it reads a file.
    for (const name of newerThanIndex(this.folder, gitDirectory(this.folder), some)) {
      // A process that was killed here left the combined file beside its parts.
      if (name === whole.name) continue;
      rmSync(join(this.folder, name), { force: true });
      this.held.delete(name);
    }
    await syncFolder(this.folder);
    await this.record(goal, [whole.name]);
  }

  private walkFrom({ state }: Goal): { seq: number; reader: EntryReader } | undefined {
    const { mark } = this;
    if (!mark || hasMergedSince({ state }, mark.seq)) return undefined;
    const names = new Map(state.names);
    const aliases = new Map(state.aliases);
    return { seq: mark.seq, reader: new EntryReader({ ...mark, names, aliases }) };
  }

  private async place(
    { name, text }: ReturnType<typeof makeEventFile>,
    lines: readonly EntryLine[],
    isOurs: () => Promise<boolean>,
  ): Promise<boolean> {
    if (!this.held.has(name)) {
      const prepared = await prepareFile(join(this.folder, name), text);
      if (!(await isOurs())) {
        await prepared.discard();
        return false;
      }
      await prepared.place();
      await syncFolder(this.folder);
    }
    this.hold(name, Buffer.byteLength(text), lines);
    return true;
  }

  private async read(
    name: string,
    now: number,
    onStat?: (stat: Stats) => void,
  ): Promise<readonly EntryLine[]> {
    if (!EVENT_FILE.test(name)) throw new UnreadableText("its name is not that of a file of events");
    const raw = await readBounded(join(this.folder, name), FILE_BYTES, onStat);
    if (raw === null) return [];
    const other = goalOfEvents(name, raw);
    if (other !== null && other !== this.goal) {
      this.others.add(name);
      return [];
    }
    const { lines } = readEventFile(name, raw, now);
    this.hold(name, Buffer.byteLength(raw), lines);
    return lines;
  }

  private hold(name: string, bytes: number, lines: readonly EntryLine[]): void {
    for (const { entry } of lines) this.uids.add(entry.uid);
    this.held.set(name, { bytes, uids: lines.map(({ entry }) => entry.uid) });
  }

  private forget(names: readonly string[]): void {
    const there = new Set(names);
    const gone = [...this.held.keys()].filter((name) => !there.has(name));
    if (gone.length === 0) return;
    if (this.hasUnread()) {
      this.forgetAll();
      return;
    }
    for (const name of gone) this.held.delete(name);
    const left = new Set([...this.held.values()].flatMap(({ uids }) => uids ?? []));
    for (const uid of this.uids) if (!left.has(uid)) this.uids.delete(uid);
    this.mark = null;
  }

  private forgetAll(): void {
    this.held.clear();
    this.uids.clear();
    this.mark = null;
  }

  private hasUnread(): boolean {
    return [...this.held.values()].some(({ uids }) => uids === null);
  }
}

function hasMergedSince({ state }: Pick<Goal, "state">, seq: number): boolean {
  return state.merges.some((each) => each.seq > seq);
}

function sameNames(some: readonly string[], others: readonly string[]): boolean {
  const all = new Set(others);
  return some.length === all.size && some.every((name) => all.has(name));
}

function* parts(lines: readonly EntryLine[]): Generator<EntryLine[]> {
  let part: EntryLine[] = [];
  let bytes = HEAD_BYTES;
  for (const each of lines) {
    const more = Buffer.byteLength(each.line) + 1;
    if (part.length > 0 && bytes + more > MADE_BYTES) {
      yield part;
      part = [];
      bytes = HEAD_BYTES;
    }
    part.push(each);
    bytes += more;
  }
  if (part.length > 0) yield part;
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return [];
    throw eventsUnreadable(folder, error);
  }
}

interface ReadFolder {
  readonly goals: ReadonlyMap<string, { entries: readonly Entry[]; files: readonly string[] }>;
  readonly refused: readonly RefusedEventFile[];
  readonly fileOf: ReadonlyMap<string, string>;
  /** The number of files that the next look reads. */
  readonly unread: number;
}

async function readEventsFolder(folder: string, names: readonly string[], now: number): Promise<ReadFolder> {
  const goals = new Map<string, { entries: Entry[]; files: string[] }>();
  const refused: RefusedEventFile[] = [];
  const fileOf = new Map<string, string>();
  const path = join(folder, EVENTS);
  let bytes = 0;
  let read = 0;
  for (const name of names) {
    if (bytes > LOOK_BYTES || refused.length >= REFUSED_PER_LOOK) break;
    read += 1;
    const found = await refusalOf(path, name, async (onStat) => {
      const raw = await readBounded(`${path}/${name}`, FILE_BYTES, onStat);
      if (raw === null) return;
      bytes += raw.length;
      const { goal, lines } = readEventFile(name, raw, now);
      const known = goals.get(goal) ?? { entries: [], files: [] };
      goals.set(goal, known);
      for (const { entry } of lines) {
        known.entries.push(entry);
        fileOf.set(entry.uid, name);
      }
      known.files.push(name);
    });
    if (found) refused.push(found);
  }
  return { goals, refused, fileOf, unread: names.length - read };
}

/**
 * Null: the file was read. The signature is from before the read, so a later change is noticed. `read` passes
 * the stat of the file that it has opened; a link is not opened.
 */
async function refusalOf(
  folder: string,
  name: string,
  read: (onStat: (stat: Stats) => void) => Promise<void>,
): Promise<RefusedEventFile | null> {
  let before: Stats | undefined;
  try {
    await read((stat) => {
      before = stat;
    });
    return null;
  } catch (error) {
    if (!(error instanceof UnreadableText)) throw error;
    const waiting = error instanceof FutureEvents ? { goal: error.goal, until: error.until } : null;
    const signature = error instanceof InvalidEvents ? FITS_NAME : fileSignature(folder, name, before);
    return { name, signature, why: error.message, waiting };
  }
}
