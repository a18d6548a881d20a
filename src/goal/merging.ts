/**
 * What other copies of a goal wrote, taken into this one.
 *
 *     walk the log ──▶ entries of this copy ──┐
 *                    entries that are new ────┴──▶ fold in the one order ──▶ one commit: the new entries and what they change
 *
 * Decided on the log as it was walked: if anybody wrote meanwhile, the commit writes nothing and the walk begins again.
 * A crash before the commit leaves nothing, after it everything; whoever comes next finds the entries known.
 */

import { type Journal, type Log, leaseLost } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import {
  type Actor,
  aliasOf,
  type Entry,
  EntryReader,
  foldEntries,
  type GoalState,
  goalDelta,
  goalKind,
  MERGED,
  mergeNotes,
  type NotApplied,
  notesNaming,
  type Renumbered,
} from "../model/goal/index.ts";

/** What taking in other copies' events came to. The goal keeps what somebody has to be told of it. */
export interface MergeReport {
  /** How many events were new. */
  readonly events: number;
  readonly renumbered: readonly Renumbered[];
  /** Events that do not fit since then: what they say is in the log and changes nothing. */
  readonly notApplied: readonly NotApplied[];
}

const ATTEMPTS = 100;

/**
 * Every event of the goal up to a position, whichever copy wrote it, as other copies take it in. Each has to match its
 * checksum: what was changed on the disk is not carried to others, not even from before a snapshot that is whole.
 */
export async function* entriesOf(
  journal: Journal,
  stream: string,
  upTo: number,
  from: { readonly seq: number; readonly lineage: EntryReader } = { seq: 0, lineage: new EntryReader() },
): AsyncGenerator<Entry> {
  for await (const written of journal.recorded(stream, from.seq, upTo))
    for (const [, stored] of written) yield* from.lineage.next(stored);
}

/** Null: all of them are here already. */
export async function mergeEntries(
  journal: Journal,
  log: Log<GoalState>,
  id: string,
  by: Actor,
  entries: readonly Entry[],
): Promise<MergeReport | null> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    await log.refresh();
    const fresh = entries.filter(({ uid }) => !log.state.known.has(uid));
    if (fresh.length === 0) return null;
    const { seq } = log.head;
    const all: Entry[] = [];
    for await (const entry of entriesOf(journal, log.stream, seq)) all.push(entry);
    const { state, renumbered, notApplied } = foldEntries(goalKind, [...all, ...fresh]);
    if (state.id !== id) throw withoutBeginning(id, state.id);
    const before = foldEntries(goalKind, all);
    const report: MergeReport = {
      events: fresh.length,
      renumbered: newOnes(renumbered, before.renumbered, ({ alias, now }) => `${alias} ${now}`),
      notApplied: newOnes(notApplied, before.notApplied, asTold),
    };
    // What lacked something may have it now, or not fit for another reason.
    const over = new Set(newOnes(before.notApplied, notApplied, asTold).map(({ uid }) => uid));
    const outdated = notesNaming(log.state.merges, over);
    const told = new Set(report.notApplied.map(({ uid }) => uid));
    const toTell = notApplied.filter(({ uid }) => told.has(uid) || outdated.has(uid));
    // A copy that begins with these events knew nothing that could have changed.
    const moved = movedHere(log.state, all, before.state, report.renumbered);
    const notes = all.length === 0 ? [] : mergeNotes(moved, toTell);
    const outcome = await log.commit((now, head) => {
      if (head.seq !== seq) return { events: [], result: false };
      const data = { by, entries: fresh, delta: goalDelta(now, state) };
      const said = {
        ...(notes.length > 0 && { notes }),
        ...(outdated.size > 0 && { outdated: [...outdated] }),
      };
      return { events: [{ type: MERGED, data: { ...data, ...said } }], result: true };
    });
    if (outcome.outcome === "fenced") throw leaseLost(outcome.lease, outcome.now);
    if (outcome.outcome === "ok" && outcome.result) return report;
  }
  throw new HoldfastError(
    "STREAM_BUSY",
    `goal ${id} changed at every attempt to take in other copies' events`,
    {
      hint: "Many writers change this goal at once. Sync again when it is quieter.",
      data: { goal: id },
    },
  );
}

/**
 * What this copy knew by another name: by the one that it was told at first, or else had here. For a copy that meets
 * something only now, or by its number of now, nothing has moved.
 */
function movedHere(
  { merges }: GoalState,
  all: readonly Entry[],
  before: GoalState,
  renumbered: readonly Renumbered[],
): Renumbered[] {
  const known = new Set(all.map(({ uid, data }) => aliasOf(String(data["id"]), uid)));
  const told = new Map<string, string>();
  for (const note of merges.flatMap(({ notes = [] }) => notes))
    if (note.kind === "renumbered" && !told.has(note.alias)) told.set(note.alias, note.was);
  return renumbered
    .filter(({ alias }) => known.has(alias))
    .map((each) => ({ ...each, was: told.get(each.alias) ?? before.aliases.get(each.alias) ?? each.was }));
}

const asTold = ({ uid, why }: NotApplied): string => `${uid} ${why}`;

function newOnes<Row>(now: readonly Row[], before: readonly Row[], key: (row: Row) => string): Row[] {
  const old = new Set(before.map(key));
  return now.filter((row) => !old.has(key(row)));
}

function withoutBeginning(id: string, found: string): HoldfastError {
  const what = found === "" ? "they do not hold its beginning" : `they are of goal ${found}`;
  return new HoldfastError("EVENT_CORRUPT", `goal ${id} cannot be made of these events: ${what}`, {
    hint: "Fetch the missing files of .planning/events/ from git. Nothing of this goal was taken in.",
    data: { goal: id },
  });
}
