/** What the events of tasks hold. */

import * as z from "zod";
import { lazySchema } from "../stream/index.ts";
import {
  contentShape,
  eventUid,
  optionalText,
  ordinal,
  sessionName,
  shapeOf,
  stamp,
  taskId,
  text,
} from "./field.ts";
import { BUILD_TASK, EVIDENCE, REVIEW_TASK, TASK_PLAN } from "./task-records.ts";

export const taskAdded = lazySchema(() => {
  const head = { ...stamp, id: taskId };
  const content = contentShape(TASK_PLAN);
  return z.discriminatedUnion("kind", [
    z.strictObject({ ...head, kind: z.literal("build"), ...content, ...contentShape(BUILD_TASK) }),
    z.strictObject({ ...head, kind: z.literal("review"), ...content, ...contentShape(REVIEW_TASK) }),
  ]);
});

export const taskEdited = lazySchema(() => {
  const content = { ...contentShape(TASK_PLAN), ...contentShape(BUILD_TASK), ...contentShape(REVIEW_TASK) };
  return z.strictObject({ ...stamp, task: taskId, change: z.strictObject(content).partial() });
});

const token = z.int().min(0);

/** `after`: the claim that it takes over. `as`: what the task was called then, whatever it is called later. */
export const taskClaimed = lazySchema(() =>
  z.strictObject({
    ...stamp,
    task: taskId,
    session: sessionName.nullable(),
    token,
    after: eventUid.nullable().optional(),
    as: taskId.optional(),
  }),
);
/** The claim under which it was done: a token says nothing to other copies of the goal. */
const claim = eventUid.optional();
export const taskProgressed = lazySchema(() =>
  z.strictObject({ ...stamp, task: taskId, token, claim, note: optionalText }),
);
export const taskSubmitted = lazySchema(() =>
  z.strictObject({
    ...stamp,
    task: taskId,
    token,
    claim,
    evidence: z.strictObject(shapeOf(EVIDENCE)),
  }),
);
export const taskFailed = lazySchema(() =>
  z.strictObject({
    ...stamp,
    task: taskId,
    token,
    claim,
    error: text,
    retryable: z.boolean(),
  }),
);
export const taskReleased = lazySchema(() =>
  z.strictObject({ ...stamp, task: taskId, token, claim, why: optionalText }),
);
export const taskReset = lazySchema(() => z.strictObject({ ...stamp, task: taskId, claim, why: text }));
/** `submission`: the event that handed in what was looked at. Another copy may have handed in something else. */
export const taskJudged = lazySchema(() =>
  z.strictObject({
    ...stamp,
    task: taskId,
    submission: eventUid.optional(),
    why: optionalText,
  }),
);
export const taskChanged = lazySchema(() => z.strictObject({ ...stamp, task: taskId, why: text }));
export const taskAliased = lazySchema(() => z.strictObject({ ...stamp, alias: taskId, task: taskId }));
export const phaseNumber = lazySchema(() => z.strictObject({ ...stamp, phase: ordinal }));
