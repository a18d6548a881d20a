/**
 * How the records of a goal are declared: one table for each record, in `task-records.ts` and
 * `note-records.ts`.
 *
 * | derived from a table | where |
 * |---|---|
 * | TypeScript types (`Task`, `DecisionRecord`, …) and input types | `RecordOf`, `InputOf` below |
 * | what an event may hold (zod) | `event-schemas.ts` |
 * | JSON Schema of the rendered files | `projections/json-schemas.ts` |
 * | rows of the rendered files, and which members a hand edit may change | `projections/record-rows.ts` |
 * | inputs and answers of operations | `operations/record-views.ts` |
 *
 * To add a field to a task, add a line to `TASK_PLAN`, raise `GOAL_FOLD_VERSION`, and run `npm run schemas`.
 * For the command line, add an option in `cli/goal-commands.ts` and a line in `taskPage`
 * (`cli/goal-pages.ts`). `test/projections/restored-state.ts` reads the files back without this table and
 * needs a line too. Fields come in the order in which the files show them. No zod here: hooks read goals and
 * must start fast.
 */

import type { Json } from "../json.ts";
import type { Actor } from "./roles.ts";

/** Raise it when a table or the fold changes: snapshots of another version are ignored. */
export const GOAL_FOLD_VERSION = 7;

/** The kinds of values, and their types in the state. Each has a line in every derivation. */
export interface Values {
  line: string; // One line, at most 500 characters.
  text: string; // One character at least.
  output: string; // May be empty: what a command printed.
  day: string; // A calendar day, `2024-01-15`.
  ordinal: number; // 1, 2, 3 …
  count: number; // 0, 1, 2 …; a file leaves out 0.
  whole: number; // 0, 1, 2 …
  integer: number;
  share: number; // A part of a whole, 0 to 1.
  flag: boolean;
  time: number; // Milliseconds since 1970; ISO 8601 in files and answers.
  path: string; // A path below the root.
  hash: string; // SHA-256 in hex.
  taskId: string;
  decisionId: string;
  blockerId: string;
  questionId: string;
  assumptionId: string;
  sessionId: string; // The name of a session of the history.
  session: string; // A reference to one.
  eventUid: string; // The id by which every copy of the goal knows an event.
  actor: Actor;
  json: Json;
}
export type ValueKind = keyof Values;

export interface Field {
  /** A kind of value, the words it may be, or the fields of a record inside this one. */
  readonly type: ValueKind | readonly string[] | RecordTable;
  readonly nullable?: true;
  readonly many?: true;
  readonly atLeast?: number;
  readonly content?: true; // Given by an author: part of input and event; a hand edit may change it.
  readonly initial?: string | number | boolean; // If left out. Otherwise null, or an empty list.
  readonly surveyed?: true; // Found by a survey of the whole goal; not part of the record itself.
  readonly file?: string | false; // The name in files, if not its own in snake_case; false: not in files.
  readonly optional?: true; // A file written by hand may leave it out, although the goal always knows it.
  readonly section?: string; // Heading of its section in a Markdown file; a list has `Note 1`, `Note 2` …
  readonly view?: string | false; // The name in answers, if it is another; false: not in answers.
  readonly flat?: true; // The members of this record are written among those of the record around it.
}

export interface RecordTable {
  readonly [name: string]: Field;
}

type One<Type> = Type extends ValueKind
  ? Values[Type]
  : Type extends readonly (infer Word)[]
    ? Word
    : Type extends RecordTable
      ? RecordOf<Type>
      : never;

export type ValueOf<Of extends Field> = Of extends { many: true }
  ? readonly One<Of["type"]>[]
  : Of extends { nullable: true }
    ? One<Of["type"]> | null
    : One<Of["type"]>;

export type RecordOf<Table extends RecordTable> = {
  readonly [Name in keyof Table as Table[Name] extends { surveyed: true } ? never : Name]: ValueOf<
    Table[Name]
  >;
};

type MayBeLeftOut<Of> = Of extends { nullable: true } | { initial: string | number | boolean }
  ? true
  : Of extends { atLeast: number }
    ? false
    : Of extends { many: true }
      ? true
      : false;

export type ContentOf<Table extends RecordTable> = {
  readonly [Name in keyof Table as Table[Name] extends { content: true } ? Name : never]: Table[Name];
};

/** The input for a record: its content, in which fields with a default are optional. */
export type InputOf<Table extends RecordTable> = {
  readonly [Name in keyof Table as Table[Name] extends { content: true }
    ? MayBeLeftOut<Table[Name]> extends false
      ? Name
      : never
    : never]: ValueOf<Table[Name]>;
} & {
  readonly [Name in keyof Table as Table[Name] extends { content: true }
    ? MayBeLeftOut<Table[Name]> extends true
      ? Name
      : never
    : never]?: ValueOf<Table[Name]>;
};

export function contentOf<Table extends RecordTable>(table: Table): ContentOf<Table> {
  return Object.fromEntries(Object.entries(table).filter(([, { content }]) => content)) as ContentOf<Table>;
}

/** The names of the fields that hold names of items, such as `dependsOn`: a merge may renumber these. */
export function namesOfItems(...tables: readonly RecordTable[]): string[] {
  const isName = ({ type }: Field): boolean => typeof type === "string" && /^(?!session).*Id$/.test(type);
  return tables.flatMap((table) => Object.keys(table).filter((name) => isName(table[name] as Field)));
}

/** The value of a field that its author, or an older release, left out. Undefined: it has to be given. */
export function initialOf({ initial, nullable, many, atLeast }: Field): unknown {
  if (initial !== undefined) return initial;
  if (nullable) return null;
  return many && atLeast === undefined ? [] : undefined;
}

/** The content of a record with defaults for missing fields, in the order of the table. */
export function withInitials(table: RecordTable, input: object): Record<string, unknown> {
  const content: Record<string, unknown> = {};
  for (const [name, field] of Object.entries<Field>(contentOf(table))) content[name] = initialOf(field);
  for (const [name, value] of Object.entries(input)) if (value !== undefined) content[name] = value;
  return content;
}

export function fileName(name: string, { file }: Pick<Field, "file"> = {}): string {
  return file || name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** On most records: when they were made and last changed, as numbers of events. */
export const EVENTS = {
  seq: { type: "whole", file: false, view: false },
  revision: { type: "whole", file: false, view: false },
} as const satisfies RecordTable;
