/**
 * Sessions in a goal's history: `resume` and `handoff`, notes on the way, `finish`. If the goal is stale or
 * recorded files have changed, `resume` reports that and starts no session; the caller looks, then passes
 * `force`.
 */

import { relative, sep } from "node:path";
import * as z from "zod";
import { type Goal, makeBriefing } from "../goal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { historyOf, staleness } from "../model/goal/index.ts";
import { didYouMean } from "../model/options.ts";
import { exactAge } from "../model/time.ts";
import type { ContextFile } from "../projections/index.ts";
import { goal } from "./goal-operations.ts";
import * as view from "./goal-views.ts";
import { definedFields, mutation } from "./operation.ts";
import { pickFields } from "./record-views.ts";
import { itemId } from "./task-operations.ts";

const text = z.string();

export const fileCheck = z.strictObject({
  path: text,
  verdict: z.enum(["OK", "DRIFTED", "MISSING"]),
  why: text.nullable(),
});

const page = z.strictObject({ path: text, text });

function shownPage(root: string, { path, text }: ContextFile): z.input<typeof page> {
  return { path: relative(root, path).replaceAll(sep, "/"), text };
}

/** The named session, else the caller's only active one. So no caller ends another's session by accident. */
function activeSession(handle: Goal, named: string | undefined, caller: string): string {
  const { history } = handle.state;
  if (named !== undefined && history.has(named)) return named;
  const active = [...history.values()].filter(({ status }) => status === "active");
  const [only, other] = active.filter(({ agent }) => agent === caller);
  if (named === undefined && only && !other) return only.id;
  const ids = active.map(({ id, agent }) => (agent === caller ? id : `${id} of ${agent}`));
  const isNotOwn = named === undefined && !only && ids.length > 0;
  const question = isNotOwn ? `${caller} has no active session.` : "which session?";
  const what = named === undefined ? question : `goal ${handle.id}: there is no session ${named}.`;
  const guess = named === undefined ? "" : didYouMean(named, history.keys());
  const found = `${ids.length} active: ${ids.join(", ") || "none"}`;
  throw new HoldfastError("GOAL_ITEM_NOT_FOUND", `${what} ${found}`, {
    hint: `${guess}Name the session (--session), or start one: holdfast resume`,
    data: { goal: handle.id, active: ids },
  });
}

export const handoffOperations = [
  mutation("resume", "Resume the work: check files, read plan and summaries, start a session, get briefed", {
    input: z.strictObject({
      goal,
      session: text.optional(),
      tokens: z.int().optional(),
      force: z.boolean().optional(),
    }),
    result: z.strictObject({
      goal: text,
      /** False: look at the report, then resume with force. */
      begun: z.boolean(),
      why: text.nullable(),
      session: text.nullable(),
      stale: z.boolean(),
      files: z.array(fileCheck),
      briefing: text,
      /** Where the work resumes, the decisions and the blockers, in one line each. */
      display: z.array(text),
      /** The task to go on with, and the part of the plan that names it. */
      task: z.strictObject({ id: text, title: text, section: text.nullable() }).nullable(),
      /** `.planning/{phase}-{plan}-PLAN.md`. */
      plan: page.nullable(),
      /** The SUMMARY.md files of the phase's earlier plans. */
      summaries: z.array(page),
      implementations: z.array(z.strictObject({ text, files: z.array(text) })),
      /** Mismatches: changed files, what was built in them, unreadable pages, the goal's age. */
      review: z.array(text),
    }),
    async run(context, { goal: id, session, force = false, tokens }) {
      const { resumeGoal } = await import("../projections/index.ts");
      const { root } = context.place;
      const handle = await context.readGoal(id);
      const resumed = await resumeGoal(handle, { root });
      const { state } = handle;
      const now = context.now();
      const files = resumed.files.files.map((each) => pickFields(fileCheck, each));
      const changed = files.filter(({ verdict }) => verdict !== "OK");
      const { stale, ageMs } = staleness(state, now);
      const reasons = [
        stale ? `the goal was last touched ${exactAge(ageMs)} ago` : "",
        changed.length > 0 ? `${changed.length} recorded file(s) have changed` : "",
        ...resumed.review.filter((each) => each.includes(" cannot be read: ")),
      ].filter(Boolean);
      const isBegun = force || reasons.length === 0;
      const name = session ?? `${context.by.name}-${now.toString(36)}`;
      const { notMerged } = context;
      if (isBegun) await handle.startSession({ session: name });
      const reader = isBegun ? name : session;
      const report = resumed.files.files;
      const options = definedFields({ tokens, files: report, notMerged, session: reader });
      const briefing = makeBriefing(handle.state, handle.seq, now, options).text;
      return {
        goal: handle.id,
        begun: isBegun,
        why: reasons.length === 0 ? null : reasons.join(", and "),
        session: isBegun ? name : null,
        stale,
        files,
        briefing,
        display: [...resumed.display],
        task: resumed.task,
        plan: resumed.plan && shownPage(root, resumed.plan),
        summaries: resumed.summaries.map((each) => shownPage(root, each)),
        implementations: state.implementations.map((each) => ({ text: each.text, files: [...each.files] })),
        review: [...resumed.review],
      };
    },
  }),
  mutation("handoff", "End your session: release its tasks, and leave the reason and the next step", {
    input: z.strictObject({
      goal,
      session: text.optional(),
      reason: text,
      notes: text.optional(),
      next: text.optional(),
      issues: z.array(text).optional(),
      contextUsage: z.number().min(0).max(1).optional(),
    }),
    result: view.history.extend({ goal: text }),
    async run(context, { goal: id, session, next, ...input }) {
      const handle = await context.goal(id);
      const name = activeSession(handle, session, context.by.name);
      const following = next === undefined ? undefined : itemId("T", next);
      const entry = await handle.handoff({ ...definedFields({ ...input, next: following }), session: name });
      return { goal: handle.id, ...view.historyView(entry) };
    },
  }),
  mutation("note", "Add a note, an issue or a deviation from the plan to your session while you work", {
    input: z.strictObject({
      goal,
      session: text.optional(),
      notes: text.optional(),
      issues: z.array(text).optional(),
      contextUsage: z.number().min(0).max(1).optional(),
    }),
    result: view.history.extend({ goal: text }),
    async run(context, { goal: id, session, ...input }) {
      const handle = await context.goal(id);
      const name = activeSession(handle, session, context.by.name);
      await handle.noteSession({ ...definedFields(input), session: name });
      return { goal: handle.id, ...view.historyView(historyOf(handle.state, name)) };
    },
  }),
  mutation("finish", "End your session because its work is done; tasks that it still holds are released", {
    input: z.strictObject({
      goal,
      session: text.optional(),
      notes: text.optional(),
      completed: z.array(text).optional(),
      issues: z.array(text).optional(),
      contextUsage: z.number().min(0).max(1).optional(),
    }),
    result: view.history.extend({ goal: text }),
    async run(context, { goal: id, session, ...input }) {
      const handle = await context.goal(id);
      const name = activeSession(handle, session, context.by.name);
      const entry = await handle.endSession({ ...definedFields(input), session: name });
      return { goal: handle.id, ...view.historyView(entry) };
    },
  }),
];
