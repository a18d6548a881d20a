/**
 * Entries: the events of a goal in the form that its copies exchange, and their merge order.
 *
 * Copies of a goal (clones of a repository, each with a store of its own) write without knowing of each other
 * and meet later. An entry has three things that make it the same event in every copy:
 *
 * - `uid`, a hash of everything else in the entry and of its goal, checked when a file is read. So the same
 *   uid is the same event, and no copy can replace one by other content.
 * - `t` and `c`, a hybrid logical clock: the writer's wall clock, but never before anything that the writer
 *   had seen. Entries are sorted by it, then by uid. This merge order is the same in every copy, and never
 *   puts an answer before its question.
 * - `refs`: two copies may give the id T-014 to two tasks. So an entry maps each id in its data to the uid of
 *   the event that made the item.
 */

import { sha256 } from "../digest.ts";
import { canonicalOf, type Json, sameJson } from "../json.ts";
import type { Event } from "../stream/index.ts";
import { contentOf, namesOfItems } from "./record-table.ts";
import { REVIEW_TASK, TASK_PLAN } from "./task-records.ts";

/** `T-007`: at least three digits, so that ids sort as numbers do. */
export function formatId(prefix: Series, number: number): string {
  return `${prefix}-${String(number).padStart(3, "0")}`;
}

/** One spelling per number, at most six digits. Every id that another copy brings matches it. */
export const ITEM_ID = /^[TDBQA]-(?:\d{3}|[1-9]\d{3,5})$/;
const MAX_NUMBER = 999_999;

/**
 * The next id of a series. Numbers are not reused. If an event of another copy has used up the last one, the
 * lowest free number is next: no event can end a series.
 */
export function nextId(series: Series, given: number, isTaken: (id: string) => boolean): string {
  if (given < MAX_NUMBER) return formatId(series, given + 1);
  let number = 1;
  while (isTaken(formatId(series, number))) number += 1;
  return formatId(series, number);
}

export function idNumber(id: string): number {
  return Number(id.slice(2));
}

export type Clock = Pick<Entry, "t" | "c">;

/** An event as copies of a goal exchange it. The data is as it was written, without its uid. */
export interface Entry {
  readonly uid: string;
  readonly t: number;
  readonly c: number;
  readonly type: string;
  readonly v: number;
  readonly at: number;
  /** Name of an item → uid of the event that made it. */
  readonly refs: Readonly<Record<string, string>>;
  readonly data: Readonly<Record<string, Json>>;
}

export const CLOCK_START: Clock = { t: 0, c: 0 };

/** The counter starts again after this, one millisecond later: it never leaves what readers accept. */
export const MAX_COUNT = 1_000_000;

/** The clock of an event that is written at `at` by a writer that has seen everything up to `clock`. */
export function tick(clock: Clock, at: number): Clock {
  if (at > clock.t) return { t: at, c: 0 };
  return clock.c < MAX_COUNT ? { t: clock.t, c: clock.c + 1 } : { t: clock.t + 1, c: 0 };
}

const UID_CHARACTERS = 40;

type EntryContent = Omit<Entry, "uid">;

export function entryUid(goal: string, content: EntryContent): string {
  return hashOf(goal, canonicalParts(content));
}

/** An entry as a line of a file: canonical JSON. */
export function entryText(entry: Entry): string {
  return lineOf(entry.uid, canonicalParts(entry));
}

/** `entryText` and `entryUid` for the price of one: most of it is the canonical text of the data. */
export function entryTextAndUid(goal: string, entry: Entry): { readonly text: string; readonly uid: string } {
  const parts = canonicalParts(entry);
  return { text: lineOf(entry.uid, parts), uid: hashOf(goal, parts) };
}

/** Members in canonical order: a goal goes behind `start`, a uid behind `middle`. */
interface CanonicalParts {
  readonly start: string;
  readonly middle: string;
  readonly end: string;
}

/** A new part of an entry belongs in here, unless it is made from the uid, as a signature is. */
function canonicalParts({ t, c, type, v, at, refs, data }: EntryContent): CanonicalParts {
  const start = canonicalOf({ at, c, data }).slice(0, -1);
  const middle = canonicalOf({ refs, t, type }).slice(1, -1);
  return { start, middle, end: canonicalOf({ v }).slice(1) };
}

