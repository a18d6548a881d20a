/** Operations on a whole goal: create, show, list, choose, brief, move. */

import * as z from "zod";
import { checkFiles, type Goal, makeBriefing, openGoal } from "../goal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import {
  activeBlockers,
  compareTasks,
  confirmedFacts,
  type GoalState,
  isFinished,
  mergeNoteText,
  nextTasks,
  positionOf,
  progressOf,
  recentMergeNotes,
  searchDecisions,
  staleNotice,
  staleness,
  surveyGoal,
  VERIFICATIONS,
} from "../model/goal/index.ts";
import { streamId, streamName } from "../model/names.ts";
import type { Context } from "./context.ts";
import { currentGoal, goalRows, setCurrentGoal } from "./current-goal.ts";
import * as view from "./goal-views.ts";
import { readSeal, sealNotice } from "./moved-store.ts";
import { definedFields, mutation, query } from "./operation.ts";
import { pickFields } from "./record-views.ts";

const text = z.string();
/** Which goal; unless given, the worktree's, else the only one that is not done. */
export const goal = text.optional();

const position = z.strictObject({
  phase: z.int().nullable(),
  phaseName: text.nullable(),
  task: text.nullable(),
  status: text,
});
const progress = z.strictObject({
  phases: z.int(),
  phasesCompleted: z.int(),
  tasks: z.int(),
  tasksCompleted: z.int(),
  percent: z.number(),
});
const nextWork = z.strictObject({
  outlook: z.enum(["ready", "waiting", "blocked", "stuck", "unplanned", "done"]),
  why: text,
  tasks: z.array(view.taskRow),
  noted: text.nullable(),
  merged: z.array(text),
  notMerged: z.array(text),
  /** Past its time to live: how old the goal is, and that it must be checked. */
  staleNotice: text.nullable(),
});

const phase = z.strictObject({
  number: z.int(),
  name: text,
  status: text,
  tasks: z.int(),
  completed: z.int(),
  plans: z.array(text),
});
const question = z.strictObject({ id: text, text });
const assumption = z.strictObject({ id: text, text, status: text, evidence: text.nullable() });

const goalResult = z.strictObject({
  goal: text,
  statement: text,
  title: text.nullable(),
  seq: z.int(),
  /** The time that an earlier state was asked for; null for the present one. */
  asOf: view.time.nullable(),
  createdAt: view.time,
  updatedAt: view.time,
  stale: z.boolean(),
  verification: z.enum(VERIFICATIONS),
  position,
  progress,
  phases: z.array(phase),
  next: nextWork,
  blockers: z.array(view.blocker),
  decisions: z.array(view.decision),
  facts: z.array(view.fact),
  questions: z.array(question),
  assumptions: z.array(assumption),
  history: z.array(view.history),
});

function progressView(state: GoalState): z.input<typeof progress> {
  const { phasesTotal, phasesCompleted, tasksTotal, tasksCompleted, percent } = progressOf(state);
  return { phases: phasesTotal, phasesCompleted, tasks: tasksTotal, tasksCompleted, percent };
}

function nextView(
  state: GoalState,
  { now, notMerged }: { readonly now: number; readonly notMerged: readonly string[] },
): z.input<typeof nextWork> {
  const { outlook, why, tasks } = nextTasks(state);
  const survey = surveyGoal(state);
  const rows = tasks.map((task) => view.taskRowView(task, survey));
  const merged = recentMergeNotes(state, now).map(mergeNoteText);
  const noted = state.next?.text ?? null;
  return {
    outlook,
    why,
    tasks: rows,
    noted,
    merged,
    notMerged: [...notMerged],
    staleNotice: staleNotice(state, now),
  };
}

interface Shown {
  readonly state: GoalState;
  readonly seq: number;
  readonly now: number;
  readonly notMerged: readonly string[];
  readonly asOf: Date | null;
}

/** The goal as it is now, or as it was at the moment that `at` names: a position or a time. */
async function shownGoal(
  context: Context,
  id: string | undefined,
  at?: number | string,
): Promise<z.input<typeof goalResult>> {
  const handle = await (at === undefined ? context.shownGoal(id) : context.readGoal(id));
  const { notMerged } = context;
  if (at === undefined) return goalView({ ...nowOf(handle), now: context.now(), notMerged, asOf: null });
  const moment = await handle.at(typeof at === "number" ? at : momentOf(at));
  return goalView({ ...moment, now: moment.at.getTime(), notMerged: [], asOf: moment.at });
}

const nowOf = ({ state, seq }: Goal): Pick<Shown, "state" | "seq"> => ({ state, seq });

