/** Hand edits of agent_state.json and task_board.json. Changes of computed values are only reported. */

import { noteActs, planningActs, sessionActs, type TaskInput } from "../goal/index.ts";
import { BUILD_TASK, REVIEW_TASK, TASK_PLAN, type TaskStatus } from "../model/goal/index.ts";
import { type Json, sameJson } from "../model/json.ts";
import type { Change } from "./edit-changes.ts";
import { change, dropTask, finishTask, removedTasks, reopenTask, unless } from "./edit-changes.ts";
import { editableColumns } from "./record-rows.ts";
import { newAssumption, newQuestion } from "./state-page-edits.ts";

type Row = Readonly<Record<string, unknown>>;

const same = (a: unknown, b: unknown): boolean => sameJson(a ?? null, b ?? null);

/** Written by every rendering; a change of these means nothing. */
const NOT_CONTENT = ["schema_version", "run_id", "revision", "digest", "updated_at", "last_human_touch"];

export function agentStateChanges(from: Row, to: Row): Change[] {
  const found: Change[] = [];
  const handled = [
    ...["title", "original_goal", "settings", "next_action", "confirmed_facts", "questions"],
    "assumptions",
  ];
  for (const name of new Set([...Object.keys(from), ...Object.keys(to)])) {
    if (handled.includes(name) || NOT_CONTENT.includes(name) || same(from[name], to[name])) continue;
    found.push(change(name, to[name], `${name} is computed`, null));
  }
  const { settings, ...top } = DESCRIBED;
  return [
    ...found,
    ...describedChanges(from, to, top, ""),
    ...describedChanges(from["settings"] as Row, to["settings"] as Row, settings, "settings."),
    ...nextChange(from["next_action"] as Row | null, to["next_action"] as Row | null),
    ...factChanges(from["confirmed_facts"] as Row, to["confirmed_facts"] as Row),
    ...questionChanges(from["questions"] as Row[], to["questions"] as Row[]),
    ...assumptionChanges(from["assumptions"] as Row[], to["assumptions"] as Row[]),
  ];
}

/** Members that `describe` changes, and the name of each in its input. */
const DESCRIBED = {
  title: "title",
  original_goal: "statement",
  settings: { ttl_ms: "ttlMs", verification: "verification", max_attempts: "maxAttempts" },
} as const;

function describedChanges(from: Row, to: Row, names: Record<string, string>, prefix: string): Change[] {
  const changed = Object.entries(names).filter(([name]) => !same(from[name], to[name]));
  return changed.map(([name, input]) => {
    const key = prefix === "" ? input : prefix + name;
    return change(key, to[name], `${key}: ${String(to[name])}`, (state, by) =>
      planningActs.describe(state, by, { [input]: to[name] }),
    );
  });
}

function nextChange(from: Row | null, to: Row | null): Change[] {
  const content = (row: Row | null): unknown => row && { text: row["text"], task: row["task"] };
  if (same(content(from), content(to))) return [];
  const input = to && { text: to["text"] as string | null, task: to["task"] as string | null };
  return [change("next", content(to), "next_action", (state, by) => sessionActs.setNext(state, by, input))];
}

function factChanges(from: Row, to: Row): Change[] {
  const found: Change[] = [];
  const content = (row: Row | undefined): unknown =>
    row && { value: row["value"] ?? null, source: row["source"], expires_at: row["expires_at"] ?? null };
  for (const key of new Set([...Object.keys(from), ...Object.keys(to)])) {
    const old = Object.hasOwn(from, key) ? (from[key] as Row) : undefined;
    const row = Object.hasOwn(to, key) ? (to[key] as Row) : undefined;
    if (same(content(old), content(row))) continue;
    if (!row) {
      const act = unless(
        (state) => !state.facts.has(key),
        (state, by) => noteActs.forget(state, by, { key, why: "Removed from agent_state.json by hand." }),
      );
      found.push(change(`fact:${key}`, undefined, `fact ${key} forgotten`, act));
      continue;
    }
    const input = {
      key,
      value: (row["value"] ?? null) as Json,
      source: row["source"] as string,
      expiresAt: timeOf(row["expires_at"]),
    };
    const act: Change["act"] = (state, by) => noteActs.fact(state, by, input);
    found.push(change(`fact:${key}`, content(row), `fact ${key}`, act));
  }
  return found;
}

