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
 * An entry may be rejected although its writer did nothing wrong: two copies claimed T-003 at once.
 */

import { HoldfastError } from "../errors.ts";
import { type Json, sameJson } from "../json.ts";
import { applyEvent, type Event, type StreamKind } from "../stream/index.ts";
import type { Entry, MapDelta, Series } from "./entries.ts";
import {
  applyMapDelta,
  compareEntries,
  formatId,
  idNumber,
  madeName,
  mapDelta,
  mapNames,
  RENUMBERED,
  seriesOf,
} from "./entries.ts";
import { emptyGoal, GOAL_MAPS, type GoalState, phaseOf } from "./goal-state.ts";
import { firstLine, type NotApplied, type Renumbered } from "./merge-notes.ts";

/** Entries with the same uid are one entry. */
export function foldEntries(
  kind: StreamKind<GoalState>,
  entries: Iterable<Entry>,
): { readonly state: GoalState; readonly renumbered: Renumbered[]; readonly notApplied: NotApplied[] } {
  const once = new Map<string, Entry>();
  for (const entry of entries) if (!once.has(entry.uid)) once.set(entry.uid, entry);
  const order = [...once.values()].sort(compareEntries);
  const ids = new IdAssignment(order);
  const state = emptyGoal();
  const notApplied: NotApplied[] = [];
  for (const entry of order) {
    const revision = state.revision + 1;
    try {
      const event = ids.rename(state, entry);
      applyEvent(kind, state, event, revision);
      ids.record(state, entry, event);
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      ids.skip(state, entry);
      const { uid, type } = entry;
      notApplied.push({ uid, type, why: error.message, ...ids.describe(state, entry) });
    }
    state.revision = revision;
    state.known.add(entry.uid);
    state.clock = { t: entry.t, c: entry.c };
  }
  state.unsettled = ids.unsettled;
  return { state, renumbered: ids.renumbered, notApplied };
}

export function aliasOf(was: string, uid: string): string {
  return `${was}~${uid.slice(0, 6)}`;
}

function titleOf(data: Entry["data"]): string | null {
  const title = data["title"] ?? data["decision"] ?? data["description"] ?? data["text"];
  return typeof title === "string" ? short(title) : null;
}

const short = (text: string): string => firstLine(text, 80);

/** The ids of all items, assigned before any entry is applied. */
class IdAssignment {
  readonly renumbered: Renumbered[] = [];
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

  /** The event with the ids that its writer would have used, had it seen all entries before it. */
  rename(state: GoalState, { uid, type, v, at, refs, data }: Entry): Event {
    if (type === "goal.created" && state.id !== "") {
      throw refused(`goal ${state.id} was created in two copies; the first one counts`);
    }
    const renamed = mapNames(data, (name) => {
      const now = this.names.get(refs[name] ?? "");
      if (now === undefined) throw refused(`it names ${name}, whose event is missing`);
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

  describe(state: GoalState, { refs, data }: Entry): Pick<NotApplied, "item" | "title" | "by"> {
    const name = String(data["task"] ?? data["blocker"] ?? data["question"] ?? data["supersedes"] ?? "");
    const item = this.names.get(refs[name] ?? "") ?? null;
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
  return new HoldfastError("INPUT_INVALID", message, {
    hint: "It was written in another copy and no longer fits. It stays in the log and changes nothing.",
  });
}

/** Not part of a delta: maps have their own, the others belong to one copy or follow from the entries. */
const NOT_VALUES: readonly string[] = [...GOAL_MAPS, "known", "origins", "merges"];

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
}
