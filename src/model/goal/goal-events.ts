/** The events of a goal: one line each, with version, schema and effect on the state. */

import * as z from "zod";
import { HoldfastError } from "../errors.ts";
import { type Event, type EventSpec, event, type Place } from "../event.ts";
import type { Json } from "../json.ts";
import { blockerBypassed, blockerIdentified, blockerReported, blockerResolved } from "./blocker.ts";
import { decisionMade } from "./decision.ts";
import { eventUid, line, ordinal, stamp, text, wallClock } from "./field.ts";
import { type CheckpointKind, type GoalCheckpoint, type GoalState, phaseOf } from "./goal-state.ts";
import { sessionCrashed, sessionEnded, sessionNoted, sessionStarted } from "./history.ts";
import { derivedUid, type Entry, MERGED, madeName, RENUMBERED, tick } from "./lineage.ts";
import { applyGoalDelta, type GoalDelta } from "./merge.ts";
import * as note from "./note-changes.ts";
import * as noted from "./notes.ts";
import { type By, VERIFICATIONS } from "./roles.ts";
import { taskAdded, taskEdited } from "./task.ts";
import * as change from "./task-changes.ts";

const settings = {
  ttlMs: z.int().positive().nullable(),
  verification: z.enum(VERIFICATIONS),
  maxAttempts: ordinal,
};
const goalCreated = z.strictObject({
  ...stamp,
  id: line,
  statement: text,
  title: line.nullable(),
  ...settings,
});
const described = z.strictObject({ statement: text, title: line.nullable(), ...settings }).partial();
const goalDescribed = z.strictObject({ ...stamp, change: described });
const phaseAdded = z.strictObject({ ...stamp, number: ordinal, name: line });
const planAdded = z.strictObject({ ...stamp, phase: ordinal, number: ordinal, name: line });

interface CheckpointSpec<Data> {
  readonly kind: CheckpointKind;
  readonly about: (data: Data) => string;
}

/** The events from which a run is taken up again, and what each is about. */
const CHECKPOINTS = {
  "task.accepted": { kind: "task_completed", about: ({ task }: { task: string }) => task },
  "task.failed": { kind: "error_occurred", about: ({ task }: { task: string }) => task },
  "error.recorded": {
    kind: "error_occurred",
    about: ({ task, message }: { task: string | null; message: string }) => task ?? message.slice(0, 100),
  },
  "fact.set": { kind: "significant_finding", about: ({ key }: { key: string }) => key },
  "phase.entered": {
    kind: "phase_changed",
    about: ({ phase }: { phase: number }) => `phase ${phase} entered`,
  },
  "phase.completed": {
    kind: "phase_changed",
    about: ({ phase }: { phase: number }) => `phase ${phase} completed`,
  },
} as const satisfies Record<string, CheckpointSpec<never>>;

/** The checkpoint that a stored event is, if it is one. */
export function checkpointOf(stored: Event, seq: number): GoalCheckpoint | null {
  const table: Readonly<Record<string, CheckpointSpec<never>>> = CHECKPOINTS;
  const spec = Object.hasOwn(table, stored.type) ? table[stored.type] : undefined;
  return spec ? { kind: spec.kind, about: spec.about(stored.data as never), seq, at: stored.at } : null;
}

interface Stamped {
  readonly by: By;
  readonly uid?: string | undefined;
}

/**
 * Wraps every handler: whatever happens to a goal, it was touched then, and by whom. Its place is counted in events of
 * the goal, not of the log: a log that took in what other copies wrote has them all in one event.
 */
function on<Data extends Stamped>(
  schema: z.ZodType<Data>,
  apply: (state: GoalState, data: Data, place: Place) => void,
  checkpoint?: CheckpointSpec<Data>,
): EventSpec<GoalState, Data> {
  return event(1, schema, (state: GoalState, data: Data, { at }: Place) => {
    const place = { seq: state.revision + 1, at };
    apply(state, data, place);
    const uid = data.uid ?? derivedUid(place.seq, at, data);
    state.revision = place.seq;
    state.clock = tick(state.clock, at);
    state.known.add(uid);
    state.updatedAt = Math.max(state.updatedAt, place.at);
    if (data.by.role === "human") state.humanAt = Math.max(state.humanAt ?? 0, place.at);
    if (checkpoint) {
      state.checkpoint = { kind: checkpoint.kind, about: checkpoint.about(data), ...place };
    }
  });
}

/** The same for events that make something which later events name. */
function making<Data extends Stamped>(
  type: string,
  schema: z.ZodType<Data>,
  apply: (state: GoalState, data: Data, place: Place) => void,
): EventSpec<GoalState, Data> {
  return on(schema, (state, data, place) => {
    apply(state, data, place);
    const name = madeName(type, data as unknown as Record<string, unknown>);
    if (name !== null) state.names.set(name, data.uid ?? derivedUid(place.seq, place.at, data));
  });
}

const entry = z.strictObject({
  uid: eventUid,
  t: wallClock,
  c: wallClock,
  type: line,
  v: ordinal,
  at: wallClock,
  refs: z.record(line, eventUid),
  data: z.custom<Readonly<Record<string, Json>>>((value) => typeof value === "object" && value !== null),
});

/** One event of another copy, as a file of events holds it. */
export const entrySchema: z.ZodType<Entry> = entry;

const itemRenumbered = z.strictObject({ ...stamp, item: eventUid, name: line });

