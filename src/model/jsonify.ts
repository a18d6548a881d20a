/**
 * The JSON form of a value that is not plain JSON, such as the result of a tool whose effect has happened. It
 * cannot be rejected any more, so everything that has a JSON form is kept, and each change is described.
 */

import { formatPath, type Json } from "./json.ts";

/**
 * The type of a value as the log gives it back: a Date is text, a Map is a list of pairs, a function is gone.
 *
 * @example
 * type Charge = Jsonify<{ at: Date; of: Map<string, number> }>; // { at: string; of: [string, number][] }
 */
export type Jsonify<Value> = 0 extends 1 & Value
  ? Value
  : unknown extends Value
    ? Json
    : Value extends Json
      ? Value
      : Value extends { toJSON(...args: never): infer Form }
        ? Jsonify<Form>
        : Value extends bigint
          ? string
          : Value extends Gone | Nothing
            ? null
            : Value extends ReadonlyMap<infer Key, infer Member>
              ? [Jsonify<Key>, Jsonify<Member>][]
              : Value extends ReadonlySet<infer Member>
                ? Jsonify<Member>[]
                : Value extends NumberArray
                  ? number[]
                  : Value extends readonly unknown[]
                    ? { [Index in keyof Value]: Jsonify<Value[Index]> }
                    : Value extends Error
                      ? JsonifyMembers<Omit<Value, "stack" | "cause">>
                      : JsonifyMembers<Value>;

type Gone = symbol | ((...args: never) => unknown) | (abstract new (...args: never) => unknown);
type Nothing = undefined | ReturnType<() => void>;
type NumberArray = Exclude<ArrayBufferView, DataView> & { readonly [index: number]: number };

type JsonifyMembers<Value> = Flat<
  { [Name in keyof Value as KeyIf<Value, Name, false>]: Jsonify<Value[Name]> } & {
    [Name in keyof Value as KeyIf<Value, Name, true>]?: Jsonify<Exclude<Value[Name], undefined>>;
  }
>;

/** The name of a member that stays. It may be missing if it can be undefined. */
type KeyIf<Value, Name extends keyof Value, MayBeMissing extends boolean> = Name extends symbol
  ? never
  : [Exclude<Value[Name], Gone | undefined>] extends [never]
    ? never
    : undefined extends Value[Name]
      ? unknown extends Value[Name]
        ? KeyWhen<Name, false, MayBeMissing>
        : KeyWhen<Name, true, MayBeMissing>
      : KeyWhen<Name, false, MayBeMissing>;

type KeyWhen<Name, Is extends boolean, Wanted extends boolean> = Is extends Wanted ? Name : never;
type Flat<Members> = { [Name in keyof Members]: Members[Name] };

const MAX_DEPTH = 200;
const NAMED_CHANGES = 5;
const PATH_CHARACTERS = 80;

/** A member without a JSON form. A list has null in its place, so that the others keep their index. */
const LEFT_OUT = Symbol("left out");
type Kept = Json | typeof LEFT_OUT;

/**
 * The frozen JSON form of any value, and its differences from the original: `$.at is a Date, kept as text`.
 * Never throws: a member whose getter throws is left out.
 */
export function jsonify(value: unknown): { readonly value: Json; readonly changes: string } {
  const walk = new Walk();
  const kept = walk.keep(value, false);
  return { value: kept === LEFT_OUT ? null : kept, changes: walk.describe() };
}

class Walk {
  private readonly path: (string | number)[] = [];
  private readonly above: object[] = [];
  private readonly changes: string[] = [];
  private more = 0;

  describe(): string {
    return this.changes.join("; ") + (this.more > 0 ? `; and ${this.more} more` : "");
  }

  /** `isForm`: the value is what `toJSON` returned, so its own `toJSON` is not called. */
  keep(value: unknown, isForm: boolean): Kept {
    switch (typeof value) {
      case "string":
      case "boolean":
        return value;
      case "number":
        return Number.isFinite(value) ? value + 0 : this.change(`is ${value}, kept as null`, null);
      case "bigint":
        return this.change("is a bigint, kept as text", String(value));
      case "object":
        return value === null ? null : this.keepObject(value, isForm);
      case "undefined":
        return this.path.length === 0 ? LEFT_OUT : this.leaveOut("is undefined");
      default:
        return this.leaveOut(`is a ${typeof value}`);
    }
  }

  private keepObject(value: object, isForm: boolean): Kept {
    if (this.above.includes(value)) return this.leaveOut("contains itself");
    if (this.above.length >= MAX_DEPTH) return this.leaveOut(`is nested deeper than ${MAX_DEPTH} levels`);
    const before = this.changes.length;
    const depth = this.path.length;
    this.above.push(value);
    try {
      return this.formOf(value, isForm);
    } catch {
      // Its proxy, its `toJSON` or its iterator threw: nothing of it can be trusted.
      this.path.length = depth;
      this.changes.length = Math.min(before, this.changes.length);
      return this.leaveOut("cannot be read");
    } finally {
      this.above.pop();
    }
  }

