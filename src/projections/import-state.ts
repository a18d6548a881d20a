/**
 * Makes a goal from a STATE.md of another tool or person.
 *
 * Computed values (position, progress) are not copied, but compared with the tasks that the import makes.
 * Everything without a place in a goal becomes a fact named `imported.…`, so nothing is lost. A crash between
 * the two commits leaves an empty goal, into which the same import can run again.
 */

import type { Act, Goal } from "../goal/index.ts";
import {
  DraftBatch,
  goalCore,
  hashFile,
  noteActs,
  openGoal,
  planningActs,
  sessionActs,
} from "../goal/index.ts";
import type { Journal } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { Actor, DecisionType, GoalDraft, GoalState } from "../model/goal/index.ts";
import { DECISION_TYPES, isRelativePath, positionOf, progressOf, UNSEEN_HASH } from "../model/goal/index.ts";
import type { Json } from "../model/json.ts";
import { isId, quoteValue } from "../model/names.ts";
import { readBounded, UnreadableText } from "../state-files/index.ts";
import { finishTask } from "./edit-changes.ts";
import type { ImportedText, Row } from "./imported-text.ts";
import {
  day,
  LINE,
  line,
  map,
  prose,
  readImported,
  rows,
  strings,
  TEXT,
  time,
  usage,
  whole,
} from "./imported-text.ts";

interface ImportNotes {
  /** Contradictions between the file's statements and its own tasks, phases or numbers. */
  readonly contradictions: readonly string[];
  readonly assumed: readonly string[];
  readonly kept: readonly string[];
}

const FILE_BYTES = 1024 * 1024;

/** Options of `importState`. */
export interface ImportOptions {
  /** The page to import: `.planning/STATE.md`. */
  readonly file: string;
  /** The folder that paths in the file are relative to; files found there are recorded with their hash. */
  readonly root?: string;
  /** The author of the imported events. Default: `{ name: "import", role: "human" }`. */
  readonly by?: Actor;
}

/** The new goal, and what of the page could not be kept as it was. */
export interface ImportReport extends ImportNotes {
  readonly goal: Goal;
}

/**
 * Imports a STATE.md into a new goal, and reports what did not fit. Refuses a goal that has work in it.
 *
 *     const { goal, contradictions } = await importState(holdfast, "checkout", { file: "STATE.md" });
 */
export async function importState(
  { journal }: { readonly journal: Journal },
  id: string,
  options: ImportOptions,
): Promise<ImportReport> {
  const { file, root, by = { name: "import", role: "human" } } = options;
  const imported = await readFile(file);
  const { row } = imported;
  const title = shortText(row["title"]);
  const statement = shortText(row["statement"]) ?? shortText(row["goal"]) ?? title ?? `Imported from ${file}`;
  const goal = await openGoal(journal, id, { by, statement, title, ...(root !== undefined && { root }) });
  const hashes = await hashesOf(root, row);
  const notes = await goalCore(goal).commit(by, (state) => {
    if (state.phases.length + state.tasks.size + state.decisions.size + state.history.size > 0)
      throw notEmpty(id);
    return importActs(state, by, imported, hashes);
  });
  return { goal, ...notes };
}

/** A name for the goal of a STATE.md: its `initiative`, else its title. Null: it has neither. */
export async function importedName(file: string): Promise<string | null> {
  const { row } = await readFile(file);
  const { initiative } = row;
  if (isId(initiative)) return initiative;
  const slug = (shortText(row["title"]) ?? "").toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const name = slug.slice(0, 60).replace(/^-|-$/g, "");
  return name === "" ? null : name;
}

const shortText = (value: unknown): string | null => prose(value)?.slice(0, LINE) ?? null;

async function readFile(file: string): Promise<ImportedText> {
  try {
    const found = await readBounded(file, FILE_BYTES);
    if (found === null) throw new UnreadableText("there is no such file");
    return await readImported(found);
  } catch (error) {
    if (!(error instanceof UnreadableText)) throw error;
    throw new HoldfastError("INPUT_INVALID", `${file} cannot be imported: ${error.message}`, {
      hint: "Nothing was imported. Correct the file, or begin with a new goal and a statement.",
      data: { reason: "IMPORT", file },
      cause: error,
    });
  }
}

