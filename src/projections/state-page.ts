/**
 * STATE.md: renders a goal on one page, and reads the page back.
 *
 * Every list is bounded and every item is one line, so the page stays below 150 lines, however long the
 * history is. Reading ignores the order of sections, blank lines and the kind of bullets.
 */

import {
  type Affects,
  type Blocker,
  compareTasks,
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
import { type Fields, yamlFields } from "./record-files.ts";
import { snakeRow } from "./record-rows.ts";
import { type SealedText, sealMarkdown } from "./seal.ts";
import { isoTime, oneLine } from "./written-text.ts";

const ITEM_CHARACTERS = 200;
const PROSE_CHARACTERS = 600;
const LIMITS = {
  phases: 12,
  tasks: 15,
  elsewhere: 5,
  decisions: 12,
  blockers: 10,
  questions: 8,
  assumptions: 8,
  sessions: 5,
  implementations: 6,
  files: 6,
};
const REASON_CHARACTERS = 120;

/** The lines of a list, and how many it leaves out. */
interface Shown {
  readonly items: readonly string[];
  readonly more: number;
}

interface StateSummary {
  readonly goal: string;
  readonly title: string | null;
  readonly statement: string;
  readonly status: GoalStatus;
  readonly updatedAt: number;
  readonly position: Position;
  readonly progress: Progress;
  readonly next: string | null;
  readonly ready: string | null;
  readonly phases: Shown;
  readonly tasks: Shown;
  readonly decisions: Shown;
  readonly blockers: Shown;
  readonly questions: Shown;
  readonly assumptions: Shown;
  readonly sessions: Shown;
  readonly implementations: Shown;
  readonly files: Shown;
  readonly earlierFiles: Shown;
}

export function summaryOf(state: GoalState, survey: Survey): StateSummary {
  const line = (text: string): string => oneLine(text, ITEM_CHARACTERS);
  const named = (id: string, text: string): string => `${id} ${line(text)}`;
  const position = positionOf(state, survey);
  return {
    goal: state.id,
    title: state.title === null ? null : line(state.title),
    statement: oneLine(state.statement, PROSE_CHARACTERS),
    status: goalStatus(survey),
    updatedAt: state.updatedAt,
    position,
    progress: progressOf(state, survey),
    ...nextActionLines(state, survey),
    phases: phaseLines(survey, position),
    tasks: taskLines(state, survey, position),
    decisions: last(
      [...state.decisions.values()].filter(({ supersededBy }) => supersededBy === null),
      LIMITS.decisions,
      ({ id, date, type, context, decision, reason }) => {
        const why = oneLine(reason, REASON_CHARACTERS);
        return `${named(id, `(${date}, ${type}) ${context}: ${decision}`)} (because: ${why})`;
      },
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
    assumptions: last(
      [...state.assumptions.values()].filter(({ status }) => status !== "confirmed"),
      LIMITS.assumptions,
      ({ id, text, status, evidence }) => {
        const why = oneLine(evidence ?? "", REASON_CHARACTERS);
        return `${named(id, text)}${status === "refuted" ? ` (refuted: ${why})` : ""}`;
      },
    ),
    sessions: last([...state.history.values()], LIMITS.sessions, (entry) => {
      const work = entry.workingOn === null ? "" : `, working on ${entry.workingOn}`;
      const done = entry.completed.length === 0 ? "" : `, completed ${entry.completed.length}`;
      const why = entry.handoffReason === null ? "" : `, handed off: ${entry.handoffReason}`;
      const times = [entry.startedAt, entry.endedAt].flatMap((at) => (at === null ? [] : [minute(at)]));
      const spent = `, ${times.join(" to ")}`;
      return line(`${entry.id} (${entry.agent}) ${entry.status}${spent}${work}${done}${why}`);
    }),
    implementations: last(state.implementations, LIMITS.implementations, ({ text }) => line(text)),
    ...modifiedFiles(state),
  };
}

/** `2024-01-14 09:00Z` */
const minute = (at: number): string =>
  String(isoTime(at))
    .replace("T", " ")
    .replace(/:\d\d\.\d+Z$/, "Z");

/** The files of the latest session, apart from those of earlier ones. */
function modifiedFiles(state: GoalState): Pick<StateSummary, "files" | "earlierFiles"> {
  const entries = [...state.history.values()];
  const session = (entries.findLast(({ status }) => status === "active") ?? entries.at(-1))?.id ?? null;
  const modified = [...state.files.values()]
    .filter(({ modifiedAt }) => modifiedAt !== null)
    .sort((a, b) => (a.modifiedAt ?? 0) - (b.modifiedAt ?? 0) || (a.path < b.path ? -1 : 1));
  const shown = (isShown: boolean): Shown =>
    last(
      modified.filter((file) => (file.session === session) === isShown),
      LIMITS.files,
      ({ path, task }) => oneLine(task === null ? path : `${path} (${task})`, ITEM_CHARACTERS),
    );
  return { files: shown(true), earlierFiles: shown(false) };
}

/** Names the same task as the briefing and `holdfast next`. */
function nextActionLines(state: GoalState, survey: Survey): Pick<StateSummary, "next" | "ready"> {
  const { next } = state;
  const id = nextTaskOf(state, survey);
  const task = id === null ? undefined : findTask(state, id);
  const isNoted = task !== undefined && task === findTask(state, next?.task ?? "");
  const named = task && `${task.id}: ${task.title}`;
  const noted = [isNoted ? named : null, next?.text].filter((part) => part != null).join(" — ");
  return {
    next: noted === "" ? null : oneLine(noted, PROSE_CHARACTERS),
    ready: named === undefined || isNoted ? null : oneLine(named, ITEM_CHARACTERS),
  };
}

function phaseLines({ phases }: Survey, position: Position): Shown {
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

/** Blocked and running tasks elsewhere, then open tasks of this phase, then its latest done ones. */
function taskLines(state: GoalState, survey: Survey, position: Position): Shown {
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
    items: shown.map((task) => {
      const status = displayStatus(task, survey.blockedBy.has(task.id));
      const box = status === "done" ? "x" : " ";
      return `[${box}] ${task.id} [${status}] ${oneLine(task.title, ITEM_CHARACTERS)}`;
    }),
    more: all.length + elsewhere.length - shown.length,
  };
}

function blockerLine({ status, description, affects, workaround }: Blocker): string {
  const around = workaround !== null ? ` (workaround: ${workaround})` : "";
  return `[${status}] ${description}${affectedWords(affects)}${around}`;
}

function affectedWords({ tasks, phases, goal, other }: Affects): string {
  const words = [...(goal ? ["goal"] : []), ...phases.map((phase) => `phase ${phase}`), ...tasks, ...other];
  return words.length === 0 ? "" : ` (affects: ${words.join(", ")})`;
}

function last<Row>(rows: readonly Row[], limit: number, item: (row: Row) => string): Shown {
  return { items: rows.slice(-limit).map(item), more: Math.max(0, rows.length - limit) };
}

export function renderStatePage(summary: StateSummary, seq: number): SealedText {
  const { taskTitle: _title, ...position } = summary.position;
  const { tasksTotal: _total, tasksCompleted: _completed, ...progress } = summary.progress;
  const fields = {
    title: summary.title,
    status: summary.status,
    updated_at: isoTime(summary.updatedAt),
    position: snakeRow(position),
    progress: snakeRow(progress),
  } as Fields;
  const where = "task_board.json";
  const body = [
    `# ${summary.title || summary.goal}`,
    `> ${summary.statement}`,
    section("Current Position", [positionLine(summary)]),
    section("Progress", [progress.bar, "", ...listed(summary.phases, where)]),
    section("Next Action", nextLines(summary)),
    section("Tasks", listed(summary.tasks, where)),
    section("Decisions", listed(summary.decisions, "decisions/")),
    section("Blockers", listed(summary.blockers, "blockers/")),
    section("Open Questions", listed(summary.questions, "agent_state.json")),
    section("Assumptions", listed(summary.assumptions, "agent_state.json")),
    section("Sessions", listed(summary.sessions, "sessions/")),
    section("Key Implementations", listed(summary.implementations, "agent_state.json")),
    section("Files Modified This Session", listed(summary.files, "agent_state.json")),
    section("Files Modified Earlier", listed(summary.earlierFiles, "agent_state.json")),
  ];
  return sealMarkdown(summary.goal, seq, `${yamlFields(fields)}---\n\n${body.join("\n\n")}\n`);
}

function section(name: string, lines: readonly string[]): string {
  return `## ${name}\n\n${lines.join("\n")}`.trimEnd();
}

const READY = "Ready: ";
const COMPUTED_NEXT = /^Ready: T-\d{3,}: /;

function nextLines({ next, ready }: StateSummary): string[] {
  return [next, ready && `${READY}${ready}`].filter((line) => line !== null).flatMap((line) => [line, ""]);
}

function listed({ items, more }: Shown, where: string): string[] {
  return [...items.map((item) => `- ${item}`), ...(more > 0 ? [`- … ${more} more in ${where}`] : [])];
}

/** `Phase 2 of 4: JWT Implementation · Plan 3: Refresh Token Rotation · T-014 Rotate tokens · in_progress` */
function positionLine({ position, progress }: StateSummary): string {
  const phase =
    position.phase === null ? "No phase yet" : `Phase ${position.phase} of ${progress.phasesTotal}`;
  const named = position.phaseName === null ? phase : `${phase}: ${position.phaseName}`;
  const plan = position.plan === null ? null : `Plan ${position.plan}: ${position.planName ?? ""}`;
  const task = position.task === null ? null : `${position.task} ${position.taskTitle ?? ""}`;
  const line = [named, plan, task, position.status].filter((part) => part !== null).join(" · ");
  return oneLine(line, Number.POSITIVE_INFINITY);
}

export interface PageItem {
  /** Null: a new item, written by hand. */
  readonly id: string | null;
  readonly text: string;
}

export interface PageTask extends PageItem {
  readonly isChecked: boolean;
}

export interface StatePage {
  readonly title: string | null;
  readonly statement: string | null;
  readonly next: string;
  /** The computed line below `next`; it counts as noted if a person has changed it. */
  readonly ready: string;
  readonly tasks: readonly PageTask[];
  readonly decisions: readonly PageItem[];
  readonly blockers: readonly PageItem[];
  readonly questions: readonly PageItem[];
  readonly assumptions: readonly PageItem[];
  /** Everything else, by section: computed, so an edit of it cannot be applied. */
  readonly others: ReadonlyMap<string, string>;
}

export interface Page {
  readonly frontmatter: string;
  readonly top: string;
  readonly sections: ReadonlyMap<string, string>;
}

export function splitPage(text: string): Page | null {
  let body = text;
  let frontmatter = "";
  if (/^---\s*\n/.test(text)) {
    const end = /\n---[ \t]*(?:\n|$)/.exec(text);
    if (!end) return null;
    frontmatter = text.slice(text.indexOf("\n") + 1, end.index + 1);
    body = text.slice(end.index + end[0].length);
  }
  const [top = "", ...parts] = body.split(/^## +/m);
  const contents = new Map<string, string[]>();
  for (const part of parts) {
    const end = part.indexOf("\n");
    const name = (end < 0 ? part : part.slice(0, end)).trim();
    const content = end < 0 ? "" : part.slice(end + 1).trim();
    const known = contents.get(name) ?? [];
    contents.set(name, known);
    if (content !== "") known.push(content);
  }
  const sections = new Map([...contents].map(([name, all]) => [name, all.join("\n\n")]));
  return { frontmatter, top: top.trim(), sections };
}

const EDITABLE = ["Next Action", "Tasks", "Decisions", "Blockers", "Open Questions", "Assumptions"];
const MORE = /^… \d+ more in /;

export function readStatePage(page: Page): StatePage {
  const { sections } = page;
  const items = (name: string): string[] =>
    (sections.get(name) ?? "")
      .split("\n")
      .map((line) => /^\s*[-*+] +(.*)$/.exec(line)?.[1]?.trim() ?? "")
      .filter((item) => item !== "" && !MORE.test(item));
  const withId = (pattern: RegExp, item: string): PageItem => {
    const found = pattern.exec(item);
    return found ? { id: found[1] ?? null, text: (found[2] ?? "").trim() } : { id: null, text: item };
  };
  const statement = page.top
    .split("\n")
    .filter((line) => line.startsWith(">"))
    .map((line) => line.replace(/^> ?/, ""))
    .join(" ")
    .trim();
  const stray = (name: string): string =>
    (sections.get(name) ?? "")
      .split("\n")
      .filter((line) => line.trim() !== "" && !/^\s*[-*+] /.test(line))
      .join("\n");
  const lists = EDITABLE.slice(1).map((name) => [`${name}, beside the list`, stray(name)] as const);
  const computed = [...sections].filter(([name]) => !EDITABLE.includes(name));
  const frontmatter = page.frontmatter.replace(/^(?:goal|revision|digest): .*\n/gm, "");
  const top = page.top.split("\n").filter((line) => line.trim() !== "" && !/^(?:# |>)/.test(line));
  return {
    title: /^# +(.*)$/m.exec(page.top)?.[1]?.trim() || null,
    statement: statement || null,
    ...readNext(sections.get("Next Action") ?? ""),
    tasks: items("Tasks").map(readTask),
    decisions: items("Decisions").map((item) => withId(/^(D-\d{3,})(?: +(.*))?$/, item)),
    blockers: items("Blockers").map((item) => withId(/^(B-\d{3,})(?: +(.*))?$/, item)),
    questions: items("Open Questions").map((item) => withId(/^(Q-\d{3,})(?: +(.*))?$/, item)),
    assumptions: items("Assumptions").map((item) => withId(/^(A-\d{3,})(?: +(.*))?$/, item)),
    others: new Map(
      [...computed, ...lists, ["frontmatter", frontmatter] as const, ["top", top.join("\n")] as const].filter(
        ([, content]) => content !== "",
      ),
    ),
  };
}

function readNext(content: string): Pick<StatePage, "next" | "ready"> {
  const lines = content.split("\n");
  const computed = lines.find((line) => COMPUTED_NEXT.test(line)) ?? "";
  const noted = lines.filter((line) => !COMPUTED_NEXT.test(line));
  return { next: noted.join(" ").replace(/\s+/gu, " ").trim(), ready: computed.slice(READY.length).trim() };
}

function readTask(item: string): PageTask {
  const box = /^\[([ xX])\] *(.*)$/.exec(item);
  const rest = box ? (box[2] ?? "") : item;
  const found = /^(T-\d{3,})(?: +\[[a-z_]+\])?(?: +(.*))?$/.exec(rest);
  return {
    id: found?.[1] ?? null,
    isChecked: box !== null && box[1] !== " ",
    text: (found ? (found[2] ?? "") : rest).trim(),
  };
}
