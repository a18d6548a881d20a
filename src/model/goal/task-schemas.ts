/** What the events of tasks hold. */

import * as z from "zod";
import { lazySchema } from "../stream/index.ts";
import {
  contentHash,
  eventUid,
  line,
  optionalText,
  ordinal,
  relativePath,
  sessionName,
  stamp,
  TEXT_LIMIT,
  taskId,
  text,
} from "./field.ts";

const content = () => ({
  phase: ordinal,
  plan: ordinal.nullable(),
  wave: ordinal,
  title: line,
  description: optionalText,
  dependsOn: z.array(taskId),
  files: z.array(relativePath),
});

const buildContent = () => ({ acceptance: z.array(line) });
const reviewContent = () => ({ reviews: z.array(taskId).min(1), checklist: z.array(line).min(1) });

export const taskAdded = lazySchema(() =>
  z.discriminatedUnion("kind", [
    z.strictObject({ ...stamp, id: taskId, kind: z.literal("build"), ...content(), ...buildContent() }),
    z.strictObject({ ...stamp, id: taskId, kind: z.literal("review"), ...content(), ...reviewContent() }),
  ]),
);

const change = () => z.strictObject({ ...content(), ...buildContent(), ...reviewContent() }).partial();
export const taskEdited = lazySchema(() => z.strictObject({ ...stamp, task: taskId, change: change() }));

const evidence = () =>
  z.strictObject({
    summary: optionalText,
    commands: z.array(
      z.strictObject({ command: text, exitCode: z.int(), output: z.string().max(TEXT_LIMIT).nullable() }),
    ),
    files: z.array(z.strictObject({ path: relativePath, hash: contentHash.nullable() })),
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
    evidence: evidence(),
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
