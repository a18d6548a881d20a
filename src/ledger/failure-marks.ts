/**
 * Every definite failure of a global key leaves a mark: the key with a number, claimed for good, counted over all
 * sessions. The key that the vendor gets depends on their count, so that it is one that the vendor has not refused yet.
 * While a call is under way others may fail with its key, as long as it was not issued; whoever fails takes the next
 * number that is free.
 *
 * A failure that does not prove that nothing happened leaves another mark, also for good. From then on no call's own word
 * that it did nothing is counted: what an earlier one sent may have landed, and the vendor must know its key again.
 * Only who holds the key can leave that mark, so whoever fails sees it if it is there.
 */

import { type CommitOutcome, commitResult, type Journal } from "../journal/index.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { type Call, failureKey, unprovenFailureKey } from "../model/session/index.ts";

const MARKS_AT_ONCE = 8;

/** How many definite failures of a global key are on record now, in whichever session. */
export async function failuresOf(journal: Journal, key: string): Promise<number> {
  for (let first = 1; ; first += MARKS_AT_ONCE) {
    const keys = Array.from({ length: MARKS_AT_ONCE }, (_, index) => failureKey(key, first + index));
    const { rows } = await journal.list<"keys">({ of: "keys", keys });
    if (rows.length < MARKS_AT_ONCE) return first - 1 + rows.length;
  }
}

/** What the failure of a call has to say of the marks of its key; nothing, unless the key is global. */
export interface FailureMarks {
  readonly failures?: number;
  readonly doubted?: true;
}

const NO_MARKS: FailureMarks = {};

export async function failureMarksOf(journal: Journal, call: Call | undefined): Promise<FailureMarks> {
  if (call?.scope !== "global") return NO_MARKS;
  const { rows } = await journal.list<"keys">({ of: "keys", keys: [unprovenFailureKey(call.key)] });
  return rows.length > 0 ? { doubted: true } : NO_MARKS;
}

/**
 * Commits the failure of a call. Its mark may be taken: then the marks are counted again, and `commit` is told how many
 * there are.
 */
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
