/** The sections of a briefing, best first. Each line begins with our own word and holds stored text in quotes only. */

import {
  activeBlockers,
  type Blocker,
  blockerImpact,
  compareTasks,
  confirmedFacts,
  decisionMentions,
  findTask,
  focusElsewhere,
  type GoalState,
  nextTaskOf,
  positionOf,
  progressOf,
  recentMergeNotes,
  type Survey,
  searchDecisions,
  surveyGoal,
  type Task,
} from "../model/goal/index.ts";
import { ago } from "./ago.ts";
import { sessionLines } from "./briefing-sessions.ts";
import type { FileCheck } from "./file-check.ts";
import { named, quoted } from "./quoted-text.ts";

export interface BriefingFacts {
  readonly state: GoalState;
  readonly now: number;
  readonly files: readonly FileCheck[];
  readonly task: string | null;
  readonly notTakenIn: readonly string[];
  /** The session of whoever reads. */
  readonly reader: string | null;
  /** Tokens that one piece of stored text may take. */
  readonly limit: number;
}

export interface Section {
  readonly name: string;
  /** Of the room that all sections have. */
  readonly share: number;
  readonly lines: Lines;
  /** What would be in no briefing, however long, and is counted with what did not fit. */
  readonly more?: number;
}

/** Lines that are made when they are asked for: of a large goal most do not fit. */
class Lines {
  readonly length: number;
  private readonly made: string[] = [];
  private readonly make: (index: number) => string;

  private constructor(length: number, make: (index: number) => string) {
    this.length = length;
    this.make = make;
  }

  static of<Row>(rows: readonly Row[], make: (row: Row) => string): Lines {
    return new Lines(rows.length, (index) => make(rows[index] as Row));
  }

  at(index: number): string {
    this.made[index] ??= this.make(index);
    return this.made[index];
  }
}

const asTheyAre = (lines: readonly string[]): Lines => Lines.of(lines, (line) => line);

export function briefingSections(facts: BriefingFacts): Section[] {
  const survey = surveyGoal(facts.state);
  const said = facts.task === null ? undefined : findTask(facts.state, facts.task);
  const task = said ?? findTask(facts.state, nextTaskOf(facts.state, survey) ?? "") ?? null;
  const news = newsLines(facts);
  const sessions = sessionLines(facts);
  return [
    { name: "goal", share: 0.15, lines: asTheyAre(goalLines(facts, survey)) },
    { name: "next", share: 0.2, lines: asTheyAre(nextLines(facts, task)) },
    ...(news.length === 0 ? [] : [{ name: "merges", share: 0.1, lines: asTheyAre(news) }]),
    { name: "sessions", share: 0.1, lines: asTheyAre(sessions.lines), more: sessions.more },
    { name: "files", share: 0.1, lines: driftLines(facts) },
    { name: "blockers", share: 0.1, lines: asTheyAre(blockerLines(facts, survey)) },
    { name: "done", share: 0.1, lines: asTheyAre(doneLines(facts)) },
    { name: "decisions", share: 0.15, lines: decisionLines(facts, task) },
    { name: "tasks", share: 0.1, lines: taskLines(facts, survey, task) },
    { name: "facts", share: 0.1, lines: factLines(facts) },
    { name: "questions", share: 0.05, lines: questionLines(facts) },
    { name: "implementations", share: 0.05, lines: implementationLines(facts) },
  ];
}

function goalLines({ state, limit }: BriefingFacts, survey: Survey): string[] {
  const { phase, phaseName, plan, wave, status } = positionOf(state, survey);
  const progress = progressOf(state, survey);
  const place = [
    phase === null
      ? "no phase yet"
      : `phase ${phase}/${progress.phasesTotal} ${named(phaseName ?? "", limit)}`,
    plan === null ? "" : `plan ${plan}`,
    wave === null ? "" : `wave ${wave}`,
    status,
  ];
  const inPhase = `${progress.currentPhaseCompleted}/${progress.currentPhaseTasks} tasks of the phase`;
  const { completed, failed, remaining } = counts(state);
  const moved = focusElsewhere(state, survey);
  const there = moved && `phase ${moved.number}/${progress.phasesTotal} ${named(moved.name, limit)}`;
  return [
    `GOAL ${quoted(state.statement, 2 * limit)}`,
    `AT ${place.filter(Boolean).join(", ")}`,
    ...(moved
      ? [`MOVED to ${there}, which is ${moved.status}: the work goes on elsewhere, new tasks go there`]
      : []),
    `PROGRESS ${progress.percent}%, ${inPhase}, ${completed} done, ${failed} failed, ${remaining} remaining`,
  ];
}

