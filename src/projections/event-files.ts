/**
 * `events/`: the events of goals as immutable files. Branches merge without conflict, and a clone has
 * everything. Each file belongs to one goal.
 *
 *     look    reads files that are new, and returns the events that the goal does not know
 *     trust   replaces the first look after a command that has just merged the folder
 *     save    writes events that no file holds into a new file, or into several
 *     tidy    combines many small files into one, then removes them
 *
 * Invariants
 *  - A file is written whole under the hash of its content and never written again: two writers of one name
 *    write the same bytes.
 *  - A file is removed only when every event in it stands in a file that was synced before.
 *  - The new file is more than twice as large as each one it replaces. Git treats a removed and an added file
 *    that are half alike as a rename, and two branches that rename one file differently conflict. Git never
 *    compares files that differ this much in size. See `docs/decisions/012-*.md`.
 *  - An invalid file is left alone and reported, and none of its events is merged. If the goal knows some of
 *    its events, they are saved again in another file.
 *
 * | crash in | leaves |
 * |---|---|
 * | `save` | a temporary file, or a file that the store has not recorded: the next look finds it |
 * | `tidy` | events in two files: the next `tidy` combines them |
 */

import { statSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Goal, MergeReport } from "../goal/index.ts";
import {
  eventFileNames,
  eventsUnreadable,
  goalCore,
  markEventFilesSeen,
  mergeGoal,
  seenBy,
  unseenEventFiles,
} from "../goal/index.ts";
import type { Journal } from "../journal/index.ts";
import { sha256 } from "../model/digest.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { Entry, EventIds } from "../model/goal/index.ts";
import { compareEntries, EntryReader, entrySchema, goalKind, MERGED } from "../model/goal/index.ts";
import { canonicalOf, type Json } from "../model/json.ts";
import { makeEvent } from "../model/stream/index.ts";
import {
  parseJson,
  prepareFile,
  readBounded,
  type Signature,
  sameSignature,
  signatureAt,
  syncFolder,
  UnreadableText,
} from "../state-files/index.ts";
import { eventFileRefused } from "./refusals.ts";
import { normalText } from "./seal.ts";

export const EVENTS = "events";
/** Larger files are not read. The files that we write are far smaller, since readers load a whole file. */
const FILE_BYTES = 64 * 1024 * 1024;
const MADE_BYTES = 8 * 1024 * 1024;
const HEAD_BYTES = 512;
/** More than `above` files are combined, at least `least` at once; files of `sealedBytes` are left alone. */
const TIDY = { above: 24, least: 6, sealedBytes: 1024 * 1024, growth: 2.2 };

/**
 * Merges the event files of a folder into the store, as after a clone or a pull, and reports on the goals
 * that had new events. Writes nothing into the folder. With `only`, it handles that goal alone and throws its
 * errors; otherwise an invalid file or goal does not stop the others: `warn` gets the error.
 */
export async function mergeEventFolder(
  journal: Journal,
  folder = ".planning",
  only?: string,
  warn: (error: unknown) => void = journal.warn,
): Promise<ReadonlyMap<string, MergeReport>> {
  return (await mergeAllEvents(journal, folder, warn, only)).reports;
}

