/**
 * The effect of every event on the state of a goal: one table, in the order of `event-schemas.ts`. Every
 * change of a task's status goes through the table in `task.ts`.
 *
 * Reading a goal needs no schema: events are checked when they are written.
 */

import { HoldfastError } from "../errors.ts";
import { sameJson } from "../json.ts";
import { quoteValue } from "../names.ts";
import type { Event, FoldKind, Place } from "../stream/index.ts";
import {
  derivedUid,
  idNumber,
  MERGED,
  madeName,
  RENUMBERED,
  RETRACTED,
  type Series,
  SIGNED,
  tick,
} from "./entries.ts";
import type { EventData, GoalEventType } from "./event-schemas.ts";
import type { CheckpointKind, GoalCheckpoint, GoalState } from "./goal-state.ts";
import {
  assumptionOf,
  blockerOf,
  decisionOf,
  decodeGoal,
  emptyGoal,
  historyOf,
  phaseOf,
  questionOf,
  taskOf,
} from "./goal-state.ts";
import { applyGoalDelta } from "./merge.ts";
import { boundedMerges, withoutNotes } from "./merge-notes.ts";
import type { Blocker, BlockerAct, FileAct, FileRecord, HistoryEntry } from "./notes.ts";
import { nextBlockerStatus } from "./notes.ts";
import { contentOf, GOAL_FOLD_VERSION, initialOf, type RecordOf } from "./record-table.ts";
import type { Actor } from "./roles.ts";
import { type EndedClaim, nextStatus, type Task, type TaskAct } from "./task.ts";
import { BUILD_TASK, REVIEW_TASK, TASK_PLAN, type TASK_WORK } from "./task-records.ts";

type Effect<Data> = (state: GoalState, data: Data, place: Place) => void;

