/**
 * Merges the events of other copies of a goal into this one.
 *
 *     read the log ──▶ entries of this copy ──┐
 *                      new entries ───────────┴──▶ fold in merge order ──▶ one commit: entries and effect
 *
 * The merge is decided on the log as it was read: if another writer was faster, the commit writes nothing and
 * the log is read again. A crash before the commit leaves nothing, after it everything: the next merge finds
 * all entries known.
 */

import { type Journal, type Log, leaseLost } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type {
  Actor,
  CommitSource,
  Entry,
  EventSource,
  GoalState,
  NotApplied,
  Renumbered,
  WaitingAct,
} from "../model/goal/index.ts";
import {
  aliasOf,
  EntryReader,
  entryUid,
  eventSchemas,
  foldEntries,
  goalDelta,
  goalKind,
  mergedDraft,
  mergeNotes,
  needsConfirmation,
  notesNaming,
  RETRACTED,
  SIGNED,
  signedText,
  tick,
  waitingActs,
} from "../model/goal/index.ts";
import { quoteValue } from "../model/names.ts";
import type { SignatureCheck } from "../signing/index.ts";
import { invalid } from "./act.ts";

export interface MergeReport {
  readonly events: number;
  readonly renumbered: readonly Renumbered[];
  /** Events that no longer fit: they stay in the log and change nothing. */
  readonly notApplied: readonly NotApplied[];
  /** Events that have no effect until a person confirms them: `holdfast review`. */
  readonly waiting: readonly WaitingAct[];
}

export interface MergeInput {
  readonly entries: readonly Entry[];
  /** The entries were written here, so none of them waits for a person. */
  readonly isOwn?: boolean;
  /** No entry waits. */
  readonly trusts?: boolean;
  /** Waiting events that `by` confirms. */
  readonly confirmed?: readonly string[];
  /** The commit that brought an entry, as far as git knows. */
  readonly sourceOf?: (uid: string) => CommitSource | null;
  /** The signer of a text, by the keys that are allowed on this machine. Without it, nothing is signed. */
  readonly signerOf?: ((text: string, signature: string) => Promise<string | null>) | undefined;
}

/** The signers of acts that count in a project. `root`: its folder, from which no list of signers is read. */
export function actSigners(root: string | null, warn: (error: unknown) => void): MergeInput["signerOf"] {
  let check: Promise<SignatureCheck> | null = null;
  const load = async (): Promise<SignatureCheck> => {
    const { SignatureCheck } = await import("../signing/index.ts");
    return new SignatureCheck(root, warn);
  };
  return async (text, signature) => {
    check ??= load();
    return (await check).signerOf({ purpose: "act", text, signature });
  };
}

/** Each signature costs a process. More of them in one merge are not checked: their acts wait. */
const MAX_CHECKED = 32;

type SignedEvents = readonly { readonly signer: string; readonly events: string[] }[];

/** The signatures among `entries` that are valid and name an event of `wanted`. The latest come first. */
async function verifiedSignatures(
  goal: string,
  entries: readonly Entry[],
  wanted: ReadonlySet<string>,
  signerOf: MergeInput["signerOf"],
): Promise<SignedEvents> {
  if (!signerOf || wanted.size === 0) return [];
  const found = entries.flatMap(({ type, data }) => {
    if (type !== SIGNED) return [];
    const { events, signature } = data as unknown as { events: string[]; signature: string };
    return events.some((uid) => wanted.has(uid)) ? [{ events, signature }] : [];
  });
  if (found.length === 0) return [];
  const known = new Set(entries.map(({ uid }) => uid));
  const checked = found.slice(-MAX_CHECKED).map(async ({ events, signature }) => {
    const signer = await signerOf(signedText(goal, events), signature);
    return signer === null ? [] : [{ signer, events: events.filter((uid) => known.has(uid)) }];
  });
  return (await Promise.all(checked)).flat();
}

export interface EntriesFrom {
  readonly seq: number;
  readonly reader: EntryReader;
}

/**
 * Every event of the goal up to a position, in the form that copies exchange. Each must match its checksum:
 * damage on this disk must not spread to other copies, not even behind an intact snapshot.
 */
export async function* entriesOf(
  journal: Journal,
  stream: string,
  upTo: number,
  from: EntriesFrom = { seq: 0, reader: new EntryReader() },
): AsyncGenerator<Entry> {
  for await (const written of journal.recorded(stream, from.seq, upTo))
    for (const [, stored] of written) yield* from.reader.next(stored);
}

export interface Retraction {
  /** The uid of the event, the start of one, or the id of an item: then the event that made it. */
  readonly event: string;
  readonly why: string;
}

const LEAST_UID = 8;

