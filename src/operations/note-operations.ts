/** Operations on what a goal remembers: decisions, facts, files, blockers. */

import * as z from "zod";
import { type Goal, goalCore } from "../goal/index.ts";
import {
  type Actor,
  ASSUMPTION,
  assumptionOf,
  blockerOf,
  confirmedFacts,
  DECISION_TYPES,
  FILE_ACTS,
  type GoalState,
  isActOfAuthority,
  originOf,
  questionOf,
  searchDecisions,
  textOfAct,
  type WaitingAct,
  waitingActs,
  waitingText,
} from "../model/goal/index.ts";
import { didYouMean } from "../model/options.ts";
import { redactSecrets } from "../model/secrets.ts";
import type { Context } from "./context.ts";
import { goal } from "./goal-operations.ts";
import * as view from "./goal-views.ts";
import { definedFields, mutation, query } from "./operation.ts";
import { projectPath, recordedFile } from "./project-files.ts";
import { itemId, missingItem } from "./task-operations.ts";

const text = z.string();
const eventRow = z.strictObject({
  ...{ uid: text, type: text, by: text, role: text, at: text },
  /** `from a pull, unsigned …`; null if it was written here. */
  origin: text.nullable(),
});
const waitingRow = eventRow.extend({ what: text });
/** How many signed acts of other clones `review` shows. */
const SIGNED_SHOWN = 20;

/** Acts of other clones that count because their signer is allowed here, the latest first. */
async function signedActs(handle: Goal): Promise<z.input<typeof waitingRow>[]> {
  const { state } = handle;
  if (state.signed.size === 0) return [];
  const rows: z.input<typeof waitingRow>[] = [];
  for await (const entry of goalCore(handle).entries()) {
    const { uid, type, at, data } = entry;
    if (!state.signed.has(uid) || !state.origins.has(uid) || !isActOfAuthority(entry)) continue;
    const { name: by, role } = data["by"] as unknown as Actor;
    const said = textOfAct(entry);
    const what = `${type.replace(".", " ")}${said === null ? "" : `: ${JSON.stringify(said)}`}`;
    rows.push({ uid, type, by, role, at: view.iso(at), origin: originOf(state, uid), what });
  }
  return rows.slice(-SIGNED_SHOWN).reverse();
}

function waitingView(state: GoalState, act: WaitingAct): z.input<typeof waitingRow> {
  const { uid, type, by, at } = act;
  const origin = originOf(state, uid);
  return { uid, type, by: by.name, role: by.role, at: view.iso(at), origin, what: waitingText(act) };
}
const blockerResult = view.blocker.extend({ goal: text });

const questionResult = z.strictObject({
  goal: text,
  id: text,
  text,
  askedBy: text,
  askedAt: view.time,
  answer: text.nullable(),
});

function questionView({ id: goal, state }: Goal, question: string): z.input<typeof questionResult> {
  const { id, text, by, at, answer } = questionOf(state, question);
  return { goal, id, text, askedBy: by.name, askedAt: view.iso(at), answer };
}

const assumptionResult = z.strictObject({
  goal: text,
  id: text,
  text,
  status: z.enum(ASSUMPTION.status.type),
  evidence: text.nullable(),
  madeBy: text,
  madeAt: view.time,
  settledAt: view.time.nullable(),
});

function assumptionView({ id: goal, state }: Goal, assumption: string): z.input<typeof assumptionResult> {
  const { id, text, status, evidence, by, at, settledAt } = assumptionOf(state, assumption);
  const times = { madeAt: view.iso(at), settledAt: settledAt === null ? null : view.iso(settledAt) };
  return { goal, id, text, status, evidence, madeBy: by.name, ...times };
}

const settling = (status: "confirmed" | "refuted") =>
  ({
    input: z.strictObject({ goal, assumption: text, evidence: text }),
    result: assumptionResult,
    async run(context: Context, { goal: id, assumption: typed, evidence }: Settling) {
      const handle = await context.goal(id);
      const assumption = itemId("A", typed);
      if (!handle.state.assumptions.has(assumption)) {
        const guess = didYouMean(assumption, handle.state.assumptions.keys());
        throw missingItem(handle.state, "assumption", typed, guess, "assumptions --all");
      }
      await handle.settle({ assumption, status, evidence });
      return assumptionView(handle, assumption);
    },
  }) as const;

