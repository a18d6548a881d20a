/**
 * Folds the entries of all copies of a goal in merge order (see `entries.ts`).
 *
 *     entries of every copy ──sort──▶ merge order ──rename, apply──▶ one state
 *                                                      └──rejected by the tables──▶ not applied, and reported
 *
 * The state is a pure function of the set of entries, in whatever order they arrived. A log gets it as one
 * event, `goal.merged`, with the new entries and the difference to the state before: a crash leaves all or
 * nothing.
 *
 * Ids: the first item in merge order keeps its id. A later one that got the same id in another copy gets the
 * next free number, and the alias `T-014~3f9ac1`, after its uid. The next write of any copy makes the new id
 * final (`item.renumbered`), before the number could be given again; until then the next merge may change it.
 * Phases and plans are numbered in merge order.
 *
 * An entry may be rejected although its writer did nothing wrong: two copies claimed T-003 at once. An entry
 * that a person retracted is not applied in any copy; it stays in every log. An entry that waits for a person
 * is not applied in this copy (see `origin.ts`).
 */

import { HoldfastError, withoutStack } from "../errors.ts";
import { type Json, sameJson, tryCopyJson } from "../json.ts";
import { applyEvent, type Event, type StreamKind } from "../stream/index.ts";
import type { Entry, MapDelta, Series } from "./entries.ts";
import {
  applyMapDelta,
  compareEntries,
  idNumber,
  madeName,
  mapDelta,
  mapNames,
  nextId,
  RENUMBERED,
  RETRACTED,
  seriesOf,
} from "./entries.ts";
import { emptyGoal, encodeGoal, GOAL_MAPS, type GoalState, phaseOf } from "./goal-state.ts";
import { firstLine, type NotApplied, type Renumbered } from "./merge-notes.ts";
import { textOfAct, type WaitingAct } from "./origin.ts";
import type { Actor } from "./roles.ts";

export interface Folded {
  readonly state: GoalState;
  readonly renumbered: Renumbered[];
  readonly notApplied: NotApplied[];
}

/** More than this many entries that break the fold are no accident, and every one costs a fold. */
const MAX_LEFT_OUT = 16;

const NONE: ReadonlySet<string> = new Set();

/**
 * Entries with the same uid are one entry. Those in `held` wait for a person.
 *
 * No entry can stop the others. A handler may fail on one in an unexpected way, or leave a state that no log
 * can hold. The first such entry in merge order is then left out and reported, the same one in all copies.
 */
export function foldEntries(
  kind: StreamKind<GoalState>,
  entries: Iterable<Entry>,
  held: ReadonlySet<string> = NONE,
): Folded {
  const once = new Map<string, Entry>();
  for (const entry of entries) if (!once.has(entry.uid)) once.set(entry.uid, entry);
  const order = [...once.values()].sort(compareEntries);
  const leftOut = new Set<string>();
  for (;;) {
    const found = foldOnce(kind, order, leftOut, held);
    const broken = "state" in found ? firstUnsound(kind, order, leftOut, held, found) : found.broken;
    if (broken === null) return found as Folded;
    if (leftOut.size === MAX_LEFT_OUT) throw refused("too many events of it break the goal");
    leftOut.add(broken);
  }
}

function foldOnce(
  kind: StreamKind<GoalState>,
  order: readonly Entry[],
  leftOut: ReadonlySet<string>,
  held: ReadonlySet<string>,
): Folded | { readonly broken: string } {
  const waits = waitingIn(order, held);
  const retracted = retractedIn(order, waits);
  const counted = order.filter(({ uid }) => !retracted.has(uid) && !leftOut.has(uid));
  const ids = new IdAssignment(counted, waits);
  const state = emptyGoal();
  const notApplied: NotApplied[] = [];
  const waiting: WaitingAct[] = [];
  for (const entry of order) {
    const { uid, type } = entry;
    const revision = state.revision + 1;
    try {
      if (leftOut.has(uid)) throw refused("it breaks the goal");
      if (waits.has(uid)) {
        ids.skip(state, entry);
        waiting.push(ids.waiting(entry, retracted.has(uid)));
      } else if (!retracted.has(uid)) {
        const event = ids.rename(state, entry);
        applyEvent(kind, state, event, revision);
        ids.record(state, entry, event);
      }
    } catch (error) {
      if (!(error instanceof HoldfastError)) return { broken: uid };
      ids.skip(state, entry);
      notApplied.push({ uid, type, why: error.message, ...ids.describe(state, entry) });
    }
    state.revision = revision;
    state.known.add(uid);
    state.clock = { t: entry.t, c: entry.c };
  }
  state.unsettled = ids.unsettled;
  state.waiting = waiting;
  return { state, renumbered: ids.renumbered, notApplied };
}