function counts(state: GoalState): { completed: number; failed: number; remaining: number } {
  const of = (...statuses: Task["status"][]): number =>
    [...state.tasks.values()].filter(({ status }) => statuses.includes(status)).length;
  return { completed: of("done"), failed: of("failed"), remaining: of("open", "in_progress", "submitted") };
}

function nextLines({ state, now, limit }: BriefingFacts, task: Task | null): string[] {
  const lines: string[] = [];
  if (task) {
    lines.push(`NEXT ${task.id} ${quoted(task.title, limit)}, ${task.kind} task, ${task.status}`);
    const { previous } = task;
    if (previous) {
      const who = named(previous.by.name, limit);
      const note = previous.note === null ? "" : `, last note ${quoted(previous.note, limit)}`;
      const why = previous.why === null ? "" : `, because ${quoted(previous.why, limit)}`;
      lines.push(
        `BEFORE ${who} had ${task.id}: ${previous.ended} ${ago(now, previous.endedAt)}${note}${why}`,
      );
    }
  }
  const { next } = state;
  if (next?.text)
    lines.push(
      `NEXT ACTION noted by ${named(next.by.name, limit)} ${ago(now, next.at)}: ${quoted(next.text, 2 * limit)}`,
    );
  if (!task) return lines;
  if (task.description) lines.push(`ABOUT ${task.id} ${quoted(task.description, 2 * limit)}`);
  const wanted = task.kind === "build" ? task.acceptance : task.checklist;
  for (const each of wanted) lines.push(`WANTED ${task.id} ${quoted(each, limit)}`);
  if (task.files.length > 0)
    lines.push(`FILES ${task.id} ${task.files.map((file) => named(file, limit)).join(", ")}`);
  return lines;
}

/** What of other copies' work is not here, and what became of work when it met theirs. */
function newsLines({ state, now, notTakenIn, limit }: BriefingFacts): string[] {
  const merged = recentMergeNotes(state, now).map((note) => {
    const title = note.title ? ` ${quoted(note.title, limit)}` : "";
    if (note.kind === "renumbered") return `RENUMBERED ${note.was}${title} is now ${note.now}`;
    const what = note.what.map((type) => type.replace(".", " ")).join(", ");
    const item = note.item === null ? "" : ` ${note.item}`;
    const who = note.by === null ? "" : ` by ${named(note.by, limit)}`;
    return `NOT APPLIED ${what}${item}${title}${who}: ${quoted(note.why, 2 * limit)}`;
  });
  return [...notTakenIn.map((each) => `NOT TAKEN IN ${quoted(each, 2 * limit)}`), ...merged];
}

function driftLines({ files, limit }: BriefingFacts): Lines {
  const changed = files.filter(({ verdict }) => verdict !== "OK");
  return Lines.of(changed, ({ path, verdict, why }) => {
    const reason = why === null ? "" : ` (${why})`;
    return `DRIFT ${named(path, limit)} ${verdict}${reason}: look before you rely on it`;
  });
}

function blockerLines({ state, now, limit }: BriefingFacts, survey: Survey): string[] {
  const active = activeBlockers(state).map((blocker) => {
    const { id, description, identifiedAt, reportedAt } = blocker;
    return `BLOCKED ${id} ${quoted(description, limit)}, ${ago(now, identifiedAt ?? reportedAt)}${reach(state, blocker)}`;
  });
  const bypassed = [...state.blockers.values()].filter(({ status }) => status === "bypassed");
  const around = bypassed.map(
    ({ id, description, workaround }) =>
      `BYPASSED ${id} ${quoted(description, limit)} by ${quoted(workaround ?? "", limit)}`,
  );
  const stop = survey.impact.escalate ? ["BLOCKED entirely: nothing can move, a person has to decide"] : [];
  return [...stop, ...active, ...around];
}

function reach(state: GoalState, blocker: Blocker): string {
  const { level, tasks, pausedPhases } = blockerImpact(state, blocker);
  if (level === "none") return "";
  if (level === "task") return `, holds ${idRanges(tasks).slice(0, 6).join(", ")}`;
  return level === "goal" ? ", holds the goal" : `, pauses phase ${pausedPhases.join(", ")}`;
}

