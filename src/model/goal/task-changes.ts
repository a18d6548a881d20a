/** The effect of events on tasks and phases. Every change of status goes through the table in `task.ts`. */

import { HoldfastError } from "../errors.ts";
import type { Place } from "../stream/index.ts";
import { idNumber } from "./entries.ts";
import type { EventData } from "./event-schemas.ts";
import { type GoalState, phaseOf, taskOf } from "./goal-state.ts";
import { recordFile } from "./note-changes.ts";
import type { HistoryEntry } from "./notes.ts";
import { contentOf, initialOf, type RecordOf } from "./record-table.ts";
import { type EndedClaim, nextStatus, type Task, type TaskAct } from "./task.ts";
import { BUILD_TASK, REVIEW_TASK, TASK_PLAN, type TASK_WORK } from "./task-records.ts";

/** A change of a task that leaves its id and kind alone. */
type Change = Partial<Omit<Task, "id" | "kind">>;

export function addTask(state: GoalState, data: EventData<"task.added">, place: Place): void {
  checkPlace(state, data.phase, data.plan);
  if (state.tasks.has(data.id)) throw idTaken(state, data.id);
  state.given = { ...state.given, T: Math.max(state.given.T, idNumber(data.id)) };
  state.tasks.set(data.id, newTask(data, place));
}

const BUILD_CONTENT = Object.entries({ ...contentOf(TASK_PLAN), ...contentOf(BUILD_TASK) });
const REVIEW_CONTENT = Object.entries({ ...contentOf(TASK_PLAN), ...contentOf(REVIEW_TASK) });

/**
 * Content is assigned to a literal, not spread into it: Node 20 gives every object that grows after a spread
 * a hidden class of its own, and a survey of a thousand tasks then takes ten times as long. Events of older
 * releases lack values for newer fields.
 */
function newTask(data: EventData<"task.added">, { seq, at }: Place): Task {
  const task: RecordOf<typeof TASK_WORK> & Pick<Task, "id" | "status"> = {
    id: data.id,
    status: "open",
    claim: null,
    previous: null,
    attempts: 0,
    failures: 0,
    rejections: 0,
    failure: null,
    submission: null,
    verdict: null,
    createdAt: at,
    updatedAt: at,
    doneAt: null,
    seq,
    endSeq: null,
    revision: seq,
  };
  const record = task as Record<string, unknown>;
  record["kind"] = data.kind;
  const content: Readonly<Record<string, unknown>> = data;
  for (const [name, field] of data.kind === "build" ? BUILD_CONTENT : REVIEW_CONTENT) {
    record[name] = content[name] ?? initialOf(field);
  }
  return record as unknown as Task;
}

export function editTask(state: GoalState, data: EventData<"task.edited">, place: Place): void {
  const task = taskOf(state, data.task);
  const change = data.change as Change;
  checkPlace(state, change.phase ?? task.phase, change.plan === undefined ? task.plan : change.plan);
  put(state, task, change, place);
}

/** A claim of a task in progress is a take-over: its holder lost the lease, so that session has crashed. */
export function claimTask(state: GoalState, data: EventData<"task.claimed">, place: Place): void {
  const { at } = place;
  const task = taskOf(state, data.task);
  const status = nextStatus(task, "claim");
  const { by, session, token, uid = null, as = data.task } = data;
  if (task.claim) {
    if (data.after !== undefined && data.after !== task.claim.uid) throw claimedElsewhere(task);
    const lost = task.claim.session === null ? undefined : state.history.get(task.claim.session);
    if (lost?.status === "active" && lost.id !== session) {
      const notes = [...lost.notes, `Lost ${task.id} to ${by.name}.`];
      changeSession(state, lost.id, { status: "crashed", endedAt: at, workingOn: task.id, notes }, place);
    }
  }
  const change = {
    status,
    previous: task.claim ? ended(task, "lost", at, null) : task.previous,
    claim: { by, session, token, uid, as, at, progressAt: at, note: null },
    attempts: task.attempts + 1,
  };
  put(state, task, change, place);
  changeSession(state, session, { workingOn: task.id }, place);
}

