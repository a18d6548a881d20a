/**
 * Tasks and their state machine.
 *
 *     open ──claim──▶ in_progress ──submit──▶ submitted ──accept──▶ done
 *      ▲ ▲               │ │ │                    │
 *      │ └──release,reset┘ │ └──claim: take-over  └──reject──▶ open
 *      │                   └──fail──▶ failed ──claim, if it can be retried──▶ in_progress
 *      └────────────────retry───────────┘            done, dropped ──reopen──▶ open
 *
 * `blocked` is no status of its own: an unfinished task is shown as blocked while an active blocker names it, its
 * phase or the goal. So a resolved blocker unblocks whatever it held, and the two can never disagree.
 *
 * Invariants: a task has a claim exactly while it is in progress; the claim's token is that of its lease; `doneAt`
 * is set exactly while it is done or dropped.
 */

import { HoldfastError } from "../errors.ts";
import type { Actor } from "./roles.ts";

export const TASK_STATUSES = ["open", "in_progress", "submitted", "done", "failed", "dropped"] as const;
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

export const TASK_TRANSITIONS: Readonly<Record<TaskStatus, Readonly<Partial<Record<TaskAct, TaskStatus>>>>> =
  {
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

/** What showed that a task is done. */
export interface Evidence {
  readonly summary: string | null;
  readonly commands: readonly {
    readonly command: string;
    readonly exitCode: number;
    readonly output: string | null;
  }[];
  /** `hash` null: the task removed the file. */
  readonly files: readonly { readonly path: string; readonly hash: string | null }[];
}

export interface TaskClaim {
  readonly by: Actor;
  readonly session: string | null;
  readonly token: number;
  /** The event that made it, and what the task was called then: its lease has that name. */
  readonly uid: string | null;
  readonly as: string;
  readonly at: number;
  /** Last sign of progress that entered the log; heartbeats do not. */
  readonly progressAt: number;
  readonly note: string | null;
}

/** How the last claim ended without a submission: the next agent is told what the last one was doing. */
export interface EndedClaim extends TaskClaim {
  readonly ended: "lost" | "released" | "reset" | "failed" | "rejected";
  readonly endedAt: number;
  readonly why: string | null;
}

interface AnyTask {
  readonly id: string;
  readonly phase: number;
  readonly plan: number | null;
  readonly wave: number;
  readonly title: string;
  readonly description: string | null;
  readonly dependsOn: readonly string[];
  /** What it is expected to touch; decisions about these files are shown with it. */
  readonly files: readonly string[];
  readonly status: TaskStatus;
  readonly claim: TaskClaim | null;
  readonly previous: EndedClaim | null;
  /** How often it was claimed. */
  readonly attempts: number;
  /** Failures since it was last retried by decision, and rejections of its submissions. */
  readonly failures: number;
  readonly rejections: number;
  readonly failure: { readonly error: string; readonly retryable: boolean; readonly at: number } | null;
  readonly submission: {
    /** The event that made it: a verdict names it. */
    readonly uid: string | null;
    readonly evidence: Evidence;
    readonly by: Actor;
    readonly session: string | null;
    readonly at: number;
  } | null;
  readonly verdict: {
    readonly accepted: boolean;
    readonly why: string | null;
    readonly by: Actor;
    readonly at: number;
  } | null;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly doneAt: number | null;
  /** The event that holds its content, and the one that finished it. */
  readonly seq: number;
  readonly endSeq: number | null;
  /** The last event that changed it. */
  readonly revision: number;
}

export interface BuildTask extends AnyTask {
  readonly kind: "build";
  /** How one will know that it is done. */
  readonly acceptance: readonly string[];
}

export interface ReviewTask extends AnyTask {
  readonly kind: "review";
  /** What is looked at; ready as soon as these are submitted. */
  readonly reviews: readonly string[];
  readonly checklist: readonly string[];
}

export type Task = BuildTask | ReviewTask;

export function isFinished(task: Task): boolean {
  return task.status === "done" || task.status === "dropped";
}

/** Failed, and nobody may simply try again. */
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
    return "Nobody holds it: there is nothing to put back.";
  return HINTS[status].replaceAll("<task>", id);
}

const HINTS: Readonly<Record<TaskStatus, string>> = {
  open: "Claim it first.",
  in_progress:
    "Whoever claimed it submits, fails or releases it. To take it from them: holdfast task release <task> --force",
  submitted: "It waits for a verifier to accept or reject it.",
  done: "It is finished: do not do it again. If the work has to be redone: holdfast task reopen <task> --why …",
  failed:
    "Claim it again if it can be retried. Else: holdfast task retry <task> --why …, or holdfast task drop <task> --why …",
  dropped: "It was dropped. If it is wanted after all: holdfast task reopen <task> --why …",
};
