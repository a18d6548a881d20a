/**
 * The effect of every event on the state of a goal: one table, in the order of `event-schemas.ts`. Reading a
 * goal needs no schema: events are checked when they are written.
 */

import { HoldfastError } from "../errors.ts";
import type { Event, FoldKind, Place } from "../stream/index.ts";
import { derivedUid, MERGED, madeName, RENUMBERED, tick } from "./entries.ts";
import type { EventData, GoalEventType } from "./event-schemas.ts";
import type { CheckpointKind, GoalCheckpoint, GoalState } from "./goal-state.ts";
import { decodeGoal, emptyGoal, phaseOf } from "./goal-state.ts";
import { applyGoalDelta } from "./merge.ts";
import { boundedMerges, withoutNotes } from "./merge-notes.ts";
import * as note from "./note-changes.ts";
import { GOAL_FOLD_VERSION } from "./record-table.ts";
import type { Actor } from "./roles.ts";
import * as change from "./task-changes.ts";

interface CheckpointSpec<Data> {
  readonly kind: CheckpointKind;
  readonly about: (data: Data) => string;
}

/** The events that are checkpoints of a run, and the text of each. */
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

/** Null: the event is no checkpoint. */
export function checkpointOf(stored: Event, seq: number): GoalCheckpoint | null {
  const table: Readonly<Record<string, CheckpointSpec<never>>> = CHECKPOINTS;
  const spec = Object.hasOwn(table, stored.type) ? table[stored.type] : undefined;
  return spec ? { kind: spec.kind, about: spec.about(stored.data as never), seq, at: stored.at } : null;
}

interface Stamped {
  readonly by: Actor;
  readonly uid?: string | undefined;
}

/** One row of the table. */
export interface GoalFold<Data> {
  readonly version: number;
  apply(state: GoalState, data: Data, place: Place): void;
}

/**
 * Wraps every handler with the bookkeeping of all events: revision, clock, uid, time of change, checkpoint.
 * `seq` is the goal's revision, not the position in the log: a merge puts many events of the goal into one of
 * the log.
 */
function on<Data extends Stamped>(
  apply: (state: GoalState, data: Data, place: Place) => void,
  checkpoint?: CheckpointSpec<Data>,
): GoalFold<Data> {
  return {
    version: 1,
    apply(state, data, { at }) {
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
    },
  };
}

/** `on` for events that make an item which later events refer to. */
function making<Data extends Stamped>(
  type: string,
  apply: (state: GoalState, data: Data, place: Place) => void,
): GoalFold<Data> {
  return on((state, data, place) => {
    apply(state, data, place);
    const name = madeName(type, data as unknown as Record<string, unknown>);
    if (name !== null) state.names.set(name, data.uid ?? derivedUid(place.seq, place.at, data));
  });
}