/**
 * A retraction as an entry. It is merged like one of another copy, because it changes the effect of events
 * that this log has already.
 */
export async function retractionOf(
  state: GoalState,
  entries: AsyncIterable<Entry>,
  { by, at, clone }: { readonly by: Actor; readonly at: number; readonly clone: string | null },
  { event, why }: Retraction,
): Promise<{ readonly retraction: Entry; readonly target: Entry }> {
  const item = state.names.get(event) ?? state.names.get(state.aliases.get(event) ?? "");
  const isMeant = (uid: string): boolean =>
    item === undefined ? event.length >= LEAST_UID && uid.startsWith(event) : uid === item;
  const found: Entry[] = [];
  let beginnings = 0;
  for await (const entry of entries) {
    if (isMeant(entry.uid)) found.push(entry);
    if (entry.type === "goal.created") beginnings += 1;
  }
  const [target] = found;
  if (!target || found.length > 1) throw eventNotFound(state.id, event, found.length);
  if (target.type === "goal.created" && beginnings === 1) throw onlyBeginning(state.id);
  const parsed = eventSchemas[RETRACTED].safeParse({
    ...{ by, event: target.uid, why },
    ...(clone !== null && { clone }),
  });
  if (!parsed.success) throw invalid("retract: why is missing or too long", "Say why, in one sentence.");
  const data = parsed.data as unknown as Entry["data"];
  const content = { ...tick(state.clock, at), type: RETRACTED, v: 1, at, refs: {}, data };
  return { retraction: { uid: entryUid(state.id, content), ...content }, target };
}

/** The waiting events with these uids, or the starts of them. */
export function waitingNamed(state: GoalState, events: readonly string[] | "all"): WaitingAct[] {
  const acts = waitingActs(state);
  if (events === "all") return acts;
  return events.map((event) => {
    const found = acts.filter(({ uid }) => event.length >= LEAST_UID && uid.startsWith(event));
    const [act] = found;
    if (act && found.length === 1) return act;
    const message = `goal ${state.id}: no event ${quoteValue(event)} waits to be confirmed`;
    const hint = `List them: holdfast review. Name one by ${LEAST_UID} characters of its uid or more.`;
    throw new HoldfastError("GOAL_ITEM_NOT_FOUND", message, { hint, data: { goal: state.id, event } });
  });
}

function eventNotFound(goal: string, event: string, found: number): HoldfastError {
  const what = found === 0 ? "there is no event" : `${found} events begin with`;
  const message = `goal ${goal}: ${what} ${quoteValue(event)}`;
  const hint = `List the events: holdfast events. Name one by ${LEAST_UID} characters of its uid or more.`;
  return new HoldfastError("GOAL_ITEM_NOT_FOUND", message, { hint, data: { goal, event } });
}

function onlyBeginning(goal: string): HoldfastError {
  const hint = "Change its statement instead, or leave the goal alone.";
  return invalid(`goal ${goal}: the event that created it cannot be retracted`, hint);
}

