/**
 * Events and the kinds of streams that hold them.
 *
 * A kind is one table: for every event type its version, its schema, its effect on the state, and the upcasts
 * from older versions. Kinds are open: an integration brings its own table and gets the same log.
 *
 * Reading never guesses. An older version goes through its upcasts; a newer version or an unknown type is
 * rejected, because folding half of the events would show a state that never existed.
 */

import { HoldfastError } from "../errors.ts";
import { copyJson, formatPath, type Json } from "../json.ts";
import { JsonText } from "../json-text.ts";

/** A stored event: one element of a write's JSON array. */
export interface Event<Type extends string = string, Data = unknown> {
  readonly type: Type;
  readonly v: number;
  /** The writer's wall clock in milliseconds. It gives no order; `seq` does. */
  readonly at: number;
  readonly data: Data;
}

/** An event before it gets its version and time. */
export interface Draft<Type extends string = string, Data = unknown> {
  readonly type: Type;
  readonly data: Data;
}

/** The position and time of an event. */
export interface Place {
  readonly seq: number;
  readonly at: number;
}

/** The part of a schema that an event needs. Every zod schema has it. */
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

/** The part of a row that reading needs. */
interface AnyFoldSpec<State> {
  readonly version: number;
  apply(state: State, data: never, place: Place): void;
  readonly upcasts?: Readonly<Record<number, (data: Json) => Json>>;
}

/** Any row of a table. Only its own schema and handler know the type of its data. */
export interface AnyEventSpec<State> extends AnyFoldSpec<State> {
  readonly schema: EventSchema<unknown>;
}

export type EventTable<State> = Readonly<Record<string, AnyEventSpec<State>>>;

export type DraftOf<Table> = {
  [Type in keyof Table & string]: Table[Type] extends EventSpec<infer _State, infer Data>
    ? Draft<Type, Data>
    : never;
}[keyof Table & string];

/** The rest of a write. It is derived from the events, so that no caller can forget a part of it. */
export interface FacetChange {
  readonly facets?: StreamFacets;
  readonly items?: readonly Item[];
  /** Keys that the event at index `event` claims. */
  readonly claims?: readonly { readonly key: string; readonly event: number }[];
  /** Keys that are free again. */
  readonly releases?: readonly string[];
  /** Hashes of the artifacts that the events refer to. */
  readonly artifacts?: readonly string[];
}

/** The part of a kind that reading needs. It has no schemas, so that a reader does not load them. */
export interface FoldKind<State> {
  readonly kind: string;
  /** Raise it whenever `apply` or the shape of the state changes: older snapshots are then ignored. */
  readonly foldVersion: number;
  readonly events: Readonly<Record<string, AnyFoldSpec<State>>>;
  initial(): State;
  /** Turns a snapshot back into a state. */
  decode(json: Json): State;
}

/**
 * A kind of stream: its table of events and the form of its state. Define one to store data of your own with
 * the same promises as sessions and goals; `holdfast.journal.open(kind, id)` then returns a `Log` of it.
 *
 * @example
 * const visits: StreamKind<{ count: number }> = {
 *   kind: "visits",
 *   foldVersion: 1,
 *   events: {
 *     visited: event(1, z.object({ by: z.string() }), (state: { count: number }) => {
 *       state.count += 1;
 *     }),
 *   },
 *   initial: () => ({ count: 0 }),
 *   encode: (state) => ({ ...state }),
 *   decode: (json) => ({ ...(json as { count: number }) }),
 * };
 */
export interface StreamKind<State, Table extends EventTable<State> = EventTable<State>>
  extends FoldKind<State> {
  readonly events: Table;
  /** Turns the state into JSON, for a snapshot. */
  encode(state: State): Json;
  /** A lower bound for the length of the encoded state as text; must be much faster than encoding it. */
  leastLength?(state: State): number;
  /** Event types that may shrink the state far below its history, so that a snapshot pays off at once. */
  readonly shrinking?: readonly string[];
  /**
   * Derives what lists and views show after `events` are appended at `firstSeq`, the keys that they claim,
   * and the artifacts that they need. Throws for events that the fold would reject. Must not change `state`.
   * `isEncoded`: a codec hides the events, so items must not show more than names.
   */
  facets?(state: State, events: readonly Event[], firstSeq: number, isEncoded?: boolean): FacetChange;
}

/**
 * One row of a kind's table: version, schema, and a handler whose data has the schema's type. The handler
 * changes the state in place.
 *
 * @example
 * event(1, z.object({ by: z.string() }), (state: { count: number }) => { state.count += 1; })
 */
export function event<State, Data>(
  version: number,
  schema: EventSchema<Data>,
  apply: (state: State, data: Data, place: Place) => void,
  upcasts?: Readonly<Record<number, (data: Json) => Json>>,
): EventSpec<State, Data> {
  return upcasts ? { version, schema, apply, upcasts } : { version, schema, apply };
}

