/** The smaller things a goal remembers: facts, files, questions, implementations, the next action. */

import type { Json } from "../json.ts";
import type { Actor } from "./roles.ts";

export interface Fact {
  readonly key: string;
  readonly value: Json;
  /** Where it is known from: a command, a file, a person. */
  readonly source: string;
  readonly expiresAt: number | null;
  readonly by: Actor;
  readonly at: number;
}

/** Facts that still hold at this wall clock. */
export function confirmedFacts(facts: Iterable<Fact>, now: number): Fact[] {
  return [...facts].filter(({ expiresAt }) => expiresAt === null || expiresAt > now);
}

export const FILE_ACTS = ["examined", "modified", "deleted"] as const;
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
  readonly by: Actor;
}

/** Something that was built and that a later session can check against the code. */
export interface KeyImplementation {
  readonly text: string;
  readonly files: readonly string[];
  readonly by: Actor;
  readonly at: number;
}

export interface Question {
  readonly id: string;
  readonly text: string;
  readonly answer: string | null;
  readonly by: Actor;
  readonly at: number;
  readonly answeredAt: number | null;
}

export interface NextAction {
  readonly text: string | null;
  readonly task: string | null;
  readonly by: Actor;
  readonly at: number;
}

/** A person's edit of a rendered file, as it was taken in. The hash tells the same edit from another one. */
export interface TakenEdit {
  readonly file: string;
  readonly hash: string;
  /** When the person saved the file. */
  readonly editedAt: number;
  readonly by: Actor;
  readonly at: number;
}

export interface Counters {
  /** Attempts at tasks that ended, well or not. */
  readonly iterations: number;
  readonly errors: number;
  readonly lastSuccess: { readonly operation: string; readonly task: string; readonly at: number } | null;
}

export const NO_COUNTERS: Counters = { iterations: 0, errors: 0, lastSuccess: null };
