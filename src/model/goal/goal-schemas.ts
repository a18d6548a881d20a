/** What the events of the goal itself hold, and how copies of it exchange them. */

import * as z from "zod";
import type { Json } from "../json.ts";
import { lazySchema } from "../stream/index.ts";
import type { Entry } from "./entries.ts";
import { eventUid, line, ordinal, stamp, text, wallClock } from "./field.ts";
import type { GoalDelta } from "./merge.ts";
import type { MergeNote } from "./merge-notes.ts";
import { VERIFICATIONS } from "./roles.ts";

const settings = () => ({
  ttlMs: z.int().positive().nullable(),
  verification: z.enum(VERIFICATIONS),
  maxAttempts: ordinal,
});
export const goalCreated = lazySchema(() =>
  z.strictObject({
    ...stamp,
    id: line,
    statement: text,
    title: line.nullable(),
    ...settings(),
  }),
);
const described = () => z.strictObject({ statement: text, title: line.nullable(), ...settings() }).partial();
export const goalDescribed = lazySchema(() => z.strictObject({ ...stamp, change: described() }));
export const phaseAdded = lazySchema(() => z.strictObject({ ...stamp, number: ordinal, name: line }));
export const planAdded = lazySchema(() =>
  z.strictObject({ ...stamp, phase: ordinal, number: ordinal, name: line }),
);

const entry = z.lazy(() =>
  z.strictObject({
    uid: eventUid,
    t: wallClock,
    c: wallClock,
    type: line,
    v: ordinal,
    at: wallClock,
    refs: z.record(line, eventUid),
    data: z.custom<Readonly<Record<string, Json>>>((value) => typeof value === "object" && value !== null),
  }),
);

/** One event of another copy, as a file of events holds it. */
export const entrySchema: z.ZodType<Entry> = entry;

export const itemRenumbered = lazySchema(() => z.strictObject({ ...stamp, item: eventUid, name: line }));

export const goalMerged = lazySchema(() =>
  z.strictObject({
    by: stamp.by,
    entries: z.array(entry).min(1),
    delta: z.custom<GoalDelta>((value) => typeof value === "object" && value !== null),
    notes: z.custom<readonly MergeNote[]>(Array.isArray).optional(),
    /** What earlier merges noted of these events is so no longer. */
    outdated: z.array(eventUid).optional(),
  }),
);
