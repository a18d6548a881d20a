/**
 * A goal as its users meet it. Many may write at once: no lease guards the whole. Every operation is one commit. What is
 * done under a claim, and what takes a claim away by force, also carries the token of the task's lease. A session that ends
 * gives back what it claimed without it (`history-acts.ts`); nor does planning, a blocker or a verdict ask for one.
 */

import type {
  Actor,
  Blocker,
  DecisionRecord,
  FileAct,
  GoalState,
  HistoryEntry,
  Task,
} from "../model/goal/index.ts";
import { blockerOf, decisionOf, historyOf } from "../model/goal/index.ts";
import type { Act } from "./act.ts";
import { GoalTasks } from "./goal-tasks.ts";
import type { Attributed } from "./goal-view.ts";
import { type HandoffInput, handoff } from "./handoff-act.ts";
import * as history from "./history-acts.ts";
import * as notes from "./note-acts.ts";
import * as planning from "./planning-acts.ts";

/**
 * Long-lived work that many agents share: phases, tasks, decisions, facts, blockers, and who did what. Every
 * method is one durable commit. From `holdfast.goal(id)`. Close it when this process is done with it: tasks that
 * it holds go back.
 */
export class Goal extends GoalTasks {
  // ── Planning ──

  /** Changes what is wanted, the title, or a setting; what is left out stays. */
  describe(input: Attributed<Partial<planning.GoalSettings>>): Promise<void> {
    const { by, ...change } = input;
    return this.act("describe", by, (state, who) => planning.describe(state, who, change));
  }

  /** A phase after those that are there. Returns its number. */
  addPhase(input: Attributed<planning.PhaseInput>): Promise<number> {
    return this.do("addPhase", input, planning.addPhase);
  }

  /** A plan within a phase, for tasks that belong together. Returns its number in the phase. */
  addPlan(input: Attributed<planning.PlanInput>): Promise<number> {
    return this.do("addPlan", input, planning.addPlan);
  }

  /** One task, to be built or, with `kind: "review"`, to be looked at. It gets the next number. */
  async addTask(input: Attributed<planning.TaskInput>): Promise<Task> {
    const { by, ...task } = input;
    const [id] = await this.act("addTask", by, (state, who) =>
      planning.addTasks(state, who, [task as planning.TaskInput]),
    );
    return this.task(id as string);
  }

  /** In one commit; later ones may depend on earlier ones by the ids they will get. */
  async addTasks(input: { tasks: readonly planning.TaskInput[]; by?: Actor }): Promise<Task[]> {
    const ids = await this.act("addTask", input.by, (state, who) =>
      planning.addTasks(state, who, input.tasks),
    );
    return ids.map((id) => this.task(id));
  }

  /** Changes a task: its words, its place, what it waits for. */
  editTask(input: Attributed<planning.EditInput>): Promise<Task> {
    return this.doTask("editTask", input, planning.editTask);
  }

  /** Lets a task that failed for good be tried again, and says why that can help now. */
  retry(input: Attributed<planning.WhyInput>): Promise<Task> {
    return this.doTask("retry", input, planning.retry);
  }

  /** Nobody is to do it any more. It counts as finished and stays readable. */
  drop(input: Attributed<planning.WhyInput>): Promise<Task> {
    return this.doTask("drop", input, planning.drop);
  }

  /** A task that was done or dropped has to be done again. */
  reopen(input: Attributed<planning.WhyInput>): Promise<Task> {
    return this.doTask("reopen", input, planning.reopen);
  }

  /** Another name by which the task can be asked for, such as that of an issue. */
  aliasTask(input: Attributed<planning.AliasInput>): Promise<void> {
    return this.do("aliasTask", input, planning.aliasTask);
  }

  /** To another phase, by number or name. */
  move(input: Attributed<{ to: number | string }>): Promise<number> {
    return this.act("move", input.by, (state, who) => planning.move(state, who, input.to));
  }

  /** Says that nothing more comes in a phase. Refused while a task of it is unfinished. Returns its number. */
  completePhase(input: Attributed<{ phase: number | string }>): Promise<number> {
    return this.act("completePhase", input.by, (state, who) =>
      planning.completePhase(state, who, input.phase),
    );
  }

  // ── Blockers ──

  /**
   * Records what keeps tasks, a phase or the goal from going on. Nobody claims what it holds until it is resolved
   * or bypassed.
   */
  async block(input: Attributed<notes.BlockerInput>): Promise<Blocker> {
    return blockerOf(this.state, await this.do("block", input, notes.block));
  }

  /** Somebody has looked at the blocker and knows what it is: from then on its age counts. */
  async identify(input: Attributed<{ blocker: string }>): Promise<Blocker> {
    const act = (state: GoalState, who: Actor): Act<string> => notes.identify(state, who, input.blocker);
    return blockerOf(this.state, await this.act("identify", input.by, act));
  }

  /** Goes around a blocker, and says how and what has to be done about it later. */
  async bypass(input: Attributed<notes.BypassInput>): Promise<Blocker> {
    return blockerOf(this.state, await this.do("bypass", input, notes.bypass));
  }