/** The last entry of the shortest prefix whose state is no plain JSON; null if the whole state is sound. */
function firstUnsound(
  kind: StreamKind<GoalState>,
  order: readonly Entry[],
  leftOut: ReadonlySet<string>,
  held: ReadonlySet<string>,
  { state }: Folded,
): string | null {
  const isSound = (each: GoalState): boolean => tryCopyJson(encodeGoal(each), 0) !== undefined;
  if (isSound(state)) return null;
  let [sound, unsound] = [0, order.length];
  while (unsound - sound > 1) {
    const middle = Math.floor((sound + unsound) / 2);
    const folded = foldOnce(kind, order.slice(0, middle), leftOut, held);
    if ("state" in folded && isSound(folded.state)) sound = middle;
    else unsound = middle;
  }
  return order[unsound - 1]?.uid ?? null;
}

/** A goal keeps at least one beginning, so they cannot all wait. */
function waitingIn(order: readonly Entry[], held: ReadonlySet<string>): ReadonlySet<string> {
  const beginnings = order.filter(({ type }) => type === "goal.created").map(({ uid }) => uid);
  if (!beginnings.every((uid) => held.has(uid))) return held;
  return new Set([...held].filter((uid) => !beginnings.includes(uid)));
}

/**
 * The uids that a person has retracted. A retraction counts for entries before it, and may itself be
 * retracted by a later one. A goal keeps at least one beginning.
 */
function retractedIn(order: readonly Entry[], waits: ReadonlySet<string>): ReadonlySet<string> {
  const place = new Map(order.map(({ uid }, index) => [uid, index]));
  const retracted = new Set<string>();
  for (const [index, { uid, type, data }] of [...order.entries()].reverse()) {
    const target = String(data["event"]);
    if (type !== RETRACTED || retracted.has(uid) || waits.has(uid)) continue;
    if ((place.get(target) ?? index) < index) retracted.add(target);
  }
  const beginnings = order
    .filter(({ uid, type }) => type === "goal.created" && !waits.has(uid))
    .map(({ uid }) => uid);
  if (beginnings.every((uid) => retracted.has(uid))) for (const uid of beginnings) retracted.delete(uid);
  return retracted;
}

export function aliasOf(was: string, uid: string): string {
  return `${was}~${uid.slice(0, 6)}`;
}

function titleOf(data: Entry["data"]): string | null {
  const title = data["title"] ?? data["decision"] ?? data["description"] ?? data["text"];
  return typeof title === "string" ? short(title) : null;
}

const short = (text: string): string => firstLine(text, 80);

/** `T` for `T-014`, `P` for `P2`, `P.` for `P2.1`. */
const kindOfName = (name: string): string => name.replace(/[-\d]/g, "");

/** The ids of all items, assigned before any entry is applied. */
class IdAssignment {
  readonly renumbered: Renumbered[] = [];
  readonly unsettled: readonly { readonly uid: string; readonly name: string }[];
  private readonly numbers = new Map<string, string>();
  private readonly names = new Map<string, string>();
  private readonly waits: ReadonlySet<string>;

  constructor(order: readonly Entry[], waits: ReadonlySet<string>) {
    this.waits = waits;
    const taken = new Set<string>();
    const waiting = new Map<string, Series>();
    const take = (uid: string, name: string): boolean => {
      if (taken.has(name)) return false;
      taken.add(name);
      this.numbers.set(uid, name);
      return true;
    };
    for (const { uid, type, data } of order) {
      const series = seriesOf(type);
      const item = String(data["item"]);
      if (series && !take(uid, String(data["id"]))) waiting.set(uid, series);
      else if (type === "task.aliased") taken.add(String(data["alias"]));
      else if (type === RENUMBERED && waiting.get(item) === String(data["name"])[0])
        if (take(item, String(data["name"]))) waiting.delete(item);
    }
    const highest = { T: 0, D: 0, B: 0, Q: 0, A: 0 };
    for (const name of taken) {
      const series = name.slice(0, 1) as Series;
      highest[series] = Math.max(highest[series], idNumber(name));
    }
    this.unsettled = [...waiting].map(([uid, series]) => {
      const name = nextId(series, highest[series], (id) => taken.has(id));
      taken.add(name);
      highest[series] = Math.max(highest[series], idNumber(name));
      this.numbers.set(uid, name);
      return { uid, name };
    });
  }