async function hashesOf(root: string | undefined, row: ImportedText["row"]): Promise<Map<string, string>> {
  const context = row["resume_context"] as Record<string, Json> | undefined;
  const files = (context?.["files_modified_this_session"] ?? context?.["files_modified"] ?? []) as unknown;
  const hashes = new Map<string, string>();
  if (root === undefined || !Array.isArray(files)) return hashes;
  for (const path of files) {
    if (typeof path !== "string" || !isRelativePath(path)) continue;
    try {
      hashes.set(path, await hashFile(root, path));
    } catch (error) {
      // Missing, or not below the root: the report and every resume say so.
      if (!isHoldfastError(error, "INPUT_INVALID")) throw error;
    }
  }
  return hashes;
}

function notEmpty(id: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `goal ${id} has work in it already`, {
    hint: "Import into a new goal: choose a name that is free. Nothing was changed.",
    data: { reason: "IMPORT_NOT_EMPTY", goal: id },
  });
}

const words = (text: string): string[] => text.split(" ");

const MOST = { phases: 100, tasks: 500 };

const HANDLED = words(
  "title statement goal position progress decisions blockers sessions next_action resume_context " +
    "questions tasks revision digest",
);

const DECISION_KEYS = words(
  "date type context decision reason rationale alternatives_considered alternatives reversible",
);
const BLOCKER_KEYS = words(
  "status description affects identified_at blocked_since blocked_tasks workaround resolution",
);
const SESSION_KEYS = words(
  "id agent started ended status context_usage completed issues notes handoff_reason working_on",
);
const CONTEXT_KEYS = words("key_implementations open_questions files_modified_this_session files_modified");

const itemId = (letter: string, number: number): string => `${letter}-${String(number).padStart(3, "0")}`;

function importActs(
  state: GoalState,
  by: Actor,
  { row, sections }: ImportedText,
  hashes: ReadonlyMap<string, string>,
): Act<ImportNotes> {
  const importing = new Import(state, by);
  importing.phases(row);
  importing.sessions(rows(row["sessions"]));
  importing.tasks(row);
  importing.decisions(rows(row["decisions"]));
  importing.blockers(rows(row["blockers"]));
  importing.context(row, hashes);
  for (const [key, value] of Object.entries(row)) if (!HANDLED.includes(key)) importing.keep(key, value);
  for (const [name, content] of sections) importing.keep(`section.${name}`, content);
  importing.compare(row);
  const { draft, contradictions, assumed, kept } = importing;
  return { events: draft.events, result: { contradictions, assumed, kept } };
}

class Import {
  readonly draft: DraftBatch;
  readonly contradictions: string[] = [];
  readonly assumed: string[] = [];
  readonly kept: string[] = [];
  private readonly by: Actor;
  private readonly now: number;

  constructor(state: GoalState, by: Actor) {
    this.draft = new DraftBatch(state);
    this.by = by;
    this.now = state.updatedAt;
  }

  phases(row: Row): void {
    const position = map(row["position"]);
    const progress = map(row["progress"]);
    const names = phaseNames(row);
    const current = whole(position["phase"]) ?? 0;
    const name = line(position["phase_name"]);
    if (name && current > 0) names.set(current, name);
    const wanted = Math.max(whole(progress["phases_total"]) ?? 0, current, ...names.keys(), 0);
    if (wanted > MOST.phases)
      this.contradictions.push(`${wanted} phases were said, ${MOST.phases} were made`);
    const total = Math.min(wanted, MOST.phases);
    const completed = whole(progress["phases_completed"]) ?? Math.max(0, current - 1);
    for (let number = 1; number <= total; number++) {
      if (!names.has(number)) this.assumed.push(`phase ${number} has no name in the file`);
      const named = names.get(number) ?? `Phase ${number}`;
      const isTaken = this.draft.state.phases.some((each) => each.name.toLowerCase() === named.toLowerCase());
      if (isTaken) this.assumed.push(`phase ${number} has the name of another, so it got its number too`);
      const name = isTaken ? `${named} (${number})` : named;
      this.run((each) => planningActs.addPhase(each, this.by, { name }));
    }
    for (let number = 1; number <= Math.min(completed, total); number++) {
      if (number !== current) this.add({ type: "phase.completed", data: { by: this.by, phase: number } });
    }
    if (current >= 1 && current <= total) {
      this.add({ type: "phase.entered", data: { by: this.by, phase: current } });
      const plans = Math.min(whole(position["plan"]) ?? 0, MOST.phases);
      for (let number = 1; number <= plans; number++) {
        const name = (number === plans ? line(position["plan_name"]) : null) ?? `Plan ${number}`;
        this.run((each) => planningActs.addPlan(each, this.by, { phase: current, name }));
      }
    }
  }

