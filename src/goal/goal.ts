/**
 * A goal as its users see it.
 *
 * Many agents may write at once: no lease guards the whole goal. Every operation is one commit. Writes under
 * a claim, and resets by force, also carry the token of the task's lease; all others need no lease.
 */

import {
  type Actor,
  type Blocker,
  blockerOf,
  type DecisionQuery,
  type DecisionRecord,
  decisionOf,
  type FileAct,
  type GoalOperation,
  type GoalState,
  type HistoryEntry,
  historyOf,
  type NextTasks,
  nextTasks,
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
  type WaitingAct,
} from "../model/goal/index.ts";
import type { Event } from "../model/stream/index.ts";
import type { Act } from "./act.ts";
import { type BriefingOptions, makeBriefing } from "./briefing.ts";
import { type ClaimProof, type Verdict, verify } from "./claim-acts.ts";
import { checkFiles, type FileReport } from "./file-check.ts";
import { type Attributed, GoalCore, type GoalParts } from "./goal-core.ts";
import type { Retraction } from "./merging.ts";
import * as notes from "./note-acts.ts";
import { type GoalMoment, goalAt } from "./past.ts";
import * as planning from "./planning-acts.ts";
import * as sessions from "./session-acts.ts";
import type { Claim, ClaimOptions, EvidenceInput, LostClaim, LostOptions } from "./task-claims.ts";
import { TaskClaims } from "./task-claims.ts";

/** Reads the private fields of a goal; set inside the class, the only place that may. */
let internals: (goal: Goal) => { readonly core: GoalCore; readonly claims: TaskClaims };

/** The core of a goal, for projections, operations, hooks and the supervisor. Not part of the public API. */
export function goalCore(goal: Goal): GoalCore {
  return internals(goal).core;
}

/** `TaskClaims.resetLost` of an open goal, for the supervisor. Not part of the public API. */
export function resetLostClaims(goal: Goal, by: Actor, options: LostOptions): Promise<LostClaim[]> {
  return internals(goal).claims.resetLost(by, options);
}

/**
 * Long-lived work that many agents share: phases, tasks, decisions, facts, blockers, and who did what. Every
 * method that changes it is one durable commit. Close it when this process is done with it: the tasks that it
 * still holds go back.
 *
 * @example
 * const goal = await holdfast.goal("checkout", { statement: "Ship the new checkout", phases: ["build"] });
 * await goal.addTask({ title: "Parse the cart" });
 * const claim = await goal.claim("T-001", { by: { name: "claude", role: "worker" } });
 * await claim.submit({ summary: "parser and tests" });
 * await goal.close();
 */
export class Goal {
  readonly #core: GoalCore;
  readonly #claims: TaskClaims;