interface Settling {
  readonly goal?: string | undefined;
  readonly assumption: string;
  readonly evidence: string;
}

function requireBlocker(state: GoalState, typed: string): string {
  const id = itemId("B", typed);
  if (state.blockers.has(id)) return id;
  throw missingItem(state, "blocker", typed, didYouMean(id, state.blockers.keys()), "block list --all");
}

export const noteOperations = [
  mutation("decide", "Record a decision, its reason and the alternatives", {
    input: z.strictObject({
      goal,
      decision: text,
      context: text,
      reason: text,
      type: z.enum(DECISION_TYPES).optional(),
      alternatives: z.array(z.strictObject({ option: text, whyNot: text })).optional(),
      reversible: z.boolean().optional(),
      files: z.array(text).optional(),
      supersedes: text.optional(),
    }),
    result: view.decision.extend({ goal: text }),
    async run(context, { goal: id, supersedes, type = "architecture", files = [], ...input }) {
      const named = files.map((each) => projectPath(context, each));
      const handle = await context.goal(id);
      const decided = { ...definedFields(input), type, files: named };
      const record =
        supersedes === undefined
          ? await handle.decide(decided)
          : await handle.supersede({ ...decided, supersedes: itemId("D", supersedes) });
      return { goal: handle.id, ...view.decisionView(record, handle.state) };
    },
  }),
  query("decisions", "List decisions, the latest first; words narrow the list", {
    input: z.strictObject({
      goal,
      text: text.optional(),
      type: z.enum(DECISION_TYPES).optional(),
      file: text.optional(),
      superseded: z.boolean().optional(),
    }),
    result: z.strictObject({ goal: text, decisions: z.array(view.decision) }),
    async run(context, { goal: id, file, ...query }) {
      const about = file === undefined ? {} : { file: projectPath(context, file) };
      const { state } = await context.readGoal(id);
      const found = searchDecisions(state.decisions.values(), { ...definedFields(query), ...about });
      return { goal: state.id, decisions: found.map((each) => view.decisionView(each, state)) };
    },
  }),
  mutation("fact", "Record a fact and its source", {
    input: z.strictObject({ goal, key: text, value: z.json(), source: text }),
    result: view.fact.extend({ goal: text }),
    async run(context, { goal: id, key, value, source }) {
      const handle = await context.goal(id);
      await handle.fact({ key, value, source });
      const written = handle.state.facts.get(key);
      if (!written) throw new Error(`fact ${key}: missing after it was written`);
      return { goal: handle.id, ...view.factView(written) };
    },
  }),
  query("facts", "List the facts that are known", {
    input: z.strictObject({ goal, key: text.optional() }),
    result: z.strictObject({ goal: text, facts: z.array(view.fact) }),
    async run(context, { goal: id, key }) {
      const { state } = await context.readGoal(id);
      const all = confirmedFacts(state.facts.values(), context.now());
      const facts = all.filter((each) => key === undefined || each.key === key);
      if (key === undefined || facts.length > 0) return { goal: state.id, facts: facts.map(view.factView) };
      throw missingItem(state, "fact", key, didYouMean(key, state.facts.keys()), "facts");
    },
  }),
  mutation("forget", "Withdraw a fact that is no longer true", {
    input: z.strictObject({ goal, key: text, why: text }),
    result: z.strictObject({ goal: text, key: text }),
    async run(context, { goal: id, key, why }) {
      const handle = await context.goal(id);
      await handle.forget({ key, why });
      return { goal: handle.id, key };
    },
  }),
  query("events", "List the latest events of a goal, with their uids and authors", {
    input: z.strictObject({ goal, limit: z.int().positive().max(1_000).optional() }),
    result: z.strictObject({ goal: text, events: z.array(eventRow) }),
    async run(context, { goal: id, limit = 20 }) {
      const handle = await context.readGoal(id);
      const rows: z.input<typeof eventRow>[] = [];
      for await (const { uid, type, at, data } of goalCore(handle).entries()) {
        const { name: by, role } = data["by"] as unknown as Actor;
        const origin = originOf(handle.state, uid);
        rows.push({ uid, type, by, role, at: new Date(at).toISOString(), origin });
      }
      return { goal: handle.id, events: rows.slice(-limit).reverse() };
    },
  }),
  mutation("retract", "Take back an event in every clone, such as one that a pull brought", {
    who: "person",
    vouches: true,
    input: z.strictObject({ goal, event: text, why: text }),
    result: z.strictObject({ goal: text, uid: text, type: text }),
    async run(context, { goal: id, event, why }) {
      const handle = await context.goal(id);
      return { goal: handle.id, ...(await handle.retract({ event, why })) };
    },
  }),
  mutation("review", "List the acts of people that a pull brought, and let them count", {
    who: "person",
    vouches: ({ accept }) => accept !== undefined && accept.length > 0,
    input: z.strictObject({
      goal,
      /** Uids, the starts of them, or `all`. */
      accept: z.array(text).optional(),
    }),
    result: z.strictObject({
      goal: text,
      waiting: z.array(waitingRow),
      accepted: z.array(waitingRow),
      signed: z.array(waitingRow),
    }),
    async run(context, { goal: id, accept = [] }) {
      const handle = accept.length === 0 ? await context.readGoal(id) : await context.goal(id);
      // A key that was allowed since the pull may have signed what waits.
      if (!context.isReadOnly && (await goalCore(handle).checkSignatures())) await context.syncFolder(handle);
      const events = accept.includes("all") ? "all" : accept;
      const confirmed = accept.length === 0 ? [] : await handle.confirm({ events });
      const { state } = handle;
      const accepted = confirmed.map((act) => waitingView(state, act));
      const waiting = waitingActs(state).map((act) => waitingView(state, act));
      return { goal: handle.id, waiting, accepted, signed: await signedActs(handle) };
    },
  }),
  mutation("remember files", "Record files that were read, changed or deleted, as they are on disk now", {
    input: z.strictObject({
      goal,
      files: z.array(z.strictObject({ path: text, act: z.enum(FILE_ACTS) })).min(1),
      task: text.optional(),
      session: text.optional(),
    }),
    result: z.strictObject({ goal: text, files: z.array(text) }),
    async run(context, { goal: id, files: named, task, session = null }) {
      const handle = await context.goal(id);
      const files = named.map((each) => recordedFile(context, each));
      await handle.recordFiles({ files, task: task === undefined ? null : itemId("T", task), session });
      return { goal: handle.id, files: files.map(({ path }) => path) };
    },
  }),
  mutation("built", "Record what was built and in which files, for the next agent", {
    input: z.strictObject({ goal, text, files: z.array(text).optional() }),
    result: z.strictObject({ goal: text, text, files: z.array(text) }),
    async run(context, { goal: id, text: built, files: typed = [] }) {
      const files = typed.map((each) => projectPath(context, each));
      const handle = await context.goal(id);
      await handle.implementation({ text: built, files });
      return { goal: handle.id, text: built, files };
    },
  }),
  mutation("ask", "Ask a question; every briefing shows it until it is answered", {
    input: z.strictObject({ goal, text }),
    result: questionResult,
    async run(context, { goal: id, text: asked }) {
      const handle = await context.goal(id);
      return questionView(handle, await handle.ask({ text: asked }));
    },
  }),
  mutation("answer", "Answer a question, which closes it", {
    input: z.strictObject({ goal, question: text, answer: text }),
    result: questionResult,
    async run(context, { goal: id, question: typed, answer }) {
      const handle = await context.goal(id);
      const question = itemId("Q", typed);
      if (!handle.state.questions.has(question)) {
        const guess = didYouMean(question, handle.state.questions.keys());
        throw missingItem(handle.state, "question", typed, guess, "questions --all");
      }
      await handle.answer({ question, answer });
      return questionView(handle, question);
    },
  }),
  query("questions", "List the open questions of a goal", {
    input: z.strictObject({ goal, all: z.boolean().optional() }),
    result: z.strictObject({ goal: text, questions: z.array(questionResult.omit({ goal: true })) }),
    async run(context, { goal: id, all = false }) {
      const handle = await context.readGoal(id);
      const views = [...handle.state.questions.keys()].map((each) => questionView(handle, each));
      const questions = views.filter(({ answer }) => all || answer === null);
      return { goal: handle.id, questions: questions.map(({ goal: _, ...rest }) => rest) };
    },
  }),
  mutation("assume", "Record an assumption that the work relies on; briefings show it until it is settled", {
    input: z.strictObject({ goal, text }),
    result: assumptionResult,
    async run(context, { goal: id, text: assumed }) {
      const handle = await context.goal(id);
      return assumptionView(handle, await handle.assume({ text: assumed }));
    },
  }),
  mutation("confirm", "Confirm an assumption, with the evidence", settling("confirmed")),
  mutation("refute", "Refute an assumption, with the evidence", settling("refuted")),
  query("assumptions", "List the open assumptions of a goal", {
    input: z.strictObject({ goal, all: z.boolean().optional() }),
    result: z.strictObject({ goal: text, assumptions: z.array(assumptionResult.omit({ goal: true })) }),
    async run(context, { goal: id, all = false }) {
      const handle = await context.readGoal(id);
      const views = [...handle.state.assumptions.keys()].map((each) => assumptionView(handle, each));
      const assumptions = views.filter(({ status }) => all || status === "open");
      return { goal: handle.id, assumptions: assumptions.map(({ goal: _, ...rest }) => rest) };
    },
  }),
  mutation("error", "Record an error that is not the failure of a task", {
    input: z.strictObject({ goal, message: text, task: text.optional() }),
    result: z.strictObject({ goal: text, message: text, errors: z.int() }),
    async run(context, { goal: id, message: said, task }) {
      const handle = await context.goal(id);
      const message = redactSecrets(said);
      await handle.recordError({ message, task: task === undefined ? null : itemId("T", task) });
      return { goal: handle.id, message, errors: handle.runState().errorCount };
    },
  }),
  mutation("block add", "Record what blocks tasks, phases or the whole goal", {
    input: z.strictObject({
      goal,
      description: text,
      tasks: z.array(text).optional(),
      phases: z.array(z.union([z.int(), text])).optional(),
      everything: z.boolean().optional(),
      /** How work goes on meanwhile. */
      workaround: text.optional(),
      /** Only report it: it blocks nothing until someone confirms it. */
      reportOnly: z.boolean().optional(),
    }),
    result: blockerResult,
    async run(context, { goal: id, description, tasks = [], phases = [], ...input }) {
      const { everything = false, reportOnly, workaround = null } = input;
      const handle = await context.goal(id);
      const affects = { tasks: tasks.map((each) => itemId("T", each)), phases, goal: everything };
      const identified = reportOnly !== true;
      const made = await handle.block({ description, affects, workaround, identified });
      return { goal: handle.id, ...view.blockerView(made) };
    },
  }),
  mutation("block confirm", "Confirm a reported blocker: from now on it blocks", {
    input: z.strictObject({ goal, blocker: text }),
    result: blockerResult,
    async run(context, input) {
      const handle = await context.goal(input.goal);
      const made = await handle.identify({ blocker: requireBlocker(handle.state, input.blocker) });
      return { goal: handle.id, ...view.blockerView(made) };
    },
  }),
  mutation("block bypass", "Work around a blocker; follow-up tasks record what is left to do", {
    input: z.strictObject({ goal, blocker: text, workaround: text, followUps: z.array(text).optional() }),
    result: blockerResult,
    async run(context, input) {
      const handle = await context.goal(input.goal);
      const blocker = requireBlocker(handle.state, input.blocker);
      const followUps = (input.followUps ?? []).map((title) => ({ title }));
      const made = await handle.bypass({ blocker, workaround: input.workaround, followUps });
      return { goal: handle.id, ...view.blockerView(made) };
    },
  }),
  mutation("block resolve", "Record how a blocker was resolved; lists the tasks it unblocks", {
    input: z.strictObject({ goal, blocker: text, resolution: text }),
    result: blockerResult.extend({ unblocked: z.array(text) }),
    async run(context, input) {
      const handle = await context.goal(input.goal);
      const blocker = requireBlocker(handle.state, input.blocker);
      const { unblocked } = await handle.resolve({ blocker, resolution: input.resolution });
      const resolved = view.blockerView(blockerOf(handle.state, blocker));
      return { goal: handle.id, ...resolved, unblocked: [...unblocked] };
    },
  }),
];
