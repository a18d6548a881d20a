/** The result of `status`. `status.ts` imports only its types, because it loads no schema. */

import * as z from "zod";

const text = z.string();

/** Something that needs a person, and the command that helps. */
const need = z.strictObject({ what: text, command: text });

const working = z.strictObject({
  task: text,
  title: text,
  /** Null: the claim was released or has expired. */
  by: text.nullable(),
  /** Claimed in another clone of the repository, whose leases this store does not see. */
  elsewhere: z.boolean(),
});

const goal = z.strictObject({
  goal: text,
  title: text.nullable(),
  status: text,
  stale: z.boolean(),
  tasks: z.int(),
  done: z.int(),
  ready: z.int(),
  blocked: z.int(),
  submitted: z.int(),
  failed: z.int(),
  working: z.array(working),
  /** Agents whose last session crashed, and when; empty once another session has started. */
  crashed: z.array(z.strictObject({ session: text, at: z.int() })),
  /** How a merge changed work that was already done, latest first. */
  merged: z.array(text),
});

/** The new store's own address (`sqlite /srv/new.db`), and the last change before the move, if any. */
const moved = z.strictObject({ to: text, asOf: text.nullable() });

/** Both ends by their own absolute addresses. The target may be missing data. */
const unfinishedMove = z.strictObject({ from: text, to: text, isTarget: z.boolean() });

export const status = z.strictObject({
  address: text,
  /** The new place, if the store has moved: everything else is as of then. */
  moved: moved.nullable(),
  unfinishedMove: unfinishedMove.nullable(),
  namespace: text,
  /** The other namespaces. Their calls and sessions that need a person are in `needs`. */
  otherNamespaces: z.array(text),
  /** How many of them were not read, because there are too many: `calls` covers them. */
  unreadNamespaces: z.int(),
  /** When the last known write was made that this store lacks, if it is a restored copy. */
  rewound: text.nullable(),
  /** Event files and edits that could not be merged, one line each. */
  notMerged: z.array(text),
  needs: z.array(need),
  goals: z.array(goal),
  otherGoals: z.int(),
  sessions: z.strictObject({
    running: z.int(),
    waiting: z.int(),
    crashed: z.int(),
    /** Idle sessions with a queued prompt: `supervise` starts their agent. */
    prompted: z.int(),
    idle: z.int(),
    ended: z.int(),
    spentUsd: z.number(),
    limitUsd: z.number().nullable(),
    /** If set, there are more sessions: the numbers cover only this many of the latest. */
    ofLatest: z.int().nullable(),
  }),
  next: need,
});

export type Status = z.output<typeof status>;
export type GoalStatus = z.output<typeof goal>;
export type Working = z.output<typeof working>;
export type Need = z.output<typeof need>;