  private formOf(value: object, isForm: boolean): Kept {
    if (Array.isArray(value)) return this.keepList(value);
    const toJSON = readOr(null, () => (value as { toJSON?: unknown }).toJSON);
    if (!isForm && typeof toJSON === "function") {
      const form: unknown = toJSON.call(value, String(this.path.at(-1) ?? ""));
      this.note(`is ${named(value)}, kept as ${kindOf(form)}`);
      // The same object again is not a circle: it was only asked for its form.
      if (form === value) this.above.pop();
      const kept = this.keep(form, true);
      if (form === value) this.above.push(value);
      return kept;
    }
    if (value instanceof Map) return this.changeTo("a list of pairs", value, () => this.keepList([...value]));
    if (value instanceof Set) return this.changeTo("a list", value, () => this.keepList([...value]));
    if (ArrayBuffer.isView(value) && !(value instanceof DataView))
      return this.changeTo("a list", value, () => this.keepList(Array.from(value as Uint8Array)));
    if (value instanceof String || value instanceof Number || value instanceof Boolean)
      return this.changeTo("its value", value, () => this.keep(value.valueOf(), true));
    if (value instanceof Error) {
      const { name, message } = value;
      return this.changeTo("its fields", value, () => this.keepMembers({ ...value, name, message }));
    }
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype === Object.prototype || prototype === null) return this.keepMembers(value);
    return this.changeTo("its fields", value, () => this.keepMembers(value));
  }

  private keepList(list: readonly unknown[]): Json {
    const kept: Json[] = [];
    for (let index = 0; index < list.length; index++) {
      const each = this.keepAt(index, list[index]);
      kept.push(each === LEFT_OUT ? null : each);
    }
    return Object.freeze(kept);
  }

  private keepMembers(value: object): Json {
    if (Object.getOwnPropertySymbols(value).length > 0) this.note("has a symbol as key, left out");
    const kept: Record<string, Json> = {};
    for (const name of Object.keys(value)) {
      const member = readOr(UNREADABLE, () => (value as Record<string, unknown>)[name]);
      // The log drops undefined members of plain values as well.
      if (member === undefined) continue;
      const each = this.keepAt(name, member);
      // An assignment to "__proto__" would set the prototype and lose the member.
      if (each !== LEFT_OUT) Object.defineProperty(kept, name, { value: each, enumerable: true });
    }
    return Object.freeze(kept);
  }

  private keepAt(at: string | number, value: unknown): Kept {
    this.path.push(at);
    const kept = value === UNREADABLE ? this.leaveOut("cannot be read") : this.keep(value, false);
    this.path.pop();
    return kept;
  }

  private changeTo(form: string, value: object, keep: () => Kept): Kept {
    this.note(`is ${named(value)}, kept as ${form}`);
    return keep();
  }

  private change(problem: string, kept: Json): Json {
    this.note(problem);
    return kept;
  }

  private leaveOut(problem: string): Kept {
    this.note(`${problem}, left out`);
    return LEFT_OUT;
  }

  private note(change: string): void {
    if (this.changes.length >= NAMED_CHANGES) {
      this.more++;
      return;
    }
    const path = formatPath(this.path);
    const shown = path.length > PATH_CHARACTERS ? `${path.slice(0, PATH_CHARACTERS)}…` : path;
    this.changes.push(`${shown} ${change}`);
  }
}

const UNREADABLE = Symbol("unreadable");

/** A getter or a proxy may throw. */
function readOr<Other>(other: Other, read: () => unknown): unknown {
  try {
    return read();
  } catch {
    return other;
  }
}

function named(value: object): string {
  const name = readOr("", () => value.constructor.name);
  const known = typeof name === "string" && name !== "" ? name.slice(0, PATH_CHARACTERS) : "object";
  return `${/^[AEIOU]/i.test(known) ? "an" : "a"} ${known}`;
}

function kindOf(form: unknown): string {
  if (typeof form === "string") return "text";
  if (Array.isArray(form)) return "a list";
  return typeof form === "object" && form !== null ? "an object" : String(typeof form);
}

// ---- Size

/** Below the longest string of V8 and the largest value of SQLite. */
const LONGEST_JSON = 500_000_000;
const KEPT_CHARACTERS = 1_000_000;

/** The effect has happened: of a result that no store can hold, its beginning is kept. */
export function cutResult(value: Json, note: string | null): { value: Json; note: string | null } {
  if (maxJsonBytes(value) <= LONGEST_JSON || fitsJson(value)) return { value, note };
  const kept = typeof value === "string" ? value.slice(0, KEPT_CHARACTERS).toWellFormed() : null;
  const what = kept === null ? "nothing of it is kept" : `its first ${KEPT_CHARACTERS} characters are kept`;
  const cut = `the result is longer than ${LONGEST_JSON / 1_000_000} MB as JSON: ${what}`;
  return { value: kept, note: note === null ? cut : `${note}; ${cut}` };
}

function fitsJson(value: Json): boolean {
  try {
    return new TextEncoder().encode(JSON.stringify(value)).length <= LONGEST_JSON;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

const NUMBER_BYTES = 26;

/** An upper bound for the size as JSON: a UTF-16 unit takes at most six bytes, as in `\u0000`. */
export function maxJsonBytes(value: Json): number {
  if (typeof value === "string") return 6 * value.length + 2;
  if (typeof value !== "object" || value === null) return NUMBER_BYTES;
  let bytes = 2;
  if (Array.isArray(value)) for (const each of value) bytes += maxJsonBytes(each as Json) + 1;
  else
    for (const name of Object.keys(value))
      bytes += maxJsonBytes(name) + maxJsonBytes(value[name as never]) + 2;
  return bytes;
}
