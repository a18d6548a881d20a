/**
 * Resumes a goal after checking what the last session left.
 *
 *     1 load     the goal as it is now, and whether it is older than its time to live
 *     2 context  `{phase}-{plan}-PLAN.md`, and the SUMMARY.md files of the phase's earlier plans
 *     3 verify   every recorded file against its hash: OK, DRIFTED or MISSING
 *     4 show     position, decisions, blockers, and the part of the plan about the task to resume
 *
 * After a mismatch or in a stale state, a person has to look before `proceed` goes on.
 */

import { join, resolve } from "node:path";
import { type FileCheck, type FileReport, type Goal, goalCore } from "../goal/index.ts";
import {
  activeBlockers,
  findTask,
  type GoalState,
  nextTaskOf,
  type Position,
  staleness,
  surveyGoal,
  type Task,
  taskOf,
} from "../model/goal/index.ts";
import { exactAge } from "../model/time.ts";
import { readBounded, UnreadableText } from "../state-files/index.ts";
import { oneLine } from "./written-text.ts";

/** Options of `resumeGoal`. */
export interface ResumeOptions {
  /** The folder of the plan and summary files, below the goal's root. Default: `.planning`. */
  readonly folder?: string;
  /** The folder that recorded files are relative to. Default: the goal's root. */
  readonly root?: string;
  /** True: a person has reviewed the mismatches; go on. */
  readonly proceed?: boolean;
}

export interface ContextFile {
  readonly path: string;
  readonly text: string;
}

/** The task to resume, and what the plan says about it. */
export interface ResumedTask {
  readonly id: string;
  readonly title: string;
  /** The heading, list item or paragraph of PLAN.md that names the task, with what belongs to it. */
  readonly section: string | null;
}

/** Where a goal stands, and what has to be reviewed before work continues. */
export interface Resumption {
  /** `review`: something does not match. `stale`: older than its time to live. Both need `proceed`. */
  readonly status: "ready" | "review" | "stale";
  readonly display: readonly [string, string, string];
  readonly position: Position;
  /** The task in progress, else the recorded next one, else the first ready one in the plan's order. */
  readonly task: ResumedTask | null;
  readonly plan: ContextFile | null;
  readonly summaries: readonly ContextFile[];
  readonly files: FileReport;
  readonly review: readonly string[];
  readonly ageMs: number;
}

const PAGE_BYTES = 1024 * 1024;
const SHOWN = 12;
const SHOWN_CHARACTERS = 120;
const SECTION_CHARACTERS = 4_000;

/**
 * Checks the age of the state and the recorded files, and collects the context of the current plan.
 *
 *     const { status, review } = await resumeGoal(goal);
 *     if (status !== "ready") show(review); // then: resumeGoal(goal, { proceed: true })
 */
export async function resumeGoal(goal: Goal, options: ResumeOptions = {}): Promise<Resumption> {
  const { state } = await goal.refresh();
  const position = goal.position();
  const folder = resolve(options.root ?? goal.root ?? ".", options.folder ?? ".planning");
  const review: string[] = [];
  const known = knownTask(state, position);
  const place = known ?? (position.task === null ? null : taskOf(state, position.task));
  const { plan, summaries } = await contextOf(folder, place, review);
  const resumed = known ?? firstInPlan(state, place, plan?.text ?? "") ?? place;
  const task = resumed && taskInPlan(state, resumed, plan?.text ?? "");
  const files = await checked(goal, options.root);
  review.push(...mismatches(files, state));
  const { stale, ageMs } = staleness(state, goalCore(goal).journal.now());
  if (stale) review.push(`the state is ${exactAge(ageMs)} old: check that it still says what is true`);
  const open = stale ? "stale" : review.length > 0 ? "review" : "ready";
  return {
    status: options.proceed ? "ready" : open,
    display: displayLines(state, position, resumed),
    position,
    task,
    plan,
    summaries,
    files,
    review,
    ageMs,
  };
}

async function checked(goal: Goal, root: string | undefined): Promise<FileReport> {
  if (goal.state.files.size === 0) return { isOk: true, files: [] };
  return goal.checkFiles(root === undefined ? {} : { root });
}

function mismatches({ files }: FileReport, state: GoalState): string[] {
  const wrong = new Map(files.filter(({ verdict }) => verdict !== "OK").map((file) => [file.path, file]));
  const lines = [...wrong.values()].map(fileLine);
  for (const { text, files: named } of state.implementations) {
    const touched = named.filter((path) => wrong.has(path));
    if (touched.length > 0)
      lines.push(`"${oneLine(text, SHOWN_CHARACTERS)}" was built in ${touched.join(", ")}`);
  }
  return lines;
}

function fileLine({ path, verdict, why }: FileCheck): string {
  return `${path} ${verdict}${why === null ? "" : `: ${why}`}`;
}

