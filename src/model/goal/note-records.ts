/** The fields of decisions, blockers, facts, questions, assumptions and the like: see `record-table.ts`. */

import { EVENTS, type RecordTable } from "./record-table.ts";

export const BLOCKER_STATUSES = ["new", "active", "bypassed", "resolved"] as const;
export const DECISION_TYPES = [
  "technology",
  "architecture",
  "trade-off",
  "preference",
  "constraint",
] as const;

export const DECISION = {
  id: { type: "decisionId" },
  date: { type: "day", content: true },
  type: { type: DECISION_TYPES, content: true },
  context: { type: "text", content: true, section: "Context" },
  decision: { type: "text", content: true, section: "Decision" },
  reason: { type: "text", content: true, section: "Reason" },
  reversible: { type: "flag", content: true, initial: true },
  files: { type: "path", many: true, content: true },
  supersedes: { type: "decisionId", nullable: true },
  supersededBy: { type: "decisionId", nullable: true },
  alternatives: { type: { option: { type: "line" }, whyNot: { type: "text" } }, many: true, content: true },
  by: { type: "actor" },
  at: { type: "time", file: "made_at", view: false },
  ...EVENTS,
} as const satisfies RecordTable;

/** `other` is for words that name no task or phase of ours: they are kept and block nothing. */
export const AFFECTS = {
  tasks: { type: "taskId", many: true },
  phases: { type: "ordinal", many: true },
  goal: { type: "flag" },
  other: { type: "line", many: true },
} as const satisfies RecordTable;

export const BLOCKER = {
  id: { type: "blockerId" },
  status: { type: BLOCKER_STATUSES },
  description: { type: "text", section: "Description" },
  affects: { type: AFFECTS },
  followUps: { type: "taskId", many: true },
  by: { type: "actor" },
  reportedAt: { type: "time" },
  identifiedAt: { type: "time", nullable: true, view: false },
  bypassedAt: { type: "time", nullable: true, view: false },
  resolvedAt: { type: "time", nullable: true },
  workaround: { type: "text", nullable: true, section: "Workaround" },
  resolution: { type: "text", nullable: true, section: "Resolution" },
  ...EVENTS,
} as const satisfies RecordTable;

export const FACT = {
  key: { type: "line", content: true, file: false },
  value: { type: "json", content: true, optional: true },
  source: { type: "text", content: true },
  expiresAt: { type: "time", nullable: true, content: true },
  by: { type: "actor", optional: true },
  at: { type: "time", optional: true },
} as const satisfies RecordTable;

export const FILE = {
  path: { type: "path" },
  /** SHA-256 of its content; null when it is meant to be gone. */
  hash: { type: "hash", nullable: true },
  examinedAt: { type: "time", nullable: true },
  modifiedAt: { type: "time", nullable: true },
  task: { type: "taskId", nullable: true },
  session: { type: "session", nullable: true },
  by: { type: "actor" },
} as const satisfies RecordTable;

/** Something that was built and that a later session can check against the code. */
export const KEY_IMPLEMENTATION = {
  text: { type: "text" },
  files: { type: "path", many: true },
  by: { type: "actor" },
  at: { type: "time" },
} as const satisfies RecordTable;

export const QUESTION = {
  id: { type: "questionId", optional: true },
  text: { type: "text" },
  answer: { type: "text", nullable: true },
  by: { type: "actor", optional: true },
  at: { type: "time", optional: true },
  answeredAt: { type: "time", nullable: true },
} as const satisfies RecordTable;

/** Something that the work relies on and that is not yet known to be true. */
export const ASSUMPTION = {
  id: { type: "assumptionId", optional: true },
  text: { type: "text" },
  status: { type: ["open", "confirmed", "refuted"], optional: true },
  evidence: { type: "text", nullable: true },
  by: { type: "actor", optional: true },
  at: { type: "time", optional: true },
  settledAt: { type: "time", nullable: true },
} as const satisfies RecordTable;

export const NEXT_ACTION = {
  text: { type: "text", nullable: true },
  task: { type: "taskId", nullable: true },
  by: { type: "actor" },
  at: { type: "time" },
} as const satisfies RecordTable;

export const HISTORY_ENTRY = {
  id: { type: "sessionId", view: "session" },
  agent: { type: "line" },
  status: { type: ["active", "ended", "crashed"] },
  startedAt: { type: "time", file: "started" },
  endedAt: { type: "time", nullable: true, file: "ended" },
  contextUsage: { type: "share", nullable: true },
  restarts: { type: "whole", view: false },
  resumes: { type: "session", nullable: true, view: false },
  /** The task it has, or had when it ended; kept after a crash for the next session. */
  workingOn: { type: "line", nullable: true },
  /** Ids of the tasks it finished, in order, then what it named itself. */
  completed: { type: "line", many: true },
  issues: { type: "text", many: true, section: "Issue" },
  notes: { type: "text", many: true, section: "Note" },
  handoffReason: { type: "text", nullable: true, section: "Hand-off" },
  ...EVENTS,
} as const satisfies RecordTable;
