/**
 * `events/`: the events of goals as files that never change, so that branches merge without conflict and a clone has
 * everything. Each file is of one goal, and each goal sees to its own: those of others are passed over.
 *
 *     look    files that were not seen before are read; what they hold and the goal does not know is taken in
 *     trust   instead of a first look: a command that has just merged the folder skips reading the files again
 *     save    what the goal knows and no file holds becomes a new file, or several if it is much
 *     tidy    many small files become one that holds the same; then the small ones are removed
 *
 * Invariants
 *  - A file is written whole under the hash of its content and never written again: two writers of one name write the
 *    same bytes.
 *  - A file is removed only when every event in it stands in a file that was synced before.
 *  - The new file is more than twice as large as each one it replaces. Git takes a removed and an added file for a rename
 *    when they are alike by half, and two branches that renamed one file differently conflict; files that differ this
 *    much in size are never compared. `docs/decisions/012-*.md` says why.
 *  - A file that cannot be believed is left as it is, reported, and none of its events is taken in. If the goal knows
 *    some of them, they are saved once more in a file of their own.
 *
 * A crash in `save` leaves a temporary file, or a file that nobody recorded, which is what the next look finds; in `tidy`,
 * events that stand in two files, which the next `tidy` makes one. No order of these loses an event.
 */

import { statSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { eventsUnreadable, type Goal, goalCore, markEventFilesSeen, seenBy } from "../goal/index.ts";
import { sha256 } from "../model/digest.ts";
import { type Entry, EntryReader, type EventIds } from "../model/goal/index.ts";
import {
  prepareFile,
  readBounded,
  type Signature,
  sameSignature,
  signatureAt,
  syncFolder,
  UnreadableText,
} from "../state-files/index.ts";
import {
  type EntryLine,
  EVENT_FILE,
  type EventFile,
  goalOfEvents,
  lineOf,
  makeEventFile,
  readEventFile,
} from "./event-file.ts";
import { eventFileRefused } from "./refusals.ts";

export const EVENTS = "events";
/** Larger ones are not read, and none is made that comes near: git and whoever takes it in read a file at once. */
const FILE_BYTES = 64 * 1024 * 1024;
const MADE_BYTES = 8 * 1024 * 1024;
/** More than the first line of a file takes. */
const HEAD_BYTES = 512;
/** More files than this are made fewer; files above this size are left alone. */
const TIDY = { above: 24, least: 6, sealedBytes: 1024 * 1024, growth: 2.2 };

export interface RefusedFile {
  readonly file: string;
  readonly why: string;
}

interface HeldFile {
  readonly bytes: number;
  /** Null: the file was not read. The store records that it holds events up to `mark`. */
  readonly uids: readonly string[] | null;
}

export class EventFiles {
  private readonly folder: string;
  private readonly goal: string;
  private readonly held = new Map<string, HeldFile>();
  private readonly refused = new Map<string, { signature: Signature | null; why: string }>();
  /** Files of other goals. Their names are hashes, so they stay that. */
  private readonly others = new Set<string>();
  /** Uid → hash of its line, over all files that are held. */
  private readonly lines = new Map<string, string>();
  /** Read, and not yet taken in. */
  private pending: Entry[] = [];
  /** Up to here everything was saved when this process last looked. */
  private mark: { seq: number; clock: EntryReader["clock"]; revision: number } | null = null;

  constructor(folder: string, goal: string) {
    this.folder = join(folder, EVENTS);
    this.goal = goal;
  }

  /**
   * Takes the place of the first look if the caller has just merged every file in `names`. Returns false unless the
   * store records that exactly these files hold the goal's events up to some `seq`, and nothing was merged since.
   */
  async trust(goal: Goal, names: readonly string[]): Promise<boolean> {
    const { own, saved } = await seenBy(goalCore(goal).journal, this.goal);
    const merged = new Set(own);
    const present = names.filter((name) => merged.has(name));
    if (!saved || saved.seq > goal.seq || hasMergedSince(goal, saved.seq)) return false;
    if (!sameNames(present, saved.files)) return false;
    for (const name of saved.files) {
      const { size } = statSync(join(this.folder, name), { throwIfNoEntry: false }) ?? { size: 0 };
      this.held.set(name, { bytes: size, uids: null });
    }
    this.mark = { seq: saved.seq, clock: saved.clock, revision: saved.revision };
    return true;
  }

  /** Events that the goal does not know, and files that were refused since the last look. */
  async look(known: Pick<EventIds, "has">): Promise<{ fresh: readonly Entry[]; refused: RefusedFile[] }> {
    const names = (await namesIn(this.folder)).filter((name) => name.endsWith(".jsonl")).sort();
    this.forget(names);
    const refused: RefusedFile[] = [];
    for (const name of names) {
      if (this.held.has(name) || this.others.has(name)) continue;
      const signature = signatureAt(join(this.folder, name));
      const before = this.refused.get(name);
      if (before && sameSignature(before.signature, signature)) continue;
      try {
        const lines = await this.read(name);
        this.refused.delete(name);
        for (const { entry } of lines) if (!known.has(entry.uid)) this.pending.push(entry);
      } catch (error) {
        if (!(error instanceof UnreadableText)) throw error;
        this.refused.set(name, { signature, why: error.message });
        refused.push({ file: `${EVENTS}/${name}`, why: error.message });
      }
    }
    this.pending = this.pending.filter(({ uid }) => !known.has(uid));
    return { fresh: this.pending, refused };
  }

  /** New files for whatever no file holds yet. `isOurs` is asked right before each gets its name. */
  async save(goal: Goal, isOurs: () => Promise<boolean>): Promise<boolean> {
    const { seq, state } = goal;
    const { clock, revision, known } = state;
    const here = { seq, clock, revision };
    if (this.hasUnread() && !this.walkFrom(goal)) {
      // A merge has renamed items, so the walk begins anew and must know every event that a file holds.
      this.forgetAll();
      await this.look(known);
    }
    // Without unread files, whatever is held is known by now, so equal numbers are equal sets.
    const isBehind = this.hasUnread() ? seq > (this.mark?.seq ?? 0) : known.size > this.lines.size;
    if (isBehind) {
      const missing: EntryLine[] = [];
      for await (const entry of goalCore(goal).entries(this.walkFrom(goal))) {
        if (!this.lines.has(entry.uid)) missing.push(lineOf(entry));
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

  /** Notes in the store which files hold everything, so that later commands need not read them. */
  private async record(goal: Goal, own: readonly string[]): Promise<void> {
    const saved = this.mark && { files: [...this.held.keys()], ...this.mark };
    await markEventFilesSeen(goalCore(goal).journal, this.goal, { own, others: [], ...(saved && { saved }) });
  }

  /** Makes few files of many. */
  async tidy(goal: Goal, isOurs: () => Promise<boolean>): Promise<void> {
    if (this.held.size <= TIDY.above) return;
    const some = this.tidiable();
    if (some.length === 0) return;
    const lines: EntryLine[] = [];
    for (const name of some) lines.push(...(await this.read(name)));
    const whole = makeEventFile(this.goal, lines);
    const largest = Math.max(...some.map((name) => this.held.get(name)?.bytes ?? 0));
    if (Buffer.byteLength(whole.text) <= 2 * largest) return;
    if (!(await this.place(whole, lines, isOurs))) return;
    for (const name of some) {
      await rm(join(this.folder, name), { force: true });
      this.held.delete(name);
    }
    await syncFolder(this.folder);
    await this.record(goal, [whole.name]);
  }

  /** As many of the smallest files as make one that is more than twice as large as any of them, and not too large. */
  private tidiable(): string[] {
    const small = [...this.held]
      .filter(([, { bytes }]) => bytes < TIDY.sealedBytes)
      .sort(([a, x], [b, y]) => x.bytes - y.bytes || (a < b ? -1 : 1));
    for (let count = small.length; count >= TIDY.least; count--) {
      const some = small.slice(0, count);
      const total = some.reduce((sum, [, { bytes }]) => sum + bytes, 0);
      const isLarger = total > TIDY.growth * (some.at(-1)?.[1].bytes ?? 0);
      if (isLarger && total <= MADE_BYTES) return some.map(([name]) => name);
    }
    return [];
  }

  /** From where the last walk ended, unless a merge has changed since then what the names mean. */
  private walkFrom({ state }: Goal): { seq: number; reader: EntryReader } | undefined {
    const { mark } = this;
    if (!mark || hasMergedSince({ state }, mark.seq)) return undefined;
    const names = new Map(state.names);
    const aliases = new Map(state.aliases);
    return { seq: mark.seq, reader: new EntryReader({ ...mark, names, aliases }) };
  }

  private async place(
    { name, text }: EventFile,
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

  private async read(name: string): Promise<readonly EntryLine[]> {
    if (!EVENT_FILE.test(name)) throw new UnreadableText("its name is not that of a file of events");
    const raw = await readBounded(join(this.folder, name), FILE_BYTES);
    if (raw === null) return [];
    const other = goalOfEvents(name, raw);
    if (other !== null && other !== this.goal) {
      this.others.add(name);
      return [];
    }
    const { lines } = readEventFile(name, raw);
    refuseContradiction(lines, ({ entry }) => this.lines.get(entry.uid));
    this.hold(name, Buffer.byteLength(raw), lines);
    return lines;
  }

  private hold(name: string, bytes: number, lines: readonly EntryLine[]): void {
    for (const { entry, line } of lines) this.lines.set(entry.uid, shortHash(line));
    this.held.set(name, { bytes, uids: lines.map(({ entry }) => entry.uid) });
  }

  /** Whoever removed a file, git most likely: what no other file holds has to be saved again. */
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
    for (const uid of this.lines.keys()) if (!left.has(uid)) this.lines.delete(uid);
    this.mark = null;
  }

  private forgetAll(): void {
    this.held.clear();
    this.lines.clear();
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

/** What goes into one file each. An event that is larger than a file should be has one of its own. */
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

function shortHash(line: string): string {
  return sha256(line).slice(0, 16);
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

/** What files hold of one goal, and which of them do. */
export interface GoalEvents {
  readonly entries: readonly Entry[];
  readonly files: readonly string[];
}

/**
 * What these files of a folder hold of goals, for a store that may not have them. A file that cannot be believed stops
 * nothing: it is told to `warn`.
 */
export async function readEventsFolder(
  folder: string,
  names: readonly string[],
  warn: (error: unknown) => void,
): Promise<ReadonlyMap<string, GoalEvents>> {
  const goals = new Map<string, Map<string, EntryLine>>();
  const files = new Map<string, string[]>();
  const path = join(folder, EVENTS);
  for (const name of names) {
    try {
      const raw = await readBounded(join(path, name), FILE_BYTES);
      if (raw === null) continue;
      const { goal, lines } = readEventFile(name, raw);
      const known = goals.get(goal) ?? new Map<string, EntryLine>();
      goals.set(goal, known);
      refuseContradiction(lines, ({ entry }) => known.get(entry.uid)?.line);
      for (const each of lines) known.set(each.entry.uid, each);
      files.set(goal, [...(files.get(goal) ?? []), name]);
    } catch (error) {
      if (!(error instanceof UnreadableText)) throw error;
      warn(eventFileRefused(folder, `${EVENTS}/${name}`, error.message));
    }
  }
  return new Map(
    [...goals].map(([goal, known]) => [
      goal,
      { entries: [...known.values()].map(({ entry }) => entry), files: files.get(goal) ?? [] },
    ]),
  );
}

/** One event is one line, in whichever file it stands. */
function refuseContradiction(
  lines: readonly EntryLine[],
  other: (line: EntryLine) => string | undefined,
): void {
  for (const each of lines) {
    const said = other(each);
    if (said !== undefined && said !== each.line && said !== shortHash(each.line)) {
      throw new UnreadableText(`it says something else of event ${each.entry.uid} than another file does`);
    }
  }
}