  static {
    internals = (goal) => ({ core: goal.#core, claims: goal.#claims });
  }

  constructor(parts: GoalParts) {
    this.#core = new GoalCore(parts);
    this.#claims = new TaskClaims(this.#core);
  }

  // ── Reading ──

  /** The goal's name in its store: `checkout`. */
  get id(): string {
    return this.#core.id;
  }

  /** The actor of operations that pass no `by`. */
  get by(): Actor {
    return this.#core.by;
  }

  /** The folder that recorded paths are relative to. */
  get root(): string | null {
    return this.#core.root;
  }

  /** The state as of the last commit or refresh. Do not change it. */
  get state(): GoalState {
    return this.#core.state;
  }

  /** The position in this store's log up to which `state` is folded. */
  get seq(): number {
    return this.#core.seq;
  }

  /** How many events the goal has, in whichever copy they were written. Rendered files carry this number. */
  get revision(): number {
    return this.state.revision;
  }

  /** Reads what others have written since. */
  async refresh(): Promise<this> {
    await this.#core.log.refresh();
    return this;
  }

  /** Calls back when the goal may have changed, possibly for nothing. Returns the function that stops it. */
  watch(changed: () => void): () => void {
    return this.#core.journal.watch(this.#core.log.stream, changed);
  }

  /** The stored events after a position, in order: for logs, exports and projections. */
  events(after = 0): AsyncGenerator<[seq: number, Event]> {
    return this.#core.journal.events(this.#core.log.stream, after);
  }

  /**
   * The goal as it was after an event, by its position, or at a time.
   *
   * @example
   * const { state } = await goal.at(new Date("2024-01-15T12:00:00Z"));
   */
  at(when: number | Date): Promise<GoalMoment> {
    return goalAt(this.#core.journal, this.id, when);
  }

  /** The ready, blocked and finished work over all tasks and phases, computed from the state. */
  survey(): Survey {
    return surveyGoal(this.state);
  }

  /** The current phase, plan and wave, and the task that comes next. */
  position(): Position {
    return positionOf(this.state);
  }

  /** How much is done, in numbers and as a bar. */
  progress(): Progress {
    return progressOf(this.state);
  }

  /** The state that a run resumes from: tasks by status, the last checkpoint, counts of errors. */
  runState(): RunState {
    return runStateOf(this.state, this.#core.journal.now());
  }

  /** A task by its id or an alias. Throws when there is none. */
  task(id: string): Task {
    return this.#core.task(id);
  }

  /** The decisions in force, latest first. Example: `goal.decisions({ file: "src/cart.ts" })`. */
  decisions(query: DecisionQuery = {}): DecisionRecord[] {
    return searchDecisions(this.state.decisions.values(), query);
  }

  /** The tasks to claim next, or the reason why there are none. */
  async next(): Promise<NextTasks> {
    await this.refresh();
    return nextTasks(this.state);
  }

  /** The text with which the next agent continues, within `tokens` (2,000 by default). */
  briefing(options: BriefingOptions = {}): string {
    return makeBriefing(this.state, this.seq, this.#core.journal.now(), options).text;
  }

  /** Compares every recorded file, or those in `paths`, with the disk. */
  checkFiles(options: { root?: string; paths?: readonly string[] } = {}): Promise<FileReport> {
    const { paths } = options;
    const files = [...this.state.files.values()].filter(({ path }) => paths?.includes(path) ?? true);
    return checkFiles(this.#core.rootFor(options.root), files);
  }

  // ── Planning ──

  /** Changes the statement, the title or a setting; fields that are left out stay. */
  describe(input: Attributed<Partial<planning.GoalSettings>>): Promise<void> {
    return this.#core.actOn("describe", input, planning.describe);
  }

  /** Adds a phase after the existing ones. Returns its number. */
  addPhase(input: Attributed<planning.PhaseInput>): Promise<number> {
    return this.#core.actOn("addPhase", input, planning.addPhase);
  }

  /** Adds a plan to a phase, for tasks that belong together. Returns its number in the phase. */
  addPlan(input: Attributed<planning.PlanInput>): Promise<number> {
    return this.#core.actOn("addPlan", input, planning.addPlan);
  }

  /** Adds one task: to build something or, with `kind: "review"`, to review other tasks. */
  async addTask(input: Attributed<planning.TaskInput>): Promise<Task> {
    const { by, ...task } = input;
    const [added] = await this.addTasks({ tasks: [task as planning.TaskInput], ...(by && { by }) });
    return added as Task;
  }

  /** Adds tasks in one commit. Later ones may depend on earlier ones by the ids they will get. */
  async addTasks(input: Attributed<{ tasks: readonly planning.TaskInput[] }>): Promise<Task[]> {
    const { by, tasks } = input;
    const ids = await this.#core.act("addTask", by, (state, who) => planning.addTasks(state, who, tasks));
    return ids.map((id) => this.task(id));
  }

  /** Changes a task: its text, its phase, plan and wave, its dependencies. */
  editTask(input: Attributed<planning.EditInput>): Promise<Task> {
    return this.actOnTask("editTask", input, planning.editTask);
  }

  /** Allows another attempt at a task that failed for good. `why` says what is different now. */
  retry(input: Attributed<planning.WhyInput>): Promise<Task> {
    return this.actOnTask("retry", input, planning.retry);
  }

  /** Drops a task that is no longer wanted. It counts as finished and stays readable. */
  drop(input: Attributed<planning.WhyInput>): Promise<Task> {
    return this.actOnTask("drop", input, planning.drop);
  }

  /** Opens a done or dropped task again. */
  reopen(input: Attributed<planning.WhyInput>): Promise<Task> {
    return this.actOnTask("reopen", input, planning.reopen);
  }

  /** Gives a task another id as well, such as that of another list: `{ task: "T-001", alias: "T-142" }`. */
  aliasTask(input: Attributed<planning.AliasInput>): Promise<void> {
    return this.#core.actOn("aliasTask", input, planning.aliasTask);
  }

  /** Moves the work to another phase, by number or name. */
  move(input: Attributed<{ to: number | string }>): Promise<number> {
    return this.#core.act("move", input.by, (state, who) => planning.move(state, who, input.to));
  }

  /** Completes a phase. Rejected while one of its tasks is unfinished. Returns its number. */
  completePhase(input: Attributed<{ phase: number | string }>): Promise<number> {
    const { by, phase } = input;
    return this.#core.act("completePhase", by, (state, who) => planning.completePhase(state, who, phase));
  }

  // ── Working on tasks ──

  /** Claims a task for one agent. A task whose holder is gone is taken over. */
  claim(id: string, options: Attributed<ClaimOptions> = {}): Promise<Claim> {
    return this.#claims.claim(id, options);
  }

  /** Records how far the work on a claimed task is. The next agent reads the note if this one dies. */
  noteProgress(input: Attributed<ClaimProof & { note?: string | null }>): Promise<Task> {
    return this.#claims.noteProgress(input);
  }

  /** Submits a claimed task with its evidence. It is done at once if the goal asks for no verifier. */
  submit(input: Attributed<ClaimProof & EvidenceInput>): Promise<Task> {
    return this.#claims.submit(input);
  }

  /** The attempt failed. Unless `retryable` is false the task may be claimed again, up to `maxAttempts`. */
  fail(input: Attributed<ClaimProof & { error: string; retryable?: boolean }>): Promise<Task> {
    return this.#claims.fail(input);
  }

  /** Puts a claimed task back unfinished, for others to claim. */
  release(input: Attributed<ClaimProof & { why?: string | null }>): Promise<Task> {
    return this.#claims.release(input);
  }

  /** Records a blocker of a claimed task and puts the task back, in one commit. Returns the blocker's id. */
  blockTask(input: Attributed<ClaimProof & { description: string }>): Promise<string> {
    return this.#claims.blockTask(input);
  }

  /** Accepts or rejects submitted work. Agents may not verify their own, unless the goal allows it. */
  verify(input: Attributed<Verdict>): Promise<Task> {
    return this.actOnTask("verify", input, verify);
  }

  /** Puts back a task whose holder is gone; with `force`, also one whose holder still renews its lease. */
  reset(input: Attributed<{ task: string; why: string; force?: boolean }>): Promise<Task> {
    return this.#claims.reset(input);
  }

  /** Puts back the tasks that this handle still holds. After a crash their leases expire instead. */
  close(): Promise<void> {
    return this.#claims.close();
  }

  // ── Blockers ──

  /** Records an obstacle. The tasks it affects cannot be claimed until it is resolved or bypassed. */
  async block(input: Attributed<notes.BlockerInput>): Promise<Blocker> {
    return blockerOf(this.state, await this.#core.actOn("block", input, notes.block));
  }

  /** Confirms a reported blocker: from now on it blocks, and its age counts. */
  async identify(input: Attributed<{ blocker: string }>): Promise<Blocker> {
    const { by, blocker } = input;
    const act = (state: GoalState, who: Actor): Act<string> => notes.identify(state, who, blocker);
    return blockerOf(this.state, await this.#core.act("identify", by, act));
  }

  /** Works around a blocker: records the workaround and adds the follow-up tasks. */
  async bypass(input: Attributed<notes.BypassInput>): Promise<Blocker> {
    return blockerOf(this.state, await this.#core.actOn("bypass", input, notes.bypass));
  }

  /** Resolves a blocker. Returns the tasks that nothing blocks any more. */
  resolve(input: Attributed<{ blocker: string; resolution: string }>): Promise<notes.Resolved> {
    return this.#core.actOn("resolve", input, notes.resolve);
  }

  // ── Remembering ──

  /** Records a decision with its reason, so that no later agent decides it again without knowing why. */
  decide(input: Attributed<notes.DecisionInput>): Promise<DecisionRecord> {
    return this.decided("decide", input, null);
  }

  /** Replaces a decision by a new one. The old one stays readable and names its successor. */
  async supersede(input: Attributed<notes.DecisionInput & { supersedes: string }>): Promise<DecisionRecord> {
    const { supersedes, ...decision } = input;
    return this.decided("supersede", decision, supersedes);
  }

  /** Records a finding with its source. Setting a key again replaces its value. */
  fact(input: Attributed<notes.FactInput>): Promise<void> {
    return this.#core.actOn("fact", input, notes.fact);
  }

  /** Removes a fact that is no longer true. */
  forget(input: Attributed<{ key: string; why: string }>): Promise<void> {
    return this.#core.actOn("forget", input, notes.forget);
  }

  /**
   * Takes back one event, in this copy and in every clone that gets it. Only a person may. The event stays in
   * the log and changes nothing any more; events that build on it may no longer fit.
   *
   * @example
   * await goal.retract({ event: "D-004", why: "not written by us", by: { name: "ann", role: "human" } });
   */
  async retract(input: Attributed<Retraction>): Promise<{ readonly uid: string; readonly type: string }> {
    const { by, ...what } = input;
    const { uid, type } = await this.#core.retract(by, what);
    return { uid, type };
  }

  /**
   * Lets acts of people that a pull brought count in this clone. They wait in `state.waiting`, because anyone
   * who can push can write any name. Only a person may. Returns the confirmed acts.
   *
   * @example
   * await goal.confirm({ events: "all", by: { name: "ann", role: "human" } });
   */
  confirm(input: Attributed<{ events: readonly string[] | "all" }>): Promise<WaitingAct[]> {
    return this.#core.confirm(input.by, input.events);
  }

  /** Records files that were read or changed. A file without a hash is hashed as it is on disk now. */
  async recordFiles(
    input: Attributed<notes.FilesInput<{ path: string; act: FileAct; hash?: string }>>,
  ): Promise<void> {
    const hashed = input.files.map(async ({ path, act, hash }) => {
      return { path, act, hash: act === "deleted" ? null : (hash ?? (await this.#core.hash(path))) };
    });
    const files = await Promise.all(hashed);
    return this.#core.actOn("recordFiles", { ...input, files }, notes.recordFiles);
  }

  /** Records what was built and in which files: `{ text: "cart parser", files: ["src/cart.ts"] }`. */
  implementation(input: Attributed<notes.ImplementationInput>): Promise<void> {
    return this.#core.actOn("implementation", input, notes.implementation);
  }

  /** Asks a question. Returns its id; every briefing shows it until it is answered. */
  ask(input: Attributed<{ text: string }>): Promise<string> {
    return this.#core.act("ask", input.by, (state, who) => notes.ask(state, who, input.text));
  }

  /** Answers a question, which closes it. */
  answer(input: Attributed<{ question: string; answer: string }>): Promise<void> {
    return this.#core.actOn("answer", input, notes.answer);
  }

  /**
   * Records an assumption: the work relies on it, and it is unchecked. Returns its id. Every briefing shows
   * it until it is settled.
   *
   * @example
   * const id = await goal.assume({ text: "the vendor's API returns at most 100 rows" });
   */
  assume(input: Attributed<{ text: string }>): Promise<string> {
    return this.#core.act("assume", input.by, (state, who) => notes.assume(state, who, input.text));
  }

  /**
   * Confirms or refutes an assumption, with the evidence. A refuted one stays in the briefing as a warning.
   *
   * @example
   * await goal.settle({ assumption: "A-001", status: "refuted", evidence: "it returned 250 rows" });
   */
  settle(input: Attributed<notes.SettlingInput>): Promise<void> {
    return this.#core.actOn("settle", input, notes.settle);
  }

  /** Sets the next action: a task id or free text. Null clears it. */
  setNext(input: Attributed<{ next: string | sessions.NextInput | null }>): Promise<void> {
    return this.#core.act("setNext", input.by, (state, who) => sessions.setNext(state, who, input.next));
  }

  /** Records an error that is not the failure of a task. It is counted, and a checkpoint of the run. */
  recordError(input: Attributed<notes.ErrorInput>): Promise<void> {
    return this.#core.actOn("recordError", input, notes.recordError);
  }

  // ── Session history ──

  /** Starts a session: one agent's stretch of work. The tasks it claims go back when it ends or crashes. */
  async startSession(input: Attributed<sessions.StartInput>): Promise<HistoryEntry> {
    return historyOf(this.state, await this.#core.actOn("startSession", input, sessions.startSession));
  }

  /** Records how a session is going, for readers of the history, and how full its context is. */
  noteSession(input: Attributed<sessions.NoteInput>): Promise<void> {
    return this.#core.actOn("noteSession", input, sessions.noteSession);
  }

  /** Ends a session. The tasks that it still holds go back. */
  async endSession(input: Attributed<sessions.EndInput>): Promise<HistoryEntry> {
    await this.#claims.releaseLeases(await this.#core.actOn("endSession", input, sessions.endSession));
    return historyOf(this.state, input.session);
  }

  /**
   * Ends a session before its work is done, for example because its context is full. One commit puts its
   * tasks back and records the reason and the next action; the next session that starts continues from there.
   */
  async handoff(
    input: Attributed<Omit<sessions.HandoffInput, "session">> & { session: string | { readonly id: string } },
  ): Promise<HistoryEntry> {
    const session = typeof input.session === "string" ? input.session : input.session.id;
    await this.#claims.releaseLeases(
      await this.#core.actOn("handoff", { ...input, session }, sessions.handoff),
    );
    return historyOf(this.state, session);
  }

  /** The sessions that led to this one by hand-offs and crashes, oldest first. */
  chain(session: string): HistoryEntry[] {
    return sessions.chainOf(this.state, historyOf(this.state, session).id);
  }

  /** Marks a session as crashed, so that its work can be taken over. False when it had ended already. */
  crashSession(input: Attributed<{ session: string; notes?: string | null }>): Promise<boolean> {
    return this.#core.actOn("crashSession", input, sessions.crashSession);
  }

  private async actOnTask<Input extends { readonly by?: Actor }>(
    operation: GoalOperation,
    input: Input,
    decide: (state: GoalState, by: Actor, input: Omit<Input, "by">) => Act<string>,
  ): Promise<Task> {
    return this.task(await this.#core.actOn(operation, input, decide));
  }

  private async decided(
    operation: "decide" | "supersede",
    input: Attributed<notes.DecisionInput>,
    supersedes: string | null,
  ): Promise<DecisionRecord> {
    const today = new Date(this.#core.journal.now()).toISOString().slice(0, 10);
    const id = await this.#core.actOn(operation, input, (state, by, decision) =>
      notes.decide(state, by, decision, today, supersedes),
    );
    return decisionOf(this.state, id);
  }
}