/** A draft whose data was copied and checked already. Checking is most of an event's cost. */
class CheckedDraft<Type extends string, Data> implements Draft<Type, Data> {
  readonly type: Type;
  readonly data: Data;
  readonly schema: EventSchema<unknown>;
  /** The data as JSON, if it was written while it was copied. */
  readonly text: JsonText | undefined;

  constructor(type: Type, data: Data, schema: EventSchema<unknown>, text: JsonText | undefined) {
    this.type = type;
    this.data = data;
    this.schema = schema;
    this.text = text;
  }
}

/**
 * A draft that `makeEvent` neither copies nor checks, because the caller did. `text` is the data as
 * `JSON.stringify` would write it, for a type whose name needs no escapes.
 */
export function checkedDraft<Type extends string, Data>(
  type: Type,
  data: Data,
  schema: EventSchema<unknown>,
  text?: JsonText,
): Draft<Type, Data> {
  return new CheckedDraft(type, data, schema, text);
}

/** Turns a draft into an event: copied, frozen, and checked against its schema. An invalid one throws. */
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

/** Turns drafts into events, and those into the text of a write: the JSON array of them. */
export function writeEvents<State>(
  kind: StreamKind<State>,
  drafts: readonly Draft[],
  at: number,
): { readonly events: readonly Event[]; readonly text: JsonText } {
  const events: Event[] = [];
  const text = new JsonText();
  for (const draft of drafts) {
    const event = makeEvent(kind, draft, at);
    text.json(events.length === 0 ? "[" : ",");
    // The draft's text is that of its own data; an event with other data was checked and copied anew.
    const dataText = draft instanceof CheckedDraft && event.data === draft.data ? draft.text : undefined;
    if (dataText === undefined) text.json(JSON.stringify(event));
    else {
      text.json(`{"type":"${event.type}","v":${event.v},"at":${at},"data":`);
      text.add(dataText);
      text.json("}");
    }
    events.push(event);
  }
  text.json(events.length === 0 ? "[]" : "]");
  return { events, text };
}

/** Brings a stored event to the current version of its type. */
function upcast<State>(kind: FoldKind<State>, spec: AnyFoldSpec<State>, stored: Event): Json {
  if (stored.v > spec.version) {
    const versions = `version ${stored.v} (this release knows ${spec.version})`;
    throw new HoldfastError("EVENT_TOO_NEW", `${kind.kind} stream: event ${stored.type} has ${versions}`, {
      hint: "Upgrade holdfast to the release that wrote it, or a later one. Nothing was changed.",
    });
  }
  let data = stored.data as Json;
  for (let version = stored.v; version < spec.version; version++) {
    const step = spec.upcasts?.[version];
    if (!step) {
      throw new HoldfastError(
        "EVENT_CORRUPT",
        `event ${stored.type}: no upcast from version ${version} to ${version + 1} (stored as ${stored.v})`,
        { hint: "Report this bug: a release of holdfast lost the upcast of its own event." },
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
    `${kind.kind} stream: unknown event type ${JSON.stringify(type)}`,
    {
      hint: "A later release or another integration wrote it: open it with that one. Nothing was changed.",
      data: { kind: kind.kind, type },
    },
  );
}

/** The data that a schema accepts. */
export type DataOf<Schema> = Schema extends EventSchema<infer Data> ? Data : never;

/**
 * A schema that is built on first use. Our tables have some seventy and a program needs a few; building all
 * of them would take longer than opening a store.
 */
export function lazySchema<Data>(make: () => EventSchema<Data>): EventSchema<Data> {
  let schema: EventSchema<Data> | undefined;
  const lazy = {
    /** The real schema. The reference of all events is written from it. */
    get schema(): EventSchema<Data> {
      schema ??= make();
      return schema;
    },
    safeParse: (value: unknown) => lazy.schema.safeParse(value),
  };
  return lazy;
}

/** Fields of a stream that lists and views show. An absent field keeps its value, `null` clears it. */
export interface StreamFacets {
  readonly status?: string | null;
  readonly title?: string | null;
  readonly goal?: string | null;
  /** Calls without an outcome. A stream with open calls is not removed. */
  readonly openCalls?: number;
  /** Wall clock in milliseconds, after which the state is stale. */
  readonly expiresAt?: number | null;
  /** Small JSON text, for the budgets view. */
  readonly budget?: string | null;
}

/** The last moment that a Date can hold, as an integer. */
const LAST_MOMENT = 8_640_000_000_000_000;

/** The moment after which a state changed at `at` is stale: an integer that every store can keep. */
export function expiryOf(at: number, ttlMs: number): number {
  return Math.min(Math.floor(at + ttlMs), LAST_MOMENT);
}

/**
 * One row inside a stream that lists and views show: a call, a checkpoint, a decision. An absent field keeps
 * its value. An item without `doneAt` is open.
 */
export interface Item {
  readonly kind: string;
  readonly id: string;
  /** The events that hold the content of its beginning, and of its end. */
  readonly seq?: number;
  readonly endSeq?: number;
  readonly status?: string;
  readonly name?: string;
  readonly key?: string;
  readonly at?: number;
  readonly doneAt?: number | null;
}