  /** The event with the ids that its writer would have used, had it seen all entries before it. */
  rename(state: GoalState, { uid, type, v, at, refs, data }: Entry): Event {
    if (type === "goal.created" && state.id !== "")
      throw refused(`goal ${state.id} was created in two copies; the first one counts`);
    // An honest writer has seen the goal that it writes to, so its events sort after the beginning.
    if (type !== "goal.created" && state.id === "") throw refused("it is dated before the goal's beginning");
    const renamed = mapNames(data, (name) => {
      const made = refs[name] ?? "";
      const now = this.names.get(made);
      if (this.waits.has(made)) throw refused(`it names ${name}, which waits for a person to confirm it`);
      if (now === undefined) throw refused(`it names ${name}, whose event is missing`);
      if (kindOfName(now) !== kindOfName(name)) throw refused(`it names ${name}, which is something else`);
      return now;
    });
    if (seriesOf(type)) renamed["id"] = this.numbers.get(uid);
    if (type === "phase.added") renamed["number"] = state.phases.length + 1;
    if (type === "plan.added")
      renamed["number"] = phaseOf(state, renamed["phase"] as number).plans.length + 1;
    return { type, v, at, data: { ...renamed, uid } };
  }

  record(state: GoalState, { uid, type, data }: Entry, event: Event): void {
    const now = madeName(type, event.data as Record<string, unknown>);
    if (now === null) return;
    this.names.set(uid, now);
    const was = String(data["id"]);
    if (!seriesOf(type) || now === was) return;
    const alias = aliasOf(was, uid);
    state.aliases.set(alias, now);
    this.renumbered.push({ was, now, alias, title: titleOf(data) ?? "" });
  }

  private itemOf({ refs, data }: Entry): string | null {
    const names = ["task", "blocker", "question", "assumption", "supersedes"];
    const name = String(
      names.map((each) => data[each]).find((each) => each !== undefined && each !== null) ?? "",
    );
    return this.names.get(refs[name] ?? "") ?? null;
  }

  waiting(entry: Entry, isRetracted: boolean): WaitingAct {
    const { uid, type, at, data } = entry;
    const by = data["by"] as unknown as Actor;
    return { uid, type, by, at, item: this.itemOf(entry), text: textOfAct(entry), isRetracted };
  }

  describe(state: GoalState, entry: Entry): Pick<NotApplied, "item" | "title" | "by"> {
    const { data } = entry;
    const item = this.itemOf(entry);
    const { name: by = null } = (data["by"] ?? {}) as { name?: string };
    const title = item === null ? titleOf(data) : (state.tasks.get(item)?.title ?? null);
    return { item, title: title && short(title), by };
  }

  skip(state: GoalState, { uid, type }: Entry): void {
    const series = seriesOf(type);
    const number = idNumber(this.numbers.get(uid) ?? "");
    if (series && number > state.given[series]) state.given = { ...state.given, [series]: number };
  }
}

function refused(message: string): HoldfastError {
  const hint = "It was written in another copy and no longer fits. It stays in the log and changes nothing.";
  return withoutStack(() => new HoldfastError("INPUT_INVALID", message, { hint }));
}

/** Not part of a delta: maps have their own, the others belong to one copy or follow from the entries. */
const NOT_VALUES: readonly string[] = [...GOAL_MAPS, "known", "origins", "sources", "signed", "merges"];

export interface GoalDelta {
  readonly maps: { readonly [Field in (typeof GOAL_MAPS)[number]]?: MapDelta };
  readonly values: Readonly<Record<string, Json>>;
}

export function goalDelta(old: GoalState, now: GoalState): GoalDelta {
  const deltas = GOAL_MAPS.map((field) => [field, mapDelta(old[field], now[field])] as const);
  const maps = Object.fromEntries(deltas.filter(([, delta]) => delta !== null)) as GoalDelta["maps"];
  const values: Record<string, Json> = {};
  for (const field of Object.keys(now) as (keyof GoalState)[]) {
    if (!NOT_VALUES.includes(field) && !sameJson(old[field], now[field]))
      values[field] = now[field] as unknown as Json;
  }
  return { maps, values };
}

export function applyGoalDelta(state: GoalState, { maps, values }: GoalDelta): void {
  for (const field of GOAL_MAPS) applyMapDelta(state[field] as Map<string, unknown>, maps[field]);
  Object.assign(state, values);
  state.implementations = [...state.implementations];
}
