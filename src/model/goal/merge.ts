/**
 * The events of all copies of a goal, folded in their one order.
 *
 *     entries of every copy ──sort──▶ one order ──rename, apply──▶ one state
 *                                                    └──refused by the tables──▶ not applied, and said so
 *
 * A pure function of the set of entries: whoever has the same entries gets the same state, in whichever order they came.
 * The state enters a log as what it changes of the state before, in one event, `goal.merged`, together with the entries
 * that were new: one commit, so that a crash leaves all of it or nothing.
 *
 * Numbers: whoever comes first in the one order keeps the number. A later task, decision, blocker or question that was
 * given the same number elsewhere gets the next one that nobody has, and stays known as `T-014~3f9ac1`, after its uid.
 * The next write of any copy says so in the log (`item.renumbered`), before anybody could give that number again; until
 * then the number may change with the next merge. Phases and plans are counted in the one order.
 *
 * An entry may be refused although its writer was right: T-003 was claimed in two copies at once, and one of them comes
 * second. It stays among the entries, and is reported.
 */

import { HoldfastError } from "../errors.ts";
import { type Json, sameJson } from "../json.ts";
import { applyEvent, type Event, type StreamKind } from "../stream/index.ts";
import {
  applyMapDelta,
  compareEntries,
  type Entry,
  formatId,
  idNumber,
  type MapDelta,
  madeName,
  mapDelta,
  mapNames,
  RENUMBERED,
  type Series,
  seriesOf,
} from "./entries.ts";
import { emptyGoal, type GoalState, phaseOf } from "./goal-state.ts";
import type { NotApplied, Renumbered } from "./merge-notes.ts";

export interface FoldedEntries {
  readonly state: GoalState;
  readonly renumbered: readonly Renumbered[];
  readonly notApplied: readonly NotApplied[];
}

/** Twice the same uid is one entry. */
export function foldEntries(kind: StreamKind<GoalState>, entries: Iterable<Entry>): FoldedEntries {
  const once = new Map<string, Entry>();
  for (const entry of entries) if (!once.has(entry.uid)) once.set(entry.uid, entry);
  const order = [...once.values()].sort(compareEntries);
  const naming = new Naming(order);
  const state = emptyGoal();
  const notApplied: NotApplied[] = [];
  for (const entry of order) {
    const revision = state.revision + 1;
    try {
      const event = naming.settle(state, entry);
      applyEvent(kind, state, event, revision);
      naming.made(state, entry, event);
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      naming.spend(state, entry);
      const { uid, type } = entry;
      notApplied.push({ uid, type, why: error.message, ...naming.about(state, entry) });
    }
    state.revision = revision;
    state.known.add(entry.uid);
    state.clock = { t: entry.t, c: entry.c };
  }
  state.unsettled = naming.unsettled;
  return { state, renumbered: naming.renumbered, notApplied };
}

const ALIAS_CHARACTERS = 6;
const TITLE_CHARACTERS = 80;

/** By this something can still be asked for that a merge gave another number. */
export function aliasOf(was: string, uid: string): string {
  return `${was}~${uid.slice(0, ALIAS_CHARACTERS)}`;
}

function titleOf(data: Entry["data"]): string | null {
  const said = data["title"] ?? data["decision"] ?? data["description"] ?? data["text"];
  return typeof said === "string" ? short(said) : null;
}

function short(text: string): string {
  const line = text.split("\n", 1)[0] ?? "";
  return line.length > TITLE_CHARACTERS ? `${line.slice(0, TITLE_CHARACTERS - 1)}…` : line;
}

/** What everything is called, found before anything is applied. */
class Naming {
  readonly renumbered: Renumbered[] = [];
  /** Numbers that no event has said yet. */
  readonly unsettled: readonly { readonly uid: string; readonly name: string }[];
  private readonly numbers = new Map<string, string>();
  private readonly names = new Map<string, string>();

