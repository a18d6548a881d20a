/**
 * A cache of the event files that a store has merged. A file is named by the hash of its content, so a file
 * whose name is in the cache need not be read again.
 *
 * The cache is a snapshot of the goal's stream. So a restored backup, a new clone or a removed goal never
 * knows more files than events. It is written after the events are durable: a crash in between only means
 * that the file is read once more.
 *
 * | list     | files                                                                                      |
 * |----------|--------------------------------------------------------------------------------------------|
 * | `own`    | of this goal, with all their events in the log                                             |
 * | `others` | read when this goal was opened, but of another goal, which has yet to merge them           |
 * | `saved`  | hold every event of this goal up to `seq`: a later process knows, without reading them,    |
 * |          | which events no file holds                                                                 |
 *
 * A second snapshot, of the first goal, remembers the files that were refused, and why. They are not read
 * again, but named by every command, until the file changes, its time has come, or another release reads it.
 *
 * `status` and hooks load this file in a cold process: keep it free of schemas.
 */

import { lstatSync, readdirSync, type Stats } from "node:fs";
import { join } from "node:path";
import { everyRow } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { type EntryReader, GOAL_FOLD_VERSION } from "../model/goal/index.ts";
import { quoteValue, streamName } from "../model/names.ts";
import { leavesProject } from "../project-place.ts";
import type { Store, StreamRow } from "../store.ts";

const EVENTS = "events";
const EVENT_FILE = /^[0-9a-f]{32}\.jsonl$/;
/** A fixed fold name and position, so that each write replaces the last one. */
const FOLD = "event-files@1";
const SEQ = 0;
/** The oldest names beyond this are dropped; their files are read again. */
const MAX_NAMES = 100_000;
/** Another release may read what this one refuses. */
const REFUSED_FOLD = `refused-event-files@3.${GOAL_FOLD_VERSION}`;
const MAX_REFUSED = 100_000;
/**
 * A look that has refused so many files reads no more; the next one reads the others. Valid files do not
 * count, so a look at a sound folder always reads all of it.
 */
export const REFUSED_PER_LOOK = 5_000;

interface Place {
  readonly store: Store;
  readonly namespace: string;
}

export interface SeenFiles {
  readonly own: readonly string[];
  readonly others: readonly string[];
  readonly saved?: {
    readonly files: readonly string[];
    /** The size of each file. */
    readonly bytes?: readonly number[];
    readonly seq: number;
    /** The goal's logical clock and revision at `seq`, from which a walk over later events continues. */
    readonly clock: EntryReader["clock"];
    readonly revision: number;
  };
}

const NONE: SeenFiles = { own: [], others: [] };

/** Throws `STORE_IO` for a folder that cannot be read, or that a link leads out of the project. */
export function eventFileNames(folder: string): string[] {
  const path = join(folder, EVENTS);
  if (leavesProject(folder)) throw eventsElsewhere(folder);
  try {
    if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) throw eventsElsewhere(path);
    return readdirSync(path)
      .filter((name) => EVENT_FILE.test(name))
      .sort();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return [];
    throw error instanceof HoldfastError ? error : eventsUnreadable(path, error);
  }
}

/** A commit can put a link there. Events that it leads to are not those of this project. */
function eventsElsewhere(path: string): HoldfastError {
  const hint = "Look at where it leads, remove the link, then restore the folder: git checkout -- .planning";
  const message = `${quoteValue(path)} is not read: it is a link, and events are read from this project only`;
  return new HoldfastError("STORE_IO", message, { hint, data: { path } });
}

export function eventsUnreadable(path: string, cause: unknown): HoldfastError {
  const { code = String(cause) } = cause as NodeJS.ErrnoException;
  const hint = "Check its owner and permissions. The store stays as it is.";
  const message = `${quoteValue(path)} cannot be read (${code})`;
  return new HoldfastError("STORE_IO", message, { hint, cause, data: { path } });
}