export function progressTask(state: GoalState, data: EventData<"task.progressed">, place: Place): void {
  const task = underClaim(state, data);
  const status = nextStatus(task, "progress");
  if (!task.claim) return;
  const note = data.note ?? task.claim.note;
  put(state, task, { status, claim: { ...task.claim, progressAt: place.at, note } }, place);
}

export function submitTask(state: GoalState, data: EventData<"task.submitted">, place: Place): void {
  const task = underClaim(state, data);
  const session = task.claim?.session ?? null;
  const { evidence, by, uid = null } = data;
  move(state, task, "submit", place, {
    claim: null,
    failure: null,
    submission: { uid, evidence, by, session, at: place.at },
    verdict: null,
  });
  for (const { path, hash } of evidence.files) {
    const act = hash === null ? "deleted" : "modified";
    recordFile(state, { path, hash, act, task: task.id, session, by, at: place.at });
  }
  changeSession(state, session, { workingOn: null }, place);
  succeed(state, `submit ${task.id}`, task.id, place);
  state.counters = { ...state.counters, iterations: state.counters.iterations + 1 };
}

export function acceptTask(state: GoalState, data: EventData<"task.accepted">, place: Place): void {
  const task = judgedTask(state, data);
  const { at } = place;
  const verdict = { accepted: true, why: data.why, by: data.by, at };
  move(state, task, "accept", place, { verdict, doneAt: at, endSeq: place.seq, previous: null });
  const session = task.submission?.session;
  const entry = session ? state.history.get(session) : undefined;
  if (entry)
    changeSession(state, entry.id, { completed: [...new Set([...entry.completed, task.id])] }, place);
  succeed(state, `complete ${task.id}`, task.id, place);
}

export function rejectTask(state: GoalState, data: EventData<"task.accepted">, place: Place): void {
  const task = judgedTask(state, data);
  const { at } = place;
  const { submission } = task;
  const claim = submission && {
    by: submission.by,
    session: submission.session,
    token: 0,
    uid: null,
    as: task.id,
    at: submission.at,
    progressAt: submission.at,
    note: submission.evidence.summary,
  };
  move(state, task, "reject", place, {
    verdict: { accepted: false, why: data.why, by: data.by, at },
    previous: claim && { ...claim, ended: "rejected", endedAt: at, why: data.why },
    rejections: task.rejections + 1,
  });
}

export function failTask(state: GoalState, data: EventData<"task.failed">, place: Place): void {
  const task = underClaim(state, data);
  const { error, retryable } = data;
  move(state, task, "fail", place, {
    claim: null,
    previous: ended(task, "failed", place.at, error),
    failures: task.failures + 1,
    failure: { error, retryable, at: place.at },
  });
  changeSession(state, task.claim?.session ?? null, { workingOn: null }, place);
  const { iterations, errors } = state.counters;
  state.counters = { ...state.counters, iterations: iterations + 1, errors: errors + 1 };
}

export function releaseTask(state: GoalState, data: EventData<"task.released">, place: Place): void {
  putBack(state, underClaim(state, data), "release", data.why, place);
}

/** The crashed session keeps `workingOn` for the next agent. */
export function resetTask(state: GoalState, data: EventData<"task.reset">, place: Place): void {
  putBack(state, underClaim(state, data), "reset", data.why, place);
}

function putBack(
  state: GoalState,
  task: Task,
  act: "release" | "reset",
  why: string | null,
  place: Place,
): void {
  const previous = ended(task, act === "reset" ? "reset" : "released", place.at, why);
  move(state, task, act, place, { claim: null, previous });
  const session = task.claim?.session ?? null;
  if (act === "release") changeSession(state, session, { workingOn: null }, place);
}

export function retryTask(state: GoalState, data: EventData<"task.retried">, place: Place): void {
  move(state, taskOf(state, data.task), "retry", place, { failures: 0, failure: null });
}

export function dropTask(state: GoalState, data: EventData<"task.retried">, place: Place): void {
  const task = taskOf(state, data.task);
  changeSession(state, task.claim?.session ?? null, { workingOn: null }, place);
  move(state, task, "drop", place, { claim: null, failure: null, doneAt: place.at, endSeq: place.seq });
}

export function reopenTask(state: GoalState, data: EventData<"task.retried">, place: Place): void {
  move(state, taskOf(state, data.task), "reopen", place, {
    doneAt: null,
    endSeq: null,
    submission: null,
    verdict: null,
    failures: 0,
    rejections: 0,
  });
}

