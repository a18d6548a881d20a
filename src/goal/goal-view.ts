/**
 * Reading a goal, and the one way to change it: check the role, decide on the current state, append, and decide again
 * when another writer was faster.
 */

import { type CommitOutcome, type Journal, type Log, leaseLost } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import {
  type Actor,
  bySchema,
  checkRole,
  type DecisionQuery,
  type DecisionRecord,
  type Entry,
  type GoalOperation,
  type GoalState,
  type Lineage,
  type Position,
  type Progress,
  positionOf,
  progressOf,
  type RunState,
  runStateOf,
  type Survey,
  searchDecisions,
  surveyGoal,
  type Task,
  taskOf,
} from "../model/goal/index.ts";
import { formatPath } from "../model/json.ts";
import type { Event } from "../model/stream/index.ts";
import { type Act, invalid, stamped } from "./act.ts";
import { type BriefingOptions, makeBriefing } from "./briefing.ts";
import { checkFiles, type FileReport } from "./check-files.ts";
import { entriesOf, type MergeReport, mergeEntries } from "./merging.ts";
import { type NextTasks, nextTasks } from "./next-tasks.ts";

/** Who acts; without it, whoever the handle was opened for. */
export type Attributed<Input> = Input & { readonly by?: Actor };

export interface GoalHandle {
  readonly journal: Journal;
  readonly log: Log<GoalState>;
  readonly id: string;
  readonly by: Actor;
  /** The folder that recorded paths are relative to. */
  readonly root: string | null;
}

/** Stands around every write of a handle. */
export interface WriteGuard {
  /** Before anything is decided; throws to refuse the write. */
  before(by: Actor): Promise<void>;
  /** On the state that the write is decided on, which may have come in since. */
  check(state: GoalState, by: Actor): void;
  /** The write is durable. What goes wrong here is no failure of the write, so this must not throw. */
  after(): Promise<void>;
}

export class GoalView {
  readonly id: string;
  readonly by: Actor;
  readonly root: string | null;
  readonly journal: Journal;
  private readonly log: Log<GoalState>;
  private guard: WriteGuard | null = null;

  constructor(handle: GoalHandle) {
    this.id = handle.id;
    this.by = handle.by;
    this.root = handle.root;
    this.journal = handle.journal;
    this.log = handle.log;
  }

  /** As of the last commit or refresh. Belongs to the goal: read it, do not change it. */
  get state(): GoalState {
    return this.log.state;
  }

  /** The position in this store's log that the state is of. */
  get seq(): number {
    return this.log.head.seq;
  }

  /** How many events the goal has, wherever they were written. Its files carry this number. */
  get revision(): number {
    return this.log.state.revision;
  }

  /** Takes in what others have written. */
  async refresh(): Promise<this> {
    await this.log.refresh();
    return this;
  }

  /** A hint that something changed, maybe late, maybe for nothing: refresh and look. Returns the way to stop. */
  watch(changed: () => void): () => void {
    return this.journal.watch(this.log.stream, changed);
  }

  /** What was written after a position, in order, as it was written: for logs, exports and projections. */
  events(after = 0): AsyncGenerator<[seq: number, Event]> {
    return this.journal.events(this.log.stream, after);
  }

  /** What is ready, blocked and done, over all tasks and phases, computed from the state. */
  survey(): Survey {
    return surveyGoal(this.state);
  }

  /** Where the work stands: phase, plan, wave, and the task that comes next. */
  position(): Position {
    return positionOf(this.state);
  }

  /** How much is done, in numbers and as a bar. */
  progress(): Progress {
    return progressOf(this.state);
  }

  /** What a run would be taken up with: tasks by their fate, the last checkpoint, counts of errors. */
  runState(): RunState {
    return runStateOf(this.state, this.journal.now());
  }

  /** A task by its id, or by a name that it goes by since a merge. Throws when there is none. */
  task(id: string): Task {
    return taskOf(this.state, id);
  }

  /** Decisions that count, the latest first; by word, type or file where a query says so. */
  decisions(query: DecisionQuery = {}): DecisionRecord[] {
    return searchDecisions(this.state.decisions.values(), query);
  }

  /** What to claim next, or why there is nothing. */
  async next(): Promise<NextTasks> {
    await this.refresh();
    return nextTasks(this.state);
  }

