/** The records of a goal as the rendered files show them, by the tables of `model/goal/record-table.ts`. */

import { type Actor, contentOf, type Field, fileName, type RecordTable } from "../model/goal/index.ts";
import { canonicalText } from "../model/json.ts";
import { isoTime } from "./written-text.ts";

export type Row = Record<string, unknown>;

/** Makes rows without the sections of Markdown files. `sparse` leaves out members that are null or 0. */
export function rowMaker(table: RecordTable, { sparse = false } = {}): (record: object) => Row {
  const columns = Object.entries(table).filter(([, { file, section }]) => file !== false && !section);
  const makers = columns.map(([name, field]) => ({
    name,
    column: fileName(name, field),
    make: valueMaker(field),
    isFlat: field.flat === true,
    isCount: field.type === "count",
  }));
  return (record) => {
    const row: Row = {};
    for (const { name, column, make, isFlat, isCount } of makers) {
      const value = (record as Row)[name] ?? null;
      if (isFlat) Object.assign(row, make(value));
      else if (!sparse || (value !== null && !(isCount && value === 0))) {
        row[column] = value === null ? null : make(value);
      }
    }
    return row;
  };
}

function valueMaker({ type, many }: Field): (value: unknown) => unknown {
  const one = oneMaker(type);
  if (!one) return (value) => value;
  return many ? (value) => (value as readonly unknown[]).map(one) : one;
}

function oneMaker(type: Field["type"]): ((value: unknown) => unknown) | null {
  if (type === "time") return (value) => isoTime(value as number);
  if (type === "actor") return (value) => byRow(value as Actor);
  if (type === "json") return (value) => JSON.parse(canonicalText(value)) as unknown;
  if (typeof type === "string" || Array.isArray(type)) return null;
  return rowMaker(type as RecordTable) as (value: unknown) => unknown;
}

const byRow = ({ name, role }: Actor): Row => ({ name, role });

export function snakeRow(object: object): Row {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [fileName(name), value]));
}

/** The sections of a record's Markdown file. A list has one section for each item: `Note 1`, `Note 2` … */
export function sectionsOf(table: RecordTable, record: object): Record<string, string> {
  const sections: Record<string, string> = {};
  for (const [name, { section, many }] of Object.entries(table)) {
    const value = (record as Row)[name] as string | readonly string[] | null;
    if (!section || value === null) continue;
    if (!many) sections[section] = value as string;
    else
      for (const [index, text] of (value as readonly string[]).entries())
        sections[`${section} ${index + 1}`] = text;
  }
  return sections;
}

/** Which member of a row holds which field, for the fields that a hand edit may change. */
export function editableColumns(table: RecordTable): ReadonlyMap<string, string> {
  const editable = Object.entries(table).filter(([, { content, section }]) => content && !section);
  return new Map(editable.map(([name, field]) => [fileName(name, field), name]));
}

export function readContent(
  table: RecordTable,
  row: Readonly<Row>,
  sections: ReadonlyMap<string, string>,
): Row {
  const content = Object.entries<Field>(contentOf(table));
  return Object.fromEntries(
    content.map(([name, field]) => [
      name,
      field.section ? (sections.get(field.section) ?? "") : readValue(field, row[fileName(name, field)]),
    ]),
  );
}

function readValue({ type, many }: Field, value: unknown): unknown {
  if (typeof type === "string" || Array.isArray(type)) return value;
  const fields = Object.entries(type as RecordTable);
  const one = (row: Row): Row =>
    Object.fromEntries(fields.map(([name, field]) => [name, row[fileName(name, field)]]));
  return many ? (value as readonly Row[]).map(one) : one(value as Row);
}
