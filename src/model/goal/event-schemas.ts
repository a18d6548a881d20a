/**
 * The schema of every goal event.
 *
 * Only this file and `goal-kind.ts` load zod: a program that only reads a goal starts without it. Each schema
 * is built when an event of its type is first written.
 */

import * as z from "zod";
import { isJsonWithin, type Json } from "../json.ts";
import { isId } from "../names.ts";
import { type DataOf, lazySchema } from "../stream/index.ts";
import { type Entry, ITEM_ID, MAX_COUNT, MERGED, RENUMBERED, RETRACTED, SIGNED } from "./entries.ts";
import type { GoalDelta } from "./merge.ts";
import type { MergeNote } from "./merge-notes.ts";
import { AFFECTS, DECISION, FACT } from "./note-records.ts";
import { FILE_ACTS, isRelativePath } from "./notes.ts";
import type { ContentOf, Field, RecordTable, ValueKind, ValueOf } from "./record-table.ts";
import { contentOf } from "./record-table.ts";
import { ROLES, VERIFICATIONS } from "./roles.ts";
import { BUILD_TASK, EVIDENCE, REVIEW_TASK, TASK_PLAN } from "./task-records.ts";

/** State is read at every resume, so it stays small: longer values belong into a file or an artifact. */
const LINE_LIMIT = 500;
const TEXT_LIMIT = 20_000;
const VALUE_LIMIT = 32_768;
/** Far below the limit of a log (200), because a merge wraps each value in up to eight levels of its own. */
const VALUE_DEPTH = 100;

const line = z.string().min(1).max(LINE_LIMIT);
const text = z.string().min(1).max(TEXT_LIMIT);
const optionalText = text.nullable();
const ordinal = z.int().min(1);
const whole = z.int().min(0);
/** Up to the year 9999: a later time has no ISO form with four digits, and no file could show it. */
const LAST_TIME = 253_402_300_799_999;
const time = z.int().min(0).max(LAST_TIME);
const MAX_TTL_MS = 100 * 366 * 86_400_000;
const share = z.number().min(0).max(1);

const itemId = (series: string) =>
  z.string().refine((id) => id.startsWith(series) && ITEM_ID.test(id), `must look like ${series}-001`);
const taskId = itemId("T");
const decisionId = itemId("D");
const blockerId = itemId("B");
const questionId = itemId("Q");
const assumptionId = itemId("A");
const anyItemId = z.string().regex(ITEM_ID, "must look like T-001");
const goalId = z.string().refine(isId, "must be the id of a goal");
const sessionName = z.string().min(1).max(128);
const contentHash = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in lower-case hex");

const commitHash = z.string().regex(/^[0-9a-f]{7,64}$/, "must be the hash of a commit");

const pathHint = "must be a path below the root, with / between names and without . or ..";
const relativePath = z.string().refine(isRelativePath, pathHint);
const UID = /^[0-9a-f]{40}$/;
const eventUid = z.string().regex(UID, "must be the id of an event");

export const bySchema = z.strictObject({ name: z.string().min(1).max(128), role: z.enum(ROLES) });

/**
 * On every event: its actor, and the uid by which every copy of the goal knows it. `observed`: a hook noted
 * it while it watched an agent, so it does not make a stale goal fresh. `clone`: the clone that wrote it.
 */
const cloneId = z.string().regex(/^[0-9a-f]{8}$/, "must be the id of a clone");
const stamp = {
  by: bySchema,
  uid: eventUid.optional(),
  observed: z.literal(true).optional(),
  clone: cloneId.optional(),
};

const elsewhere = "store it as a file or an artifact and keep its path or hash";
const jsonHint = `must be below ${VALUE_LIMIT} characters and ${VALUE_DEPTH} levels: ${elsewhere}`;
const json = z.custom<Json>((value) => isJsonWithin(value, VALUE_LIMIT, VALUE_DEPTH), jsonHint);

const KINDS: Readonly<Record<ValueKind, z.ZodType>> = {
  line,
  text,
  output: z.string().max(TEXT_LIMIT),
  day: z.iso.date(),
  ordinal,
  count: whole,
  whole,
  integer: z.int(),
  share,
  flag: z.boolean(),
  time,
  path: relativePath,
  hash: contentHash,
  taskId,
  decisionId,
  blockerId,
  questionId,
  assumptionId,
  sessionId: sessionName,
  session: sessionName,
  eventUid,
  actor: bySchema,
  json,
};

type Shape<Table extends RecordTable> = { [Name in keyof Table]: z.ZodType<ValueOf<Table[Name]>> };

function shapeOf<Table extends RecordTable>(table: Table): Shape<Table> {
  const shape = Object.entries(table).map(([name, field]) => [name, schemaOf(field)]);
  return Object.fromEntries(shape) as Shape<Table>;
}

function contentShape<Table extends RecordTable>(table: Table): Shape<ContentOf<Table>> {
  return shapeOf(contentOf(table) as ContentOf<Table> & RecordTable) as Shape<ContentOf<Table>>;
}

