/**
 * The internals of an open goal: its log, and the one way to change it.
 *
 *     check the role ──▶ decide on the current state ──▶ append ──▶ done
 *                              ▲                            │
 *                              └── another writer was faster ┘
 *
 * Projections, operations and the supervisor reach it by `goalCore(goal)`.
 */

import { type Journal, type Log, leaseLost } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { Actor, Entry, GoalOperation, GoalState, Task, WaitingAct } from "../model/goal/index.ts";
import { bySchema, checkRole, mayDo, SIGNED, signedText, taskOf } from "../model/goal/index.ts";
import { formatPath } from "../model/json.ts";
import { isoTime } from "../model/time.ts";
import { type Act, invalid, stamped } from "./act.ts";
import { hashFile } from "./file-check.ts";
import {
  actSigners,
  type EntriesFrom,
  entriesOf,
  type MergeInput,
  type MergeReport,
  mergeEntries,
  type Retraction,
  retractionOf,
  waitingNamed,
} from "./merging.ts";

/** An input with the actor; without `by`, the actor that the goal was opened for. */
export type Attributed<Input> = Input & { readonly by?: Actor };

type Decide<Result> = (state: GoalState, by: Actor) => Act<Result>;

export const DEFAULT_BY: Actor = { name: "program", role: "orchestrator" };

export interface GoalParts {
  readonly journal: Journal;
  readonly log: Log<GoalState>;
  readonly id: string;
  readonly by: Actor;
  readonly root: string | null;
  readonly clone: string | null;
}

export interface WriteGuard {
  /** Runs before the decision; throws to reject the write. */
  before(by: Actor): Promise<void>;
  /** Runs on the state that the decision is made on, which may be newer than the one `before` saw. */
  check(state: GoalState, by: Actor): void;
  /** Runs when the write is durable. It must not throw: the write has succeeded. */
  after(): Promise<void>;
}

export class GoalCore {
  readonly id: string;
  readonly by: Actor;
  readonly root: string | null;
  readonly clone: string | null;
  readonly journal: Journal;
  readonly log: Log<GoalState>;
  /** True for hooks: their notes on an agent do not make a stale goal fresh. */
  isObserver = false;
  /** Signs the acts of a person through this handle, if the surface of that person sets it. */
  signer: ((text: string) => Promise<string>) | null = null;
  private guard: WriteGuard | null = null;

  constructor(parts: GoalParts) {
    this.id = parts.id;
    this.by = parts.by;
    this.root = parts.root;
    this.clone = parts.clone;
    this.journal = parts.journal;
    this.log = parts.log;
  }

  get state(): GoalState {
    return this.log.state;
  }

  get seq(): number {
    return this.log.head.seq;
  }

  task(id: string): Task {
    return taskOf(this.state, id);
  }

  entries(from?: EntriesFrom): AsyncGenerator<Entry> {
    return entriesOf(this.journal, this.log.stream, this.seq, from);
  }

  mergeEntries(by: Actor, input: MergeInput): Promise<MergeReport | null> {
    return mergeEntries(this.journal, this.log, this.id, by, input);
  }

  /** Lets waiting events count in this copy, and returns them. See `model/goal/origin.ts`. */
  async confirm(as: Actor | undefined, events: readonly string[] | "all"): Promise<WaitingAct[]> {
    const by = this.identity(as);
    await this.guard?.before(by);
    await this.log.refresh();
    checkRole(by, "confirm", this.state.verification);
    const acts = waitingNamed(this.state, events);
    await this.mergeEntries(by, { entries: [], confirmed: acts.map(({ uid }) => uid) });
    await this.guard?.after();
    return acts;
  }

  /** Checks the signatures of waiting events again, as after a key was allowed. True if some count now. */
  async checkSignatures(): Promise<boolean> {
    if (this.state.waiting.length === 0) return false;
    const signerOf = actSigners(this.root, this.journal.warn);
    const merger = { name: "holdfast", role: "supervisor" } as const;
    return (await this.mergeEntries(merger, { entries: [], signerOf })) !== null;
  }

  /** Takes back one event in every copy, and returns it. See `model/goal/merge.ts`. */
  async retract(as: Actor | undefined, input: Retraction): Promise<Entry> {
    const by = this.identity(as);
    await this.guard?.before(by);
    await this.log.refresh();
    checkRole(by, "retract", this.state.verification);
    const at = this.journal.now();
    const stamp = { by, at, clone: this.clone };
    const { retraction, target } = await retractionOf(this.state, this.entries(), stamp, input);
    await this.mergeEntries(by, { entries: [retraction], isOwn: true });
    await this.trySigning(by, [retraction.uid]);
    await this.guard?.after();
    return target;
  }

  rootFor(given?: string): string {
    const root = given ?? this.root;
    if (root !== null) return root;
    throw invalid(
      `goal ${this.id}: no root folder is set`,
      "Pass `root`, the folder that the recorded paths are relative to, here or when opening the goal.",
    );
  }

  hash(path: string): Promise<string> {
    return hashFile(this.rootFor(), path);
  }

