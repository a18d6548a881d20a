/** What the events of everything but tasks hold. */

import * as z from "zod";
import { lazySchema } from "../stream/index.ts";
import {
  blockerId,
  contentHash,
  contentShape,
  decisionId,
  line,
  optionalText,
  questionId,
  relativePath,
  sessionName,
  shapeOf,
  stamp,
  taskId,
  text,
  wallClock,
} from "./field.ts";
import { AFFECTS, DECISION, FACT } from "./note-records.ts";
import { FILE_ACTS } from "./notes.ts";

export const decisionMade = lazySchema(() =>
  z.strictObject({
    ...stamp,
    id: decisionId,
    ...contentShape(DECISION),
    supersedes: decisionId.nullable(),
  }),
);

/** `reportedAt`: when it was first seen, where that was before the goal knew of it. */
export const blockerReported = lazySchema(() =>
  z.strictObject({
    ...stamp,
    id: blockerId,
    description: text,
    affects: z.strictObject(shapeOf(AFFECTS)),
    reportedAt: wallClock.optional(),
  }),
);
export const blockerIdentified = lazySchema(() => z.strictObject({ ...stamp, blocker: blockerId }));
export const blockerBypassed = lazySchema(() =>
  z.strictObject({
    ...stamp,
    blocker: blockerId,
    workaround: text,
    followUps: z.array(taskId),
  }),
);
export const blockerResolved = lazySchema(() =>
  z.strictObject({ ...stamp, blocker: blockerId, resolution: text }),
);

export const factSet = lazySchema(() => z.strictObject({ ...stamp, ...contentShape(FACT) }));
export const factForgotten = lazySchema(() => z.strictObject({ ...stamp, key: line, why: text }));

export const filesRecorded = lazySchema(() =>
  z.strictObject({
    ...stamp,
    files: z
      .array(
        z
          .strictObject({ path: relativePath, hash: contentHash.nullable(), act: z.enum(FILE_ACTS) })
          .refine(({ hash, act }) => (hash === null) === (act === "deleted"), {
            message: "needs the content's hash, unless the file was deleted",
            path: ["hash"],
          }),
      )
      .min(1),
    task: taskId.nullable(),
    session: sessionName.nullable(),
  }),
);

export const implementationNoted = lazySchema(() =>
  z.strictObject({ ...stamp, text, files: z.array(relativePath) }),
);

export const questionAsked = lazySchema(() => z.strictObject({ ...stamp, id: questionId, text }));
export const questionAnswered = lazySchema(() =>
  z.strictObject({ ...stamp, question: questionId, answer: text }),
);

export const nextSet = lazySchema(() =>
  z.strictObject({ ...stamp, text: optionalText, task: taskId.nullable() }),
);

export const errorRecorded = lazySchema(() =>
  z.strictObject({ ...stamp, message: text, task: taskId.nullable() }),
);

export const editTaken = lazySchema(() =>
  z.strictObject({
    ...stamp,
    file: relativePath,
    hash: contentHash,
    editedAt: wallClock,
    /** Parts of the edit that no event could say; the file was kept beside. */
    left: z.array(text),
  }),
);

const usage = () => z.number().min(0).max(1).nullable();

export const sessionStarted = lazySchema(() =>
  z.strictObject({
    ...stamp,
    session: sessionName,
    agent: line,
    resumes: sessionName.nullable(),
    notes: optionalText,
    /** When that was, for a session that ran before the goal knew of it. */
    startedAt: wallClock.optional(),
  }),
);

export const sessionNoted = lazySchema(() =>
  z.strictObject({
    ...stamp,
    session: sessionName,
    contextUsage: usage(),
    issues: z.array(text),
    notes: optionalText,
  }),
);

export const sessionEnded = lazySchema(() =>
  z.strictObject({
    ...stamp,
    session: sessionName,
    contextUsage: usage(),
    completed: z.array(line),
    issues: z.array(text),
    notes: optionalText,
    handoffReason: optionalText,
    endedAt: wallClock.optional(),
  }),
);

export const sessionCrashed = lazySchema(() =>
  z.strictObject({ ...stamp, session: sessionName, notes: optionalText }),
);
