/** The smaller things a goal remembers: facts, files, questions, implementations, the next action. */

import * as z from "zod";
import type { Json } from "../json.ts";
import {
  contentHash,
  line,
  optionalText,
  questionId,
  relativePath,
  sessionName,
  stamp,
  taskId,
  text,
  VALUE_LIMIT,
  wallClock,
} from "./field.ts";
import type { By } from "./roles.ts";

export interface Fact {
  readonly key: string;
  readonly value: Json;
  /** Where it is known from: a command, a file, a person. */
  readonly source: string;
  readonly expiresAt: number | null;
  readonly by: By;
  readonly at: number;
}

const value = z
  .json()
  .refine(
    (json) => JSON.stringify(json).length <= VALUE_LIMIT,
    `must be below ${VALUE_LIMIT} characters: store it as a file or an artifact and keep its path or hash here`,
  );

export const factSet = z.strictObject({
  ...stamp,
  key: line,
  value: value as unknown as z.ZodType<Json>,
  source: text,
  expiresAt: wallClock.nullable(),
});
export const factForgotten = z.strictObject({ ...stamp, key: line, why: text });

/** Facts that still hold at this wall clock. */
export function confirmedFacts(facts: Iterable<Fact>, now: number): Fact[] {
  return [...facts].filter(({ expiresAt }) => expiresAt === null || expiresAt > now);
}

const FILE_ACTS = ["examined", "modified", "deleted"] as const;
export type FileAct = (typeof FILE_ACTS)[number];

/** A file as it was when somebody last looked at it or changed it. */
export interface FileRecord {
  readonly path: string;
  /** SHA-256 of its content; null when it is meant to be gone. */
  readonly hash: string | null;
  readonly examinedAt: number | null;
  readonly modifiedAt: number | null;
  readonly task: string | null;
  readonly session: string | null;
  readonly by: By;
}

export const filesRecorded = z.strictObject({
  ...stamp,
  files: z
    .array(
      z
        .strictObject({ path: relativePath, hash: contentHash.nullable(), act: z.enum(FILE_ACTS) })
        .refine(({ hash, act }) => (hash === null) === (act === "deleted"), {
          message: "needs the content's hash, unless the file was deleted",
          path: ["hash"],
        }),
    )
    .min(1),
  task: taskId.nullable(),
  session: sessionName.nullable(),
});

/** Something that was built and that a later session can check against the code. */
export interface KeyImplementation {
  readonly text: string;
  readonly files: readonly string[];
  readonly by: By;
  readonly at: number;
}

export const implementationNoted = z.strictObject({ ...stamp, text, files: z.array(relativePath) });

export interface Question {
  readonly id: string;
  readonly text: string;
  readonly answer: string | null;
  readonly by: By;
  readonly at: number;
  readonly answeredAt: number | null;
}

export const questionAsked = z.strictObject({ ...stamp, id: questionId, text });
export const questionAnswered = z.strictObject({ ...stamp, question: questionId, answer: text });

export interface NextAction {
  readonly text: string | null;
  readonly task: string | null;
  readonly by: By;
  readonly at: number;
}

export const nextSet = z.strictObject({ ...stamp, text: optionalText, task: taskId.nullable() });

export const errorRecorded = z.strictObject({ ...stamp, message: text, task: taskId.nullable() });

/** A person's edit of a rendered file, as it was taken in. The hash tells the same edit from another one. */
export interface TakenEdit {
  readonly file: string;
  readonly hash: string;
  /** When the person saved the file. */
  readonly editedAt: number;
  readonly by: By;
  readonly at: number;
}

export const editTaken = z.strictObject({
  ...stamp,
  file: relativePath,
  hash: contentHash,
  editedAt: wallClock,
  /** Parts of the edit that no event could say; the file was kept beside. */
  left: z.array(text),
});

export interface Counters {
  /** Attempts at tasks that ended, well or not. */
  readonly iterations: number;
  readonly errors: number;
  readonly lastSuccess: { readonly operation: string; readonly task: string; readonly at: number } | null;
}

export const NO_COUNTERS: Counters = { iterations: 0, errors: 0, lastSuccess: null };