  tasks(row: Row): void {
    const position = map(row["position"]);
    const progress = map(row["progress"]);
    const phase = whole(position["phase"]);
    const listed = rows(row["tasks"]);
    for (const each of listed) this.listedTask(each, phase);
    const title = line(position["task"]);
    const counted = whole(progress["current_phase_tasks"]) ?? 0;
    const done = whole(progress["current_phase_completed"]) ?? 0;
    if (listed.length > 0 || phase === null) {
      const isListed = listed.some((each) => line(each["title"])?.includes(title ?? ""));
      if (title && !isListed)
        this.contradictions.push(`position names ${quoteValue(title)}, which no list of tasks has`);
      return;
    }
    const total = Math.min(Math.max(counted, done + (title ? 1 : 0)), MOST.tasks);
    if (done > counted) this.contradictions.push(`${done} tasks are completed of ${counted}`);
    if (counted > MOST.tasks) this.contradictions.push(`${counted} tasks were said, ${MOST.tasks} were made`);
    const plan = whole(position["plan"]);
    for (let number = 1; number <= total; number++) {
      const isCurrent = title !== null && number === done + 1;
      const id = this.task(isCurrent ? title : `Phase ${phase}, task ${number}`, phase, {
        // Later tasks are in the plan of the current one: without a plan they would come before it.
        ...(number > done && plan !== null && { plan }),
        ...(number > done && { wave: whole(position["wave"]) ?? 1 }),
      });
      if (id && number <= done) this.run(finishTaskOf(id, this.by));
      if (id && isCurrent) this.begin(id, position["status"]);
    }
    const unnamed = total - (title ? 1 : 0);
    if (unnamed > 0) this.assumed.push(`${unnamed} tasks are counted but not named`);
  }

  private listedTask(each: Row, phase: number | null): void {
    const named = /^(?:T-\d+ +)?(?:\[([a-z_]+)\] +)?(.*)$/.exec(line(each["title"]) ?? "");
    const id = named?.[2] ? this.task(named[2], phase, {}) : null;
    if (id && each["done"] === true) this.run(finishTaskOf(id, this.by));
    if (id && named?.[1]) this.begin(id, named[1]);
  }

  private task(
    title: string,
    phase: number | null,
    place: { plan?: number; wave?: number; description?: string | null },
  ): string | null {
    const { given } = this.draft.state;
    this.run((state) =>
      planningActs.addTasks(state, this.by, [{ title, ...(phase !== null && { phase }), ...place }]),
    );
    const { T } = this.draft.state.given;
    return T > given.T ? itemId("T", T) : null;
  }

  /** Claims a running task for the session that was active; the next agent takes it over. */
  private begin(task: string, status: unknown): void {
    if (typeof status !== "string" || !/^in[ _-]progress|^executing/i.test(status)) return;
    const active = [...this.draft.state.history.values()].find((entry) => entry.status === "active");
    const data = { by: this.by, task, session: active?.id ?? null, token: 0 };
    this.add({ type: "task.claimed", data });
  }

  decisions(list: readonly Row[]): void {
    for (const each of list) {
      const date = day(each["date"]);
      const type =
        DECISION_TYPES.find((one) => one === each["type"]) ?? ("architecture" satisfies DecisionType);
      if (each["type"] !== type)
        this.assumed.push(`decision ${quoteValue(each["decision"])} has no type: taken as ${type}`);
      const decision = prose(each["decision"]) ?? prose(each["context"]) ?? "(nothing)";
      const input = {
        type,
        context: prose(each["context"]) ?? decision,
        decision,
        reason: prose(each["reason"]) ?? prose(each["rationale"]) ?? "Not said.",
        alternatives: strings(each["alternatives_considered"] ?? each["alternatives"]).map(alternative),
        reversible: each["reversible"] !== false,
      };
      const today = date ?? new Date(this.now).toISOString().slice(0, 10);
      this.run((state) => noteActs.decide(state, this.by, input, today, null));
      this.keepOthers(`decisions.${itemId("D", this.draft.state.given.D)}`, each, DECISION_KEYS);
    }
  }

