/**
 * Failures of a global key, counted over all sessions.
 *
 * Every definite failure claims a mark for good: `KEY~1`, `KEY~2`, … The vendor's key depends on their count,
 * so that the next attempt uses one that the vendor has not refused yet.
 *
 * A failure that does not prove that nothing happened claims the mark `KEY~?`, also for good. From then on a
 * failure that a call reports itself is not counted: an earlier request may have landed, so the vendor must
 * see its key again. Only the holder of the key can claim this mark, so the next call to fail sees it.
 */

import { type CommitOutcome, commitResult, type Journal } from "../journal/index.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { type Call, failureKey, unprovenFailureKey } from "../model/session/index.ts";

const MARKS_PER_QUERY = 8;

export async function failuresOf(journal: Journal, key: string): Promise<number> {
  for (let first = 1; ; first += MARKS_PER_QUERY) {
    const keys = Array.from({ length: MARKS_PER_QUERY }, (_, index) => failureKey(key, first + index));
    const { rows } = await journal.list<"keys">({ of: "keys", keys });
    if (rows.length < MARKS_PER_QUERY) return first - 1 + rows.length;
  }
}

/** The fields of `call.failed` that depend on the marks. Empty unless the key is global. */
export interface FailureMarks {
  readonly failures?: number;
  readonly doubted?: true;
}

export async function failureMarksOf(journal: Journal, call: Call | undefined): Promise<FailureMarks> {
  if (call?.scope !== "global") return {};
  const { rows } = await journal.list<"keys">({ of: "keys", keys: [unprovenFailureKey(call.key)] });
  return rows.length > 0 ? { doubted: true } : {};
}

/** Commits the failure of a call. If its mark is taken, counts again and commits with the new count. */
export async function commitFailure<Result>(
  journal: Journal,
  call: Call | undefined,
  commit: (marks: FailureMarks) => MaybePromise<CommitOutcome<Result>>,
): Promise<Result> {
  for (let marks = await failureMarksOf(journal, call); ; ) {
    const outcome = await commit(marks);
    if (outcome.outcome !== "taken" || !call) return commitResult(outcome);
    const failures = await failuresOf(journal, call.key);
    if (failures <= (marks.failures ?? 0)) return commitResult(outcome);
    marks = { ...marks, failures };
  }
}
