/** A log that is written under a lease, and the errors that outcomes of a commit become. */

import { HoldfastError } from "../model/errors.ts";
import { andThen, type MaybePromise } from "../model/maybe-promise.ts";
import type { AppendOutcome, Head } from "../store.ts";
import { type Lease, leaseLost, type Moment, thisMoment } from "./leases.ts";
import type { CommitOutcome, Decision, Log } from "./log.ts";

/** The outcome of a guarded commit. A lost lease and a missing artifact are errors by then. */
export type OwnedOutcome<Result> =
  | { readonly outcome: "ok"; readonly result: Result; readonly head: Head; readonly appended: boolean }
  | Extract<AppendOutcome, { outcome: "taken" }>;

/**
 * A log under a lease: every commit carries the lease's token, and the store rejects it once another owner
 * has taken over. From then on this handle writes nothing, and each commit fails with LEASE_LOST.
 */
export class OwnedLog<State> {
  readonly log: Log<State>;
  readonly lease: Lease;

  constructor(log: Log<State>, lease: Lease) {
    this.log = log;
    this.lease = lease;
  }

  get state(): State {
    return this.log.state;
  }

  /** `Log.commitMaybeSync` with the lease as a guard. */
  commit<Result>(decide: (state: State, head: Head) => Decision<Result>): MaybePromise<OwnedOutcome<Result>> {
    const before = thisMoment();
    return andThen(this.log.commitMaybeSync(decide, this.lease.guard), (outcome) =>
      this.accept(outcome, before),
    );
  }

  /** `commit` for events that claim no key: returns the decision's result. */
  write<Result>(decide: (state: State, head: Head) => Decision<Result>): MaybePromise<Result> {
    return andThen(this.commit(decide), commitResult);
  }

  private accept<Result>(outcome: CommitOutcome<Result>, before: Moment): OwnedOutcome<Result> {
    if (outcome.outcome === "fenced") {
      if (outcome.lease === this.lease.name) this.lease.markLost();
      throw leaseLost(outcome.lease, outcome.now);
    }
    if (outcome.outcome === "missing") throw artifactMissing(outcome.artifact);
    if (outcome.outcome === "ok" && outcome.appended) this.lease.confirm(before);
    return outcome;
  }
}

/** The result of a commit. Any outcome but `ok` means that nothing was written, and throws. */
export function commitResult<Result>(outcome: CommitOutcome<Result>): Result {
  switch (outcome.outcome) {
    case "ok":
      return outcome.result;
    case "fenced":
      throw leaseLost(outcome.lease, outcome.now);
    case "taken":
      throw keyTaken(outcome.key, outcome.by);
    case "missing":
      throw artifactMissing(outcome.artifact);
    default:
      throw new Error(`unexpected outcome of a commit: ${JSON.stringify(outcome)}`);
  }
}

function artifactMissing(artifact: string): HoldfastError {
  return new HoldfastError("ARTIFACT_MISSING", `artifact ${artifact} is not stored`, {
    hint: "Store its bytes first, then refer to it.",
    data: { artifact },
  });
}

function keyTaken(key: string, by: { readonly stream: string; readonly seq: number }): HoldfastError {
  return new HoldfastError("KEY_TAKEN", `key ${key} is held by ${by.stream} at ${by.seq}`, {
    hint: "Another stream claimed the same operation: read its outcome there.",
    data: { key, ...by },
  });
}