const goalMerged = z.strictObject({
  by: stamp.by,
  entries: z.array(entry).min(1),
  delta: z.custom<GoalDelta>((value) => typeof value === "object" && value !== null),
});

export const goalEvents = {
  "goal.created": on(goalCreated, (state, data, { at }) => {
    const { by: _by, uid: _uid, ...content } = data;
    Object.assign(state, content, { createdAt: at });
  }),
  "goal.described": on(goalDescribed, (state, data) => {
    Object.assign(state, data.change);
  }),
  "phase.added": making("phase.added", phaseAdded, (state, { number, name }, { seq }) => {
    if (number !== state.phases.length + 1) throw outOfOrder("phase", number, state.phases.length + 1);
    state.phases = [...state.phases, { number, name, plans: [], closedAt: null }];
    state.phasesRevision = seq;
  }),
  "phase.entered": on(
    change.phaseNumber,
    (state, { phase }) => {
      state.focus = phaseOf(state, phase).number;
    },
    CHECKPOINTS["phase.entered"],
  ),
  "phase.completed": on(change.phaseNumber, change.completePhase, CHECKPOINTS["phase.completed"]),
  "plan.added": making("plan.added", planAdded, (state, { phase, number, name }, { seq }) => {
    const { plans } = phaseOf(state, phase);
    if (number !== plans.length + 1) throw outOfOrder("plan", number, plans.length + 1);
    const grown = [...plans, { number, name }];
    state.phases = state.phases.map((each) => (each.number === phase ? { ...each, plans: grown } : each));
    state.phasesRevision = seq;
  }),
  "task.added": making("task.added", taskAdded, change.addTask),
  "task.edited": on(taskEdited, change.editTask),
  "task.aliased": on(change.taskAliased, change.aliasTask),
  "task.claimed": on(change.taskClaimed, change.claimTask),
  "task.progressed": on(change.taskProgressed, change.progressTask),
  "task.submitted": on(change.taskSubmitted, change.submitTask),
  "task.accepted": on(change.taskJudged, change.acceptTask, CHECKPOINTS["task.accepted"]),
  "task.rejected": on(change.taskJudged, change.rejectTask),
  "task.failed": on(change.taskFailed, change.failTask, CHECKPOINTS["task.failed"]),
  "task.released": on(change.taskReleased, change.releaseTask),
  "task.reset": on(change.taskReset, change.resetTask),
  "task.retried": on(change.taskChanged, change.retryTask),
  "task.dropped": on(change.taskChanged, change.dropTask),
  "task.reopened": on(change.taskChanged, change.reopenTask),
  "decision.made": making("decision.made", decisionMade, note.makeDecision),
  "blocker.reported": making("blocker.reported", blockerReported, note.reportBlocker),
  "blocker.identified": on(blockerIdentified, note.identifyBlocker),
  "blocker.bypassed": on(blockerBypassed, note.bypassBlocker),
  "blocker.resolved": on(blockerResolved, note.resolveBlocker),
  "fact.set": on(
    noted.factSet,
    (state, { key, value, source, expiresAt, by }, { at }) => {
      // Set anew, so that the order of the map is the order in which the facts were last confirmed.
      state.facts.delete(key);
      state.facts.set(key, { key, value, source, expiresAt, by, at });
    },
    CHECKPOINTS["fact.set"],
  ),
  "fact.forgotten": on(noted.factForgotten, (state, { key }) => {
    state.facts.delete(key);
  }),
  "files.recorded": on(noted.filesRecorded, note.recordFiles),
  "implementation.noted": on(noted.implementationNoted, (state, { text, files, by }, { at }) => {
    state.implementations = [...state.implementations, { text, files, by, at }];
  }),
  "question.asked": making("question.asked", noted.questionAsked, note.askQuestion),
  "question.answered": on(noted.questionAnswered, note.answerQuestion),
  "next.set": on(noted.nextSet, (state, { text, task, by }, { at }) => {
    state.next = text === null && task === null ? null : { text, task, by, at };
  }),
  "error.recorded": on(
    noted.errorRecorded,
    (state) => {
      state.counters = { ...state.counters, errors: state.counters.errors + 1 };
    },
    CHECKPOINTS["error.recorded"],
  ),
  "edit.taken": on(noted.editTaken, (state, { file, hash, editedAt, by }, { at }) => {
    state.edits.set(file, { file, hash, editedAt: Math.min(editedAt, at), by, at });
  }),
  "session.started": on(sessionStarted, note.startSession),
  "session.noted": on(sessionNoted, note.noteSession),
  "session.ended": on(sessionEnded, note.endSession),
  "session.crashed": on(sessionCrashed, note.crashSession),
  [RENUMBERED]: on(itemRenumbered, (state, { item }) => {
    state.unsettled = state.unsettled.filter(({ uid }) => uid !== item);
  }),
  /** What other copies wrote, and what that makes of the state: see `merge.ts`. */
  [MERGED]: event(1, goalMerged, (state: GoalState, { entries, delta }, { seq }: Place) => {
    applyGoalDelta(state, delta);
    for (const { uid } of entries) {
      state.known.add(uid);
      state.origins.add(uid);
    }
    state.merges = [...state.merges, { seq, revision: state.revision }];
  }),
} as const;

function outOfOrder(what: string, number: number, expected: number): HoldfastError {
  return new HoldfastError(
    "INPUT_INVALID",
    `${what} ${number} cannot be added: the next one is ${expected}`,
    {
      hint: "Let the goal give the number.",
      data: { number, expected },
    },
  );
}

export type GoalEvents = typeof goalEvents;
