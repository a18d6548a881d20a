/**
 * Resumes a goal after checking what the last session left.
 *
 *     1 load     the goal as it is now, and whether it is older than its time to live
 *     2 context  `{phase}-{plan}-PLAN.md`, and the SUMMARY.md files of the phase's earlier plans
 *     3 verify   every recorded file against its hash: OK, DRIFTED or MISSING
 *     4 show     position, decisions, blockers
 *
 * After a mismatch or in a stale state, a person has to look before `proceed` goes on.
 */

import { join, resolve } from "node:path";
import { type FileCheck, type FileReport, type Goal, goalCore } from "../goal/index.ts";
import { activeBlockers, type GoalState, type Position, staleness } from "../model/goal/index.ts";
import { exactAge } from "../model/time.ts";
import { readBounded, UnreadableText } from "../state-files/index.ts";
import { oneLine } from "./written-text.ts";

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

export interface Resumption {
  /** `review`: something does not match. `stale`: older than its time to live. Both need `proceed`. */
  readonly status: "ready" | "review" | "stale";
  readonly display: readonly [string, string, string];
  readonly position: Position;
  readonly plan: ContextFile | null;
  readonly summaries: readonly ContextFile[];
  readonly files: FileReport;
  readonly review: readonly string[];
  readonly ageMs: number;
}

const PAGE_BYTES = 1024 * 1024;
const SHOWN = 12;
const SHOWN_CHARACTERS = 120;

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
  const { plan, summaries } = await contextOf(folder, position, review);
  const files = await checked(goal, options.root);
  review.push(...mismatches(files, state));
  const { stale, ageMs } = staleness(state, goalCore(goal).journal.now());
  if (stale) review.push(`the state is ${exactAge(ageMs)} old: check that it still says what is true`);
  const open = stale ? "stale" : review.length > 0 ? "review" : "ready";
  return {
    status: options.proceed ? "ready" : open,
    display: displayLines(state, position),
    position,
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
  { phase, plan }: Position,
  review: string[],
): Promise<{ plan: ContextFile | null; summaries: ContextFile[] }> {
  if (phase === null || plan === null) return { plan: null, summaries: [] };
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

function displayLines(state: GoalState, position: Position): [string, string, string] {
  const phase = position.phase === null ? "no phase" : `Phase ${position.phase}`;
  const plan = position.plan === null ? "" : `, Plan ${position.plan}`;
  const task = position.taskTitle === null ? "none" : oneLine(position.taskTitle, SHOWN_CHARACTERS);
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
