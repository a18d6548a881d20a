/**
 * `handoff` and `resume`: one agent stops, another continues. If the goal is stale or recorded files have
 * changed, `resume` reports that and starts no session; the caller looks, then passes `force`.
 */

import * as z from "zod";
import { checkFiles, type Goal, makeBriefing } from "../goal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { staleness } from "../model/goal/index.ts";
import { didYouMean } from "../model/options.ts";
import { exactAge } from "../model/time.ts";
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
  mutation("resume", "Resume the work: check the recorded files, start a session, read the briefing", {
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
    }),
    async run(context, { goal: id, session, force = false, tokens }) {
      const handle = await context.readGoal(id);
      const { state } = handle;
      const now = context.now();
      const checked = await checkFiles(context.place.root, state.files.values());
      const files = checked.files.map((each) => pickFields(fileCheck, each));
      const changed = files.filter(({ verdict }) => verdict !== "OK");
      const { stale, ageMs } = staleness(state, now);
      const reasons = [
        stale ? `the goal was last touched ${exactAge(ageMs)} ago` : "",
        changed.length > 0 ? `${changed.length} recorded file(s) have changed` : "",
      ].filter(Boolean);
      const isBegun = force || reasons.length === 0;
      const name = session ?? `${context.by.name}-${now.toString(36)}`;
      const { notTakenIn } = context;
      if (isBegun) await handle.startSession({ session: name });
      const reader = isBegun ? name : session;
      const options = definedFields({ tokens, files: checked.files, notTakenIn, session: reader });
      const briefing = makeBriefing(handle.state, handle.seq, now, options).text;
      return {
        goal: handle.id,
        begun: isBegun,
        why: reasons.length === 0 ? null : reasons.join(", and "),
        session: isBegun ? name : null,
        stale,
        files,
        briefing,
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
];
