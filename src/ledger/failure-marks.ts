/**
 * Every definite failure of a global key leaves a mark: the key with a number, claimed for good, counted over all
 * sessions. The key that the vendor gets depends on their count, so that it is one that the vendor has not refused yet.
 * While a call is under way others may fail with its key, as long as it was not issued; whoever fails takes the next
 * number that is free.
 */

import { type CommitOutcome, commitResult, type Journal } from "../journal/index.ts";
import { failureMark } from "../model/index.ts";

const MARKS_AT_ONCE = 8;

/** How many definite failures of a global key are on record now, in whichever session. */
export async function failuresOf(journal: Journal, key: string): Promise<number> {
  for (let first = 1; ; first += MARKS_AT_ONCE) {
    const keys = Array.from({ length: MARKS_AT_ONCE }, (_, index) => failureMark(key, first + index));
    const { rows } = await journal.list<"keys">({ of: "keys", keys });
    if (rows.length < MARKS_AT_ONCE) return first - 1 + rows.length;
  }
}

/**
 * Commits what may be the failure of a call with this key. Its mark may be taken: then the marks are counted again, and
 * `commit` is told how many there are.
 */
export async function withNextMark<Result>(
  journal: Journal,
  key: string,
  commit: (failures: number) => Promise<CommitOutcome<Result>>,
): Promise<Result> {
  for (let failures = 0; ; ) {
    const outcome = await commit(failures);
    if (outcome.outcome !== "taken") return commitResult(outcome);
    const counted = await failuresOf(journal, key);
    if (counted <= failures) return commitResult(outcome);
    failures = counted;
  }
}
