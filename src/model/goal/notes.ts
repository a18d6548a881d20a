/**
 * The records of a goal beside its tasks: decisions, blockers, facts, files, questions, sessions.
 *
 * The status of a blocker:
 *
 *     new ──identify──▶ active ──resolve──▶ resolved
 *                         └──bypass: workaround, follow-up tasks──▶ bypassed ──resolve──▶ resolved
 *
 * Only an active blocker blocks. Its impact (task, phase, goal) is computed in `survey.ts`, never stored.
 */

import { HoldfastError } from "../errors.ts";
import type {
  AFFECTS,
  ASSUMPTION,
  BLOCKER,
  BLOCKER_STATUSES,
  DECISION,
  DECISION_TYPES,
  FACT,
  FILE,
  HISTORY_ENTRY,
  KEY_IMPLEMENTATION,
  NEXT_ACTION,
  QUESTION,
} from "./note-records.ts";
import type { RecordOf } from "./record-table.ts";
import type { Actor } from "./roles.ts";

type BlockerStatus = (typeof BLOCKER_STATUSES)[number];
export type BlockerAct = "identify" | "bypass" | "resolve";

export const BLOCKER_TRANSITIONS: Readonly<Record<BlockerStatus, { [Act in BlockerAct]?: BlockerStatus }>> = {
  new: { identify: "active" },
  active: { bypass: "bypassed", resolve: "resolved" },
  bypassed: { resolve: "resolved" },
  resolved: {},
};

export interface Affects extends RecordOf<typeof AFFECTS> {}
export interface Blocker extends RecordOf<typeof BLOCKER> {}

export function nextBlockerStatus({ id, status }: Blocker, act: BlockerAct): BlockerStatus {
  const transitions = BLOCKER_TRANSITIONS[status];
  const next = transitions[act];
  if (next) return next;
  const hint =
    status === "resolved"
      ? "It is resolved. If the problem is back, report a new blocker that names it."
      : `From ${status} it can only: ${Object.keys(transitions).join(", ")}.`;
  const message = `blocker ${id} is ${status}: it cannot ${act}`;
  throw new HoldfastError("BLOCKER_TRANSITION", message, { hint, data: { blocker: id, status, act } });
}

export type DecisionType = (typeof DECISION_TYPES)[number];
export interface DecisionRecord extends RecordOf<typeof DECISION> {}

export interface DecisionQuery {
  /** Words that must all occur in the decision, in any order and case: `"redis session"`. */
  readonly text?: string;
  readonly type?: DecisionType;
  /** Decisions that name this file, or a folder above it. */
  readonly file?: string;
  readonly superseded?: boolean;
}

export function searchDecisions(
  decisions: Iterable<DecisionRecord>,
  query: DecisionQuery = {},
): DecisionRecord[] {
  const words = (query.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const found = [...decisions].filter((each) => {
    if (each.supersededBy !== null && !query.superseded) return false;
    if (query.type && each.type !== query.type) return false;
    if (query.file !== undefined && !decisionMentions(each, query.file)) return false;
    const text = words.length === 0 ? "" : searchText(each);
    return words.every((word) => text.includes(word));
  });
  return found.reverse();
}

export function decisionMentions(decision: DecisionRecord, file: string): boolean {
  return decision.files.some((named) => file === named || file.startsWith(`${named}/`));
}

function searchText({ id, type, context, decision, reason, alternatives, files }: DecisionRecord): string {
  const others = alternatives.flatMap(({ option, whyNot }) => [option, whyNot]);
  return [id, type, context, decision, reason, ...others, ...files].join("\n").toLowerCase();
}

export interface Fact extends RecordOf<typeof FACT> {}
export interface FileRecord extends RecordOf<typeof FILE> {}
export interface HistoryEntry extends RecordOf<typeof HISTORY_ENTRY> {}
export interface KeyImplementation extends RecordOf<typeof KEY_IMPLEMENTATION> {}
export interface NextAction extends RecordOf<typeof NEXT_ACTION> {}
export interface Assumption extends RecordOf<typeof ASSUMPTION> {}
export interface Question extends RecordOf<typeof QUESTION> {}

export function confirmedFacts(facts: Iterable<Fact>, now: number): Fact[] {
  return [...facts].filter(({ expiresAt }) => expiresAt === null || expiresAt > now);
}

/** In place of the hash of a file that was listed, but never seen: no content has it. */
export const UNSEEN_HASH = "0".repeat(64);

export const FILE_ACTS = ["examined", "created", "modified", "deleted"] as const;
export type FileAct = (typeof FILE_ACTS)[number];

/**
 * A recorded path is relative to the root, with `/` between names. It cannot lead outside or fake another
 * line. Backslashes are rejected: one system reads them as part of a name, another as a separator.
 */
export function isRelativePath(path: string): boolean {
  if (path.length === 0 || path.length > 1_024 || !path.isWellFormed()) return false;
  if (/[\\\p{Cc}\u2028\u2029]/u.test(path) || /^[A-Za-z]:/.test(path)) return false;
  return path.split("/").every((name) => name !== "" && name !== "." && name !== "..");
}

/** A person's edit of a rendered file that was applied. The hash identifies the edited content. */
export interface TakenEdit {
  readonly file: string;
  readonly hash: string;
  readonly editedAt: number;
  readonly by: Actor;
  readonly at: number;
}

export interface Counters {
  /** Attempts at tasks that were submitted or failed. */
  readonly iterations: number;
  readonly errors: number;
  readonly lastSuccess: { readonly operation: string; readonly task: string; readonly at: number } | null;
}

export const NO_COUNTERS: Counters = { iterations: 0, errors: 0, lastSuccess: null };
