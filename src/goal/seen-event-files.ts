/**
 * Which files of `events/` a store has taken in. Their names are hashes of what they hold, so a name that was taken in
 * never has to be read again.
 *
 * It is kept in the store itself, beside the goal that the events are of, as a cache: a store that is put back to an older
 * copy, a new clone, or a goal that was removed knows of no more files than of events. It is noted after the events are
 * durable; a crash in between, or a file that could not be believed, only means that the file is read once more.
 *
 *     own      of this goal, and everything in it is in the log
 *     others   looked at while this goal was opened, and of another goal: that one has yet to take it in
 *     saved    the files that together hold every event of this goal up to `seq`, when a process last saved them.
 *              A later process need not read them to know which events no file holds
 *
 * Light: `status` and hooks ask before they load anything that could read such a file.
 */

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { everyRow } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { EntryReader } from "../model/goal/index.ts";
import { quoteValue, streamName } from "../model/names.ts";
import type { Store } from "../store.ts";

const EVENTS = "events";
const EVENT_FILE = /^[0-9a-f]{32}\.jsonl$/;
/** Kept under a fixed place, so that the next one replaces it. */
const FOLD = "event-files@1";
const SEQ = 0;
/** Names beyond this are forgotten, the oldest first, and read again if they are still there. */
const MOST_NAMES = 2_000;
const PAGE = 500;

interface Place {
  readonly store: Store;
  readonly namespace: string;
}

export interface SavedEvents {
  readonly files: readonly string[];
  readonly seq: number;
  /** The goal's logical clock and revision at `seq`, from which a walk over later events continues. */
  readonly clock: EntryReader["clock"];
  readonly revision: number;
}

export interface SeenFiles {
  readonly own: readonly string[];
  readonly others: readonly string[];
  readonly saved?: SavedEvents;
}

const NONE: SeenFiles = { own: [], others: [] };

/** The files of events below a folder such as `.planning`, by name. */
export function eventFileNames(folder: string): string[] {
  try {
    return readdirSync(join(folder, EVENTS))
      .filter((name) => EVENT_FILE.test(name))
      .sort();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return [];
    throw eventsUnreadable(join(folder, EVENTS), error);
  }
}

/** The folder itself keeps us out: what is in it stays unknown, and the store has what it has. */
export function eventsUnreadable(path: string, cause: unknown): HoldfastError {
  const { code = String(cause) } = cause as NodeJS.ErrnoException;
  return new HoldfastError("STORE_IO", `${quoteValue(path)} cannot be read (${code})`, {
    hint: "Check its owner and permissions. What is in the store stays as it is.",
    cause,
    data: { path },
  });
}

/** Those that no goal of the store has taken in; for one goal, those that it has not looked at either. */
export async function unseenEventFiles(
  place: Place,
  folder: string,
  goal?: string,
  listed: readonly string[] = eventFileNames(folder),
): Promise<string[]> {
  let names = [...listed];
  if (names.length > 0 && goal !== undefined) {
    const { own, others } = await seenBy(place, goal);
    names = without(names, [...own, ...others]);
  }
  if (names.length === 0) return [];
  const { store, namespace } = place;
  const asked = { of: "streams", namespace, kind: "goal", limit: PAGE } as const;
  for await (const { stream } of everyRow((from) => store.list<"streams">({ ...asked, ...from }))) {
    if (names.length === 0) break;
    names = without(names, (await seenIn(place, stream)).own);
  }
  return names;
}

export function seenBy(place: Place, goal: string): Promise<SeenFiles> {
  return seenIn(place, streamName("goal", goal));
}

/** Only after everything in `own` is in the log. */
export async function markEventFilesSeen(place: Place, goal: string, seen: SeenFiles): Promise<void> {
  const { store, namespace } = place;
  const stream = streamName("goal", goal);
  const before = await seenIn(place, stream);
  const { head, state } = (
    await store.read({ namespace, stream, after: Number.MAX_SAFE_INTEGER - 1, limit: 1 })
  ).stream;
  if (state !== "live") return;
  const own = together(before.own, seen.own);
  const others = without(together(before.others, seen.others), own);
  const payload = JSON.stringify({ own, others, saved: seen.saved ?? before.saved });
  const { generation } = head;
  await store.put({
    of: "snapshot",
    namespace,
    stream,
    generation,
    seq: SEQ,
    fold: FOLD,
    payload,
    codec: null,
  });
}

async function seenIn({ store, namespace }: Place, stream: string): Promise<SeenFiles> {
  const blob = await store.get({ of: "snapshot", namespace, stream, fold: FOLD, upTo: SEQ });
  return blob ? parsed(String(blob.payload)) : NONE;
}

/** What cannot be read counts as none: the files are looked at once more, and then it is written anew. */
function parsed(text: string): SeenFiles {
  try {
    const { own, others, saved } = JSON.parse(text) as Partial<SeenFiles>;
    if (!Array.isArray(own) || !Array.isArray(others)) return NONE;
    return { own, others, ...(Array.isArray(saved?.files) && { saved }) };
  } catch {
    return NONE;
  }
}

function without(names: readonly string[], known: readonly string[]): string[] {
  const all = new Set(known);
  return names.filter((name) => !all.has(name));
}

function together(before: readonly string[], now: readonly string[]): string[] {
  return [...without(before, now), ...now].slice(-MOST_NAMES);
}
