/** What `runWithCheckpoints` asks of an agent, and what it hands to it. */

import type { EndedClaim, Evidence, Task } from "../model/goal/index.ts";
import type { Json } from "../model/json.ts";
import type { Goal } from "./goal.ts";
import type { EvidenceInput } from "./task-claims.ts";

/** Whatever does the work of one task: a model with tools, a script, a person behind a form. */
export interface TaskAgent {
  /** For the log and the messages that others get. */
  readonly name?: string;
  /**
   * Does the task and says what shows that it is done. A throw is a failure: retried, unless the error says
   * `retryable: false`. May run again after a kill: `context.previous` tells what the last attempt was doing.
   */
  executeTask(task: Task, context: TaskContext): Promise<EvidenceInput | undefined> | Promise<void>;
  /** Judges what was handed in. Without it, submitted tasks wait for somebody else to verify them. */
  verifyTask?(task: Task, evidence: Evidence): Promise<boolean | { accept: boolean; why?: string }>;
}

/** What an agent knows beside its task, and how it says what it is at. */
export interface TaskContext {
  readonly goal: Goal;
  /** The state in words, within the token budget of the run. */
  readonly briefing: string;
  /** 1 for the first claim of this task. */
  readonly attempt: number;
  readonly previous: EndedClaim | null;
  /** Aborts when the task was taken over, or the run is to stop. */
  readonly signal: AbortSignal;
  /** Says in the log how far it has come. */
  progress(note: string): Promise<void>;
  /** Records a significant finding as a fact of the goal. */
  finding(key: string, value: Json, source?: string): Promise<void>;
}

/** When a failed task is tried again. How often at most is a setting of the goal. */
export interface RetryPolicy {
  /** Before the second attempt; doubles with every failure. */
  readonly backoffMs?: number;
  readonly maxBackoffMs?: number;
  /** Whether trying again can help; by default what the error's own `retryable` says, else yes. */
  readonly retryable?: (error: unknown) => boolean;
}

const BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;

/** When a failed task may be tried again, by the wall clock of the log: a restart does not shorten the wait. */
export function retryAt(task: Task, policy: RetryPolicy): number {
  if (task.status !== "failed" || !task.failure) return 0;
  const { backoffMs = BACKOFF_MS, maxBackoffMs = MAX_BACKOFF_MS } = policy;
  const wait = Math.min(maxBackoffMs, backoffMs * 2 ** Math.max(0, task.failures - 1));
  return task.failure.at + wait;
}

export function isRetryable(error: unknown, policy: RetryPolicy): boolean {
  if (policy.retryable) return policy.retryable(error);
  const said = (error as { retryable?: unknown } | null)?.retryable;
  return typeof said === "boolean" ? said : true;
}

const MESSAGE_LIMIT = 4_000;

export function errorText(error: unknown): string {
  const text = error instanceof Error ? error.message || error.name : String(error);
  return (text || "failed without a message").slice(0, MESSAGE_LIMIT);
}
