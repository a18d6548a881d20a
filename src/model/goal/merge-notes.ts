/**
 * Notes on work that a merge renumbered or did not apply, for every later reader of the log. They belong to
 * one copy: they name items by the ids that this copy knew.
 */

import { quoteText } from "../names.ts";

/** An item that got another id, because two copies had given the same one. */
export interface Renumbered {
  readonly was: string;
  readonly now: string;
  /** A lasting name for it: `T-014~3f9ac1`. */
  readonly alias: string;
  readonly title: string;
}

/** An event that no longer fits after a merge. */
export interface NotApplied {
  readonly uid: string;
  readonly type: string;
  readonly why: string;
  /** The current id of its item; null: it has none. */
  readonly item: string | null;
  readonly title: string | null;
  readonly by: string | null;
}

export type MergeNote =
  | ({ readonly kind: "renumbered" } & Renumbered)
  | (Pick<NotApplied, "item" | "title" | "by" | "why"> & {
      readonly kind: "not applied";
      readonly what: readonly string[];
      /** The events: a later merge may bring what they lacked, which makes the note outdated. */
      readonly uids?: readonly string[];
    });

export interface Merge {
  readonly seq: number;
  readonly revision: number;
  readonly at?: number;
  readonly notes?: readonly MergeNote[];
}

const NOTES_PER_MERGE = 40;
const NOTES_KEPT = 100;
const UIDS_PER_NOTE = 100;
/** Older notes are no news: after so long an agent reads the goal from the start anyway. */
export const MERGE_NEWS_MS = 72 * 3_600_000;

export function firstLine(text: string, limit: number): string {
  const line = text.split("\n", 1)[0] ?? "";
  return line.length > limit ? `${line.slice(0, limit - 1)}…` : line;
}

/** One note for all rejected events of one author on one item. */
export function mergeNotes(
  renumbered: readonly Renumbered[],
  notApplied: readonly NotApplied[],
): readonly MergeNote[] {
  const groups = new Map<string, MergeNote & { kind: "not applied" }>();
  for (const { item, title, by, type, why, uid } of notApplied) {
    const key = JSON.stringify([item, by]);
    const { what = [], uids = [] } = groups.get(key) ?? {};
    const first = groups.get(key) ?? { kind: "not applied", item, title, by, what, why };
    const types = what.includes(type) ? what : [...what, type];
    groups.set(key, { ...first, what: types, uids: [...uids, uid].slice(0, UIDS_PER_NOTE) });
  }
  const moved = renumbered.map((each) => ({ kind: "renumbered", ...each }) as const);
  return [...groups.values(), ...moved].slice(0, NOTES_PER_MERGE);
}

/** Identifies a note; a later one with the same id replaces it. */
export function noteId(note: MergeNote): string {
  return note.kind === "renumbered" ? note.alias : `${note.item ?? ""}~${note.by ?? ""}`;
}

const PLAIN_NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,79}$/;

export function mergeNoteText(note: MergeNote): string {
  const title = note.title === null ? "" : ` ${quoteText(note.title)}`;
  if (note.kind === "renumbered") return `${note.was}${title} is now ${note.now}`;
  const what = note.what.map((type) => type.replace(".", " ")).join(", ");
  const who = note.by === null ? "" : ` by ${PLAIN_NAME.test(note.by) ? note.by : quoteText(note.by)}`;
  return `not applied: ${what}${note.item === null ? "" : ` ${note.item}`}${title}${who}: ${note.why}`;
}

/** Obsolete once its task is finished, unless it is on lost work: other work may have finished the task. */
export function endsWithItsTask(note: MergeNote): boolean {
  const isLostWork = (type: string): boolean => /^task\.(submitted|accepted|rejected)$/.test(type);
  return note.kind === "renumbered" || !note.what.some(isLostWork);
}

/** The notes that are still news, latest first. */
export function recentMergeNotes(
  state: { readonly merges: readonly Merge[]; readonly tasks: ReadonlyMap<string, { status: string }> },
  now: number,
): MergeNote[] {
  const news = new Map<string, MergeNote>();
  for (const { at = 0, notes = [] } of state.merges.toReversed()) {
    if (now - at > MERGE_NEWS_MS) continue;
    for (const note of notes) if (!news.has(noteId(note))) news.set(noteId(note), note);
  }
  return [...news.values()].filter((note) => {
    const id = note.kind === "renumbered" ? note.now : note.item;
    const status = state.tasks.get(id ?? "")?.status;
    return !(endsWithItsTask(note) && (status === "done" || status === "dropped"));
  });
}

const eventsOf = (note: MergeNote): readonly string[] =>
  note.kind === "not applied" ? (note.uids ?? []) : [];

/** The events of all notes that mention one of these: those notes are outdated. */
export function notesNaming(merges: readonly Merge[], uids: ReadonlySet<string>): Set<string> {
  const named = merges.flatMap(({ notes = [] }) => notes.map(eventsOf));
  return new Set(named.filter((each) => each.some((uid) => uids.has(uid))).flat());
}

export function withoutNotes(merges: readonly Merge[], uids: readonly string[]): readonly Merge[] {
  const gone = new Set(uids);
  const isGone = (note: MergeNote): boolean => eventsOf(note).some((uid) => gone.has(uid));
  return merges.map((merge) =>
    merge.notes?.some(isGone) ? { ...merge, notes: merge.notes.filter((note) => !isGone(note)) } : merge,
  );
}

export function boundedMerges(merges: readonly Merge[]): readonly Merge[] {
  let left = NOTES_KEPT;
  const bounded = [...merges];
  for (let index = bounded.length - 1; index >= 0; index--) {
    const { notes, at: _at, ...place } = bounded[index] as Merge;
    if (notes === undefined) continue;
    left -= notes.length;
    if (left < 0) bounded[index] = place;
  }
  return bounded;
}
