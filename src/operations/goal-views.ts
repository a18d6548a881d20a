/** A goal's records as operations answer with them: plain JSON, times in ISO 8601. */

import * as z from "zod";
import type { DecisionRecord, GoalState, Survey, Task } from "../model/goal/index.ts";
import {
  BLOCKER,
  DECISION,
  displayStatus,
  FACT,
  HISTORY_ENTRY,
  originOf,
  originOfItem,
  TASK_PLAN,
  TASK_WORK,
} from "../model/goal/index.ts";
import { viewMaker, viewShape } from "./record-views.ts";

export { iso, time } from "./record-views.ts";

const text = z.string();

const planEnd = ["description", "dependsOn", "files"];
const plan = viewShape(TASK_PLAN, planEnd);
const planView = viewMaker(TASK_PLAN, planEnd);
const workView = viewMaker(TASK_WORK);

export const taskRow = z.strictObject({
  id: plan.id,
  title: plan.title,
  status: plan.status,
  phase: plan.phase,
  wave: plan.wave,
  by: text.nullable(),
  blockedBy: plan.blockedBy,
});

export function taskRowView(task: Task, survey: Survey): z.input<typeof taskRow> {
  const { id, title, status, phase, wave, blockedBy } = surveyedView(task, survey);
  return { id, title, status, phase, wave, by: task.claim?.by.name ?? null, blockedBy };
}

function surveyedView(task: Task, survey: Survey): ReturnType<typeof planView> {
  const blockedBy = survey.blockedBy.get(task.id) ?? [];
  return planView({ ...task, status: displayStatus(task, blockedBy.length > 0), blockedBy });
}

export const task = z.strictObject({
  ...taskRow.shape,
  kind: z.enum(["build", "review"]),
  ...plan,
  /** How a verifier knows that it is done: the acceptance of a build, the checklist of a review. */
  wanted: z.array(text),
  reviews: z.array(text),
  ...viewShape(TASK_WORK),
  /** The parts that another copy wrote: `added from a pull, unsigned`. */
  origins: z.array(text),
});

export function taskView(from: Task, state: GoalState, survey: Survey): z.input<typeof task> {
  const { id, claim, submission, verdict } = from;
  const parts = [
    ["added", originOfItem(state, id)],
    ["claimed", originOf(state, claim?.uid)],
    ["submitted", originOf(state, submission?.uid)],
    [verdict?.accepted ? "accepted" : "rejected", originOf(state, verdict?.uid)],
  ] as const;
  return {
    ...taskRowView(from, survey),
    kind: from.kind,
    ...surveyedView(from, survey),
    wanted: [...(from.kind === "build" ? from.acceptance : from.checklist)],
    reviews: from.kind === "review" ? [...from.reviews] : [],
    ...workView(from),
    origins: parts.flatMap(([part, origin]) => (origin === null ? [] : [`${part} ${origin}`])),
  };
}

const decisionEnd = ["reversible", "files", "supersedes", "supersededBy", "by"];
/** `origin`: `from a pull, unsigned …`; null if it was written here. */
export const decision = z.strictObject({
  ...viewShape(DECISION, decisionEnd),
  origin: text.nullable(),
});
const decisionRow = viewMaker(DECISION, decisionEnd);

export function decisionView(from: DecisionRecord, state: GoalState): z.input<typeof decision> {
  return { ...decisionRow(from), origin: originOfItem(state, from.id) };
}

const blockerEnd = ["followUps", "resolution"];
export const blocker = z.strictObject(viewShape(BLOCKER, blockerEnd));
export const blockerView = viewMaker(BLOCKER, blockerEnd);

const factEnd = ["expiresAt"];
export const fact = z.strictObject(viewShape(FACT, factEnd));
export const factView = viewMaker(FACT, factEnd);

const historyEnd = ["workingOn"];
export const history = z.strictObject(viewShape(HISTORY_ENTRY, historyEnd));
export const historyView = viewMaker(HISTORY_ENTRY, historyEnd);
