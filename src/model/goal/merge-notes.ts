/**
 * What a merge did to work that somebody had done: another number, or no effect at all. The merge keeps it in the log, so
 * that whoever comes next hears of it too, and not only whoever happened to take the events in.
 *
 * It is of one copy alone: a copy is told what became of what it knew, by the name it knew, and which events came too late
 * for it. A copy that begins with the events is told nothing.
 */

/** Something that got another number because two copies had given the same one. */
export interface Renumbered {
  readonly was: string;
  readonly now: string;
  /** By this it can still be asked for. */
  readonly alias: string;
  readonly title: string;
}

/** An event that does not fit since a merge. */
export interface NotApplied {
  readonly uid: string;
  readonly type: string;
  readonly why: string;
  /** What it was about, by its name now; null when that is nothing that has one. */
  readonly item: string | null;
  readonly title: string | null;
  /** Who did it. */
  readonly by: string | null;
}

export type MergeNote =
  | ({ readonly kind: "renumbered" } & Renumbered)
  | {
      readonly kind: "not applied";
      /** What it was about, by its name now, and who did it. */
      readonly item: string | null;
      readonly title: string | null;
      readonly by: string | null;
      /** The types of the events, each once. */
      readonly what: readonly string[];
      readonly why: string;
      /** The events themselves: a later merge may bring what they lacked. */
      readonly uids?: readonly string[];
    };

/** Where in a log a merge is, and what the goal's revision was then. */
export interface Merge {
  readonly seq: number;
  readonly revision: number;
  readonly at?: number;
  /** What somebody has to be told of it. */
  readonly notes?: readonly MergeNote[];
}

interface Merged {
  readonly merges: readonly Merge[];
  readonly tasks: ReadonlyMap<string, { readonly status: string }>;
}

/** Notes of one merge; and of all merges, the latest of them. */
const NOTES_PER_MERGE = 40;
const NOTES_KEPT = 100;
const UIDS_PER_NOTE = 100;
/** Whoever has not looked for so long reads the goal anew anyway. */
export const MERGE_NEWS_MS = 72 * 3_600_000;

/** What one agent did to one thing is one note, however many events it took. */
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

/** Names a note; a later one of that name says it better. */
export function noteId(note: MergeNote): string {
  return note.kind === "renumbered" ? note.alias : `${note.item ?? ""}~${note.by ?? ""}`;
}

export function mergeNoteText(note: MergeNote): string {
  const title = note.title === null ? "" : ` "${note.title}"`;
  if (note.kind === "renumbered") return `${note.was}${title} is now ${note.now}`;
  const what = note.what.map((type) => type.replace(".", " ")).join(", ");
  const who = note.by === null ? "" : ` by ${note.by}`;
  return `not applied: ${what}${note.item === null ? "" : ` ${note.item}`}${title}${who}: ${note.why}`;
}

/** Somebody's finished work, or a verdict, that counts for nothing: the task may well be done with other work. */
const HANDED_IN: readonly string[] = ["task.submitted", "task.accepted", "task.rejected"];

/** Whether a note is news only until what it is about is finished. */
export function endsWithItsTask(note: MergeNote): boolean {
  return note.kind === "renumbered" || !note.what.some((type) => HANDED_IN.includes(type));
}

/** What is still news, the latest first: not of work that is finished by now. */
export function recentMergeNotes(state: Merged, now: number): MergeNote[] {
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

/** The events of all notes that name one of these: what is said of them has to be said anew, or not at all. */
export function notesNaming(merges: readonly Merge[], uids: ReadonlySet<string>): Set<string> {
  const notes = merges.flatMap(({ notes: each = [] }) => each);
  const named = notes.map((note) => (note.kind === "not applied" ? (note.uids ?? []) : []));
  return new Set(named.filter((each) => each.some((uid) => uids.has(uid))).flat());
}

/** Without the notes of these events. */
export function withoutNotes(merges: readonly Merge[], uids: readonly string[]): readonly Merge[] {
  const gone = new Set(uids);
  const isGone = (note: MergeNote): boolean =>
    note.kind === "not applied" && (note.uids ?? []).some((uid) => gone.has(uid));
  return merges.map((merge) =>
    merge.notes?.some(isGone) ? { ...merge, notes: merge.notes.filter((note) => !isGone(note)) } : merge,
  );
}

/** With the notes of the latest merges only. */
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