export const goalFolds = {
  "goal.created": on((state, data, { at }) => {
    const { by: _by, uid: _uid, ...content } = data;
    Object.assign(state, content, { createdAt: at });
  }),
  "goal.described": on((state, data) => {
    Object.assign(state, data.change);
  }),
  "phase.added": making("phase.added", (state, { number, name }, { seq }) => {
    if (number !== state.phases.length + 1) throw outOfOrder("phase", number, state.phases.length + 1);
    state.phases = [...state.phases, { number, name, plans: [], closedAt: null }];
    state.phasesRevision = seq;
  }),
  "phase.entered": on(change.enterPhase, CHECKPOINTS["phase.entered"]),
  "phase.completed": on(change.completePhase, CHECKPOINTS["phase.completed"]),
  "plan.added": making("plan.added", (state, { phase, number, name }, { seq }) => {
    const { plans } = phaseOf(state, phase);
    if (number !== plans.length + 1) throw outOfOrder("plan", number, plans.length + 1);
    const grown = [...plans, { number, name }];
    state.phases = state.phases.map((each) => (each.number === phase ? { ...each, plans: grown } : each));
    state.phasesRevision = seq;
  }),
  "task.added": making("task.added", change.addTask),
  "task.edited": on(change.editTask),
  "task.aliased": on(change.aliasTask),
  "task.claimed": on(change.claimTask),
  "task.progressed": on(change.progressTask),
  "task.submitted": on(change.submitTask),
  "task.accepted": on(change.acceptTask, CHECKPOINTS["task.accepted"]),
  "task.rejected": on(change.rejectTask),
  "task.failed": on(change.failTask, CHECKPOINTS["task.failed"]),
  "task.released": on(change.releaseTask),
  "task.reset": on(change.resetTask),
  "task.retried": on(change.retryTask),
  "task.dropped": on(change.dropTask),
  "task.reopened": on(change.reopenTask),
  "decision.made": making("decision.made", note.makeDecision),
  "blocker.reported": making("blocker.reported", note.reportBlocker),
  "blocker.identified": on(note.identifyBlocker),
  "blocker.bypassed": on(note.bypassBlocker),
  "blocker.resolved": on(note.resolveBlocker),
  "fact.set": on<EventData<"fact.set">>((state, { key, value, source, expiresAt, by }, { at }) => {
    // Deleted first, so that the map is ordered by when the facts were last set.
    state.facts.delete(key);
    state.facts.set(key, { key, value, source, expiresAt, by, at });
  }, CHECKPOINTS["fact.set"]),
  "fact.forgotten": on((state, { key }) => {
    state.facts.delete(key);
  }),
  "files.recorded": on(note.recordFiles),
  "implementation.noted": on((state, { text, files, by }, { at }) => {
    state.implementations = [...state.implementations, { text, files, by, at }];
  }),
  "question.asked": making("question.asked", note.askQuestion),
  "question.answered": on(note.answerQuestion),
  "next.set": on((state, { text, task, by }, { at }) => {
    state.next = text === null && task === null ? null : { text, task, by, at };
  }),
  "error.recorded": on<EventData<"error.recorded">>((state) => {
    state.counters = { ...state.counters, errors: state.counters.errors + 1 };
  }, CHECKPOINTS["error.recorded"]),
  "edit.taken": on((state, { file, hash, editedAt, by }, { at }) => {
    state.edits.set(file, { file, hash, editedAt: Math.min(editedAt, at), by, at });
  }),
  "session.started": on(note.startSession),
  "session.noted": on(note.noteSession),
  "session.ended": on(note.endSession),
  "session.crashed": on(note.crashSession),
  [RENUMBERED]: on((state, { item }) => {
    state.unsettled = state.unsettled.filter(({ uid }) => uid !== item);
  }),
  /** Adds the entries of other copies and applies their combined effect: see `merge.ts`. */
  [MERGED]: {
    version: 1,
    apply(state: GoalState, data: EventData<"goal.merged">, { seq, at }: Place) {
      const { entries, delta, notes, outdated = [] } = data;
      applyGoalDelta(state, delta);
      for (const { uid } of entries) {
        state.known.add(uid);
        state.origins.add(uid);
      }
      const place = { seq, revision: state.revision };
      state.merges = boundedMerges([
        ...withoutNotes(state.merges, outdated),
        notes ? { ...place, at, notes } : place,
      ]);
    },
  },
} as const satisfies { readonly [Type in GoalEventType]: GoalFold<EventData<Type>> };

/** All that a reader of goals needs. */
export const goalFold: FoldKind<GoalState> = {
  kind: "goal",
  foldVersion: GOAL_FOLD_VERSION,
  events: goalFolds,
  initial: emptyGoal,
  decode: decodeGoal,
};

function outOfOrder(what: string, number: number, expected: number): HoldfastError {
  return new HoldfastError(
    "INPUT_INVALID",
    `${what} ${number} cannot be added: the next one is ${expected}`,
    {
      hint: "Leave the number to the goal.",
      data: { number, expected },
    },
  );
}
