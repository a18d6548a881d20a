/** A goal and what is in it, as operations answer: plain JSON, times in ISO 8601. */

import * as z from "zod";
import {
  type Actor,
  BLOCKER_STATUSES,
  type Blocker,
  DECISION_TYPES,
  type DecisionRecord,
  displayStatus,
  type EndedClaim,
  type Fact,
  type HistoryEntry,
  ROLES,
  type Survey,
  TASK_STATUSES,
  type Task,
} from "../model/goal/index.ts";

export const time = z.iso.datetime();
const text = z.string();

export function iso(at: number): string {
  return new Date(at).toISOString();
}

export function isoOrNull(at: number | null): string | null {
  return at === null ? null : iso(at);
}

const who = z.strictObject({ name: text, role: z.enum(ROLES) });

function whoView({ name, role }: Actor): z.input<typeof who> {
  return { name, role };
}

const shown = z.enum([...TASK_STATUSES, "blocked"]);

export const taskRow = z.strictObject({
  id: text,
  title: text,
  status: shown,
  phase: z.int(),
  wave: z.int(),
  /** Who has it, while it is in progress. */
  by: text.nullable(),
  /** Active blockers that name it. */
  blockedBy: z.array(text),
});

export function taskRowView(task: Task, survey: Survey): z.input<typeof taskRow> {
  const blockedBy = [...(survey.blockedBy.get(task.id) ?? [])];
  const { id, title, phase, wave, claim } = task;
  const status = displayStatus(task, blockedBy.length > 0);
  return { id, title, status, phase, wave, by: claim?.by.name ?? null, blockedBy };
}

const heldBy = z.strictObject({
  by: who,
  session: text.nullable(),
  since: time,
  progressAt: time,
  note: text.nullable(),
});

export const task = taskRow.extend({
  kind: z.enum(["build", "review"]),
  plan: z.int().nullable(),
  description: text.nullable(),
  dependsOn: z.array(text),
  files: z.array(text),
  /** How one will know that it is done: the acceptance of a build, the checklist of a review. */
  wanted: z.array(text),
  reviews: z.array(text),
  claim: heldBy.nullable(),
  previous: heldBy.extend({ ended: text, endedAt: time, why: text.nullable() }).nullable(),
  attempts: z.int(),
  failure: z.strictObject({ error: text, retryable: z.boolean(), at: time }).nullable(),
  submission: z
    .strictObject({
      by: who,
      at: time,
      summary: text.nullable(),
      commands: z.array(z.strictObject({ command: text, exitCode: z.int(), output: text.nullable() })),
      files: z.array(z.strictObject({ path: text, hash: text.nullable() })),
    })
    .nullable(),
  verdict: z.strictObject({ accepted: z.boolean(), why: text.nullable(), by: who, at: time }).nullable(),
  createdAt: time,
  doneAt: time.nullable(),
});

export function taskView(from: Task, survey: Survey): z.input<typeof task> {
  const { kind, plan, description, attempts, claim, previous, failure, submission, verdict } = from;
  return {
    ...taskRowView(from, survey),
    kind,
    plan,
    description,
    dependsOn: [...from.dependsOn],
    files: [...from.files],
    wanted: [...(from.kind === "build" ? from.acceptance : from.checklist)],
    reviews: from.kind === "review" ? [...from.reviews] : [],
    claim: claim && claimView(claim),
    previous: previous && {
      ...claimView(previous),
      ended: previous.ended,
      endedAt: iso(previous.endedAt),
      why: previous.why,
    },
    attempts,
    failure: failure && { ...failure, at: iso(failure.at) },
    submission: submission && {
      by: whoView(submission.by),
      at: iso(submission.at),
      summary: submission.evidence.summary,
      commands: [...submission.evidence.commands],
      files: [...submission.evidence.files],
    },
    verdict: verdict && { ...verdict, by: whoView(verdict.by), at: iso(verdict.at) },
    createdAt: iso(from.createdAt),
    doneAt: isoOrNull(from.doneAt),
  };
}

type Held = Pick<EndedClaim, "by" | "session" | "at" | "progressAt" | "note">;

function claimView({ by, session, at, progressAt, note }: Held): z.input<typeof heldBy> {
  return { by: whoView(by), session, since: iso(at), progressAt: iso(progressAt), note };
}

export const decision = z.strictObject({
  id: text,
  date: text,
  type: z.enum(DECISION_TYPES),
  context: text,
  decision: text,
  reason: text,
  alternatives: z.array(z.strictObject({ option: text, whyNot: text })),
  reversible: z.boolean(),
  files: z.array(text),
  supersedes: text.nullable(),
  supersededBy: text.nullable(),
  by: who,
});

export function decisionView(from: DecisionRecord): z.input<typeof decision> {
  const { at: _at, seq: _seq, revision: _revision, ...rest } = from;
  return { ...rest, alternatives: [...rest.alternatives], files: [...rest.files], by: whoView(rest.by) };
}

export const blocker = z.strictObject({
  id: text,
  status: z.enum(BLOCKER_STATUSES),
  description: text,
  affects: z.strictObject({
    tasks: z.array(text),
    phases: z.array(z.int()),
    goal: z.boolean(),
    other: z.array(text),
  }),
  by: who,
  reportedAt: time,
  resolvedAt: time.nullable(),
  workaround: text.nullable(),
  followUps: z.array(text),
  resolution: text.nullable(),
});

export function blockerView(from: Blocker): z.input<typeof blocker> {
  const { id, status, description, affects, workaround, resolution } = from;
  const { tasks, phases, goal, other } = affects;
  return {
    id,
    status,
    description,
    affects: { tasks: [...tasks], phases: [...phases], goal, other: [...other] },
    by: whoView(from.by),
    reportedAt: iso(from.reportedAt),
    resolvedAt: isoOrNull(from.resolvedAt),
    workaround,
    followUps: [...from.followUps],
    resolution,
  };
}

export const fact = z.strictObject({
  key: text,
  value: z.json(),
  source: text,
  by: who,
  at: time,
  expiresAt: time.nullable(),
});

export function factView({ key, value, source, by, at, expiresAt }: Fact): z.input<typeof fact> {
  return {
    key,
    value: value as z.core.util.JSONType,
    source,
    by: whoView(by),
    at: iso(at),
    expiresAt: isoOrNull(expiresAt),
  };
}

export const history = z.strictObject({
  session: text,
  agent: text,
  status: z.enum(["active", "ended", "crashed"]),
  startedAt: time,
  endedAt: time.nullable(),
  contextUsage: z.number().nullable(),
  completed: z.array(text),
  issues: z.array(text),
  notes: z.array(text),
  handoffReason: text.nullable(),
  workingOn: text.nullable(),
});

export function historyView(from: HistoryEntry): z.input<typeof history> {
  const { agent, status, contextUsage, handoffReason, workingOn } = from;
  return {
    session: from.id,
    agent,
    status,
    startedAt: iso(from.startedAt),
    endedAt: isoOrNull(from.endedAt),
    contextUsage,
    completed: [...from.completed],
    issues: [...from.issues],
    notes: [...from.notes],
    handoffReason,
    workingOn,
  };
}
