/** The fields of a task. See `record-table.ts`. */

import { EVENTS, type RecordTable } from "./record-table.ts";

export const TASK_STATUSES = ["open", "in_progress", "submitted", "done", "failed", "dropped"] as const;

export const TASK_PLAN = {
  id: { type: "taskId" },
  title: { type: "line", content: true },
  description: { type: "text", nullable: true, content: true },
  phase: { type: "ordinal", content: true },
  plan: { type: "ordinal", nullable: true, content: true },
  wave: { type: "ordinal", content: true, initial: 1 },
  /** The status as it is shown: `blocked` while an active blocker names the task. */
  status: { type: [...TASK_STATUSES, "blocked"], surveyed: true },
  /** The status without blockers, where the shown one differs. */
  ownStatus: { type: TASK_STATUSES, nullable: true, surveyed: true, view: false },
  blockedBy: { type: "blockerId", many: true, surveyed: true, optional: true },
  dependsOn: { type: "taskId", many: true, content: true },
  /** Files it is expected to touch; decisions about these are shown with it. */
  files: { type: "path", many: true, content: true },
} as const satisfies RecordTable;

export const BUILD_TASK = {
  kind: { type: ["build"] },
  /** How a verifier knows that it is done. */
  acceptance: { type: "line", many: true, content: true },
} as const satisfies RecordTable;

export const REVIEW_TASK = {
  kind: { type: ["review"] },
  /** The tasks to review; the review is ready as soon as these are submitted. */
  reviews: { type: "taskId", many: true, atLeast: 1, content: true },
  checklist: { type: "line", many: true, atLeast: 1, content: true },
} as const satisfies RecordTable;

export const CLAIM = {
  by: { type: "actor" },
  session: { type: "session", nullable: true },
  /** Never shown: with the token of the lease, any caller can write as its owner. */
  token: { type: "whole", file: false, view: false },
  /** The event that made the claim, and the task's name then: its lease has that name. */
  uid: { type: "eventUid", nullable: true, file: false, view: false },
  as: { type: "taskId", file: false, view: false },
  at: { type: "time", view: "since" },
  /** Last sign of progress that entered the log; heartbeats do not. */
  progressAt: { type: "time" },
  note: { type: "text", nullable: true },
} as const satisfies RecordTable;

export const ENDED_CLAIM = {
  ...CLAIM,
  ended: { type: ["lost", "released", "reset", "failed", "rejected"] },
  endedAt: { type: "time" },
  why: { type: "output", nullable: true },
} as const satisfies RecordTable;

export const EVIDENCE = {
  summary: { type: "text", nullable: true },
  commands: {
    type: {
      command: { type: "text" },
      exitCode: { type: "integer" },
      output: { type: "output", nullable: true, file: false },
    },
    many: true,
  },
  /** `hash` null: the task removed the file. */
  files: { type: { path: { type: "path" }, hash: { type: "hash", nullable: true } }, many: true },
} as const satisfies RecordTable;

export const TASK_WORK = {
  claim: { type: CLAIM, nullable: true, file: "assigned_to" },
  previous: { type: ENDED_CLAIM, nullable: true },
  attempts: { type: "count" },
  /** Failures since it was last retried by decision. */
  failures: { type: "count", view: false },
  rejections: { type: "count", view: false },
  failure: {
    type: { error: { type: "text" }, retryable: { type: "flag" }, at: { type: "time" } },
    nullable: true,
  },
  submission: {
    type: {
      /** The event that made it: a verdict names it. */
      uid: { type: "eventUid", nullable: true, file: false, view: false },
      evidence: { type: EVIDENCE, flat: true },
      by: { type: "actor" },
      session: { type: "session", nullable: true, view: false },
      at: { type: "time" },
    },
    nullable: true,
  },
  verdict: {
    type: {
      uid: { type: "eventUid", nullable: true, file: false, view: false },
      accepted: { type: "flag" },
      why: { type: "text", nullable: true },
      by: { type: "actor" },
      at: { type: "time" },
    },
    nullable: true,
  },
  createdAt: { type: "time", optional: true },
  updatedAt: { type: "time", optional: true, view: false },
  doneAt: { type: "time", nullable: true },
  ...EVENTS,
  endSeq: { type: "whole", nullable: true, file: false, view: false },
} as const satisfies RecordTable;