export function aliasTask(state: GoalState, data: EventData<"task.aliased">, { seq }: Place): void {
  const task = taskOf(state, data.task);
  if (state.tasks.has(data.alias)) throw idTaken(state, data.alias);
  // The number counts as given: a later task must not get an id that means another one.
  state.given = { ...state.given, T: Math.max(state.given.T, idNumber(data.alias)) };
  state.aliases.set(data.alias, data.task);
  state.tasks.set(task.id, { ...task, revision: seq });
}

/** Going back to a completed phase opens it again. */
export function enterPhase(state: GoalState, data: EventData<"phase.entered">, place: Place): void {
  const { number, closedAt } = phaseOf(state, data.phase);
  state.focus = number;
  if (closedAt !== null) closePhase(state, number, null, place);
}

export function completePhase(state: GoalState, data: EventData<"phase.entered">, place: Place): void {
  closePhase(state, phaseOf(state, data.phase).number, place.at, place);
}

function closePhase(state: GoalState, number: number, closedAt: number | null, { seq }: Place): void {
  state.phases = state.phases.map((each) => (each.number === number ? { ...each, closedAt } : each));
  state.phasesRevision = seq;
}

function move(state: GoalState, task: Task, act: TaskAct, place: Place, change: Change): void {
  put(state, task, { ...change, status: nextStatus(task, act) }, place);
}

function put(state: GoalState, task: Task, change: Change, { seq, at }: Place): void {
  state.tasks.set(task.id, { ...task, ...change, updatedAt: at, revision: seq } as Task);
}

function ended(task: Task, how: EndedClaim["ended"], at: number, why: string | null): EndedClaim | null {
  return task.claim && { ...task.claim, ended: how, endedAt: at, why };
}

/** Does nothing for a session that the history does not know. */
function changeSession(
  state: GoalState,
  session: string | null,
  change: Partial<HistoryEntry>,
  { seq }: Place,
): void {
  const entry = session === null ? undefined : state.history.get(session);
  if (entry) state.history.set(entry.id, { ...entry, ...change, revision: seq });
}

function succeed(state: GoalState, operation: string, task: string, { at }: Place): void {
  state.counters = { ...state.counters, lastSuccess: { operation, task, at } };
}

/**
 * Two copies may have claimed the task at once: the first claim counts, events under the other one are
 * rejected.
 */
function underClaim(state: GoalState, data: { task: string; claim?: string | undefined }): Task {
  const task = taskOf(state, data.task);
  if (task.claim && data.claim !== undefined && task.claim.uid !== data.claim) throw claimedElsewhere(task);
  return task;
}

/** Two copies may have submitted the task: a verdict counts only for the submission that it names. */
function judgedTask(state: GoalState, { task: id, submission }: EventData<"task.accepted">): Task {
  const task = taskOf(state, id);
  const { uid, by } = task.submission ?? {};
  if (task.status !== "submitted" || !uid || !submission || uid === submission) return task;
  throw new HoldfastError(
    "TASK_TRANSITION",
    `task ${task.id}: the verdict is on work of another copy (the submission of ${by?.name} waits)`,
    {
      hint: "Review both, then accept or reject the one that waits.",
      data: { task: task.id, submission: uid, judged: submission },
    },
  );
}

function claimedElsewhere({ id, claim }: Task): HoldfastError {
  return new HoldfastError("TASK_HELD", `task ${id} was claimed by ${claim?.by.name} in another copy`, {
    hint: "Both agents worked on it. Compare their work, then release or submit the claim that counts.",
    data: { task: id },
  });
}

function checkPlace(state: GoalState, phase: number, plan: number | null): void {
  const { plans, name } = phaseOf(state, phase);
  if (plan === null || plans.some((each) => each.number === plan)) return;
  throw new HoldfastError("GOAL_ITEM_NOT_FOUND", `phase ${phase} (${name}) has no plan ${plan}`, {
    hint: "Add the plan first, or leave it out.",
    data: { phase, plan },
  });
}

function idTaken(state: GoalState, id: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `goal ${state.id} already has a task ${id}`, {
    hint: "Leave the number to the goal.",
    data: { goal: state.id, id },
  });
}