async function contextOf(
  folder: string,
  task: Task | null,
  review: string[],
): Promise<{ plan: ContextFile | null; summaries: ContextFile[] }> {
  if (task === null || task.plan === null) return { plan: null, summaries: [] };
  const { phase, plan } = task;
  const read = async (number: number, kind: string): Promise<ContextFile | null> => {
    const padded = `${String(phase).padStart(2, "0")}-${String(number).padStart(2, "0")}`;
    for (const name of new Set([`${phase}-${number}-${kind}.md`, `${padded}-${kind}.md`])) {
      const path = join(folder, name);
      try {
        const text = await readBounded(path, PAGE_BYTES);
        if (text !== null) return { path, text };
      } catch (error) {
        if (!(error instanceof UnreadableText)) throw error;
        review.push(`${name} cannot be read: ${error.message}`);
      }
    }
    return null;
  };
  const summaries: ContextFile[] = [];
  for (let number = 1; number < plan; number++) {
    const summary = await read(number, "SUMMARY");
    if (summary) summaries.push(summary);
  }
  return { plan: await read(plan, "PLAN"), summaries };
}

/** The task in progress, else the one that the last session named as the next. */
function knownTask(state: GoalState, { task, status }: Position): Task | null {
  if (task !== null && status === "in_progress") return taskOf(state, task);
  const recorded = findTask(state, state.next?.task ?? "");
  return recorded && nextTaskOf(state) === recorded.id ? recorded : null;
}

/** The ready task that PLAN.md names first, in the plan of `place`. */
function firstInPlan(state: GoalState, place: Task | null, text: string): Task | null {
  if (text === "" || place === null) return null;
  const { phase, plan } = place;
  const lines = text.split("\n");
  const ready = surveyGoal(state).ready.filter((task) => task.phase === phase && task.plan === plan);
  const found = ready
    .map((task) => ({ task, line: lineOf(state, task, lines) }))
    .filter(({ line }) => line >= 0)
    .sort((a, b) => a.line - b.line);
  return found[0]?.task ?? null;
}

/** The first line with the task's id, or one that it had before a merge; else the first with its title. */
function lineOf(state: GoalState, task: Task, lines: readonly string[]): number {
  const byId = lines.findIndex((line) =>
    (line.match(/\bT-\d{3,12}\b/g) ?? []).some((id) => findTask(state, id)?.id === task.id),
  );
  const title = task.title.toLowerCase();
  return byId >= 0 ? byId : lines.findIndex((line) => line.toLowerCase().includes(title));
}

function taskInPlan(state: GoalState, task: Task, text: string): ResumedTask {
  const { id, title } = task;
  const lines = text.split("\n");
  const start = text === "" ? -1 : lineOf(state, task, lines);
  if (start < 0) return { id, title, section: null };
  const isEnd = sectionEnd(lines[start] ?? "");
  const length = lines.slice(start + 1).findIndex(isEnd);
  const section = lines.slice(start, length < 0 ? undefined : start + 1 + length).join("\n");
  return { id, title, section: section.trimEnd().slice(0, SECTION_CHARACTERS) };
}

/** A heading holds until the next of its level, a list item until the next of its indentation. */
function sectionEnd(first: string): (line: string) => boolean {
  const level = /^(#{1,6}) /.exec(first)?.[1]?.length;
  if (level !== undefined) return (line) => (/^(#{1,6}) /.exec(line)?.[1]?.length ?? 7) <= level;
  const indent = /^( *)(?:[-*+]|\d{1,9}[.)]) /.exec(first)?.[1]?.length;
  if (indent === undefined) return (line) => line.trim() === "";
  return (line) => line.trim() !== "" && line.search(/\S/) <= indent;
}

function displayLines(state: GoalState, position: Position, resumed: Task | null): [string, string, string] {
  const number = resumed?.phase ?? position.phase;
  const phase = number === null ? "no phase" : `Phase ${number}`;
  const plan = resumed?.plan ? `, Plan ${resumed.plan}` : "";
  const task = resumed === null ? "none" : oneLine(resumed.title, SHOWN_CHARACTERS);
  const decisions = [...state.decisions.values()]
    .filter(({ supersededBy }) => supersededBy === null)
    .map(({ id, decision }) => `${id} ${oneLine(decision, SHOWN_CHARACTERS)}`);
  const blockers = activeBlockers(state).map(
    ({ id, description }) => `${id} ${oneLine(description, SHOWN_CHARACTERS)}`,
  );
  return [
    `Resuming from ${phase}${plan}, Task: ${task}`,
    `Decisions made: ${listed(decisions)}`,
    `Active blockers: ${listed(blockers)}`,
  ];
}

function listed(items: readonly string[]): string {
  if (items.length === 0) return "none";
  const more = items.length > SHOWN ? [`${items.length - SHOWN} earlier`] : [];
  return [...items.slice(-SHOWN), ...more].join("; ");
}
