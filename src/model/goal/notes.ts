/** The smaller things a goal remembers: facts, files, questions, sessions, the next action. */

import type { FACT, FILE, HISTORY_ENTRY, KEY_IMPLEMENTATION, NEXT_ACTION, QUESTION } from "./note-records.ts";
import type { RecordOf } from "./record-table.ts";
import type { Actor } from "./roles.ts";

export interface Fact extends RecordOf<typeof FACT> {}
export interface FileRecord extends RecordOf<typeof FILE> {}
export interface HistoryEntry extends RecordOf<typeof HISTORY_ENTRY> {}
export interface KeyImplementation extends RecordOf<typeof KEY_IMPLEMENTATION> {}
export interface NextAction extends RecordOf<typeof NEXT_ACTION> {}
export interface Question extends RecordOf<typeof QUESTION> {}

/** Facts that still hold at this wall clock. */
export function confirmedFacts(facts: Iterable<Fact>, now: number): Fact[] {
  return [...facts].filter(({ expiresAt }) => expiresAt === null || expiresAt > now);
}

export const FILE_ACTS = ["examined", "modified", "deleted"] as const;
export type FileAct = (typeof FILE_ACTS)[number];

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