  /** The text with which the next agent continues, within `tokens` (2,000 unless set). */
  briefing(options: BriefingOptions = {}): string {
    return makeBriefing(this.state, this.seq, this.journal.now(), options).text;
  }

  /** Every recorded file, or those named, against the disk. */
  checkFiles(options: { root?: string; paths?: readonly string[] } = {}): Promise<FileReport> {
    const { paths } = options;
    const files = [...this.state.files.values()].filter(({ path }) => paths?.includes(path) ?? true);
    return checkFiles(this.rootFor(options.root), files);
  }

  /** The folder of recorded files: as given, or as the goal was opened with. */
  protected rootFor(given?: string): string {
    const root = given ?? this.root;
    if (root !== null) return root;
    throw invalid(
      `goal ${this.id} does not know where its files are`,
      "Pass `root`, the folder that the recorded paths are relative to, here or when opening the goal.",
    );
  }

  protected identity(given: Actor | undefined): Actor {
    const parsed = bySchema.safeParse(given ?? this.by);
    if (parsed.success) return parsed.data;
    const issue = parsed.error.issues[0];
    throw invalid(
      `goal ${this.id}: by: ${formatPath(issue?.path ?? [])}: ${issue?.message}`,
      "Say who acts: { name, role }.",
    );
  }

  /** One operation, one commit. */
  protected async act<Result>(
    operation: GoalOperation,
    given: Actor | undefined,
    decide: (state: GoalState, by: Actor) => Act<Result>,
  ): Promise<Result> {
    const by = this.identity(given);
    await this.guard?.before(by);
    const result = await this.commit(by, (state) => {
      this.guard?.check(state, by);
      checkRole(by, operation, state.verification);
      return decide(state, by);
    });
    await this.guard?.after();
    return result;
  }

  /** For the projections layer: who stands around the writes of this handle. Null: nobody any more. */
  guardWrites(guard: WriteGuard | null): void {
    this.guard = guard;
  }

  /** For the projections layer: events of several acts as one commit, past the guard. */
  async commit<Result>(by: Actor, decide: (state: GoalState, by: Actor) => Act<Result>): Promise<Result> {
    const committed = await this.commitFresh((state) => {
      if (state.id === "") throw goalNotFound(this.id);
      return stamped(state, by, decide(state, by));
    });
    if (committed.outcome === "ok") return committed.result;
    if (committed.outcome === "fenced") throw leaseLost(committed.lease, committed.now);
    throw new Error(`goal ${this.id}: the commit answered ${committed.outcome}`);
  }

  /** What is refused is refused on the state as it is now: others may have written since this handle last looked. */
  private async commitFresh<Result>(
    decide: (state: GoalState) => Act<Result>,
  ): Promise<CommitOutcome<Result>> {
    const { generation, seq } = this.log.head;
    try {
      return await this.log.commit(decide);
    } catch (error) {
      // Nothing was written, unless it is the store that failed.
      if (!isHoldfastError(error) || /^(STORE|STREAM)_/.test(error.code)) throw error;
      await this.log.refresh();
      const { head } = this.log;
      if (head.generation === generation && head.seq === seq) throw error;
      return this.log.commit(decide);
    }
  }

  /** For the projections layer: every event up to now in the form in which copies of the goal exchange them. */
  entries(from?: { readonly seq: number; readonly lineage: Lineage }): AsyncGenerator<Entry> {
    return entriesOf(this.journal, this.log.stream, this.seq, from);
  }

  /** For the projections layer: takes in what other copies of the goal wrote. Null: it is all here. */
  takeIn(by: Actor, entries: readonly Entry[]): Promise<MergeReport | null> {
    return mergeEntries(this.journal, this.log, this.id, by, entries);
  }

  /** The same for an act that takes its input as it came. */
  protected do<Input extends { readonly by?: Actor }, Result>(
    operation: GoalOperation,
    input: Input,
    decide: (state: GoalState, by: Actor, input: Omit<Input, "by">) => Act<Result>,
  ): Promise<Result> {
    const { by, ...rest } = input;
    return this.act(operation, by, (state, who) => decide(state, who, rest));
  }
}

export function goalNotFound(id: string): HoldfastError {
  return new HoldfastError("GOAL_NOT_FOUND", `there is no goal ${id}`, {
    hint: "Open it with a `statement` to create it, or check the name and the namespace.",
    data: { goal: id },
  });
}
