/**
 * What STATE.md says: where the goal stands, on one page, however long its history is.
 *
 * Every list is bounded and every item is one line, so the page stays below 150 lines; what is left out is in the other
 * files, and the page says how much that is. Everything here is computed from the goal, so that position, progress and
 * bar cannot contradict each other or the tasks.
 */

import {
  type Affects,
  type Blocker,
  compareTasks,
  type DisplayStatus,
  displayStatus,
  findTask,
  type GoalState,
  type GoalStatus,
  goalStatus,
  isUnderWay,
  nextTaskOf,
  type Position,
  type Progress,
  positionOf,
  progressOf,
  type Survey,
} from "../model/goal/index.ts";
import { oneLine } from "./written-text.ts";

const ITEM_CHARACTERS = 200;
const PROSE_CHARACTERS = 600;
const LIMITS = {
  phases: 12,
  tasks: 15,
  elsewhere: 5,
  decisions: 12,
  blockers: 10,
  questions: 8,
  sessions: 5,
  files: 8,
};

export interface SummaryTask {
  readonly id: string;
  readonly status: DisplayStatus;
  readonly title: string;
}

export interface SummaryLine {
  readonly id: string;
  readonly text: string;
}

/** A list as shown, and how many more there are. */
export interface Shown<Item> {
  readonly items: readonly Item[];
  readonly more: number;
}

export interface StateSummary {
  readonly goal: string;
  readonly title: string | null;
  readonly statement: string;
  readonly status: GoalStatus;
  readonly updatedAt: number;
  readonly position: Position;
  readonly progress: Progress;
  /** What somebody said that comes next, as long as that is to be done. */
  readonly next: string | null;
  /** The task that comes next, where nobody said so or what was said is past. */
  readonly ready: string | null;
  readonly phases: Shown<string>;
  readonly tasks: Shown<SummaryTask>;
  readonly decisions: Shown<SummaryLine>;
  readonly blockers: Shown<SummaryLine>;
  readonly questions: Shown<SummaryLine>;
  readonly sessions: Shown<string>;
  readonly files: Shown<string>;
}

export function summaryOf(state: GoalState, survey: Survey): StateSummary {
  const line = (text: string): string => oneLine(text, ITEM_CHARACTERS);
  const named = (id: string, text: string): SummaryLine => ({ id, text: line(text) });
  const position = positionOf(state, survey);
  return {
    goal: state.id,
    title: state.title === null ? null : line(state.title),
    statement: oneLine(state.statement, PROSE_CHARACTERS),
    status: goalStatus(survey),
    updatedAt: state.updatedAt,
    position,
    progress: progressOf(state, survey),
    ...nextLines(state, survey),
    phases: phaseLines(survey, position),
    tasks: taskLines(state, survey, position),
    decisions: last(
      [...state.decisions.values()].filter(({ supersededBy }) => supersededBy === null),
      LIMITS.decisions,
      ({ id, date, type, context, decision }) => named(id, `(${date}, ${type}) ${context}: ${decision}`),
    ),
    blockers: last(
      [...state.blockers.values()].filter(({ status }) => status !== "resolved"),
      LIMITS.blockers,
      (blocker) => named(blocker.id, blockerLine(blocker)),
    ),
    questions: last(
      [...state.questions.values()].filter(({ answer }) => answer === null),
      LIMITS.questions,
      ({ id, text }) => named(id, text),
    ),
    sessions: last([...state.history.values()], LIMITS.sessions, (entry) => {
      const work = entry.workingOn === null ? "" : `, working on ${entry.workingOn}`;
      const done = entry.completed.length === 0 ? "" : `, completed ${entry.completed.length}`;
      const why = entry.handoffReason === null ? "" : `, handed off: ${entry.handoffReason}`;
      return line(`${entry.id} (${entry.agent}) ${entry.status}${work}${done}${why}`);
    }),
    files: last(
      [...state.files.values()]
        .filter(({ modifiedAt }) => modifiedAt !== null)
        .sort((a, b) => (a.modifiedAt ?? 0) - (b.modifiedAt ?? 0) || (a.path < b.path ? -1 : 1)),
      LIMITS.files,
      ({ path, task }) => line(task === null ? path : `${path} (${task})`),
    ),
  };
}

/** The same task as in a briefing and in `next`. */
function nextLines(state: GoalState, survey: Survey): Pick<StateSummary, "next" | "ready"> {
  const { next } = state;
  const id = nextTaskOf(state, survey);
  const task = id === null ? undefined : findTask(state, id);
  const isSaid = task !== undefined && task === findTask(state, next?.task ?? "");
  const named = task && `${task.id}: ${task.title}`;
  const said = [isSaid ? named : null, next?.text].filter((part) => part != null).join(" — ");
  return {
    next: said === "" ? null : oneLine(said, PROSE_CHARACTERS),
    ready: named === undefined || isSaid ? null : oneLine(named, ITEM_CHARACTERS),
  };
}

/** The phases around the current one. */
function phaseLines({ phases }: Survey, position: Position): Shown<string> {
  const current = phases.findIndex(({ number }) => number === position.phase);
  const first = Math.max(0, Math.min(current - LIMITS.phases / 2, phases.length - LIMITS.phases));
  const shown = phases.slice(first, first + LIMITS.phases);
  return {
    items: shown.map(({ number, name, status, tasks, completed }) =>
      oneLine(`${number}. ${name}: ${status}, ${completed}/${tasks}`, ITEM_CHARACTERS),
    ),
    more: phases.length - shown.length,
  };
}

/** Of other phases what is blocked or under way; the tasks of the current one: what is left, then what was done last. */
function taskLines(state: GoalState, survey: Survey, position: Position): Shown<SummaryTask> {
  const all = [...state.tasks.values()].filter(
    (task) => task.phase === position.phase && task.status !== "dropped",
  );
  const left = all.filter(({ status }) => status !== "done").sort(compareTasks);
  const done = all
    .filter(({ status }) => status === "done")
    .sort((a, b) => (b.endSeq ?? 0) - (a.endSeq ?? 0) || compareTasks(a, b));
  const elsewhere = [...state.tasks.values()]
    .filter((task) => task.phase !== position.phase && (survey.blockedBy.has(task.id) || isUnderWay(task)))
    .sort(compareTasks);
  const shown = [...elsewhere.slice(0, LIMITS.elsewhere), ...left, ...done]
    .slice(0, LIMITS.tasks)
    .sort(compareTasks);
  return {
    items: shown.map((task) => ({
      id: task.id,
      status: displayStatus(task, survey.blockedBy.has(task.id)),
      title: oneLine(task.title, ITEM_CHARACTERS),
    })),
    more: all.length + elsewhere.length - shown.length,
  };
}

function blockerLine({ status, description, affects, workaround }: Blocker): string {
  const around = status === "bypassed" && workaround !== null ? ` (workaround: ${workaround})` : "";
  return `[${status}] ${description}${affectedWords(affects)}${around}`;
}

function affectedWords({ tasks, phases, goal, other }: Affects): string {
  const words = [...(goal ? ["goal"] : []), ...phases.map((phase) => `phase ${phase}`), ...tasks, ...other];
  return words.length === 0 ? "" : ` (affects: ${words.join(", ")})`;
}

function last<Row, Item>(rows: readonly Row[], limit: number, item: (row: Row) => Item): Shown<Item> {
  return { items: rows.slice(-limit).map(item), more: Math.max(0, rows.length - limit) };
}