  constructor(order: readonly Entry[]) {
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
      else if (type === RENUMBERED && waiting.has(item) && take(item, String(data["name"])))
        waiting.delete(item);
    }
    const highest = { T: 0, D: 0, B: 0, Q: 0 };
    for (const name of taken) {
      const series = name.slice(0, 1) as Series;
      highest[series] = Math.max(highest[series], idNumber(name));
    }
    this.unsettled = [...waiting].map(([uid, series]) => {
      highest[series] += 1;
      const name = formatId(series, highest[series]);
      this.numbers.set(uid, name);
      return { uid, name };
    });
  }

  /** The event as it would have been written by somebody who had seen everything before it. */
  settle(state: GoalState, { uid, type, v, at, refs, data }: Entry): Event {
    if (type === "goal.created" && state.id !== "") {
      throw refused(`goal ${state.id} was begun in two copies; the first beginning counts`);
    }
    const renamed = mapNames(data, (name) => {
      const now = this.names.get(refs[name] ?? "");
      if (now === undefined) throw refused(`it names ${name}, which is not among the events`);
      return now;
    });
    if (seriesOf(type)) renamed["id"] = this.numbers.get(uid);
    if (type === "phase.added") renamed["number"] = state.phases.length + 1;
    if (type === "plan.added")
      renamed["number"] = phaseOf(state, renamed["phase"] as number).plans.length + 1;
    return { type, v, at, data: { ...renamed, uid } };
  }

  made(state: GoalState, { uid, type, data }: Entry, event: Event): void {
    const now = madeName(type, event.data as Record<string, unknown>);
    if (now === null) return;
    this.names.set(uid, now);
    const was = String(data["id"]);
    if (!seriesOf(type) || now === was) return;
    const alias = aliasOf(was, uid);
    state.aliases.set(alias, now);
    this.renumbered.push({ was, now, alias, title: titleOf(data) ?? "" });
  }

  /** Of an entry that was refused: what it meant, and whose it is. */
  about(state: GoalState, { refs, data }: Entry): Pick<NotApplied, "item" | "title" | "by"> {
    const said = String(data["task"] ?? data["blocker"] ?? data["question"] ?? data["supersedes"] ?? "");
    const item = this.names.get(refs[said] ?? "") ?? null;
    const { name = null } = (data["by"] ?? {}) as { name?: string };
    const title = item === null ? titleOf(data) : (state.tasks.get(item)?.title ?? null);
    return { item, title: title && short(title), by: name };
  }

  /** The number of what was refused stays taken: nobody after it may get it. */
  spend(state: GoalState, { uid, type }: Entry): void {
    const series = seriesOf(type);
    const number = idNumber(this.numbers.get(uid) ?? "");
    if (series && number > state.given[series]) state.given = { ...state.given, [series]: number };
  }
}

function refused(message: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", message, {
    hint: "It was written in another copy and does not fit any more. It stays in the log and changes nothing.",
  });
}

const MAPS = [
  "tasks",
  "aliases",
  "facts",
  "decisions",
  "blockers",
  "files",
  "history",
  "questions",
  "edits",
  "names",
] as const satisfies readonly (keyof GoalState)[];
/** These are of one copy alone, or follow from the entries. */
const LOCAL: readonly (keyof GoalState)[] = ["known", "origins", "merges"];

/** What has to change of one state to become another. */
export interface GoalDelta {
  readonly maps: Readonly<Partial<Record<(typeof MAPS)[number], MapDelta>>>;
  readonly values: Readonly<Record<string, Json>>;
}

export function goalDelta(old: GoalState, now: GoalState): GoalDelta {
  const maps: Partial<Record<(typeof MAPS)[number], MapDelta>> = {};
  for (const field of MAPS) {
    const delta = mapDelta(old[field], now[field]);
    if (delta) maps[field] = delta;
  }
  const values: Record<string, Json> = {};
  for (const field of Object.keys(now) as (keyof GoalState)[]) {
    if ((MAPS as readonly string[]).includes(field) || LOCAL.includes(field)) continue;
    if (!sameJson(old[field], now[field])) values[field] = now[field] as unknown as Json;
  }
  return { maps, values };
}

export function applyGoalDelta(state: GoalState, { maps, values }: GoalDelta): void {
  for (const field of MAPS) applyMapDelta(state[field] as Map<string, unknown>, maps[field]);
  Object.assign(state, values);
}
