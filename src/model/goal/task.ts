/**
 * Tasks and their state machine.
 *
 *     open ──claim──▶ in_progress ──submit──▶ submitted ──accept──▶ done
 *      ▲ ▲               │ │ │                    │
 *      │ └──release,reset┘ │ └──claim: take-over  └──reject──▶ open
 *      │                   └──fail──▶ failed ──claim, if it can be retried──▶ in_progress
 *      └────────────────retry───────────┘            done, dropped ──reopen──▶ open
 *
 * `blocked` is not stored: an unfinished task is shown as blocked while an active blocker names it.
 *
 * Invariants: a task has a claim exactly while it is in progress; the claim's token is that of its lease;
 * `doneAt` is set exactly while it is done or dropped.
 */

import { HoldfastError } from "../errors.ts";
import type { RecordOf } from "./record-table.ts";
import type {
  BUILD_TASK,
  CLAIM,
  ENDED_CLAIM,
  EVIDENCE,
  REVIEW_TASK,
  TASK_PLAN,
  TASK_STATUSES,
  TASK_WORK,
} from "./task-records.ts";

export type TaskStatus = (typeof TASK_STATUSES)[number];
export type DisplayStatus = TaskStatus | "blocked";

export const TASK_ACTS = [
  "claim",
  "progress",
  "submit",
  "accept",
  "reject",
  "fail",
  "release",
  "reset",
  "retry",
  "drop",
  "reopen",
] as const;
export type TaskAct = (typeof TASK_ACTS)[number];

export const TASK_TRANSITIONS: Readonly<Record<TaskStatus, { readonly [Act in TaskAct]?: TaskStatus }>> = {
  open: { claim: "in_progress", drop: "dropped" },
  in_progress: {
    claim: "in_progress",
    progress: "in_progress",
    submit: "submitted",
    fail: "failed",
    release: "open",
    reset: "open",
    drop: "dropped",
  },
  submitted: { accept: "done", reject: "open", drop: "dropped" },
  done: { reopen: "open" },
  failed: { claim: "in_progress", retry: "open", drop: "dropped" },
  dropped: { reopen: "open" },
};

export interface Evidence extends RecordOf<typeof EVIDENCE> {}
export interface TaskClaim extends RecordOf<typeof CLAIM> {}
/** The last claim, if it ended without an accepted submission: the next agent reads its note. */
export interface EndedClaim extends RecordOf<typeof ENDED_CLAIM> {}

interface AnyTask extends RecordOf<typeof TASK_PLAN>, RecordOf<typeof TASK_WORK> {
  readonly status: TaskStatus;
}

export interface BuildTask extends AnyTask, RecordOf<typeof BUILD_TASK> {}
export interface ReviewTask extends AnyTask, RecordOf<typeof REVIEW_TASK> {}
export type Task = BuildTask | ReviewTask;

export function isFinished(task: Task): boolean {
  return task.status === "done" || task.status === "dropped";
}

/** Failed, and no agent may claim it again before a `retry`. */
export function isFailedForGood(task: Task, maxAttempts: number): boolean {
  return task.status === "failed" && (!task.failure?.retryable || task.failures >= maxAttempts);
}

export function nextStatus(task: Task, act: TaskAct): TaskStatus {
  const next = TASK_TRANSITIONS[task.status][act];
  if (next) return next;
  throw new HoldfastError("TASK_TRANSITION", `task ${task.id} is ${task.status}: it cannot ${act}`, {
    hint: hintFor(task, act),
    data: { task: task.id, status: task.status, act },
  });
}

function hintFor({ id, status }: Task, act: TaskAct): string {
  if (status === "open" && (act === "release" || act === "reset"))
    return "No agent holds it: there is nothing to put back.";
  return HINTS[status].replaceAll("<task>", id);
}

const HINTS: Readonly<Record<TaskStatus, string>> = {
  open: "Claim it first.",
  in_progress:
    "Its holder submits, fails or releases it. To take it away: holdfast task release <task> --force",
  submitted: "It waits for a verifier to accept or reject it.",
  done: "It is finished: do not redo it. If it has to be redone: holdfast task reopen <task> --why …",
  failed:
    "Claim it again if it is retryable. Otherwise: holdfast task retry <task> --why …, " +
    "or holdfast task drop <task> --why …",
  dropped: "It was dropped. If it is needed after all: holdfast task reopen <task> --why …",
};