function timeOf(value: unknown): number | null {
  return typeof value === "string" ? Date.parse(value) : ((value as number | undefined) ?? null);
}

function questionChanges(from: readonly Row[], to: readonly Row[]): Change[] {
  const before = new Map(from.map((row) => [row["id"] as string, row]));
  const found: Change[] = [];
  for (const row of to) {
    const id = row["id"] as string | undefined;
    const text = row["text"] as string;
    const old = id === undefined ? undefined : before.get(id);
    if (!old) {
      found.push(newQuestion(text));
      continue;
    }
    if (!same(old["text"], text))
      found.push(change(`question text:${id}`, text, `${id}: its text is fixed`, null));
    if (same(old["answer"], row["answer"])) continue;
    const answer = row["answer"] as string | undefined;
    const act: Change["act"] =
      answer === undefined
        ? null
        : (state, by) => noteActs.answer(state, by, { question: id as string, answer });
    found.push(change(`question:${id}`, answer, `${id} answered`, act));
  }
  const after = new Set(to.map((row) => row["id"]));
  for (const id of before.keys()) {
    if (!after.has(id))
      found.push(change(`question:${id}`, null, `${id} was removed: answer it instead`, null));
  }
  return found;
}

/** A person settles one by its `status` and `evidence`. */
function assumptionChanges(from: readonly Row[], to: readonly Row[]): Change[] {
  const before = new Map(from.map((row) => [row["id"] as string, row]));
  const found: Change[] = [];
  for (const row of to) {
    const id = row["id"] as string | undefined;
    const text = row["text"] as string;
    const old = id === undefined ? undefined : before.get(id);
    if (!old) {
      found.push(newAssumption(text));
      continue;
    }
    if (!same(old["text"], text))
      found.push(change(`assumption text:${id}`, text, `${id}: its text is fixed`, null));
    const { status, evidence } = row as { status?: string; evidence?: string };
    if (same(old["status"], status)) continue;
    if ((status !== "confirmed" && status !== "refuted") || evidence === undefined) {
      found.push(change(`assumption:${id}`, status, `${id}: set status and evidence together`, null));
      continue;
    }
    const act: Change["act"] = (state, by) =>
      noteActs.settle(state, by, { assumption: id as string, status, evidence });
    found.push(change(`assumption:${id}`, status, `${id} ${status}`, act));
  }
  const after = new Set(to.map((row) => row["id"]));
  for (const id of before.keys()) {
    if (!after.has(id))
      found.push(change(`assumption:${id}`, null, `${id} was removed: refute it instead`, null));
  }
  return found;
}

/** `since`: the revision of the base. An equal task that the goal got later came from this edit. */
export function taskBoardChanges(from: Row, to: Row, since: number): Change[] {
  const before = new Map((from["tasks"] as Row[]).map((row) => [row["id"] as string, row]));
  const after = new Map((to["tasks"] as Row[]).map((row) => [row["id"] as string, row]));
  const found = phaseChanges(from["phases"] as Row[], to["phases"] as Row[]);
  if (!same(from["aliases"], to["aliases"])) found.push(change("aliases", to["aliases"], "aliases", null));
  for (const [id, row] of after) {
    const old = before.get(id);
    if (old) found.push(...taskChanges(id, old, row));
    else found.push(newTask(id, row, since));
  }
  found.push(...removedTasks(before, after, "task_board.json"));
  return found;
}

const EDITABLE = editableColumns({ ...TASK_PLAN, ...BUILD_TASK, ...REVIEW_TASK });
const STATUSES = ["status", "own_status", "blocked_by"];

/** One change: a plan only makes sense within its phase. */
const PLACE: readonly string[] = ["phase", "plan"];

