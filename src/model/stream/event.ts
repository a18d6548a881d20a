/**
 * Events and the kinds of streams that hold them.
 *
 * A kind is one table: for every event type its version, its schema, how it changes the state, and how older
 * versions become the current one. Kinds are open: an integration brings its own table and gets the same log.
 *
 * Reading is strict about versions and never guesses: an older version goes through its upcasts, a newer one
 * or an unknown type is refused, because folding half of what happened would show a state that never was.
 */

import { HoldfastError } from "../errors.ts";
import { copyJson, formatPath, type Json } from "../json.ts";
import { JsonText } from "../json-text.ts";
import type { Item, StreamFacets } from "./facets.ts";

/** As it is stored: one element of a write's JSON array. */
export interface Event<Type extends string = string, Data = unknown> {
  readonly type: Type;
  readonly v: number;
  /** Wall clock of the writer, milliseconds. Order comes from `seq`, never from this. */
  readonly at: number;
  readonly data: Data;
}

/** An event before it gets its version and time. */
export interface Draft<Type extends string = string, Data = unknown> {
  readonly type: Type;
  readonly data: Data;
}

export interface Place {
  readonly seq: number;
  readonly at: number;
}

/** As much of a schema as an event needs; every zod schema is one. */
export interface EventSchema<Data> {
  safeParse(
    value: unknown,
  ):
    | { readonly success: true; readonly data: Data }
    | { readonly success: false; readonly error: { readonly issues: readonly EventIssue[] } };
}

interface EventIssue {
  readonly message: string;
  readonly path: readonly PropertyKey[];
}

/** One row of a kind's table. `event()` makes it. */
export interface EventSpec<State, Data> {
  readonly version: number;
  readonly schema: EventSchema<Data>;
  /** Changes the state in place: a fold over thousands of events must not copy what it has. */
  apply(state: State, data: Data, place: Place): void;
  /** `upcasts[1]` turns data of version 1 into data of version 2. */
  readonly upcasts?: Readonly<Record<number, (data: Json) => Json>>;
}

/** As much of any row as reading needs. */
interface AnyFoldSpec<State> {
  readonly version: number;
  apply(state: State, data: never, place: Place): void;
  readonly upcasts?: Readonly<Record<number, (data: Json) => Json>>;
}

/** Any row of a table: what its data is, only its own schema and handler know. */
export interface AnyEventSpec<State> extends AnyFoldSpec<State> {
  readonly schema: EventSchema<unknown>;
}

export type EventTable<State> = Readonly<Record<string, AnyEventSpec<State>>>;

export type DraftOf<Table> = {
  [Type in keyof Table & string]: Table[Type] extends EventSpec<infer _State, infer Data>
    ? Draft<Type, Data>
    : never;
}[keyof Table & string];

/** What a write carries beside its events. It follows from them, so that no caller can forget any of it. */
export interface FacetChange {
  readonly facets?: StreamFacets;
  readonly items?: readonly Item[];
  /** Keys that the event at that index claims for good, and keys that are free again. */
  readonly claims?: readonly { readonly key: string; readonly event: number }[];
  readonly releases?: readonly string[];
  /** Hashes of the artifacts that the events refer to. */
  readonly artifacts?: readonly string[];
}

/** As much of a kind as reading needs: no schema, so that whoever only looks need not load any. */
export interface FoldKind<State> {
  readonly kind: string;
  /** Raised whenever `apply` or the state's shape changes: older snapshots are then ignored. */
  readonly foldVersion: number;
  readonly events: Readonly<Record<string, AnyFoldSpec<State>>>;
  initial(): State;
  /** The state from a snapshot. */
  decode(json: Json): State;
}

/**
 * What makes a log out of plain events: a table of them, and how a state is kept. Write one to keep something of your own
 * with the same promises as sessions and goals: `journal.open(kind, id)` then gives a `Log` of it.
 */
export interface StreamKind<State, Table extends EventTable<State> = EventTable<State>>
  extends FoldKind<State> {
  readonly events: Table;
  /** The state as JSON, for snapshots. */
  encode(state: State): Json;
  /** A lower bound of the length of the encoded state as text, found much faster than by encoding it. */
  leastLength?(state: State): number;
  /** Events after which the state may be much smaller than its history, so that a snapshot pays at once. */
  readonly shrinking?: readonly string[];
  /**
   * What lists and views should show once `events`, the first of them at `firstSeq`, are appended to `state`; which
   * keys they claim and which artifacts they need. Throws for events that the fold would refuse.
   */
  facets?(state: State, events: readonly Event[], firstSeq: number): FacetChange;
}

/** Ties the schema's type to the handler's, so that a table reads as one line per event. */
export function event<State, Data>(
  version: number,
  schema: EventSchema<Data>,
  apply: (state: State, data: Data, place: Place) => void,
  upcasts?: Readonly<Record<number, (data: Json) => Json>>,
): EventSpec<State, Data> {
  return upcasts ? { version, schema, apply, upcasts } : { version, schema, apply };
}

