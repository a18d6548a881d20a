/** A log that is written under a lease, and the errors that outcomes of a commit become. */

import { HoldfastError } from "../model/errors.ts";
import { andThen, type MaybePromise } from "../model/maybe-promise.ts";
import type { Draft } from "../model/stream/index.ts";
import type { AppendOutcome, Head } from "../store.ts";
import { type Lease, leaseLost, type Moment, thisMoment } from "./leases.ts";
import type { CommitOutcome, Decision, Log } from "./log.ts";

/** The outcome of a guarded commit. A lost lease and a missing artifact are errors by then. */
export type OwnedOutcome<Result> =
  | { readonly outcome: "ok"; readonly result: Result; readonly head: Head; readonly appended: boolean }
  | Extract<AppendOutcome, { outcome: "taken" }>;

/** The events of a new owner, and how it gets a lease that its first commit could not take. */
export interface Opening<State> {
  draft(state: State, head: Head): readonly Draft[];
  /** False if the owner must decide on the state after these events: then they have their own commit. */
  isQuiet(state: State): boolean;
  /** Waits for the lease, and rejects if it stays with another owner. */
  take(): Promise<void>;
}

type Decide<State, Result> = (state: State, head: Head) => Decision<Result>;

/**
 * A log under a lease: every commit carries the lease's token, and the store rejects it once another owner
 * has taken over. From then on this handle writes nothing, and each commit fails with LEASE_LOST.
 *
 * With an `opening`, the first commit also takes the lease and begins with the events of the new owner:
 *
 *     expected ──[ lease · opening · first decision ]──▶ open ──[ … ]──▶ open ──[ last · release ]──▶ left
 *         └──fenced: another has the lease, or its token is not the next──▶ take it, then the same commit
 *
 * A crash leaves all of a commit or nothing: never a lease without its owner's events, and never a released
 * lease without the events that the owner left last.
 */
export class OwnedLog<State> {
  readonly log: Log<State>;
  readonly lease: Lease;
  private opening: Opening<State> | null;
  /** The last commit that waits for the opening. */
  private opened: Promise<unknown> = Promise.resolve();
  /** Makes durable what the owner keeps in memory until its next commit. Null while there is nothing. */
  flushKept: (() => Promise<void>) | null = null;

  constructor(log: Log<State>, lease: Lease, opening: Opening<State> | null = null) {
    this.log = log;
    this.lease = lease;
    this.opening = opening;
  }

  get state(): State {
    return this.log.state;
  }

  /** False until the first commit has taken the lease and appended the events of the new owner. */
  get isOpen(): boolean {
    return this.opening === null;
  }

  /**
   * `Log.commitMaybeSync` with the lease as a guard. Kept records become durable before it, unless `hasKept`
   * says that the decision includes them.
   */
  commit<Result>(decide: Decide<State, Result>, hasKept = false): MaybePromise<OwnedOutcome<Result>> {
    if (this.flushKept && !hasKept) return this.flushKept().then(() => this.commit(decide));
    if (this.opening) return this.afterOpening(() => this.openWith(decide, false));
    const before = thisMoment();
    let isLast = false;
    const noting: Decide<State, Result> = (state, head) => {
      const decision = decide(state, head);
      isLast = decision.lease?.act === "release";
      return decision;
    };
    return andThen(this.log.commitMaybeSync(noting, this.lease.guard), (outcome) => {
      // Another commit may be accepted while the one that releases is still in flight.
      if (isLast && outcome.outcome === "ok" && outcome.appended) this.lease.noteReleased();
      return this.accept(outcome, before);
    });
  }

  /** `commit` for events that claim no key: returns the decision's result. */
  write<Result>(decide: Decide<State, Result>): MaybePromise<Result> {
    return andThen(this.commit(decide), commitResult);
  }

  /** Takes the lease now, in the commit of the opening's events. `look` sees the state before them. */
  async open<Result>(look: (state: State, head: Head) => Result): Promise<Result> {
    const decide: Decide<State, Result> = (state, head) => ({ events: [], result: look(state, head) });
    return commitResult(await this.afterOpening(() => this.openWith(decide, true)));
  }

  private afterOpening<Result>(act: () => Promise<Result>): Promise<Result> {
    const done = this.opened.then(act, act);
    this.opened = done.catch(() => undefined);
    return done;
  }

  private async openWith<Result>(
    decide: Decide<State, Result>,
    isAlone: boolean,
  ): Promise<OwnedOutcome<Result>> {
    const { opening, lease } = this;
    if (!opening) return this.commit(decide);
    for (;;) {
      const before = thisMoment();
      let isWhole = true;
      const outcome = await this.log.commit(
        (state, head) => {
          isWhole = isAlone || opening.isQuiet(state);
          const decision = isWhole ? decide(state, head) : { events: [], result: undefined as never };
          // Nothing to write: the lease stays where it is.
          if (isWhole && !isAlone && decision.events.length === 0) return decision;
          const events = [...opening.draft(state, head), ...decision.events];
          return { ...decision, events, lease: lease.isTaken ? undefined : lease.taking() };
        },
        lease.isTaken ? lease.guard : undefined,
      );
      if (outcome.outcome === "fenced" && !lease.isTaken) {
        await opening.take();
        continue;
      }
      if (outcome.outcome === "ok" && outcome.appended) {
        if (!lease.isTaken) lease.granted(lease.token, null, before);
        this.opening = null;
        if (!isWhole) return this.commit(decide);
      }
      return this.accept(outcome, before);
    }
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
