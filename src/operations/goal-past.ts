/** Operations on a goal's past: its log, and its removal from the store and from `.planning/`. */

import * as z from "zod";
import { goalCore } from "../goal/index.ts";
import { type Actor, type Entry, EntryReader } from "../model/goal/index.ts";
import type { Context } from "./context.ts";
import { goal } from "./goal-operations.ts";
import * as view from "./goal-views.ts";
import { definedFields, mutation, query } from "./operation.ts";

const text = z.string();

const line = z.strictObject({
  /** The position in this store's log: `goal show --at` takes it. */
  seq: z.int(),
  uid: text,
  at: view.time,
  type: text,
  by: text,
  role: text,
  text,
});

/** Fields that say which item an event is about, then those that say what it is; the first found counts. */
const SUBJECTS = ["task", "blocker", "question", "assumption", "session", "key", "id", "phase"];
const WORDS = [
  ...["title", "description", "decision", "statement", "text", "name", "answer"],
  ...["resolution", "workaround", "error", "summary", "note", "notes", "why"],
];

function lineOf(seq: number, { uid, at, type, data }: Entry): z.input<typeof line> {
  const { name, role } = data["by"] as unknown as Actor;
  const first = (names: readonly string[]): unknown =>
    names.map((each) => data[each]).find((each) => typeof each === "string" || typeof each === "number");
  const parts = [first(SUBJECTS), first(WORDS)].filter((each) => each !== undefined);
  const words = parts.join(" ").replace(/\s+/g, " ").slice(0, 200);
  return { seq, uid, at: view.iso(at), type, by: name, role, text: words };
}

/** `undefined`: the files of the project's own store. None for a store that the caller named. */
function filesOf({ isStoreNamed, place }: Context): { root?: string } {
  return isStoreNamed ? {} : { root: place.root };
}

export const goalPastOperations = [
  query("goal log", "Show a goal's events, one line each: position, time, author, what happened", {
    input: z.strictObject({
      goal,
      after: z.int().nonnegative().optional(),
      before: z.int().optional(),
      newest: z.boolean().optional(),
      limit: z.int().positive().optional(),
    }),
    result: z.strictObject({ goal: text, lines: z.array(line), hidden: z.int() }),
    async run(context, { goal: id, after = 0, before, newest = false, limit = 100_000 }) {
      const handle = await context.readGoal(id);
      const { journal, log } = goalCore(handle);
      const reader = new EntryReader();
      const lines: z.input<typeof line>[] = [];
      const end = Math.min(handle.seq, (before ?? handle.seq + 1) - 1);
      for await (const written of journal.recorded(log.stream, 0, end))
        for (const [seq, stored] of written)
          for (const entry of reader.next(stored)) if (seq > after) lines.push(lineOf(seq, entry));
      if (newest) lines.reverse();
      const shown = lines.slice(0, limit);
      return { goal: handle.id, lines: shown, hidden: lines.length - shown.length };
    },
  }),
  mutation("goal prune", "Remove old goals and their files, except those that agents work on", {
    who: "person",
    vouches: ({ dryRun }) => dryRun !== true,
    input: z.strictObject({
      olderThanMs: z.int().positive().optional(),
      status: text.optional(),
      keep: z.int().nonnegative().optional(),
      dryRun: z.boolean().optional(),
    }),
    result: z.strictObject({
      dryRun: z.boolean(),
      removed: z.array(text),
      spared: z.array(z.strictObject({ id: text, why: text })),
    }),
    async run(context, { dryRun = false, ...which }) {
      const { goals } = await context.current();
      const report = await goals.prune({ ...definedFields(which), dryRun, ...filesOf(context) });
      return { dryRun, removed: [...report.removed, ...report.hidden], spared: [...report.spared] };
    },
  }),
  mutation("goal erase", "Erase a goal for privacy: its bytes in the store, its files in .planning/", {
    who: "person",
    vouches: ({ dryRun }) => dryRun !== true,
    // The whole name: the start of one might be another goal's.
    input: z.strictObject({ goal: text, dryRun: z.boolean().optional() }),
    result: z.strictObject({ dryRun: z.boolean(), erased: text }),
    async run(context, { goal: id, dryRun = false }) {
      const { goals } = await context.current();
      await goals.erase(id, { dryRun, ...filesOf(context) });
      return { dryRun, erased: id };
    },
  }),
];