/** `2024-01-15` is the end of that day in UTC, so that it holds all that happened then. */
function momentOf(typed: string): Date {
  const isDay = /^\d{4}-\d\d-\d\d$/.test(typed);
  const time = new Date(isDay ? `${typed}T23:59:59.999Z` : typed);
  if (!Number.isNaN(time.getTime())) return time;
  throw new HoldfastError("INPUT_INVALID", `goal show: ${JSON.stringify(typed)} is no position and no time`, {
    hint: "For example 12, 2024-01-15 or 2024-01-15T12:00:00Z.",
  });
}

function goalView({ state, seq, now, notMerged, asOf }: Shown): z.input<typeof goalResult> {
  const next = nextView(state, { now, notMerged });
  const { phases } = surveyGoal(state);
  const plans = (number: number): string[] =>
    state.phases.find((each) => each.number === number)?.plans.map(({ name }) => name) ?? [];
  const blockers = [...state.blockers.values()].filter(({ status }) => status !== "resolved");
  const open = [...state.questions.values()].filter(({ answer }) => answer === null);
  return pickFields(goalResult, {
    ...state,
    goal: state.id,
    seq,
    asOf: asOf && view.iso(asOf.getTime()),
    createdAt: view.iso(state.createdAt),
    updatedAt: view.iso(state.updatedAt),
    stale: staleness(state, now).stale,
    position: pickFields(position, positionOf(state)),
    progress: progressView(state),
    phases: phases.map((each) => pickFields(phase, { ...each, plans: plans(each.number) })),
    next,
    blockers: blockers.map(view.blockerView),
    decisions: searchDecisions(state.decisions.values()).map((each) => view.decisionView(each, state)),
    facts: confirmedFacts(state.facts.values(), now).map(view.factView),
    questions: open.map((each) => pickFields(question, each)),
    assumptions: [...state.assumptions.values()].map((each) => pickFields(assumption, each)),
    history: [...state.history.values()].slice(-5).reverse().map(view.historyView),
  });
}

async function refuseExisting(context: Context, id: string): Promise<void> {
  const { journal } = await context.current();
  const row = await journal.row(streamName("goal", id));
  if (row.state === "gone") return context.refuseWaiting(id);
  throw new HoldfastError("STREAM_EXISTS", `goal ${id}: it exists already`, {
    hint: `Show it: holdfast goal show ${id}. Or choose another name.`,
    data: { goal: id },
  });
}