  blockers(list: readonly Row[]): void {
    for (const each of list) {
      const status = typeof each["status"] === "string" ? each["status"] : "active";
      const named = strings(each["affects"]).map((word) => word.slice(0, LINE));
      const affects = [...named, ...this.blockedTasks(each["blocked_tasks"], named)];
      const description = prose(each["description"]) ?? "(nothing)";
      const workaround = prose(each["workaround"]);
      const since = time(each["identified_at"] ?? each["blocked_since"]);
      const input = { description, affects, workaround, identified: status !== "new" };
      const isReported = this.run((state) => {
        const act = noteActs.block(state, this.by, input);
        return since === null ? act : { ...act, events: act.events.map((event) => datedBack(event, since)) };
      });
      if (!isReported) continue;
      const id = itemId("B", this.draft.state.given.B);
      if (status === "bypassed") {
        const followUps = namedTasks(each["workaround_tasks"]);
        this.run((state) =>
          noteActs.bypass(state, this.by, { blocker: id, workaround: workaround ?? "Not said.", followUps }),
        );
      }
      if (status === "resolved") {
        const resolution = prose(each["resolution"]) ?? "Not said.";
        this.run((state) => noteActs.resolve(state, this.by, { blocker: id, resolution }));
      }
      const used = status === "bypassed" ? ["workaround_tasks"] : [];
      this.keepOthers(`blockers.${id}`, each, [...BLOCKER_KEYS, ...used]);
    }
  }

  /** Adds the tasks that a blocker names, to the first phase that it affects. Returns their ids. */
  private blockedTasks(named: unknown, affects: readonly string[]): string[] {
    const { phases } = this.draft.state;
    const numbers = affects.map((word) => Number(/^phase (\d+)\b/i.exec(word)?.[1]));
    const phase = phases.find(({ number }) => numbers.includes(number))?.number ?? null;
    return namedTasks(named).map(({ title, description }) => {
      const known = [...this.draft.state.tasks.values()].find((task) => task.title === title);
      return known?.id ?? this.task(title, phase, { description }) ?? title;
    });
  }

  sessions(list: readonly Row[]): void {
    for (const [index, each] of list.entries()) {
      const session = (line(each["id"]) ?? `session-${String(index + 1).padStart(3, "0")}`).slice(0, 128);
      const { by } = this;
      const startedAt = time(each["started"]);
      const working = prose(each["working_on"]);
      const notes = working === null ? null : `Working on: ${working}`;
      const agent = line(each["agent"]) ?? "unknown";
      const started = { by, session, agent, resumes: null, notes, ...(startedAt !== null && { startedAt }) };
      if (!this.add({ type: "session.started", data: started })) continue;
      const noted = {
        contextUsage: usage(each["context_usage"]),
        issues: strings(each["issues"]).map((issue) => issue.slice(0, TEXT)),
        notes: prose(each["notes"]),
      };
      const endedAt = time(each["ended"]);
      const completed = strings(each["completed"]).map((item) => item.slice(0, LINE));
      if (each["status"] === "crashed") {
        this.add({ type: "session.noted", data: { by, session, ...noted } });
        this.add({ type: "session.crashed", data: { by, session, notes: null } });
      } else if (endedAt !== null || each["status"] === "ended") {
        const handoffReason = prose(each["handoff_reason"]);
        const ended = { ...noted, completed, handoffReason, ...(endedAt !== null && { endedAt }) };
        this.add({ type: "session.ended", data: { by, session, ...ended } });
      } else this.add({ type: "session.noted", data: { by, session, ...noted } });
      this.keepOthers(`sessions.${session}`, each, SESSION_KEYS);
    }
  }

  context(row: Row, hashes: ReadonlyMap<string, string>): void {
    const next = prose(row["next_action"]);
    const { task } = positionOf(this.draft.state);
    const running = this.draft.state.tasks.get(task ?? "")?.status === "in_progress" ? task : null;
    if (next !== null || running !== null)
      this.run((state) => sessionActs.setNext(state, this.by, { text: next, task: running }));
    const context = map(row["resume_context"]);
    for (const text of strings(context["key_implementations"])) {
      this.run((state) => noteActs.implementation(state, this.by, { text: text.slice(0, TEXT) }));
    }
    for (const text of [...strings(context["open_questions"]), ...strings(row["questions"])]) {
      this.run((state) => noteActs.ask(state, this.by, text.replace(/^Q-\d+ +/, "").slice(0, TEXT)));
    }
    const files = strings(context["files_modified_this_session"] ?? context["files_modified"]);
    const act = "modified" as const;
    const recorded = files
      .filter(isRelativePath)
      .map((path) => ({ path, hash: hashes.get(path) ?? UNSEEN_HASH, act }));
    const active = [...this.draft.state.history.values()].findLast(({ status }) => status === "active");
    const session = active?.id ?? null;
    if (recorded.length > 0)
      this.run((state) => noteActs.recordFiles(state, this.by, { files: recorded, session }));
    const missing = recorded.filter(({ hash }) => hash === UNSEEN_HASH);
    for (const { path } of missing) this.contradictions.push(`${path} was modified, but is not there`);
    const unusable = files.filter((path) => !isRelativePath(path));
    if (unusable.length > 0) this.keep("files_modified", unusable);
    this.keepOthers("resume_context", context, CONTEXT_KEYS);
  }