interface Unseen {
  readonly goal?: string | undefined;
  readonly listed?: readonly string[];
  readonly now?: number;
  /** The answer of `refusedEventFiles`, if the caller has asked already: it costs a system call per file. */
  readonly refused?: readonly RefusedEventFile[];
}

/** The files that no goal of the store has merged; with `goal`, without those that it has already read. */
export async function unseenEventFiles(
  place: Place,
  folder: string,
  { goal, listed = eventFileNames(folder), now = Date.now(), refused }: Unseen = {},
): Promise<string[]> {
  const before = refused ?? (await refusedEventFiles(place, folder, listed, now));
  let names = without(
    listed,
    before.map(({ name }) => name),
  );
  if (names.length > 0 && goal !== undefined) {
    const { own, others } = await seenBy(place, goal);
    names = without(names, [...own, ...others]);
  }
  if (names.length === 0) return [];
  const { store, namespace } = place;
  const asked = { of: "streams", namespace, kind: "goal", limit: 500 } as const;
  for await (const { stream } of everyRow((from) => store.list<"streams">({ ...asked, ...from }))) {
    if (names.length === 0) break;
    names = without(names, (await seenIn(place, stream)).own);
  }
  return names;
}

export function seenBy(place: Place, goal: string): Promise<SeenFiles> {
  return seenIn(place, streamName("goal", goal));
}

/** Call it when all events of the `own` files are in the log. */
export async function markEventFilesSeen(place: Place, goal: string, seen: SeenFiles): Promise<void> {
  const { store, namespace } = place;
  const stream = streamName("goal", goal);
  const before = await seenIn(place, stream);
  const end = { namespace, stream, after: Number.MAX_SAFE_INTEGER - 1, limit: 1 };
  const { head, state } = (await store.read(end)).stream;
  if (state !== "live") return;
  const own = union(before.own, seen.own);
  const others = without(union(before.others, seen.others), own);
  const payload = JSON.stringify({ own, others, saved: seen.saved ?? before.saved });
  const at = { namespace, stream, generation: head.generation, seq: SEQ, fold: FOLD };
  await store.put({ of: "snapshot", ...at, payload, codec: null });
}

async function seenIn({ store, namespace }: Place, stream: string): Promise<SeenFiles> {
  const blob = await store.get({ of: "snapshot", namespace, stream, fold: FOLD, upTo: SEQ });
  return blob ? parseSeen(String(blob.payload)) : NONE;
}

/** A damaged cache counts as empty: the files are read once more, and the cache is written again. */
function parseSeen(text: string): SeenFiles {
  try {
    const { own, others, saved } = JSON.parse(text) as Partial<SeenFiles>;
    if (!Array.isArray(own) || !Array.isArray(others)) return NONE;
    return { own, others, ...(Array.isArray(saved?.files) && { saved }) };
  } catch {
    return NONE;
  }
}

/**
 * The signature of a file whose content has the hash that is its name. No other content can be valid under
 * that name, so nothing has to be compared: thousands of such files cost no system call each.
 */
export const FITS_NAME = "fits its name";

export interface RefusedEventFile {
  readonly name: string;
  /** Size and time of change: the file is read again once these differ. Or `FITS_NAME`. */
  readonly signature: string;
  readonly why: string;
  /** A sound file of this goal, dated ahead of the clock. It is read again at that time. */
  readonly waiting: { readonly goal: string; readonly until: number } | null;
}

/** The goals that a folder has events of, which wait for their time, with the latest of these times. */
export function waitingGoals(refused: Iterable<RefusedEventFile>): ReadonlyMap<string, number> {
  const goals = new Map<string, number>();
  for (const { waiting } of refused)
    if (waiting) goals.set(waiting.goal, Math.max(waiting.until, goals.get(waiting.goal) ?? 0));
  return goals;
}

/** A pull may bring thousands of bad files. An answer names the first of them, and counts the rest. */
export const REFUSED_NAMED = 20;

export function moreRefused(count: number): string {
  return `${count - REFUSED_NAMED} more files of .planning/events/ were not merged`;
}