interface FolderMerge {
  readonly reports: ReadonlyMap<string, MergeReport>;
  readonly names: readonly string[];
  readonly failed: ReadonlyMap<string, unknown>;
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
  const unseen = await unseenEventFiles(journal, path, only, names);
  if (unseen.length === 0) return { reports, names, failed };
  const goals = await readEventsFolder(path, unseen, warn);
  for (const [goal, { entries, files }] of goals) {
    if (only !== undefined && goal !== only) continue;
    try {
      const report = await mergeGoal(journal, goal, { name: "holdfast", role: "supervisor" }, entries);
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
  return { reports, names, failed };
}

export interface RefusedFile {
  readonly file: string;
  readonly why: string;
}

interface HeldFile {
  readonly bytes: number;
  /** Null: not read. The store records that the file holds events up to `mark`. */
  readonly uids: readonly string[] | null;
}

export class EventFiles {
  private readonly folder: string;
  private readonly goal: string;
  private readonly held = new Map<string, HeldFile>();
  private readonly refused = new Map<string, { signature: Signature | null; why: string }>();
  private readonly others = new Set<string>();
  private readonly lines = new Map<string, string>();
  private pending: Entry[] = [];
  /** Everything up to here was saved when this process last looked. */
  private mark: { seq: number; clock: EntryReader["clock"]; revision: number } | null = null;

  constructor(folder: string, goal: string) {
    this.folder = join(folder, EVENTS);
    this.goal = goal;
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

  /** Returns events that the goal does not know, and files that were refused since the last look. */
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

  /** Records in the store which files hold everything, so that later commands need not read them. */
  private async record(goal: Goal, own: readonly string[]): Promise<void> {
    const bytes = [...this.held.values()].map((file) => file.bytes);
    const saved = this.mark && { files: [...this.held.keys()], bytes, ...this.mark };
    await markEventFilesSeen(goalCore(goal).journal, this.goal, { own, others: [], ...(saved && { saved }) });
  }

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

async function readEventsFolder(
  folder: string,
  names: readonly string[],
  warn: (error: unknown) => void,
): Promise<ReadonlyMap<string, { entries: readonly Entry[]; files: readonly string[] }>> {
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

/** An event has the same line in every file; `other` returns the known line, or its hash. */
function refuseContradiction(
  lines: readonly EntryLine[],
  other: (line: EntryLine) => string | undefined,
): void {
  for (const each of lines) {
    const known = other(each);
    if (known !== undefined && known !== each.line && known !== shortHash(each.line)) {
      throw new UnreadableText(`it contradicts another file about event ${each.entry.uid}`);
    }
  }
}

// A file: a header line, then one line per event, sorted alike in every copy. Its name is the hash of its
// content, so a file that was cut or changed does not fit its name.

const FORMAT = 1;
const NAME_CHARACTERS = 32;
const EVENT_FILE = /^[0-9a-f]{32}\.jsonl$/;

interface EntryLine {
  readonly entry: Entry;
  readonly line: string;
}

function lineOf(entry: Entry): EntryLine {
  return { entry, line: canonicalOf(entry as unknown as Json) };
}

function makeEventFile(goal: string, lines: Iterable<EntryLine>): { name: string; text: string } {
  const once = new Map<string, EntryLine>();
  for (const each of lines) if (!once.has(each.entry.uid)) once.set(each.entry.uid, each);
  const order = [...once.values()].sort((a, b) => compareEntries(a.entry, b.entry));
  const head = canonicalOf({ holdfast: "goal events", format: FORMAT, goal, events: order.length });
  const text = `${[head, ...order.map(({ line }) => line)].join("\n")}\n`;
  return { name: nameOf(text), text };
}

function nameOf(text: string): string {
  return `${sha256(text).slice(0, NAME_CHARACTERS)}.jsonl`;
}

function goalOfEvents(name: string, raw: string): string | null {
  const text = normalText(raw);
  if (nameOf(text) !== name) return null;
  try {
    const { goal } = parseJson(text.slice(0, text.indexOf("\n")));
    return typeof goal === "string" ? goal : null;
  } catch (error) {
    if (error instanceof UnreadableText) return null;
    throw error;
  }
}

function readEventFile(name: string, raw: string): { goal: string; lines: readonly EntryLine[] } {
  const text = normalText(raw);
  if (nameOf(text) !== name) {
    throw new UnreadableText("its content does not fit its name: it was cut or changed");
  }
  const [first = "", ...rest] = text.slice(0, -1).split("\n");
  const head = parseJson(first);
  const { goal, events } = head;
  if (head["holdfast"] !== "goal events" || typeof goal !== "string")
    throw new UnreadableText("it holds no events");
  if (typeof head["format"] !== "number" || head["format"] > FORMAT) {
    throw new UnreadableText("a later release wrote it: upgrade holdfast");
  }
  if (events !== rest.length)
    throw new UnreadableText(`it should hold ${String(events)} events, not ${rest.length}`);
  const seen = new Set<string>();
  const lines = rest.map((line, index) => {
    const entry = readLine(line, index + 2);
    if (seen.has(entry.uid)) throw new UnreadableText(`line ${index + 2}: event ${entry.uid} is there twice`);
    seen.add(entry.uid);
    return { entry, line };
  });
  return { goal, lines };
}

function readLine(line: string, number: number): Entry {
  try {
    const parsed = entrySchema.safeParse(parseJson(line));
    if (!parsed.success) throw new UnreadableText(parsed.error.issues[0]?.message ?? "it is no event");
    const entry = parsed.data;
    if (canonicalOf(entry as unknown as Json) !== line)
      throw new UnreadableText("it is not written as events are");
    checkEvent(entry);
    return entry;
  } catch (error) {
    if (!(error instanceof UnreadableText) && !(error instanceof HoldfastError)) throw error;
    throw new UnreadableText(`line ${number}: ${error.message}`, { cause: error });
  }
}

function checkEvent({ type, v, at, uid, data }: Entry): void {
  const spec = Object.hasOwn(goalKind.events, type)
    ? goalKind.events[type as keyof typeof goalKind.events]
    : undefined;
  if (!spec || type === MERGED || v > spec.version) {
    throw new UnreadableText(
      `this release knows no event ${JSON.stringify(type)} of version ${v}: upgrade holdfast`,
    );
  }
  if (Object.hasOwn(data, "uid")) throw new UnreadableText("its data holds a second uid");
  if (v === spec.version) makeEvent(goalKind, { type, data: { ...data, uid } }, at);
}
