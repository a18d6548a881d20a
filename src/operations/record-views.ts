/** The records of a goal as inputs and answers of operations, derived from the tables in `model/goal/`. */

import * as z from "zod";
import type { Actor, Field, InputOf, RecordTable, ValueKind, Values } from "../model/goal/index.ts";
import { contentOf, initialOf, ROLES } from "../model/goal/index.ts";

export const time = z.iso.datetime();
const text = z.string();
const who = z.strictObject({ name: text, role: z.enum(ROLES) });

export function iso(at: number): string {
  return new Date(at).toISOString();
}

export function isoOrNull(at: number | null): string | null {
  return at === null ? null : iso(at);
}

/** The fields of `from` that the schema has, in its order. */
export function pickFields<Shape extends z.ZodRawShape>(
  { shape }: z.ZodObject<Shape>,
  from: z.input<z.ZodObject<Shape>>,
): z.input<z.ZodObject<Shape>> {
  const source = from as Readonly<Record<string, unknown>>;
  return Object.fromEntries(Object.keys(shape).map((name) => [name, source[name]])) as typeof from;
}

const KINDS: Readonly<Record<ValueKind, z.ZodType>> = {
  line: text,
  text,
  output: text,
  day: text,
  ordinal: z.int(),
  count: z.int(),
  whole: z.int(),
  integer: z.int(),
  share: z.number(),
  flag: z.boolean(),
  time,
  path: text,
  hash: text,
  taskId: text,
  decisionId: text,
  blockerId: text,
  questionId: text,
  assumptionId: text,
  sessionId: text,
  session: text,
  eventUid: text,
  actor: who,
  json: z.json(),
};

type ViewOne<Type> = Type extends "time"
  ? string
  : Type extends "json"
    ? z.core.util.JSONType
    : Type extends ValueKind
      ? Values[Type]
      : Type extends readonly (infer Word)[]
        ? Word
        : Type extends RecordTable
          ? ViewOf<Type>
          : never;

type ViewValue<Of extends Field> = Of extends { many: true }
  ? readonly ViewOne<Of["type"]>[]
  : Of extends { nullable: true }
    ? ViewOne<Of["type"]> | null
    : ViewOne<Of["type"]>;

type ViewName<Name, Of> = Of extends { view: false } | { flat: true }
  ? never
  : Of extends { view: infer Other extends string }
    ? Other
    : Name;

type FlatName<Table> = {
  [Name in keyof Table]: Table[Name] extends { flat: true } ? Name : never;
}[keyof Table];

type OwnView<Table extends RecordTable> = {
  -readonly [Name in keyof Table as ViewName<Name, Table[Name]>]: ViewValue<Table[Name]>;
};

export type ViewOf<Table extends RecordTable> = [FlatName<Table>] extends [never]
  ? OwnView<Table>
  : OwnView<Table> & ViewOne<Table[FlatName<Table>]["type"]>;

type ViewShape<View> = { [Name in keyof View]: z.ZodType<View[Name], View[Name]> };

interface Column {
  readonly name: string;
  readonly field: Field;
  readonly shownAs: string;
}

/** The members of a view: in the order of the table, then the names in `last`, then those of flat records. */
function columnsOf(table: RecordTable, last: readonly string[]): Column[] {
  const columns = Object.entries(table)
    .filter(([, { view }]) => view !== false)
    .map(([name, field]) => ({ name, field, shownAs: field.view || name }));
  const rank = ({ name, field }: Column): number => (field.flat ? last.length : last.indexOf(name));
  return columns.sort((a, b) => rank(a) - rank(b));
}

export function viewShape<Table extends RecordTable>(
  table: Table,
  last: readonly string[] = [],
): ViewShape<ViewOf<Table>> {
  const members = columnsOf(table, last).map(({ field, shownAs }): Record<string, z.ZodType> => {
    const { type, many, nullable } = field;
    if (field.flat) return viewShape(type as RecordTable) as Record<string, z.ZodType>;
    const one = oneSchema(type);
    if (many) return { [shownAs]: z.array(one) };
    return { [shownAs]: nullable ? one.nullable() : one };
  });
  return Object.assign({}, ...members) as ViewShape<ViewOf<Table>>;
}

function oneSchema(type: Field["type"]): z.ZodType {
  if (typeof type === "string") return KINDS[type];
  return isWords(type) ? z.enum(type) : z.strictObject(viewShape(type) as Record<string, z.ZodType>);
}

const isWords = (type: readonly string[] | RecordTable): type is readonly string[] => Array.isArray(type);

type InputShape<Input> = {
  [Name in keyof Input]-?: Pick<Input, Name> extends Required<Pick<Input, Name>>
    ? z.ZodType<Input[Name], Input[Name]>
    : z.ZodOptional<z.ZodType<NonNullable<Input[Name]>, NonNullable<Input[Name]>>>;
};

/** The input for a new record. Limits of length are left to the event that it becomes. */
export function inputShape<Table extends RecordTable>(table: Table): InputShape<InputOf<Table>> {
  const shape = Object.entries<Field>(contentOf(table)).map(([name, field]) => {
    const one = oneSchema(field.type);
    const schema = field.many ? z.array(one) : one;
    return [name, initialOf(field) === undefined ? schema : schema.optional()];
  });
  return Object.fromEntries(shape) as InputShape<InputOf<Table>>;
}

/** A function from a record, with what a survey found, to its view. */
export function viewMaker<Table extends RecordTable>(
  table: Table,
  last: readonly string[] = [],
): (record: object) => ViewOf<Table> {
  const makers = columnsOf(table, last).map((column) => ({ ...column, make: valueMaker(column.field) }));
  return (record) => {
    const view: Record<string, unknown> = {};
    for (const { name, field, shownAs, make } of makers) {
      const value = (record as Record<string, unknown>)[name] ?? null;
      const made = value === null ? null : make(value);
      if (field.flat) Object.assign(view, made);
      else view[shownAs] = made;
    }
    return view as ViewOf<Table>;
  };
}

function valueMaker({ type, many }: Field): (value: unknown) => unknown {
  const one = oneMaker(type);
  return many ? (value) => (value as readonly unknown[]).map(one) : one;
}

function oneMaker(type: Field["type"]): (value: unknown) => unknown {
  if (type === "time") return (value) => iso(value as number);
  if (type === "actor") {
    return (value) => {
      const { name, role } = value as Actor;
      return { name, role };
    };
  }
  if (typeof type === "string" || isWords(type)) return (value) => value;
  return viewMaker(type) as (value: unknown) => unknown;
}