function taskChanges(id: string, old: Row, row: Row): Change[] {
  const found: Change[] = [];
  const edit = (key: string, names: readonly string[]): void => {
    const input = Object.fromEntries(names.map((name) => [EDITABLE.get(name) ?? name, row[name] ?? null]));
    const what = `${id}: ${names.join(" and ")}`;
    found.push(
      change(`${key}:${id}`, input, what, (state, by) =>
        planningActs.editTask(state, by, { task: id, change: input }),
      ),
    );
  };
  const changed = [...new Set([...Object.keys(old), ...Object.keys(row)])].filter(
    (name) => !same(old[name], row[name]),
  );
  for (const name of changed) {
    if (STATUSES.includes(name) || PLACE.includes(name) || name === "updated_at") continue;
    if (EDITABLE.has(name)) edit(name, [name]);
    else found.push(change(`${name}:${id}`, row[name], `${id}: ${name} is computed`, null));
  }
  if (changed.some((name) => PLACE.includes(name))) edit("place", ["phase", "plan"]);
  const status = (each: Row): TaskStatus => (each["own_status"] ?? each["status"]) as TaskStatus;
  const isSame = same(old["status"], row["status"]) && same(old["own_status"], row["own_status"]);
  if (!isSame) found.push(statusChange(id, status(old), row["status"] as TaskStatus | "blocked"));
  return found;
}

function statusChange(id: string, before: TaskStatus, after: TaskStatus | "blocked"): Change {
  const file = "task_board.json";
  const key = `done:${id}`;
  if (after === "done") return change(key, true, `${id} done`, finishTask(id, file));
  if (after === "dropped") return change(`drop:${id}`, true, `${id} dropped`, dropTask(id, file));
  if (after === "open" && before !== "in_progress")
    return change(key, false, `${id} open again`, reopenTask(id, file));
  return change(`status:${id}`, after, `${id}: ${before} cannot become ${after} by hand`, null);
}

/** The goal gives the number; the one in the file only tells new tasks apart. */
function newTask(id: string, row: Row, since: number): Change {
  const input = Object.fromEntries(
    [...EDITABLE].filter(([name]) => row[name] !== undefined).map(([name, field]) => [field, row[name]]),
  );
  const task = { ...input, kind: row["kind"] } as unknown as TaskInput;
  const act = unless(
    (state) => [...state.tasks.values()].some(({ title, seq }) => title === row["title"] && seq > since),
    (state, by) => planningActs.addTasks(state, by, [task]),
  );
  return change(`new task:${String(row["title"])}`, true, `new task ${id}: ${String(row["title"])}`, act);
}

function phaseChanges(from: readonly Row[], to: readonly Row[]): Change[] {
  const found: Change[] = [];
  for (const [index, phase] of from.entries()) {
    const now = to[index];
    const number = phase["number"] as number;
    const plans = phase["plans"] as Row[];
    const nowPlans = (now?.["plans"] as Row[] | undefined) ?? [];
    const isUnchanged =
      now && same(phase["name"], now["name"]) && same(plans, nowPlans.slice(0, plans.length));
    const added = nowPlans.slice(plans.length).map((plan) => newPlan(number, plan["name"] as string));
    if (isUnchanged) found.push(...added);
    else found.push(change(`phase:${number}`, now, `phase ${number} cannot be renamed or removed`, null));
  }
  for (const phase of to.slice(from.length)) {
    const name = phase["name"] as string;
    const plans = (phase["plans"] as Row[]).map((plan) => plan["name"] as string);
    const act = unless(
      (state) => state.phases.some((each) => each.name === name),
      (state, by) => planningActs.addPhase(state, by, { name, plans }),
    );
    found.push(change(`new phase:${name}`, true, `new phase: ${name}`, act));
  }
  return found;
}

function newPlan(phase: number, name: string): Change {
  const act = unless(
    ({ phases }) =>
      phases.some(({ number, plans }) => number === phase && plans.some((plan) => plan.name === name)),
    (state, by) => planningActs.addPlan(state, by, { phase, name }),
  );
  return change(`new plan:${phase}:${name}`, true, `new plan in phase ${phase}: ${name}`, act);
}