export function fileSignature(
  folder: string,
  name: string,
  stat: Stats | undefined = lstatSync(`${folder}/${name}`, { throwIfNoEntry: false }),
): string {
  return stat ? `${stat.size} ${stat.mtimeMs}` : "";
}

/** The files among `names` that were refused before and have not changed since. */
export async function refusedEventFiles(
  place: Place,
  folder: string,
  names: readonly string[],
  now: number,
  remembered?: Iterable<RefusedEventFile>,
): Promise<RefusedEventFile[]> {
  if (names.length === 0) return [];
  const there = new Set(names);
  const known = remembered ? [...remembered] : await readRefused(place);
  const path = join(folder, EVENTS);
  return known.filter(
    ({ name, signature, waiting }) =>
      there.has(name) &&
      (!waiting || now < waiting.until) &&
      (signature === FITS_NAME || fileSignature(path, name) === signature),
  );
}

/** A row per file. Thousands of files share a few reasons, so a row holds the index of its reason. */
interface StoredRefusals {
  readonly reasons: readonly string[];
  readonly files: readonly [
    name: string,
    signature: string,
    reason: number,
    waiting?: RefusedEventFile["waiting"],
  ][];
}

function packRefusals(refused: readonly RefusedEventFile[]): StoredRefusals {
  const reasons = new Map<string, number>();
  const files = refused.map(({ name, signature, why, waiting }): StoredRefusals["files"][number] => {
    const reason = reasons.get(why) ?? reasons.size;
    reasons.set(why, reason);
    return waiting ? [name, signature, reason, waiting] : [name, signature, reason];
  });
  return { reasons: [...reasons.keys()], files: files as unknown as StoredRefusals["files"] };
}

function unpackRefusals({ reasons, files }: StoredRefusals): RefusedEventFile[] {
  return files.map(([name, signature, reason, waiting = null]) => ({
    name,
    signature,
    why: reasons[reason] ?? "",
    waiting,
  }));
}

/** Without a goal there is no place to remember it: the file is read again next time. */
export async function rememberRefused(place: Place, refused: readonly RefusedEventFile[]): Promise<void> {
  if (refused.length === 0) return;
  const first = await firstGoal(place);
  if (!first) return;
  const now = new Set(refused.map(({ name }) => name));
  const before = (await readRefused(place)).filter(({ name }) => !now.has(name));
  const payload = JSON.stringify(packRefusals([...before, ...refused].slice(-MAX_REFUSED)));
  const { store, namespace } = place;
  const at = { namespace, stream: first.stream, generation: first.head.generation, seq: SEQ };
  await store.put({ of: "snapshot", ...at, fold: REFUSED_FOLD, payload, codec: null });
}

async function readRefused(place: Place): Promise<RefusedEventFile[]> {
  const first = await firstGoal(place);
  if (!first) return [];
  const { store, namespace } = place;
  const asked = { namespace, stream: first.stream, fold: REFUSED_FOLD, upTo: SEQ };
  const blob = await store.get({ of: "snapshot", ...asked });
  if (!blob) return [];
  try {
    return unpackRefusals(JSON.parse(String(blob.payload)) as StoredRefusals);
  } catch {
    // A damaged cache counts as empty.
    return [];
  }
}

/** The first by name: the order of lists changes with every write. */
async function firstGoal({ store, namespace }: Place): Promise<StreamRow | undefined> {
  let first: StreamRow | undefined;
  const asked = { of: "streams", namespace, kind: "goal", limit: 500 } as const;
  for await (const row of everyRow((from) => store.list<"streams">({ ...asked, ...from })))
    if (!first || row.stream < first.stream) first = row;
  return first;
}

function without(names: readonly string[], known: readonly string[]): string[] {
  const all = new Set(known);
  return names.filter((name) => !all.has(name));
}

function union(before: readonly string[], now: readonly string[]): string[] {
  return [...without(before, now), ...now].slice(-MAX_NAMES);
}