function schemaOf({ type, many, atLeast = 0, nullable }: Field): z.ZodType {
  const one = oneOf(type);
  if (many) return z.array(one).min(atLeast);
  return nullable ? one.nullable() : one;
}

function oneOf(type: Field["type"]): z.ZodType {
  if (typeof type === "string") return KINDS[type];
  return isWordList(type) ? z.enum(type) : z.strictObject(shapeOf(type));
}

const isWordList = (type: readonly string[] | RecordTable): type is readonly string[] => Array.isArray(type);

const settings = () => ({
  statement: text,
  title: line.nullable(),
  ttlMs: z.int().positive().max(MAX_TTL_MS).nullable(),
  verification: z.enum(VERIFICATIONS),
  maxAttempts: ordinal,
});

/** On events under a claim: the event that made it. Its token means nothing to other copies of the goal. */
const claimed = { task: taskId, token: whole, claim: eventUid.optional() };

const stamped = <Shape extends z.ZodRawShape>(shape: () => Shape) =>
  lazySchema(() => z.strictObject({ ...stamp, ...shape() }));

const phaseChanged = stamped(() => ({ phase: ordinal }));
const taskChanged = stamped(() => ({ task: taskId, why: text }));
/** `submission`: the event that submitted the judged work. Another copy may have submitted other work. */
const taskJudged = stamped(() => ({ task: taskId, submission: eventUid.optional(), why: optionalText }));

const sessionNote = () => ({
  session: sessionName,
  contextUsage: share.nullable(),
  issues: z.array(text),
  notes: optionalText,
});

const recordedFile = () =>
  z
    .strictObject({ path: relativePath, hash: contentHash.nullable(), act: z.enum(FILE_ACTS) })
    .refine(({ hash, act }) => (hash === null) === (act === "deleted"), {
      message: "needs the content's hash, unless the file was deleted",
      path: ["hash"],
    });

/** `commit` and `author` are null if git does not know them, `clone` if the events name none. */
const mergedSource = () =>
  z.strictObject({
    commit: commitHash.nullable(),
    author: line.nullable(),
    clone: cloneId.nullable(),
    events: z.array(whole),
  });

const SIGNED_AT_ONCE = 1_000;
const SIGNATURE_CHARACTERS = 16_384;

const ITEM_NAME = /^(?:[TDBQA]-\d{3,6}|P\d{1,9}(?:\.\d{1,9})?)$/;

const isInteger = (value: unknown, least: number, most: number): boolean =>
  Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isUid = (value: unknown): boolean => typeof value === "string" && UID.test(value);

const ENTRY: { readonly [Part in keyof Entry]: (value: unknown) => boolean } = {
  uid: isUid,
  t: (value) => isInteger(value, 0, LAST_TIME),
  c: (value) => isInteger(value, 0, MAX_COUNT),
  type: (value) => typeof value === "string" && value !== "" && value.length <= LINE_LIMIT,
  v: (value) => isInteger(value, 1, Number.MAX_SAFE_INTEGER),
  at: (value) => isInteger(value, 0, LAST_TIME),
  refs: (value) =>
    isObject(value) && Object.entries(value).every(([name, uid]) => ITEM_NAME.test(name) && isUid(uid)),
  data: isObject,
};
const ENTRY_PARTS = Object.keys(ENTRY) as (keyof Entry)[];

/**
 * Whether a value has the parts of an entry; its event has a schema of its own. Not by zod, which takes ten
 * times as long for the first thousands: a hook reads all events that a pull brought.
 */
export function isEntry(value: unknown): value is Entry {
  if (!isObject(value) || Object.keys(value).length !== ENTRY_PARTS.length) return false;
  return ENTRY_PARTS.every((part) => ENTRY[part]((value as Partial<Entry>)[part]));
}

