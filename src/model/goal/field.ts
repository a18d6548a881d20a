/**
 * The values that goal events may hold: bounded text, ids that the goal gives, paths below the root.
 *
 * Only this file and the `…-schemas.ts` files load zod: a program that only reads a goal starts without it.
 */

import * as z from "zod";
import type { Json } from "../json.ts";
import { isRelativePath } from "./naming.ts";
import {
  type ContentOf,
  contentOf,
  type Field,
  type RecordTable,
  type ValueKind,
  type ValueOf,
} from "./record-table.ts";
import { ROLES } from "./roles.ts";

/**
 * State is read at every resume, so it stays small: what is longer than this belongs into a file or an artifact,
 * and the goal keeps its path or hash.
 */
const LINE_LIMIT = 500;
const TEXT_LIMIT = 20_000;
const VALUE_LIMIT = 32_768;

export const line = z.string().min(1).max(LINE_LIMIT);
export const text = z.string().min(1).max(TEXT_LIMIT);
export const optionalText = text.nullable();
export const ordinal = z.int().min(1);
export const wallClock = z.int().min(0);

export const taskId = z.string().regex(/^T-\d{3,}$/, "must look like T-001");
export const decisionId = z.string().regex(/^D-\d{3,}$/, "must look like D-001");
export const blockerId = z.string().regex(/^B-\d{3,}$/, "must look like B-001");
export const questionId = z.string().regex(/^Q-\d{3,}$/, "must look like Q-001");
export const sessionName = z.string().min(1).max(128);
export const contentHash = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in lower-case hex");

export const relativePath = z
  .string()
  .refine(isRelativePath, "must be a path below the root, with / between names and without . or ..");

export const eventUid = z.string().regex(/^[0-9a-z]{12,40}$/, "must be the id of an event");

export const bySchema = z.strictObject({ name: z.string().min(1).max(128), role: z.enum(ROLES) });

/** On every event: who did it, and the id by which every copy of the goal knows it. */
export const stamp = { by: bySchema, uid: eventUid.optional() };

const json = z
  .json()
  .refine(
    (value) => JSON.stringify(value).length <= VALUE_LIMIT,
    `must be below ${VALUE_LIMIT} characters: store it as a file or an artifact and keep its path or hash here`,
  ) as unknown as z.ZodType<Json>;

const whole = z.int().min(0);

const KINDS: Readonly<Record<ValueKind, z.ZodType>> = {
  line,
  text,
  output: z.string().max(TEXT_LIMIT),
  day: z.iso.date(),
  ordinal,
  count: whole,
  whole,
  integer: z.int(),
  share: z.number().min(0).max(1),
  flag: z.boolean(),
  time: wallClock,
  path: relativePath,
  hash: contentHash,
  taskId,
  decisionId,
  blockerId,
  questionId,
  sessionId: sessionName,
  session: sessionName,
  eventUid,
  actor: bySchema,
  json,
};

type Shape<Table extends RecordTable> = { [Name in keyof Table]: z.ZodType<ValueOf<Table[Name]>> };

/** What an event may hold of a record. */
export function shapeOf<Table extends RecordTable>(table: Table): Shape<Table> {
  return Object.fromEntries(
    Object.entries(table).map(([name, field]) => [name, schemaOf(field)]),
  ) as unknown as Shape<Table>;
}

/** The part of it that an author gives. */
export function contentShape<Table extends RecordTable>(table: Table): Shape<ContentOf<Table>> {
  return shapeOf(contentOf(table) as ContentOf<Table> & RecordTable) as Shape<ContentOf<Table>>;
}

function schemaOf({ type, many, atLeast = 0, nullable }: Field): z.ZodType {
  const one = oneOf(type);
  if (many) return z.array(one).min(atLeast);
  return nullable ? one.nullable() : one;
}

function oneOf(type: Field["type"]): z.ZodType {
  if (typeof type === "string") return KINDS[type];
  return isWords(type) ? z.enum(type) : z.strictObject(shapeOf(type));
}

const isWords = (type: readonly string[] | RecordTable): type is readonly string[] => Array.isArray(type);