const EFFECTS: { readonly [Type in GoalEventType]: Effect<EventData<Type>> } = {
  "goal.created": (state, { by: _by, uid: _uid, observed: _observed, clone: _clone, ...content }, { at }) => {
    Object.assign(state, content, { createdAt: at });
  },
  "goal.described": (state, { change }) => {
    Object.assign(state, change);
  },
  "phase.added": (state, { number, name }, { seq }) => {
    checkNumber("phase", number, state.phases.length + 1);
    state.phases = [...state.phases, { number, name, plans: [], closedAt: null }];
    state.phasesRevision = seq;
  },
  /** Going back to a completed phase opens it again. */
  "phase.entered": (state, { phase }, place) => {
    const { number, closedAt } = phaseOf(state, phase);
    state.focus = number;
    if (closedAt !== null) closePhase(state, number, null, place);
  },
  "phase.completed": (state, { phase }, place) => {
    closePhase(state, phaseOf(state, phase).number, place.at, place);
  },
  "plan.added": (state, { phase, number, name }, { seq }) => {
    const { plans } = phaseOf(state, phase);
    checkNumber("plan", number, plans.length + 1);
    const grown = [...plans, { number, name }];
    state.phases = state.phases.map((each) => (each.number === phase ? { ...each, plans: grown } : each));
    state.phasesRevision = seq;
  },
  "task.added": (state, data, place) => {
    checkPlace(state, data.phase, data.plan);
    if (state.tasks.has(data.id)) throw idTaken(state, data.id);
    useNumber(state, "T", data.id);
    state.tasks.set(data.id, newTask(data, place));
  },
  "task.edited": (state, data, place) => {
    const task = taskOf(state, data.task);
    const change = data.change as Change;
    checkPlace(state, change.phase ?? task.phase, change.plan === undefined ? task.plan : change.plan);
    put(state, task, change, place);
  },
  "task.aliased": (state, data, { seq }) => {
    const task = taskOf(state, data.task);
    if (state.tasks.has(data.alias)) throw idTaken(state, data.alias);
    // A later task must not get an id that means another one.
    useNumber(state, "T", data.alias);
    state.aliases.set(data.alias, data.task);
    state.tasks.set(task.id, { ...task, revision: seq });
  },
  /** A claim of a task in progress is a take-over: its holder lost the lease, so that session has crashed. */
  "task.claimed": (state, data, place) => {
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
  },
  "task.progressed": (state, data, place) => {
    const task = underClaim(state, data);
    const status = nextStatus(task, "progress");
    if (!task.claim) return;
    const note = data.note ?? task.claim.note;
    put(state, task, { status, claim: { ...task.claim, progressAt: place.at, note } }, place);
  },
  "task.submitted": (state, data, place) => {
    const task = underClaim(state, data);
    const session = task.claim?.session ?? null;
    const { evidence, by, uid = null } = data;
    const submission = { uid, evidence, by, session, at: place.at };
    move(state, task, "submit", place, { claim: null, failure: null, submission, verdict: null });
    for (const { path, hash } of evidence.files) {
      const act = hash === null ? "deleted" : "modified";
      recordFile(state, { path, hash, act, task: task.id, session, by, at: place.at });
    }
    changeSession(state, session, { workingOn: null }, place);
    succeed(state, "submit", task, place);
    count(state, { iterations: 1 });
  },
  "task.accepted": (state, data, place) => {
    const task = judgedTask(state, data);
    const { at } = place;
    const verdict = { uid: data.uid ?? null, accepted: true, why: data.why, by: data.by, at };
    move(state, task, "accept", place, { verdict, doneAt: at, endSeq: place.seq, previous: null });
    const entry = state.history.get(task.submission?.session ?? "");
    if (entry)
      changeSession(
        state,
        entry.id,
        { completed: latest([...new Set([...entry.completed, task.id])]) },
        place,
      );
    succeed(state, "complete", task, place);
  },
  "task.rejected": (state, data, place) => {
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
      verdict: { uid: data.uid ?? null, accepted: false, why: data.why, by: data.by, at },
      previous: claim && { ...claim, ended: "rejected", endedAt: at, why: data.why },
      rejections: task.rejections + 1,
    });
  },
  "task.failed": (state, data, place) => {
    const task = underClaim(state, data);
    const { error, retryable } = data;
    move(state, task, "fail", place, {
      claim: null,
      previous: ended(task, "failed", place.at, error),
      failures: task.failures + 1,
      failure: { error, retryable, at: place.at },
    });
    changeSession(state, task.claim?.session ?? null, { workingOn: null }, place);
    count(state, { iterations: 1, errors: 1 });
  },
  "task.released": (state, data, place) => {
    const task = underClaim(state, data);
    const previous = ended(task, "released", place.at, data.why);
    move(state, task, "release", place, { claim: null, previous });
    changeSession(state, task.claim?.session ?? null, { workingOn: null }, place);
  },
  /** The crashed session keeps `workingOn` for the next agent. */
  "task.reset": (state, data, place) => {
    const task = underClaim(state, data);
    move(state, task, "reset", place, { claim: null, previous: ended(task, "reset", place.at, data.why) });
  },
  "task.retried": (state, { task }, place) => {
    move(state, taskOf(state, task), "retry", place, { failures: 0, failure: null });
  },
  "task.dropped": (state, data, place) => {
    const task = taskOf(state, data.task);
    changeSession(state, task.claim?.session ?? null, { workingOn: null }, place);
    move(state, task, "drop", place, { claim: null, failure: null, doneAt: place.at, endSeq: place.seq });
  },
  "task.reopened": (state, { task }, place) => {
    const fresh = { doneAt: null, endSeq: null, submission: null, verdict: null };
    move(state, taskOf(state, task), "reopen", place, { ...fresh, failures: 0, rejections: 0 });
  },
  "decision.made": (state, { uid: _uid, observed: _observed, clone: _clone, ...content }, { seq, at }) => {
    if (content.supersedes !== null) {
      const old = decisionOf(state, content.supersedes);
      state.decisions.set(old.id, { ...old, supersededBy: content.id, revision: seq });
    }
    useNumber(state, "D", content.id);
    state.decisions.set(content.id, { ...content, supersededBy: null, at, seq, revision: seq });
  },
  "blocker.reported": (state, { id, description, affects, by, ...data }, { seq, at }) => {
    const { reportedAt = at, workaround = null } = data;
    useNumber(state, "B", id);
    const times = { reportedAt, identifiedAt: null, bypassedAt: null, resolvedAt: null };
    const outcome = { workaround, followUps: [], resolution: null, seq, revision: seq };
    state.blockers.set(id, { id, status: "new", description, affects, by, ...times, ...outcome });
  },
  "blocker.identified": (state, { blocker, identifiedAt }, { seq, at }) => {
    moveBlocker(state, blocker, "identify", { identifiedAt: identifiedAt ?? at, revision: seq });
  },
  "blocker.bypassed": (state, { blocker, workaround, followUps }, { seq, at }) => {
    moveBlocker(state, blocker, "bypass", { bypassedAt: at, workaround, followUps, revision: seq });
  },
  "blocker.resolved": (state, { blocker, resolution }, { seq, at }) => {
    moveBlocker(state, blocker, "resolve", { resolvedAt: at, resolution, revision: seq });
  },
  "fact.set": (state, { key, value, source, expiresAt, by }, { at }) => {
    // Deleted first, so that the map is ordered by when the facts were last set.
    state.facts.delete(key);
    state.facts.set(key, { key, value, source, expiresAt, by, at });
  },
  "fact.forgotten": (state, { key }) => {
    state.facts.delete(key);
  },
  "files.recorded": (state, { by, task, session, files }, { at }) => {
    for (const file of files) recordFile(state, { ...file, task, session, by, at });
  },
  "implementation.noted": (state, { text, files, by }, { at }) => {
    state.implementations.push({ text, files, by, at });
  },
  "question.asked": (state, { id, text, by }, { at }) => {
    useNumber(state, "Q", id);
    state.questions.set(id, { id, text, answer: null, by, at, answeredAt: null });
  },
  "question.answered": (state, data, { at }) => {
    const question = questionOf(state, data.question);
    state.questions.set(question.id, { ...question, answer: data.answer, answeredAt: at });
  },
  "assumption.made": (state, { id, text, by }, { at }) => {
    useNumber(state, "A", id);
    state.assumptions.set(id, { id, text, status: "open", evidence: null, by, at, settledAt: null });
  },
  "assumption.settled": (state, { assumption, status, evidence }, { at }) => {
    const old = assumptionOf(state, assumption);
    state.assumptions.set(old.id, { ...old, status, evidence, settledAt: at });
  },
  "next.set": (state, { text, task, by }, { at }) => {
    state.next = text === null && task === null ? null : { text, task, by, at };
  },
  "error.recorded": (state) => {
    count(state, { errors: 1 });
  },
  "edit.taken": (state, { file, hash, editedAt, by }, { at }) => {
    state.edits.set(file, { file, hash, editedAt: Math.min(editedAt, at), by, at });
  },
  /** A session that starts again under its name continues its own entry. */
  "session.started": (state, { session: id, agent, resumes, notes, startedAt }, { seq, at }) => {
    const old = state.history.get(id);
    state.history.set(id, {
      id,
      agent,
      status: "active",
      startedAt: old?.startedAt ?? startedAt ?? at,
      endedAt: null,
      restarts: old ? old.restarts + 1 : 0,
      resumes: resumes ?? old?.resumes ?? null,
      contextUsage: old?.contextUsage ?? null,
      completed: old?.completed ?? [],
      issues: old?.issues ?? [],
      notes: withNote(old?.notes ?? [], notes),
      handoffReason: null,
      workingOn: old?.workingOn ?? null,
      seq: old?.seq ?? seq,
      revision: seq,
    });
  },
  "session.noted": (state, data, place) => {
    const entry = historyOf(state, data.session);
    changeSession(state, entry.id, noted(entry, data), place);
  },
  "session.ended": (state, data, place) => {
    const entry = historyOf(state, data.session);
    const completed = latest([...new Set([...entry.completed, ...data.completed])]);
    const { endedAt = place.at, handoffReason } = data;
    const change = { ...noted(entry, data), status: "ended", endedAt, completed, handoffReason } as const;
    changeSession(state, entry.id, change, place);
  },
  "session.crashed": (state, data, place) => {
    const entry = historyOf(state, data.session);
    const notes = withNote(entry.notes, data.notes);
    changeSession(state, entry.id, { status: "crashed", endedAt: place.at, notes }, place);
  },
  [RENUMBERED]: (state, { item }) => {
    state.unsettled = state.unsettled.filter(({ uid }) => uid !== item);
  },
  /** The merge that brings it has left out the event that it names: see `merge.ts`. */
  [RETRACTED]: () => undefined,
  /** Runs in the log for a signature that was made here. A merge verifies those of other copies. */
  [SIGNED]: (state, { by, events }) => {
    for (const uid of events) state.signed.set(uid, by.name);
  },
  /** Adds the entries of other copies and applies their combined effect: see `merge.ts`. */
  [MERGED]: (
    state,
    { entries, delta, notes, outdated = [], isOwn, sources = [], signed = [] },
    { seq, at },
  ) => {
    applyGoalDelta(state, delta);
    for (const { uid } of entries) {
      state.known.add(uid);
      if (!isOwn) state.origins.set(uid, -1);
    }
    for (const { events, ...source } of sources) {
      const found = state.sources.findIndex((each) => sameJson(each, source));
      const place = found === -1 ? state.sources.length : found;
      if (found === -1) state.sources = [...state.sources, source];
      for (const event of events) state.origins.set(entries[event]?.uid ?? "", place);
    }
    for (const { signer, events } of signed) for (const uid of events) state.signed.set(uid, signer);
    const place = { seq, revision: state.revision };
    const merge = notes ? { ...place, at, notes } : place;
    state.merges = boundedMerges([...withoutNotes(state.merges, outdated), merge]);
  },
};