export const eventSchemas = {
  "goal.created": stamped(() => ({ id: goalId, ...settings() })),
  "goal.described": stamped(() => ({ change: z.strictObject(settings()).partial() })),
  "phase.added": stamped(() => ({ number: ordinal, name: line })),
  "phase.entered": phaseChanged,
  "phase.completed": phaseChanged,
  "plan.added": stamped(() => ({ phase: ordinal, number: ordinal, name: line })),
  "task.added": lazySchema(() => {
    const head = { ...stamp, id: taskId };
    const content = contentShape(TASK_PLAN);
    return z.discriminatedUnion("kind", [
      z.strictObject({ ...head, kind: z.literal("build"), ...content, ...contentShape(BUILD_TASK) }),
      z.strictObject({ ...head, kind: z.literal("review"), ...content, ...contentShape(REVIEW_TASK) }),
    ]);
  }),
  "task.edited": lazySchema(() => {
    const kinds = { ...contentShape(BUILD_TASK), ...contentShape(REVIEW_TASK) };
    const content = { ...contentShape(TASK_PLAN), ...kinds };
    return z.strictObject({ ...stamp, task: taskId, change: z.strictObject(content).partial() });
  }),
  "task.aliased": stamped(() => ({ alias: taskId, task: taskId })),
  /** `after`: the claim that it takes over. `as`: the task's id at that time, whatever it is later. */
  "task.claimed": stamped(() => ({
    task: taskId,
    session: sessionName.nullable(),
    token: whole,
    after: eventUid.nullable().optional(),
    as: taskId.optional(),
  })),
  "task.progressed": stamped(() => ({ ...claimed, note: optionalText })),
  "task.submitted": stamped(() => ({ ...claimed, evidence: z.strictObject(shapeOf(EVIDENCE)) })),
  "task.accepted": taskJudged,
  "task.rejected": taskJudged,
  "task.failed": stamped(() => ({ ...claimed, error: text, retryable: z.boolean() })),
  "task.released": stamped(() => ({ ...claimed, why: optionalText })),
  "task.reset": stamped(() => ({ task: taskId, claim: claimed.claim, why: text })),
  "task.retried": taskChanged,
  "task.dropped": taskChanged,
  "task.reopened": taskChanged,
  "decision.made": stamped(() => ({
    id: decisionId,
    ...contentShape(DECISION),
    supersedes: decisionId.nullable(),
  })),
  /** `reportedAt`, and `identifiedAt` below: given if that was before the goal existed. */
  "blocker.reported": stamped(() => ({
    id: blockerId,
    description: text,
    affects: z.strictObject(shapeOf(AFFECTS)),
    workaround: optionalText.optional(),
    reportedAt: time.optional(),
  })),
  "blocker.identified": stamped(() => ({ blocker: blockerId, identifiedAt: time.optional() })),
  "blocker.bypassed": stamped(() => ({ blocker: blockerId, workaround: text, followUps: z.array(taskId) })),
  "blocker.resolved": stamped(() => ({ blocker: blockerId, resolution: text })),
  "fact.set": stamped(() => ({ ...contentShape(FACT) })),
  "fact.forgotten": stamped(() => ({ key: line, why: text })),
  "files.recorded": stamped(() => ({
    files: z.array(recordedFile()).min(1),
    task: taskId.nullable(),
    session: sessionName.nullable(),
  })),
  "implementation.noted": stamped(() => ({ text, files: z.array(relativePath) })),
  "question.asked": stamped(() => ({ id: questionId, text })),
  "question.answered": stamped(() => ({ question: questionId, answer: text })),
  "assumption.made": stamped(() => ({ id: assumptionId, text })),
  "assumption.settled": stamped(() => ({
    assumption: assumptionId,
    status: z.enum(["confirmed", "refuted"]),
    evidence: text,
  })),
  "next.set": stamped(() => ({ text: optionalText, task: taskId.nullable() })),
  "error.recorded": stamped(() => ({ message: text, task: taskId.nullable() })),
  /**
   * `left`: parts of the edit that no event can express; the edited file was kept beside. `commit`: the one
   * that brought it from another clone.
   */
  "edit.taken": stamped(() => ({
    commit: commitHash.optional(),
    file: relativePath,
    hash: contentHash,
    editedAt: time,
    left: z.array(text),
  })),
  /** `startedAt`: for a session that began before the goal knew of it. */
  "session.started": stamped(() => ({
    session: sessionName,
    agent: line,
    resumes: sessionName.nullable(),
    notes: optionalText,
    startedAt: time.optional(),
  })),
  "session.noted": stamped(sessionNote),
  "session.ended": stamped(() => ({
    ...sessionNote(),
    completed: z.array(line),
    handoffReason: optionalText,
    endedAt: time.optional(),
  })),
  "session.crashed": stamped(() => ({ session: sessionName, notes: optionalText })),
  [RENUMBERED]: stamped(() => ({ item: eventUid, name: anyItemId })),
  /** Written by a merge only, because it changes the effect of earlier events. */
  [RETRACTED]: stamped(() => ({ event: eventUid, why: text })),
  [SIGNED]: stamped(() => ({
    events: z.array(eventUid).min(1).max(SIGNED_AT_ONCE),
    signature: z.string().min(1).max(SIGNATURE_CHARACTERS),
  })),
  /**
   * `outdated`: events whose notes of earlier merges no longer hold. `isOwn`: the entries were written here.
   * `confirmed`: waiting events that `by` confirmed. `sources`: commits, with the places of their entries.
   * `signed`: events whose signatures this copy has verified.
   */
  [MERGED]: lazySchema(() =>
    z.strictObject({
      by: bySchema,
      entries: z.array(z.custom<Entry>(isEntry)),
      isOwn: z.literal(true).optional(),
      confirmed: z.array(eventUid).optional(),
      sources: z.array(mergedSource()).readonly().optional(),
      signed: z
        .array(z.strictObject({ signer: line, events: z.array(eventUid) }))
        .readonly()
        .optional(),
      delta: z.custom<GoalDelta>((value) => typeof value === "object" && value !== null),
      notes: z.custom<readonly MergeNote[]>(Array.isArray).optional(),
      outdated: z.array(eventUid).optional(),
    }),
  ),
} as const;

export type GoalEventType = keyof typeof eventSchemas;

export type EventData<Type extends GoalEventType> = DataOf<(typeof eventSchemas)[Type]>;
