import { andThen, type MaybePromise } from "../model/maybe-promise.ts";
import type { AppendOutcome, Head } from "../store.ts";
import { artifactMissing, commitResult } from "./commit-result.ts";
import { type Lease, leaseLost, type Moment, thisMoment } from "./leases.ts";
import type { CommitOutcome, Decision, Log } from "./log.ts";

/** What a guarded commit can come to, once a lost lease and a missing artifact have become errors. */
export type OwnedOutcome<Result> =
  | { readonly outcome: "ok"; readonly result: Result; readonly head: Head; readonly appended: boolean }
  | Extract<AppendOutcome, { outcome: "taken" }>;

/**
 * A log written under a lease: every commit carries the lease's token, and the store refuses it once somebody
 * else has taken over. From then on nothing of this handle is written any more, and it says so.
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

  /** Like `Log.commitMaybeSync`, with the lease as a guard. Fails with LEASE_LOST when fenced. */
  commit<Result>(decide: (state: State, head: Head) => Decision<Result>): MaybePromise<OwnedOutcome<Result>> {
    const before = thisMoment();
    return andThen(this.log.commitMaybeSync(decide, this.lease.guard), (outcome) =>
      this.accept(outcome, before),
    );
  }

  /** For events that claim no key: the result itself. */
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