interface CheckpointSpec<Data> {
  readonly kind: CheckpointKind;
  readonly about: (data: Data) => string;
}

/** The events that are checkpoints of a run, and the text of each. */
const CHECKPOINTS: { readonly [Type in GoalEventType]?: CheckpointSpec<EventData<Type>> } = {
  "task.accepted": { kind: "task_completed", about: ({ task }) => task },
  "task.failed": { kind: "error_occurred", about: ({ task }) => task },
  "error.recorded": { kind: "error_occurred", about: ({ task, message }) => task ?? message.slice(0, 100) },
  "fact.set": { kind: "significant_finding", about: ({ key }) => key },
  "phase.entered": { kind: "phase_changed", about: ({ phase }) => `phase ${phase} entered` },
  "phase.completed": { kind: "phase_changed", about: ({ phase }) => `phase ${phase} completed` },
};

function checkpointSpec(type: string): CheckpointSpec<never> | undefined {
  return Object.hasOwn(CHECKPOINTS, type) ? CHECKPOINTS[type as GoalEventType] : undefined;
}

export function checkpointOf(stored: Event, seq: number): GoalCheckpoint | null {
  const spec = checkpointSpec(stored.type);
  return spec ? { kind: spec.kind, about: spec.about(stored.data as never), seq, at: stored.at } : null;
}