/** Null: all of them were here already. */
export async function mergeEntries(
  journal: Journal,
  log: Log<GoalState>,
  id: string,
  by: Actor,
  input: MergeInput,
): Promise<MergeReport | null> {
  const { entries, isOwn = false, trusts = false } = input;
  for (let attempt = 0; attempt < 100; attempt++) {
    await log.refresh();
    const fresh = entries.filter(({ uid }) => !log.state.known.has(uid));
    const wasHeld = new Set(log.state.waiting.map(({ uid }) => uid));
    const confirmed = (input.confirmed ?? []).filter((uid) => wasHeld.has(uid));
    if (fresh.length + confirmed.length === 0 && !(input.signerOf && wasHeld.size > 0)) return null;
    const { seq } = log.head;
    const all: Entry[] = [];
    for await (const entry of entriesOf(journal, log.stream, seq)) all.push(entry);
    // The person who clones a goal accepts its history: only later events can wait.
    const waits = all.length === 0 || isOwn || trusts ? [] : fresh.filter(needsConfirmation);
    const held = new Set([...wasHeld, ...waits.map(({ uid }) => uid)]);
    const wanted = new Set([...wasHeld, ...(isOwn ? [] : fresh.flatMap(namedBy))]);
    const signed = await verifiedSignatures(id, [...all, ...fresh], wanted, input.signerOf);
    if (fresh.length + confirmed.length + signed.length === 0) return null;
    for (const uid of [...confirmed, ...signed.flatMap(({ events }) => events)]) held.delete(uid);
    const { state, renumbered, notApplied } = foldEntries(goalKind, [...all, ...fresh], held);
    if (state.id !== id) throw withoutBeginning(id, state.id);
    const before = foldEntries(goalKind, all, wasHeld);
    const report: MergeReport = {
      events: fresh.length,
      renumbered: newOnes(renumbered, before.renumbered, ({ alias, now }) => `${alias} ${now}`),
      notApplied: newOnes(notApplied, before.notApplied, reasonKey),
      waiting: newOnes(state.waiting, before.state.waiting, ({ uid }) => uid),
    };
    // An event that did not fit may fit now, or not fit for another reason: its old note is outdated.
    const changed = new Set(newOnes(before.notApplied, notApplied, reasonKey).map(({ uid }) => uid));
    const outdated = notesNaming(log.state.merges, changed);
    const reported = new Set(report.notApplied.map(({ uid }) => uid));
    const toNote = notApplied.filter(({ uid }) => reported.has(uid) || outdated.has(uid));
    // For a copy that begins with these events, nothing has changed.
    const renamed = renumberedHere(log.state, all, before.state, report.renumbered);
    const notes = all.length === 0 ? [] : mergeNotes(renamed, toNote);
    const outcome = await log.commit((now, head) => {
      if (head.seq !== seq) return { events: [], result: false };
      const gone = outdated.size > 0 && { outdated: [...outdated] };
      const delta = goalDelta(now, state);
      const sources = sourcesOf(fresh, input.sourceOf);
      const data = {
        ...{ by, entries: fresh, delta, ...(notes.length > 0 && { notes }), ...gone },
        ...(isOwn && { isOwn: true as const }),
        ...(confirmed.length > 0 && { confirmed }),
        ...(sources.length > 0 && { sources }),
        ...(signed.length > 0 && { signed }),
      };
      return { events: [mergedDraft(data)], result: true };
    });
    if (outcome.outcome === "fenced") throw leaseLost(outcome.lease, outcome.now);
    if (outcome.outcome === "ok" && outcome.result) return report;
  }
  throw changedAtEveryAttempt(id);
}

function changedAtEveryAttempt(goal: string): HoldfastError {
  const message = `goal ${goal} changed at every attempt to merge the events of other copies`;
  const hint = "Many writers change this goal at once. Sync again when it is quieter.";
  return new HoldfastError("STREAM_BUSY", message, { hint, data: { goal } });
}

/** The event itself, and those that it signs. */
function namedBy({ uid, type, data }: Entry): string[] {
  return type === SIGNED ? (data["events"] as string[]) : [uid];
}

type MergedSource = EventSource & { readonly events: number[] };

function sourcesOf(
  entries: readonly Entry[],
  sourceOf: MergeInput["sourceOf"] = () => null,
): readonly MergedSource[] {
  const sources = new Map<string, MergedSource>();
  for (const [index, { uid, data }] of entries.entries()) {
    const { commit = null, author = null } = sourceOf(uid) ?? {};
    const clone = (data["clone"] as string | undefined) ?? null;
    if (commit === null && clone === null) continue;
    const key = `${commit} ${clone}`;
    const known = sources.get(key) ?? { commit, author, clone, events: [] };
    known.events.push(index);
    sources.set(key, known);
  }
  return [...sources.values()];
}

/**
 * The items that this copy knew by another id, with that id: the one of its first note, or else the one in
 * its state. An item that is new to this copy is not renumbered here.
 */
function renumberedHere(
  { merges }: GoalState,
  all: readonly Entry[],
  before: GoalState,
  renumbered: readonly Renumbered[],
): Renumbered[] {
  const known = new Set(all.map(({ uid, data }) => aliasOf(String(data["id"]), uid)));
  const noted = new Map<string, string>();
  for (const note of merges.flatMap(({ notes = [] }) => notes))
    if (note.kind === "renumbered" && !noted.has(note.alias)) noted.set(note.alias, note.was);
  return renumbered
    .filter(({ alias }) => known.has(alias))
    .map((each) => ({ ...each, was: noted.get(each.alias) ?? before.aliases.get(each.alias) ?? each.was }));
}

const reasonKey = ({ uid, why }: NotApplied): string => `${uid} ${why}`;

function newOnes<Row>(now: readonly Row[], before: readonly Row[], key: (row: Row) => string): Row[] {
  const old = new Set(before.map(key));
  return now.filter((row) => !old.has(key(row)));
}

function withoutBeginning(id: string, found: string): HoldfastError {
  const what = found === "" ? "its first event is missing" : "they are of another goal";
  const message = `goal ${id} cannot be built from these events: ${what}`;
  const hint = "Fetch the missing files of .planning/events/ from git. Nothing of this goal was merged.";
  return new HoldfastError("EVENT_CORRUPT", message, { hint, data: { goal: id, found } });
}