const lineOf = (uid: string, { start, middle, end }: CanonicalParts): string =>
  `${start},${middle},"uid":${JSON.stringify(uid)},${end}`;

const hashOf = (goal: string, { start, middle, end }: CanonicalParts): string =>
  sha256(`${start},"goal":${JSON.stringify(goal)},${middle},${end}`).slice(0, UID_CHARACTERS);

export function compareEntries(a: Entry, b: Entry): number {
  return a.t - b.t || a.c - b.c || (a.uid < b.uid ? -1 : Number(a.uid > b.uid));
}

export function derivedUid(place: number, at: number, data: unknown): string {
  return sha256(JSON.stringify([place, at, data])).slice(0, UID_CHARACTERS);
}

/** A set of uids that branches without a copy: a branch sees its parent's uids and adds its own. */
export class EventIds {
  private readonly parent: EventIds | null;
  private readonly own: Set<string>;

  constructor(ids: Iterable<string> = [], parent: EventIds | null = null) {
    this.own = new Set(ids);
    this.parent = parent;
  }

  has(uid: string): boolean {
    return this.own.has(uid) || (this.parent?.has(uid) ?? false);
  }

  add(uid: string): void {
    if (!this.has(uid)) this.own.add(uid);
  }

  get size(): number {
    return this.own.size + (this.parent?.size ?? 0);
  }

  branch(): EventIds {
    return new EventIds([], this);
  }

  *[Symbol.iterator](): Generator<string> {
    if (this.parent) yield* this.parent;
    yield* this.own;
  }
}

type Data = Readonly<Record<string, unknown>>;
const SERIES = {
  "task.added": "T",
  "decision.made": "D",
  "blocker.reported": "B",
  "question.asked": "Q",
  "assumption.made": "A",
} as const;

export type Series = (typeof SERIES)[keyof typeof SERIES];

export function seriesOf(type: string): Series | null {
  return Object.hasOwn(SERIES, type) ? SERIES[type as keyof typeof SERIES] : null;
}

const phaseName = (phase: number): string => `P${phase}`;
const planName = (phase: number, plan: number): string => `P${phase}.${plan}`;

/** The name of the item that an event makes: `T-014`, `P2` or `P2.1`. Null: it makes none. */
export function madeName(type: string, data: Data): string | null {
  if (seriesOf(type)) return String(data["id"]);
  if (type === "phase.added") return phaseName(Number(data["number"]));
  return type === "plan.added" ? planName(Number(data["phase"]), Number(data["number"])) : null;
}

/** Fields that hold names, wherever they occur in the data of an event. No other text is a name. */
const NAME_FIELDS: ReadonlySet<string> = new Set([
  ...["task", "tasks", "followUps", "completed", "supersedes", "blocker", "question", "assumption"],
  ...namesOfItems(contentOf(TASK_PLAN), contentOf(REVIEW_TASK)),
]);

/** The data with other names of items. `rename` gets `T-001`, `D-001` and the like, `P1` and `P1.1`. */
export function mapNames(data: Data, rename: (name: string) => string): Record<string, unknown> {
  const renamed: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(data)) renamed[field] = mapField(data, field, value, rename);
  return renamed;
}

function mapField(data: Data, field: string, value: unknown, rename: (name: string) => string): unknown {
  const one = (each: unknown): unknown =>
    typeof each === "string" && ITEM_ID.test(each) ? rename(each) : each;
  const phase = (each: unknown): unknown => Number(rename(phaseName(Number(each))).slice(1));
  if (value === null) return null;
  if (NAME_FIELDS.has(field)) return Array.isArray(value) ? value.map(one) : one(value);
  if (field === "phase") return phase(value);
  if (field === "phases" && Array.isArray(value)) return value.map(phase);
  if (field === "plan" && typeof data["phase"] === "number") {
    const name = rename(planName(data["phase"], Number(value)));
    return Number(name.slice(name.indexOf(".") + 1));
  }
  if (field === "affects" || field === "change") return mapNames(value as Data, rename);
  return value;
}