/**
 * Adds the bookkeeping of all events: name, revision, clock, uid, time of change, checkpoint. `seq` is the
 * goal's revision, not the position in the log: a merge puts many events of the goal into one of the log.
 */
function withBookkeeping(
  type: string,
  effect: Effect<never>,
): Effect<{ by: Actor; uid?: string; observed?: true }> {
  const checkpoint = checkpointSpec(type);
  return (state, data, { at }) => {
    const place = { seq: state.revision + 1, at };
    effect(state, data as never, place);
    const uid = data.uid ?? derivedUid(place.seq, at, data);
    const name = madeName(type, data as unknown as Record<string, unknown>);
    if (name !== null) state.names.set(name, uid);
    state.revision = place.seq;
    state.clock = tick(state.clock, at);
    state.known.add(uid);
    state.updatedAt = Math.max(state.updatedAt, at);
    if (!data.observed && data.by.role !== "supervisor") state.touchedAt = Math.max(state.touchedAt, at);
    if (data.by.role === "human") state.humanAt = Math.max(state.humanAt ?? 0, at);
    if (checkpoint)
      state.checkpoint = { kind: checkpoint.kind, about: checkpoint.about(data as never), ...place };
  };
}

export const goalFold: FoldKind<GoalState> = {
  kind: "goal",
  foldVersion: GOAL_FOLD_VERSION,
  events: Object.fromEntries(
    Object.entries<Effect<never>>(EFFECTS).map(([type, effect]) => {
      const apply = type === MERGED ? effect : withBookkeeping(type, effect);
      return [type, { version: 1, apply }];
    }),
  ),
  initial: emptyGoal,
  decode: decodeGoal,
};

// ── Tasks and phases ──

type Change = Partial<Omit<Task, "id" | "kind">>;

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

function move(state: GoalState, task: Task, act: TaskAct, place: Place, change: Change): void {
  put(state, task, { ...change, status: nextStatus(task, act) }, place);
}

function put(state: GoalState, task: Task, change: Change, { seq, at }: Place): void {
  state.tasks.set(task.id, { ...task, ...change, updatedAt: at, revision: seq } as Task);
}

function ended(task: Task, how: EndedClaim["ended"], at: number, why: string | null): EndedClaim | null {
  return task.claim && { ...task.claim, ended: how, endedAt: at, why };
}

/** Two copies may have claimed the task: the first claim counts, events under the other one are rejected. */
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
  const waiting = `the submission of ${quoteValue(by?.name)} waits`;
  const message = `task ${task.id}: the verdict is on work of another copy (${waiting})`;
  throw new HoldfastError("TASK_TRANSITION", message, {
    hint: "Review both, then accept or reject the one that waits.",
    data: { task: task.id, submission: uid, judged: submission },
  });
}

