/** `task_board.json`: every task of the goal, in the order in which they are done. */

import {
  type Actor,
  compareTasks,
  displayStatus,
  type EndedClaim,
  type Evidence,
  type GoalState,
  type Survey,
  type Task,
  type TaskClaim,
} from "../model/goal/index.ts";
import { type SealedText, sealJson } from "./seal.ts";
import { isoTime, layoutJson, optionalTime } from "./written-text.ts";

export const TASK_BOARD_VERSION = 1;

/** A member that is null or undefined is left out: absence says the same, in fewer lines. */
export function present(members: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(members).filter(([, value]) => value !== null && value !== undefined),
  );
}

const some = (count: number): number | null => (count === 0 ? null : count);

/** Left out: the token of a claim, which is a secret of the lease, and what commands printed, which is no memory. */
function taskRow(task: Task, blockedBy: readonly string[]): Record<string, unknown> {
  const status = displayStatus(task, blockedBy.length > 0);
  const own =
    task.kind === "build"
      ? { acceptance: task.acceptance }
      : { reviews: task.reviews, checklist: task.checklist };
  const { submission, verdict, failure } = task;
  return present({
    id: task.id,
    kind: task.kind,
    title: task.title,
    description: task.description,
    phase: task.phase,
    plan: task.plan,
    wave: task.wave,
    status,
    own_status: status === task.status ? null : task.status,
    blocked_by: blockedBy.length > 0 ? blockedBy : null,
    depends_on: task.dependsOn,
    files: task.files,
    ...own,
    assigned_to: task.claim && claimRow(task.claim),
    previous: task.previous && endedRow(task.previous),
    attempts: some(task.attempts),
    failures: some(task.failures),
    rejections: some(task.rejections),
    failure: failure && { error: failure.error, retryable: failure.retryable, at: isoTime(failure.at) },
    submission: submission && {
      ...evidenceRow(submission.evidence),
      by: byRow(submission.by),
      session: submission.session,
      at: isoTime(submission.at),
    },
    verdict: verdict && {
      accepted: verdict.accepted,
      why: verdict.why,
      by: byRow(verdict.by),
      at: isoTime(verdict.at),
    },
    created_at: isoTime(task.createdAt),
    updated_at: isoTime(task.updatedAt),
    done_at: optionalTime(task.doneAt),
  });
}

export function byRow({ name, role }: Actor): Record<string, unknown> {
  return { name, role };
}

function claimRow(claim: TaskClaim): Record<string, unknown> {
  const { by, session, at, progressAt, note } = claim;
  return { by: byRow(by), session, at: isoTime(at), progress_at: isoTime(progressAt), note };
}

function endedRow(claim: EndedClaim): Record<string, unknown> {
  const { ended, endedAt, why } = claim;
  return { ...claimRow(claim), ended, ended_at: isoTime(endedAt), why };
}

function evidenceRow({ summary, commands, files }: Evidence): Record<string, unknown> {
  return {
    summary,
    commands: commands.map(({ command, exitCode }) => ({ command, exit_code: exitCode })),
    files: files.map(({ path, hash }) => ({ path, hash })),
  };
}

interface TaskText {
  readonly blockedBy: string;
  readonly text: string;
  readonly row: Record<string, unknown>;
}

/** The last event that changed anything on the board: a task, a phase, or what a blocker blocks. */
export function boardRevision(state: GoalState): number {
  let revision = state.phasesRevision;
  for (const task of state.tasks.values()) if (task.revision > revision) revision = task.revision;
  for (const blocker of state.blockers.values()) if (blocker.revision > revision) revision = blocker.revision;
  return revision;
}

/**
 * Renders boards one after another. Tasks are immutable records, so the text of one that did not change is kept: an
 * update of a large board costs what changed and the joining of its lines.
 */
export class TaskBoardText {
  private readonly texts = new WeakMap<Task, TaskText>();

  /** The rows that have not been rendered before, for a check before they are written. */
  readonly fresh: Record<string, unknown>[] = [];

  render(state: GoalState, survey: Survey): SealedText {
    const phases = state.phases.map(({ number, name, plans, closedAt }) =>
      present({
        number,
        name,
        plans: plans.map((plan) => ({ number: plan.number, name: plan.name })),
        closed_at: optionalTime(closedAt),
      }),
    );
    const aliases = Object.fromEntries([...state.aliases].sort(([a], [b]) => (a < b ? -1 : 1)));
    const rows = [...state.tasks.values()].sort(compareTasks);
    const tasks = rows.map((task) => this.taskText(task, survey.blockedBy.get(task.id) ?? []));
    const list = tasks.length === 0 ? "[]" : `[\n    ${tasks.join(",\n    ")}\n  ]`;
    const rest = `  "phases": ${layoutJson(phases, 1)},\n  "aliases": ${layoutJson(aliases, 1)},\n  "tasks": ${list}\n}\n`;
    return sealJson(state.id, TASK_BOARD_VERSION, boardRevision(state), rest);
  }

  private taskText(task: Task, blockers: readonly string[]): string {
    const blockedBy = blockers.join();
    const known = this.texts.get(task);
    if (known?.blockedBy === blockedBy) return known.text;
    const row = taskRow(task, blockers);
    const text = layoutJson(row, 2);
    this.texts.set(task, { blockedBy, text, row });
    this.fresh.push(row);
    return text;
  }
}
