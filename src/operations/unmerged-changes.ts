/**
 * Changes in `.planning/` that the store does not have yet: event files that git brought, and edits that
 * could not be parsed. Every command asks before it answers about goals. A store that the caller named is not
 * tied to the folder: opening a goal in it merges that goal's event files only.
 *
 * `status` and hooks load this file, so everything heavy is imported where it is used.
 */

import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import {
  eventFileNames,
  moreRefused,
  REFUSED_NAMED,
  refusedEventFiles,
  unseenEventFiles,
} from "../goal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { Holdfast } from "../open.ts";
import type { Store } from "../store.ts";
import { openOptionsOf, PLANNING, type StorePlace } from "./store-place.ts";

const folderOf = ({ root }: StorePlace): string => join(root, PLANNING);

export interface UnmergedEvents {
  /** Files that were not read yet. True also for a folder that cannot be read: a merge reports why. */
  readonly isPending: boolean;
  /** Files that were read and refused before, one line each. */
  readonly refused: readonly string[];
}

export async function unmergedEvents(place: StorePlace, store: Store): Promise<UnmergedEvents> {
  const { namespace } = place;
  const folder = folderOf(place);
  const now = Date.now();
  try {
    const listed = eventFileNames(folder);
    const before = await refusedEventFiles({ store, namespace }, folder, listed, now);
    const unseen = await unseenEventFiles({ store, namespace }, folder, { listed, now, refused: before });
    const refused = before
      .slice(0, REFUSED_NAMED)
      .map(({ name, why }) => `${PLANNING}/events/${name} was not merged: ${why}`);
    if (before.length > REFUSED_NAMED) refused.push(moreRefused(before.length));
    return { isPending: unseen.length > 0, refused };
  } catch (error) {
    if (isHoldfastError(error, "STORE_IO")) return { isPending: true, refused: [] };
    throw error;
  }
}

export interface EventMerge {
  readonly problems: readonly string[];
  /** Names of all event files at that time; null if the folder could not be listed. */
  readonly names: readonly string[] | null;
  /** Goals with event files that are merged at a later time. */
  readonly waiting: ReadonlyMap<string, number>;
  /** The error that keeps a goal from being merged, if any. Writing to that goal is refused with it. */
  failureOf(goal: string): unknown;
}

const NO_EVENTS: EventMerge = { problems: [], names: null, waiting: new Map(), failureOf: () => null };

/** Merges new event files. Warns of what cannot be merged; the store then answers as it is. */
export async function mergeNewEvents(place: StorePlace, { journal }: Holdfast): Promise<EventMerge> {
  if (!existsEvenBroken(join(folderOf(place), "events"))) return NO_EVENTS;
  const problems: string[] = [];
  const report = (error: unknown): void => {
    journal.warn(notMerged(error));
    problems.push(oneLineError(error));
  };
  try {
    const { mergeAllEvents } = await import("../projections/index.ts");
    const { names, failed, waiting } = await mergeAllEvents(journal, folderOf(place), report);
    return { problems, names, waiting, failureOf: (goal) => failed.get(goal) ?? null };
  } catch (error) {
    report(error);
    // A read-only store, or an unreadable folder, still has everything that was merged before.
    const isHarmless = isHoldfastError(error, "STORE_READONLY") || isHoldfastError(error, "STORE_IO");
    return { ...NO_EVENTS, problems, failureOf: () => (isHarmless ? null : error) };
  }
}

/** True also for a link to itself: the merge reports what is wrong with it. */
function existsEvenBroken(path: string): boolean {
  try {
    lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

/** The same for a caller that has the store open read-only. */
export async function openAndMergeEvents(
  place: StorePlace,
  warn?: (error: unknown) => void,
): Promise<readonly string[]> {
  const { open } = await import("../open.ts");
  const holdfast = await open(place.address ?? {}, { ...openOptionsOf(place), ...(warn && { warn }) });
  try {
    return (await mergeNewEvents(place, holdfast)).problems;
  } finally {
    await holdfast.close();
  }
}

export function oneLineError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function notMerged(cause: unknown): HoldfastError {
  if (isHoldfastError(cause, "EVENT_FILE_REFUSED")) return cause;
  const hint = isHoldfastError(cause) ? `${cause.hint} ` : "";
  return new HoldfastError(
    cause instanceof HoldfastError ? cause.code : "STORE_IO",
    `.planning/events/ is not merged into the store: ${oneLineError(cause)}`,
    { hint: `${hint}Fix that and run the command again. Until then the store answers without it.`, cause },
  );
}

const FOLDERS = ["", "decisions", "blockers", "sessions"];
/** Only names that Holdfast made: no other file name gets into an answer. */
const UNPARSED = /^[\w.-]{1,200}\.unread-[0-9a-f]{12}$/;
const NAMED = 5;

/** Edits that could not be parsed, kept as `STATE.md.unread-…`. Every status names them until removed. */
export function unparsedEdits({ root }: Pick<StorePlace, "root">): string[] {
  const files = FOLDERS.flatMap((folder) =>
    namesIn(join(root, PLANNING, folder))
      .filter((name) => UNPARSED.test(name))
      .sort()
      .map((name) => [PLANNING, folder, name].filter(Boolean).join("/")),
  );
  const more = files.length - NAMED;
  return [
    ...files.slice(0, NAMED).map((file) => `${file}: read it, redo what is missing, then remove the file`),
    ...(more > 0 ? [`${more} more *.unread-… in ${PLANNING}/`] : []),
  ];
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // Missing or unreadable: the next write into the folder reports it.
    return [];
  }
}
