/** The events of a goal: one line each, with what it may hold and, from `goal-fold.ts`, its effect on the state. */

import { type EventSchema, type EventSpec, event } from "../stream/index.ts";
import { MERGED, RENUMBERED } from "./entries.ts";
import { type GoalFold, goalFolds } from "./goal-fold.ts";
import * as goal from "./goal-schemas.ts";
import type { GoalState } from "./goal-state.ts";
import * as noted from "./note-schemas.ts";
import * as tasks from "./task-schemas.ts";

function on<Data>(schema: EventSchema<Data>, { version, apply }: GoalFold<Data>): EventSpec<GoalState, Data> {
  return event(version, schema, apply);
}

export const goalEvents = {
  "goal.created": on(goal.goalCreated, goalFolds["goal.created"]),
  "goal.described": on(goal.goalDescribed, goalFolds["goal.described"]),
  "phase.added": on(goal.phaseAdded, goalFolds["phase.added"]),
  "phase.entered": on(tasks.phaseNumber, goalFolds["phase.entered"]),
  "phase.completed": on(tasks.phaseNumber, goalFolds["phase.completed"]),
  "plan.added": on(goal.planAdded, goalFolds["plan.added"]),
  "task.added": on(tasks.taskAdded, goalFolds["task.added"]),
  "task.edited": on(tasks.taskEdited, goalFolds["task.edited"]),
  "task.aliased": on(tasks.taskAliased, goalFolds["task.aliased"]),
  "task.claimed": on(tasks.taskClaimed, goalFolds["task.claimed"]),
  "task.progressed": on(tasks.taskProgressed, goalFolds["task.progressed"]),
  "task.submitted": on(tasks.taskSubmitted, goalFolds["task.submitted"]),
  "task.accepted": on(tasks.taskJudged, goalFolds["task.accepted"]),
  "task.rejected": on(tasks.taskJudged, goalFolds["task.rejected"]),
  "task.failed": on(tasks.taskFailed, goalFolds["task.failed"]),
  "task.released": on(tasks.taskReleased, goalFolds["task.released"]),
  "task.reset": on(tasks.taskReset, goalFolds["task.reset"]),
  "task.retried": on(tasks.taskChanged, goalFolds["task.retried"]),
  "task.dropped": on(tasks.taskChanged, goalFolds["task.dropped"]),
  "task.reopened": on(tasks.taskChanged, goalFolds["task.reopened"]),
  "decision.made": on(noted.decisionMade, goalFolds["decision.made"]),
  "blocker.reported": on(noted.blockerReported, goalFolds["blocker.reported"]),
  "blocker.identified": on(noted.blockerIdentified, goalFolds["blocker.identified"]),
  "blocker.bypassed": on(noted.blockerBypassed, goalFolds["blocker.bypassed"]),
  "blocker.resolved": on(noted.blockerResolved, goalFolds["blocker.resolved"]),
  "fact.set": on(noted.factSet, goalFolds["fact.set"]),
  "fact.forgotten": on(noted.factForgotten, goalFolds["fact.forgotten"]),
  "files.recorded": on(noted.filesRecorded, goalFolds["files.recorded"]),
  "implementation.noted": on(noted.implementationNoted, goalFolds["implementation.noted"]),
  "question.asked": on(noted.questionAsked, goalFolds["question.asked"]),
  "question.answered": on(noted.questionAnswered, goalFolds["question.answered"]),
  "next.set": on(noted.nextSet, goalFolds["next.set"]),
  "error.recorded": on(noted.errorRecorded, goalFolds["error.recorded"]),
  "edit.taken": on(noted.editTaken, goalFolds["edit.taken"]),
  "session.started": on(noted.sessionStarted, goalFolds["session.started"]),
  "session.noted": on(noted.sessionNoted, goalFolds["session.noted"]),
  "session.ended": on(noted.sessionEnded, goalFolds["session.ended"]),
  "session.crashed": on(noted.sessionCrashed, goalFolds["session.crashed"]),
  [RENUMBERED]: on(goal.itemRenumbered, goalFolds[RENUMBERED]),
  [MERGED]: on(goal.goalMerged, goalFolds[MERGED]),
} as const;

export type GoalEvents = typeof goalEvents;