  compare(row: Row): void {
    const claims = map(row["progress"]);
    if (Object.keys(claims).length === 0) return;
    const found = progressOf(this.draft.state);
    const computed: Record<string, number> = {
      phases_total: found.phasesTotal,
      phases_completed: found.phasesCompleted,
      current_phase_tasks: found.currentPhaseTasks,
      current_phase_completed: found.currentPhaseCompleted,
      percent: found.percent,
    };
    for (const [name, value] of Object.entries(computed)) {
      const claimed = whole(claims[name]);
      if (claimed !== null && claimed !== value)
        this.contradictions.push(`progress.${name} is ${claimed}, the tasks say ${value}`);
    }
    const bar = typeof claims["bar"] === "string" ? /(\d{1,3})%/.exec(claims["bar"])?.[1] : undefined;
    if (bar !== undefined && Number(bar) !== found.percent) {
      this.contradictions.push(`the bar says ${bar}%, the tasks say ${found.percent}%`);
    }
    this.keep("progress", claims);
    this.keep("position", map(row["position"]));
  }

  keep(name: string, value: unknown): void {
    if (value === undefined || value === null) return;
    const key = `imported.${name}`.slice(0, LINE);
    const input = { key, value: value as Json, source: "imported" };
    if (this.run((state) => noteActs.fact(state, this.by, input))) this.kept.push(key);
  }

  private keepOthers(name: string, row: Row, known: readonly string[]): void {
    const others = Object.entries(row).filter(([key, value]) => !known.includes(key) && value !== null);
    if (others.length > 0) this.keep(name, Object.fromEntries(others));
  }

  private add(event: GoalDraft): boolean {
    return this.run(() => ({ events: [event], result: null }));
  }

  /** An act that the goal refuses becomes a contradiction, and does not stop the import. */
  private run(act: (state: GoalState) => Act<unknown>): boolean {
    try {
      const one = new DraftBatch(this.draft.state);
      for (const event of act(this.draft.state).events) one.add(event);
      for (const event of one.events) this.draft.add(event);
      return true;
    } catch (error) {
      if (!isHoldfastError(error)) throw error;
      this.contradictions.push(error.message);
      return false;
    }
  }
}

function datedBack(event: GoalDraft, since: number): GoalDraft {
  if (event.type === "blocker.reported") return { ...event, data: { ...event.data, reportedAt: since } };
  if (event.type === "blocker.identified") return { ...event, data: { ...event.data, identifiedAt: since } };
  return event;
}

/** `task-xyz: "Configure it"` is a task with that title; its name is kept in the description. */
function namedTasks(value: unknown): { title: string; description: string | null }[] {
  return strings(value).map((text) => {
    const named = /^([\w.-]+): *"?(.*?)"?$/.exec(text);
    if (!named?.[1] || !named[2]) return { title: text.slice(0, LINE), description: null };
    return { title: named[2].slice(0, LINE), description: `Imported as ${named[1]}.` };
  });
}

function finishTaskOf(id: string, by: Actor): (state: GoalState) => Act<unknown> {
  const finish = finishTask(id, "the imported file");
  return (state) => finish(state, by);
}

function phaseNames(row: Row): Map<number, string> {
  const names = new Map<number, string>();
  const words = [...rows(row["blockers"]), ...rows(row["sessions"])].flatMap((each) => [
    ...strings(each["affects"]),
    ...strings(each["completed"]),
  ]);
  for (const word of words) {
    const named = /^Phase (\d{1,3}): (.+)$/.exec(word);
    if (named?.[1] && named[2]) names.set(Number(named[1]), named[2].slice(0, LINE));
  }
  return names;
}

function alternative(text: string): { option: string; whyNot: string } {
  const colon = text.indexOf(": ");
  if (colon <= 0) return { option: text.slice(0, LINE), whyNot: "Not said." };
  return {
    option: text.slice(0, colon).slice(0, LINE),
    whyNot: text.slice(colon + 2).slice(0, TEXT) || "Not said.",
  };
}