  /** Says which tasks can go on now. */
  resolve(input: Attributed<{ blocker: string; resolution: string }>): Promise<notes.Resolved> {
    return this.do("resolve", input, notes.resolve);
  }

  // ── Remembering ──

  /** Records a decision with its reason, so that nobody decides it again without knowing why. */
  async decide(input: Attributed<notes.DecisionInput>): Promise<DecisionRecord> {
    return this.decided("decide", input, null);
  }

  /** A new decision in place of an old one, which stays readable and says what replaced it. */
  async supersede(input: Attributed<notes.DecisionInput & { supersedes: string }>): Promise<DecisionRecord> {
    const { supersedes, ...decision } = input;
    return this.decided("supersede", decision, supersedes);
  }

  /** Something that was found out, with its source. Set again, the later value counts. */
  fact(input: Attributed<notes.FactInput>): Promise<void> {
    return this.do("fact", input, notes.fact);
  }

  /** Takes a fact back that is not true any more. */
  forget(input: Attributed<{ key: string; why: string }>): Promise<void> {
    return this.do("forget", input, notes.forget);
  }

  /** A file without a hash is hashed as it is on disk now. */
  async recordFiles(
    input: Attributed<{
      files: readonly { path: string; act: FileAct; hash?: string }[];
      task?: string | null;
      session?: string | null;
    }>,
  ): Promise<void> {
    const files = await Promise.all(
      input.files.map(async ({ path, act, hash }) => ({
        path,
        act,
        hash: act === "deleted" ? null : (hash ?? (await this.hash(path))),
      })),
    );
    return this.do("recordFiles", { ...input, files }, notes.recordFiles);
  }

  /** What was built and in which files, so that a later change of them is noticed. */
  implementation(input: Attributed<notes.ImplementationInput>): Promise<void> {
    return this.do("implementation", input, notes.implementation);
  }

  /** A question that somebody has to answer. Returns its id; it is in every briefing until then. */
  ask(input: Attributed<{ text: string }>): Promise<string> {
    return this.act("ask", input.by, (state, who) => notes.ask(state, who, input.text));
  }

  /** Answers a question, which closes it. */
  answer(input: Attributed<{ question: string; answer: string }>): Promise<void> {
    return this.do("answer", input, notes.answer);
  }

  /** A task id, or words; null clears it. */
  setNext(input: Attributed<{ next: string | notes.NextInput | null }>): Promise<void> {
    return this.act("setNext", input.by, (state, who) => notes.setNext(state, who, input.next));
  }

  /** Something went wrong that no task failed of. Counted, and a checkpoint of the run. */
  recordError(input: Attributed<{ message: string; task?: string | null }>): Promise<void> {
    return this.do("recordError", input, notes.recordError);
  }

  // ── Session history ──

  /**
   * An agent begins to work on the goal. What it claims with this session goes back when that ends or crashes.
   */
  async startSession(input: Attributed<history.StartInput>): Promise<HistoryEntry> {
    return historyOf(this.state, await this.do("startSession", input, history.startSession));
  }

  /** What the agent is at, for whoever reads the history, and how full its context is. */
  noteSession(input: Attributed<history.NoteInput>): Promise<void> {
    return this.do("noteSession", input, history.noteSession);
  }

  /** The agent is done. Tasks that it still holds go back. */
  async endSession(input: Attributed<history.EndInput>): Promise<HistoryEntry> {
    await this.letGoAll(await this.do("endSession", input, history.endSession));
    return historyOf(this.state, input.session);
  }

  /**
   * Ends the session, puts its tasks back, says why and what comes next: one commit. The next session that starts takes
   * it up from there. For an agent that has to stop before its work is done: its context is full, its shift is over.
   */
  async handoff(
    input: Attributed<Omit<HandoffInput, "session"> & { readonly session: string | { readonly id: string } }>,
  ): Promise<HistoryEntry> {
    const session = typeof input.session === "string" ? input.session : input.session.id;
    await this.letGoAll(await this.do("handoff", { ...input, session }, handoff));
    return historyOf(this.state, session);
  }

  /** The sessions that led to this one, oldest first, over hand-offs and crashes. */
  chain(session: string): HistoryEntry[] {
    return history.chainOf(this.state, historyOf(this.state, session).id);
  }

  /**
   * Says of a session that its process is gone, which a supervisor finds out; what it had can be taken over. False when it
   * had ended already.
   */
  crashSession(input: Attributed<{ session: string; notes?: string | null }>): Promise<boolean> {
    return this.do("crashSession", input, history.crashSession);
  }

  private async decided(
    operation: "decide" | "supersede",
    input: Attributed<notes.DecisionInput>,
    supersedes: string | null,
  ): Promise<DecisionRecord> {
    const { by, ...decision } = input;
    const today = new Date(this.journal.now()).toISOString().slice(0, 10);
    const id = await this.act(operation, by, (state, who) =>
      notes.decide(state, who, decision, today, supersedes),
    );
    return decisionOf(this.state, id);
  }
}