const RANGES_PER_LINE = 12;

function doneLines({ state }: BriefingFacts): string[] {
  const done = [...state.tasks.values()].filter(({ status }) => status === "done").map(({ id }) => id);
  const submitted = [...state.tasks.values()]
    .filter(({ status }) => status === "submitted")
    .map(({ id }) => id);
  const lines: string[] = [];
  const ranges = idRanges(done);
  for (let index = 0; index < ranges.length; index += RANGES_PER_LINE) {
    lines.push(`DO NOT REDO ${ranges.slice(index, index + RANGES_PER_LINE).join(", ")}`);
  }
  if (submitted.length > 0)
    lines.push(`SUBMITTED ${idRanges(submitted).slice(0, RANGES_PER_LINE).join(", ")}`);
  return lines;
}

/** `T-001…T-013`, `T-015`: runs of numbers in short. */
function idRanges(ids: readonly string[]): string[] {
  const sorted = [...ids].sort((a, b) => Number(a.slice(2)) - Number(b.slice(2)));
  const ranges: string[] = [];
  for (let index = 0; index < sorted.length; index++) {
    const first = index;
    const number = (at: number): number => Number(sorted[at]?.slice(2));
    while (number(index + 1) === number(index) + 1) index++;
    ranges.push(index === first ? (sorted[first] as string) : `${sorted[first]}…${sorted[index]}`);
  }
  return ranges;
}

/** Those that touch the files at hand first, then the latest. */
function decisionLines({ state, limit }: BriefingFacts, task: Task | null): Lines {
  const atHand = new Set(task?.files ?? []);
  for (const { path, task: by } of state.files.values()) if (by !== null && by === task?.id) atHand.add(path);
  const isClose = (decision: Parameters<typeof decisionMentions>[0]): boolean =>
    [...atHand].some((file) => decisionMentions(decision, file));
  const all = searchDecisions(state.decisions.values());
  const ranked = [...all.filter(isClose), ...all.filter((each) => !isClose(each))];
  return Lines.of(ranked, ({ id, type, context, decision, reason, reversible }) => {
    const firm = reversible ? "" : ", not reversible";
    const what = `${quoted(decision, limit)} for ${quoted(context, limit / 2)} because ${quoted(reason, limit)}`;
    return `DECIDED ${id} ${type}${firm}: ${what}`;
  });
}

function taskLines({ state, limit }: BriefingFacts, survey: Survey, next: Task | null): Lines {
  const ready = survey.ready.filter(({ id }) => id !== next?.id);
  const all = [...state.tasks.values()].sort(compareTasks);
  const working = all.filter(({ status, id }) => status === "in_progress" && id !== next?.id);
  const failed = all.filter(({ status }) => status === "failed");
  const rows = [
    ...working.map((task) => ({ task, as: "TAKEN" })),
    ...failed.map((task) => ({ task, as: "FAILED" })),
    ...ready.slice(0, 20).map((task) => ({ task, as: "READY" })),
  ];
  return Lines.of(rows, ({ task: { id, title, claim, failure }, as }) => {
    if (as === "READY") return `READY ${id} ${quoted(title, limit)}`;
    if (as === "TAKEN") return `TAKEN ${id} ${quoted(title, limit)} by ${named(claim?.by.name ?? "", limit)}`;
    const how = failure?.retryable ? "can be retried" : "not to be retried";
    return `FAILED ${id} ${how}: ${quoted(failure?.error ?? "", limit)}`;
  });
}

function factLines({ state, now, limit }: BriefingFacts): Lines {
  const facts = confirmedFacts(state.facts.values(), now).reverse();
  return Lines.of(facts, ({ key, value, source }) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return `FACT ${named(key, limit)} = ${quoted(text, limit)} from ${quoted(source, limit / 2)}`;
  });
}

function questionLines({ state, limit }: BriefingFacts): Lines {
  const open = [...state.questions.values()].filter(({ answer }) => answer === null);
  return Lines.of(
    open,
    ({ id, text, by }) => `OPEN QUESTION ${id} by ${named(by.name, limit)}: ${quoted(text, limit)}`,
  );
}

function implementationLines({ state, limit }: BriefingFacts): Lines {
  return Lines.of([...state.implementations].reverse(), ({ text }) => `BUILT ${quoted(text, limit)}`);
}