  /** A program that names no actor plans as an orchestrator, and works on tasks as a worker. */
  identity(given: Actor | undefined, operation?: GoalOperation): Actor {
    const { role } = DEFAULT_BY;
    const isWork = operation !== undefined && !mayDo(role, operation) && mayDo("worker", operation);
    const own = isWork && this.by === DEFAULT_BY ? ({ ...DEFAULT_BY, role: "worker" } as const) : this.by;
    const parsed = bySchema.safeParse(given ?? own);
    if (parsed.success) return parsed.data;
    const issue = parsed.error.issues[0];
    const where = formatPath(issue?.path ?? []);
    throw invalid(`goal ${this.id}: by: ${where}: ${issue?.message}`, "Pass `by` as { name, role }.");
  }

  guardWrites(guard: WriteGuard | null): void {
    this.guard = guard;
  }

  /** One operation: checked against the actor's role, one commit. */
  async act<Result>(
    operation: GoalOperation,
    as: Actor | undefined,
    decide: Decide<Result>,
  ): Promise<Result> {
    const by = this.identity(as, operation);
    await this.guard?.before(by);
    const written: string[] = [];
    const result = await this.commit(
      by,
      (state) => {
        this.guard?.check(state, by);
        checkRole(by, operation, state.verification);
        return decide(state, by);
      },
      written,
    );
    await this.trySigning(by, written);
    await this.guard?.after();
    return result;
  }

  /** Signs events of this copy. One more event carries the signature to the other copies. */
  async sign(by: Actor, events: readonly string[]): Promise<void> {
    const signature = await this.signer?.(signedText(this.id, events));
    if (signature === undefined) return;
    await this.commit(by, () => {
      return { events: [{ type: SIGNED, data: { by, events: [...events], signature } }], result: undefined };
    });
  }

  /** The act is durable and counts here, so a key that does not sign must not fail it. */
  private async trySigning(by: Actor, events: readonly string[]): Promise<void> {
    if (by.role !== "human" || events.length === 0) return;
    try {
      await this.sign(by, events);
    } catch (error) {
      if (!isHoldfastError(error, "SIGNING_FAILED")) throw error;
      this.journal.warn(
        new HoldfastError("SIGNING_FAILED", `${error.message}: the act counts here, unsigned`, {
          hint: `${error.hint} Then sign it: holdfast sign`,
          cause: error,
        }),
      );
    }
  }

  /** `act` for a decision that gets the caller's input unchanged, but for `by`. */
  actOn<Input extends { readonly by?: Actor }, Result>(
    operation: GoalOperation,
    input: Input,
    decide: (state: GoalState, by: Actor, input: Omit<Input, "by">) => Act<Result>,
  ): Promise<Result> {
    const { by, ...rest } = input;
    return this.act(operation, by, (state, who) => decide(state, who, rest));
  }

  /**
   * One commit without role check, write guard and signature, for layers that do several acts at once. The
   * uids of its events are put into `written`.
   */
  async commit<Result>(by: Actor, decide: Decide<Result>, written: string[] = []): Promise<Result> {
    const committed = await this.commitFresh((state) => {
      if (state.id === "") throw goalNotFound(this.id);
      const { id: goal, isObserver: observed, clone } = this;
      const act = stamped(state, decide(state, by), { goal, by, at: this.journal.now(), observed, clone });
      written.splice(0, written.length, ...act.events.map(({ data }) => (data as { uid: string }).uid));
      return act;
    });
    if (committed.outcome === "ok") return committed.result;
    if (committed.outcome === "fenced") throw leaseLost(committed.lease, committed.now);
    throw new Error(`goal ${this.id}: the commit answered ${committed.outcome}`);
  }

  /** A rejection must hold for the latest state: when the handle was stale, the decision is made again. */
  private async commitFresh<Result>(decide: (state: GoalState) => Act<Result>) {
    const { generation, seq } = this.log.head;
    try {
      return await this.log.commit(decide);
    } catch (error) {
      // A store that fails may have written; any other error means that nothing was.
      if (!isHoldfastError(error) || /^(STORE|STREAM)_/.test(error.code)) throw error;
      await this.log.refresh();
      const { head } = this.log;
      if (head.generation === generation && head.seq === seq) throw error;
      return this.log.commit(decide);
    }
  }
}

export function goalNotFound(id: string): HoldfastError {
  return new HoldfastError("GOAL_NOT_FOUND", `there is no goal ${id}`, {
    hint: "Open it with a `statement` to create it, or check the name and the namespace.",
    data: { goal: id },
  });
}

/** The repository has the goal, but its events are dated so far ahead that none is merged yet. */
export function goalWaits(id: string, until: number): HoldfastError {
  const message = `there is no goal ${id} yet: its event files are dated more than a day ahead of this clock`;
  return new HoldfastError("GOAL_NOT_FOUND", message, {
    hint: `Check the clock of this machine (date). Any command merges the files from ${isoTime(until)} on.`,
    data: { goal: id, until },
  });
}