export const goalOperations = [
  mutation("goal new", "Create a goal, with its phases", {
    input: z.strictObject({
      id: text,
      statement: text,
      title: text.optional(),
      phases: z.array(text).optional(),
      ttlMs: z.int().positive().nullable().optional(),
      verification: z.enum(VERIFICATIONS).optional(),
      maxAttempts: z.int().positive().optional(),
    }),
    result: goalResult,
    async run(context, { id, ...settings }) {
      const holdfast = await context.holdfast({ orSchema: true });
      await refuseExisting(context, id);
      const { by, place } = context;
      const { journal } = holdfast;
      const made = await openGoal(journal, id, { ...definedFields(settings), by, root: place.root });
      await context.syncFolder(made);
      const { notMerged } = context;
      return goalView({ ...nowOf(made), now: context.now(), notMerged, asOf: null });
    },
  }),
  query("goal show", "Show a goal: progress, next tasks, blockers, decisions, facts; now or at a moment", {
    input: z.strictObject({
      goal,
      /** A position of the log, a day or a time. */
      at: z.union([z.int().positive(), text]).optional(),
    }),
    result: goalResult,
    run: (context, input) => shownGoal(context, input.goal, input.at),
  }),
  query("goal list", "List all goals, the last changed first", {
    input: z.strictObject({}),
    result: z.strictObject({
      goals: z.array(
        z.strictObject({
          goal: text,
          title: text.nullable(),
          status: text.nullable(),
          createdAt: view.time,
          updatedAt: view.time,
          stale: z.boolean(),
        }),
      ),
    }),
    async run(context) {
      const { journal } = await context.current();
      const rows = await goalRows(journal);
      const goals = rows.map(({ stream, facets, createdAt, updatedAt }) => ({
        goal: streamId(stream),
        title: facets.title,
        status: facets.status,
        createdAt: view.iso(createdAt),
        updatedAt: view.iso(updatedAt),
        stale: facets.expiresAt !== null && facets.expiresAt < context.now(),
      }));
      return { goals };
    },
  }),
  mutation("goal use", "Choose the default goal of this worktree; without a goal, show it", {
    input: z.strictObject({ goal, none: z.boolean().optional() }),
    result: z.strictObject({ worktree: text, goal: text.nullable() }),
    async run(context, input) {
      const worktree = context.place.root;
      if (input.none) setCurrentGoal(context.place, null);
      else if (input.goal !== undefined) {
        const chosen = await context.readGoal(input.goal);
        setCurrentGoal(context.place, chosen.id);
        await context.syncFolder(chosen);
      }
      return { worktree, goal: currentGoal(context.place) };
    },
  }),
  query("brief", "Print the briefing with which the next agent continues", {
    input: z.strictObject({
      goal,
      tokens: z.int().optional(),
      task: text.optional(),
      session: text.optional(),
    }),
    result: z.strictObject({
      goal: text,
      text,
      tokens: z.int(),
      leftOut: z.record(text, z.int()),
      stale: z.boolean(),
    }),
    async run(context, { goal: id, ...options }) {
      const { state, seq } = await context.shownGoal(id);
      const { files } = await checkFiles(context.place.root, state.files.values());
      const { notMerged } = context;
      const all = { ...definedFields(options), files, notMerged };
      const briefing = makeBriefing(state, seq, context.now(), all);
      const { journal } = await context.holdfast();
      const sealed = sealNotice(await readSeal(journal));
      // An agent reads this text and no warnings.
      const head = sealed === null ? "" : `Holdfast: ${sealed}.\n`;
      const stale = staleness(state, context.now()).stale;
      return { goal: state.id, ...briefing, text: head + briefing.text, stale };
    },
  }),
  query("next", "Show what to claim next, or why there is nothing", {
    input: z.strictObject({ goal }),
    result: nextWork.extend({ goal: text }),
    async run(context, input) {
      const handle = await context.shownGoal(input.goal);
      const { notMerged } = context;
      return { goal: handle.id, ...nextView(handle.state, { now: context.now(), notMerged }) };
    },
  }),
  mutation("goal move", "Move to another phase, by number or name", {
    input: z.strictObject({ goal, to: z.union([z.int(), text]) }),
    result: z.strictObject({
      goal: text,
      position,
      progress,
      left: z.array(view.taskRow),
      /** The old phase, if it had no task and so counts as complete now. */
      closed: z.strictObject({ number: z.int(), name: text }).nullable(),
    }),
    async run(context, input) {
      const handle = await context.goal(input.goal);
      const { phase: from } = positionOf(handle.state);
      const closedBefore = handle.state.phases.find(({ number }) => number === from)?.closedAt ?? null;
      const to = await handle.move({ to: input.to });
      const { state } = handle;
      const survey = surveyGoal(state);
      const closed = state.phases.find(
        ({ number, closedAt }) => number === from && closedAt !== closedBefore,
      );
      const left = [...state.tasks.values()].filter(
        (task) => task.phase === from && task.phase !== to && !isFinished(task),
      );
      return {
        goal: handle.id,
        position: pickFields(position, positionOf(state)),
        progress: progressView(state),
        left: left.sort(compareTasks).map((task) => view.taskRowView(task, survey)),
        closed: closed && from !== to ? { number: closed.number, name: closed.name } : null,
      };
    },
  }),
  query("task list", "List the tasks of a goal, in the order of work", {
    input: z.strictObject({ goal, status: text.optional(), all: z.boolean().optional() }),
    result: z.strictObject({
      goal: text,
      staleNotice: text.nullable(),
      hidden: z.int(),
      tasks: z.array(view.taskRow),
    }),
    async run(context, input) {
      const { state } = await context.shownGoal(input.goal);
      const survey = surveyGoal(state);
      const rows = [...state.tasks.values()].sort(compareTasks).map((each) => view.taskRowView(each, survey));
      const isWanted = ({ status }: z.input<typeof view.taskRow>): boolean =>
        input.status === undefined
          ? input.all === true || !["done", "dropped"].includes(status)
          : status === input.status;
      const tasks = rows.filter(isWanted);
      const hidden = rows.length - tasks.length;
      return { goal: state.id, staleNotice: staleNotice(state, context.now()), hidden, tasks };
    },
  }),
  query("block list", "List what blocks work", {
    input: z.strictObject({ goal, all: z.boolean().optional() }),
    result: z.strictObject({ goal: text, active: z.int(), blockers: z.array(view.blocker) }),
    async run(context, input) {
      const { state } = await context.readGoal(input.goal);
      const all = [...state.blockers.values()];
      const blockers = all.filter(({ status }) => input.all === true || status !== "resolved");
      const active = activeBlockers(state).length;
      return { goal: state.id, active, blockers: blockers.map(view.blockerView) };
    },
  }),
];