function claimedElsewhere({ id, claim }: Task): HoldfastError {
  return new HoldfastError(
    "TASK_HELD",
    `task ${id} was claimed by ${quoteValue(claim?.by.name)} in another copy`,
    {
      hint: "Both agents worked on it. Compare their work, then release or submit the claim that counts.",
      data: { task: id },
    },
  );
}

function checkPlace(state: GoalState, phase: number, plan: number | null): void {
  const { plans, name } = phaseOf(state, phase);
  if (plan === null || plans.some((each) => each.number === plan)) return;
  throw new HoldfastError("GOAL_ITEM_NOT_FOUND", `phase ${phase} has no plan ${plan}`, {
    hint: "Add the plan first, or leave it out.",
    data: { phase, plan, name },
  });
}

function closePhase(state: GoalState, number: number, closedAt: number | null, { seq }: Place): void {
  state.phases = state.phases.map((each) => (each.number === number ? { ...each, closedAt } : each));
  state.phasesRevision = seq;
}

// ── Numbers ──

const LEAVE_IT = "Leave the number to the goal.";

/** Phases and plans are copied with every change, so their number is bounded. */
const MAX_PARTS = 1_000;

function checkNumber(what: string, number: number, expected: number): void {
  if (expected > MAX_PARTS) {
    const message = `${what} ${number} cannot be added: there are ${MAX_PARTS} already`;
    throw new HoldfastError("INPUT_INVALID", message, {
      hint: "Use tasks for small steps.",
      data: { number },
    });
  }
  if (number === expected) return;
  const message = `${what} ${number} cannot be added: the next one is ${expected}`;
  throw new HoldfastError("INPUT_INVALID", message, { hint: LEAVE_IT, data: { number, expected } });
}

function idTaken(state: GoalState, id: string): HoldfastError {
  const message = `goal ${state.id} already has a task ${id}`;
  return new HoldfastError("INPUT_INVALID", message, { hint: LEAVE_IT, data: { goal: state.id, id } });
}

function useNumber(state: GoalState, series: Series, id: string): void {
  state.given = { ...state.given, [series]: Math.max(state.given[series], idNumber(id)) };
}

function count(state: GoalState, { iterations = 0, errors = 0 }): void {
  const { counters: old } = state;
  state.counters = { ...old, iterations: old.iterations + iterations, errors: old.errors + errors };
}

function succeed(state: GoalState, what: string, { id: task }: Task, { at }: Place): void {
  state.counters = { ...state.counters, lastSuccess: { operation: `${what} ${task}`, task, at } };
}

// ── Blockers, files, sessions ──

function moveBlocker(state: GoalState, id: string, act: BlockerAct, change: Partial<Blocker>): void {
  const blocker = blockerOf(state, id);
  state.blockers.set(id, { ...blocker, ...change, status: nextBlockerStatus(blocker, act) });
}

/** The hash is that of the last read or change: a resume compares the file with what an agent last saw. */
function recordFile(
  state: GoalState,
  seen: Omit<FileRecord, "examinedAt" | "modifiedAt"> & { readonly act: FileAct; readonly at: number },
): void {
  const { path, hash, by, act, at } = seen;
  const old = state.files.get(path);
  const isRead = act === "examined";
  const examinedAt = isRead ? at : (old?.examinedAt ?? null);
  const modifiedAt = isRead ? (old?.modifiedAt ?? null) : at;
  const task = seen.task ?? old?.task ?? null;
  const session = isRead ? (old?.session ?? seen.session) : seen.session;
  state.files.set(path, { path, hash, examinedAt, modifiedAt, task, session, by });
}

type SessionChange = Partial<HistoryEntry>;

function changeSession(state: GoalState, id: string | null, change: SessionChange, { seq }: Place): void {
  const entry = id === null ? undefined : state.history.get(id);
  if (entry) state.history.set(entry.id, { ...entry, ...change, revision: seq });
}

function noted(
  entry: HistoryEntry,
  data: { contextUsage: number | null; issues: string[]; notes: string | null },
): SessionChange {
  return {
    contextUsage: data.contextUsage ?? entry.contextUsage,
    issues: latest([...entry.issues, ...data.issues]),
    notes: withNote(entry.notes, data.notes),
  };
}

/** Lists of a session are copied with every note, so they are bounded. The log has all of them. */
const latest = <Row>(rows: readonly Row[]): readonly Row[] =>
  rows.length > 1_000 ? rows.slice(-1_000) : rows;

function withNote(notes: readonly string[], note: string | null): readonly string[] {
  return note === null ? notes : latest([...notes, note]);
}