/** A draft whose data is a copy of its own that `schema` has accepted: checking is most of what an event costs. */
class CheckedDraft<Type extends string, Data> implements Draft<Type, Data> {
  readonly type: Type;
  readonly data: Data;
  readonly schema: EventSchema<unknown>;
  /** The data as JSON, where whoever copied it has written that as well. */
  readonly text: JsonText | string | undefined;

  constructor(type: Type, data: Data, schema: EventSchema<unknown>, text: JsonText | string | undefined) {
    this.type = type;
    this.data = data;
    this.schema = schema;
    this.text = text;
  }
}

/**
 * For parts of the model that have copied and checked the data themselves; `makeEvent` does not do it again. `text`: what
 * `JSON.stringify` would make of the data, for a type whose name needs no escapes.
 */
export function checkedDraft<Type extends string, Data>(
  type: Type,
  data: Data,
  schema: EventSchema<unknown>,
  text?: JsonText | string,
): Draft<Type, Data> {
  return new CheckedDraft(type, data, schema, text);
}

/** A draft becomes an event: copied, frozen, checked against its schema. A bad one is refused, with the path. */
export function makeEvent<State>(kind: StreamKind<State>, draft: Draft, at: number): Event {
  const spec = specOf(kind, draft.type);
  if (draft instanceof CheckedDraft && draft.schema === spec.schema) {
    return { type: draft.type, v: spec.version, at, data: draft.data };
  }
  const data = copyJson(draft.data, `event ${draft.type}`);
  const parsed = spec.schema.safeParse(data);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const path = formatPath(issue?.path ?? []);
    throw new HoldfastError("INPUT_INVALID", `event ${draft.type}: ${path}: ${issue?.message}`, {
      hint: "Nothing was written. Correct the value at that path and try again.",
      data: { type: draft.type, path, issues: parsed.error.issues },
    });
  }
  return { type: draft.type, v: spec.version, at, data };
}

/** The drafts as events, and those as a write holds them: what `JSON.stringify` makes of the list. */
export function writeEvents<State>(
  kind: StreamKind<State>,
  drafts: readonly Draft[],
  at: number,
): { readonly events: readonly Event[]; readonly text: JsonText } {
  const events: Event[] = [];
  const time = String(at);
  const text = new JsonText();
  for (const draft of drafts) {
    const made = makeEvent(kind, draft, at);
    text.json(events.length === 0 ? "[" : ",");
    // Data that is the draft's own was taken over as it was checked, and so is its text.
    const written = draft instanceof CheckedDraft && made.data === draft.data ? draft.text : undefined;
    if (written === undefined) text.json(JSON.stringify(made));
    else {
      const start = `{"type":"${made.type}","v":${made.v},"at":${time},"data":`;
      if (typeof written === "string") text.json(`${start}${written}}`);
      else {
        text.json(start);
        text.add(written);
        text.json("}");
      }
    }
    events.push(made);
  }
  text.json(events.length === 0 ? "[]" : "]");
  return { events, text };
}

/** Brings a stored event to the current version of its type. */
function upcast<State>(kind: FoldKind<State>, spec: AnyFoldSpec<State>, stored: Event): Json {
  if (stored.v > spec.version) {
    throw new HoldfastError(
      "EVENT_TOO_NEW",
      `the ${kind.kind} stream holds an event ${stored.type} of version ${stored.v}; this release knows version ${spec.version}`,
      { hint: "Upgrade holdfast to the release that wrote it, or a later one. Nothing was changed." },
    );
  }
  let data = stored.data as Json;
  for (let version = stored.v; version < spec.version; version++) {
    const step = spec.upcasts?.[version];
    if (!step) {
      throw new HoldfastError(
        "EVENT_CORRUPT",
        `event ${stored.type} of version ${stored.v} has no way to version ${version + 1}`,
        { hint: "Report this: a release of holdfast lost the upcast of its own event." },
      );
    }
    data = step(data);
  }
  return data;
}

/** Folds one stored event into the state. */
export function applyEvent<State>(kind: FoldKind<State>, state: State, stored: Event, seq: number): void {
  const spec = specOf(kind, stored.type);
  const data = stored.v === spec.version ? stored.data : upcast(kind, spec, stored);
  spec.apply(state, data as never, { seq, at: stored.at });
}

function specOf<State, Spec>(
  kind: FoldKind<State> & { readonly events: Readonly<Record<string, Spec>> },
  type: string,
): Spec {
  const spec = Object.hasOwn(kind.events, type) ? kind.events[type] : undefined;
  if (spec) return spec;
  throw new HoldfastError(
    "EVENT_UNKNOWN",
    `a ${kind.kind} stream has no event type ${JSON.stringify(type)}`,
    {
      hint: "It was written by a later release or another integration: open it with that one. Nothing was changed.",
      data: { kind: kind.kind, type },
    },
  );
}