/** Name of an item → uid of the event that made it, for every name in the data. */
export function refsOf(data: Data, uidOf: (name: string) => string | undefined): Record<string, string> {
  const refs: Record<string, string> = {};
  mapNames(data, (name) => {
    const uid = uidOf(name);
    if (uid !== undefined) refs[name] = uid;
    return name;
  });
  return refs;
}

/** Turns the stored events of a log into entries, one after another, and tracks the names on the way. */
export class EntryReader {
  private readonly names: Map<string, string>;
  private readonly aliases: Map<string, string>;
  clock: Clock;
  private revision: number;

  constructor(from?: {
    readonly names: Map<string, string>;
    readonly aliases: Map<string, string>;
    readonly clock: Clock;
    readonly revision: number;
  }) {
    this.names = from?.names ?? new Map();
    this.aliases = from?.aliases ?? new Map();
    this.clock = from?.clock ?? CLOCK_START;
    this.revision = from?.revision ?? 0;
  }

  next(stored: Event): readonly Entry[] {
    const whole = stored.data as Record<string, Json>;
    if (stored.type === MERGED) {
      const { entries, delta } = whole as unknown as { entries: readonly Entry[]; delta: LineageDelta };
      applyMapDelta(this.names, delta.maps.names);
      applyMapDelta(this.aliases, delta.maps.aliases);
      this.clock = delta.values.clock ?? this.clock;
      this.revision = delta.values.revision ?? this.revision;
      return entries;
    }
    this.revision += 1;
    const { uid = derivedUid(this.revision, stored.at, whole), ...data } = whole;
    this.clock = tick(this.clock, stored.at);
    const refs = refsOf(data, (name) => this.names.get(name) ?? this.names.get(this.aliases.get(name) ?? ""));
    const made = madeName(stored.type, data);
    if (made !== null) this.names.set(made, uid as string);
    if (stored.type === "task.aliased") this.aliases.set(String(data["alias"]), String(data["task"]));
    const { type, v, at } = stored;
    return [{ uid: uid as string, ...this.clock, type, v, at, refs, data }];
  }
}

/** The event that adds the entries of other copies to a log. It belongs to one copy and is not exchanged. */
export const MERGED = "goal.merged";

/** The event by which a person takes back an earlier one, in every copy. See `merge.ts`. */
export const RETRACTED = "event.retracted";

/** The event that carries a person's signature over earlier events. See `origin.ts`. */
export const SIGNED = "event.signed";

/** The event that makes an id final that a merge gave to an item. */
export const RENUMBERED = "item.renumbered";

interface LineageDelta {
  readonly maps: { readonly names?: MapDelta; readonly aliases?: MapDelta };
  readonly values: { readonly clock?: Clock; readonly revision?: number };
}

/** The difference of two maps: removed keys, set values, and the keys from which on the order differs. */
export interface MapDelta {
  readonly gone: readonly string[];
  readonly set: readonly (readonly [string, Json])[];
  readonly tail: readonly string[];
}

type AnyMap = ReadonlyMap<string, unknown>;

export function mapDelta(old: AnyMap, now: AnyMap): MapDelta | null {
  const gone = [...old.keys()].filter((key) => !now.has(key));
  const set = [...now].filter(([key, value]) => !old.has(key) || !sameJson(old.get(key), value));
  const kept = [...old.keys()].filter((key) => now.has(key));
  const order = [...kept, ...set.flatMap(([key]) => (old.has(key) ? [] : [key]))];
  const wanted = [...now.keys()];
  const first = wanted.findIndex((key, index) => key !== order[index]);
  const tail = first === -1 ? [] : wanted.slice(first);
  if (gone.length + set.length + tail.length === 0) return null;
  return { gone, set: set as [string, Json][], tail };
}

export function applyMapDelta(map: Map<string, unknown>, delta: MapDelta | undefined): void {
  if (!delta) return;
  for (const key of delta.gone) map.delete(key);
  for (const [key, value] of delta.set) map.set(key, value);
  for (const key of delta.tail) {
    const value = map.get(key);
    map.delete(key);
    map.set(key, value);
  }
}
