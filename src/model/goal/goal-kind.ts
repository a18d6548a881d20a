/**
 * Goals as a kind of stream: their events, and their rows in lists and views.
 *
 * Before events are appended, they are applied to a branch of the state to find the rows that change. So an
 * event that the transition tables reject throws here, before anything is durable.
 */

import { freezeJson } from "../json.ts";
import { quoteText } from "../names.ts";
import type {
  Draft,
  DraftOf,
  Event,
  EventSchema,
  EventSpec,
  FacetChange,
  Item,
  StreamFacets,
  StreamKind,
} from "../stream/index.ts";
import { applyEvent, checkedDraft, event, expiryOf, makeEvent } from "../stream/index.ts";
import { type Entry, MERGED } from "./entries.ts";
import { type EventData, eventSchemas, type GoalEventType } from "./event-schemas.ts";
import { goalFold } from "./goal-fold.ts";
import { branchGoal, encodeGoal, type GoalState } from "./goal-state.ts";
import { endsWithItsTask, firstLine, type Merge, mergeNoteText, noteId } from "./merge-notes.ts";
import { type WaitingAct, waitingActs, waitingText } from "./origin.ts";
import { positionOf, progressOf } from "./position.ts";
import { blockedTasks, displayStatus, type Survey, surveyGoal } from "./survey.ts";
import type { DisplayStatus, Task } from "./task.ts";

type GoalEvents = {
  readonly [Type in GoalEventType]: EventSpec<GoalState, EventData<Type>>;
};

const goalEvents = Object.fromEntries(
  Object.entries(goalFold.events).map(([type, { version, apply }]) => {
    const schema = eventSchemas[type as GoalEventType] as EventSchema<never>;
    return [type, event(version, schema, apply)];
  }),
) as unknown as GoalEvents;

export type GoalDraft<Type extends keyof GoalEvents = keyof GoalEvents> = Extract<
  DraftOf<GoalEvents>,
  { readonly type: Type }
>;

export const goalKind: StreamKind<GoalState, GoalEvents> = {
  ...goalFold,
  events: goalEvents,
  encode: encodeGoal,
  facets: goalFacets,
};

/** Entries whose event fits its schema. They are frozen, so that this stays true. */
const checked = new WeakSet<Entry>();

/**
 * Whether the event of an entry fits its schema. A positive answer is remembered for `mergedDraft`, because
 * checking costs as much as all other parts of a merge.
 */
export function checkEntry(entry: Entry): boolean {
  const { schema } = goalEvents[entry.type as GoalEventType];
  if (!schema.safeParse({ ...entry.data, uid: entry.uid }).success) return false;
  checked.add(freezeJson(entry));
  return true;
}

/**
 * A `goal.merged` event. Checked entries are neither copied nor checked again. Nor is the delta:
 * `foldEntries` has found that its state is plain JSON.
 */
export function mergedDraft(data: EventData<typeof MERGED>): Draft {
  const { entries, delta, ...rest } = data;
  if (!entries.every((entry) => checked.has(entry))) return { type: MERGED, data };
  const { schema } = goalEvents[MERGED];
  const empty = { ...rest, entries: [], delta: { maps: {}, values: {} } };
  const { data: plain } = makeEvent(goalKind, { type: MERGED, data: empty }, 0);
  return checkedDraft(MERGED, freezeJson({ ...(plain as typeof data), entries, delta }), schema);
}

export type GoalStatus = "active" | "blocked" | "done";

export function goalStatus(survey: { isDone: boolean; impact: { escalate: boolean } }): GoalStatus {
  if (survey.isDone) return "done";
  return survey.impact.escalate ? "blocked" : "active";
}

function goalFacets(
  state: GoalState,
  events: readonly Event[],
  firstSeq: number,
  isEncoded = false,
): FacetChange {
  const next = branchGoal(state);
  events.forEach((each, index) => {
    applyEvent(goalKind, next, each, firstSeq + index);
  });
  const facets: { -readonly [Key in keyof StreamFacets]: StreamFacets[Key] } = {
    expiresAt: next.ttlMs === null ? null : expiryOf(next.touchedAt, next.ttlMs),
  };
  const title = next.title ?? next.statement;
  if (state.id === "" || title !== (state.title ?? state.statement)) facets.title = short(title);
  // No other event changes which tasks are blocked or done.
  const changesWork = events.some(({ type }) => /^(goal|phase|task|blocker)\./.test(type));
  const positions = new LogPositions(next, events);
  const notes = noteItems(state, next, positions, isEncoded);
  if (!changesWork) return { facets, items: notes };
  const survey = surveyGoal(next);
  facets.status = goalStatus(survey);
  const statuses = new Map<string, DisplayStatus>();
  const before = blockedTasks(state);
  for (const task of next.tasks.values()) {
    const shown = displayStatus(task, survey.blockedBy.has(task.id));
    const old = state.tasks.get(task.id);
    const wasShown = old && displayStatus(old, before.has(task.id));
    if (old !== task || shown !== wasShown) statuses.set(task.id, shown);
  }
  const rows = [...taskItems(state, next, statuses, positions), ...notes, positionItem(next, survey)];
  return { facets, items: [...rows, ...mergeItems(state, next), ...waitingItems(state, next)] };
}

/** The events that wait for a person, as rows: `status` shows them without folding the goal. */
function waitingItems(before: GoalState, next: GoalState): Item[] {
  if (before.waiting === next.waiting) return [];
  const { seq } = next.merges.at(-1) ?? { seq: 0 };
  const now = new Set(waitingActs(next).map(({ uid }) => uid));
  const then = new Set(waitingActs(before).map(({ uid }) => uid));
  const row = (act: WaitingAct, doneAt: number | null): Item => {
    const name = short(`${waitingText(act)} by ${quoteText(act.by.name)}`);
    return { kind: "held", id: act.uid, name, status: "waiting", seq, at: act.at, doneAt };
  };
  return [
    ...waitingActs(before).flatMap((act) => (now.has(act.uid) ? [] : [row(act, next.updatedAt)])),
    ...waitingActs(next).flatMap((act) => (then.has(act.uid) ? [] : [row(act, null)])),
  ];
}

/** The notes of a merge as rows. `key`: the task whose end makes the note obsolete. */
function mergeItems({ merges: before }: GoalState, { merges, updatedAt }: GoalState): Item[] {
  const itemsOf = (rows: readonly Merge[], doneAt: number | null): Item[] =>
    rows.flatMap(({ seq, at = 0, notes = [] }) =>
      notes.map((note) => {
        const about = (note.kind === "renumbered" ? note.now : note.item) ?? "";
        const key = endsWithItsTask(note) ? about : "";
        const [id, name] = [noteId(note), short(mergeNoteText(note))];
        return { kind: "merge", id, name, status: note.kind, key, seq, at, doneAt };
      }),
    );
  if (merges.length === before.length) return [];
  const kept = new Set(merges.flatMap(({ notes = [] }) => notes.map(noteId)));
  const gone = before.map((each) => ({
    ...each,
    notes: each.notes?.filter((note) => !kept.has(noteId(note))) ?? [],
  }));
  return [...itemsOf(gone, updatedAt), ...itemsOf(merges.slice(before.length), null)];
}

/** Converts revisions of the goal, which records hold, to positions in this log, which rows hold. */
class LogPositions {
  private readonly last: { readonly seq: number; readonly revision: number };
  private readonly isMerge: boolean;

  constructor({ merges }: GoalState, events: readonly Event[]) {
    this.last = merges.at(-1) ?? { seq: 0, revision: 0 };
    this.isMerge = events.some(({ type }) => type === MERGED);
  }

  /** Only what the store does not have yet. Records that a merge added or moved are at its position. */
  of(now: Revisions, old: Revisions | undefined): { seq?: number; endSeq?: number } {
    const seq = this.at(now.seq, old?.seq);
    const endSeq = this.at(now.endSeq ?? null, old?.endSeq);
    return { ...(seq !== null && { seq }), ...(endSeq !== null && { endSeq }) };
  }

  private at(revision: number | null, old: number | null | undefined): number | null {
    if (revision === null || (revision === old && !this.isMerge)) return null;
    const { seq, revision: merged } = this.last;
    return revision <= merged ? seq : seq + revision - merged;
  }
}

interface Revisions {
  readonly seq: number;
  readonly endSeq?: number | null;
}

/** Position and progress, for the view `initiative_state`. It has no texts, and is never an open item. */
function positionItem(state: GoalState, survey: Survey): Item {
  const { phase, plan, task, wave, status } = positionOf(state, survey);
  const { phasesTotal, phasesCompleted, currentPhaseTasks, currentPhaseCompleted, percent, bar } = progressOf(
    state,
    survey,
  );
  const progress = {
    phases_total: phasesTotal,
    phases_completed: phasesCompleted,
    current_phase_tasks: currentPhaseTasks,
    current_phase_completed: currentPhaseCompleted,
    percent,
    bar,
  };
  const key = JSON.stringify({ phase, plan, task, wave, progress });
  const at = state.updatedAt;
  return { kind: "position", id: "current", status, key, at, doneAt: at };
}

function taskItems(
  state: GoalState,
  next: GoalState,
  statuses: ReadonlyMap<string, DisplayStatus>,
  positions: LogPositions,
): Item[] {
  const items: Item[] = [];
  for (const [id, status] of statuses) {
    const task = next.tasks.get(id);
    if (task) items.push({ ...taskItem(task, status), ...positions.of(task, state.tasks.get(id)) });
  }
  return items;
}

/** `key` of a decision, a blocker or a session has the fields that only its SQL view shows, as JSON. */
function noteItems(state: GoalState, next: GoalState, positions: LogPositions, isEncoded: boolean): Item[] {
  const items: Item[] = [];
  const details = (fields: object): string => (isEncoded ? "" : JSON.stringify(fields));
  for (const row of changed(state.decisions, next.decisions)) {
    const { id, decision, supersededBy, at } = row;
    const where = positions.of(row, state.decisions.get(id));
    const isCurrent = supersededBy === null;
    const end = isCurrent
      ? { status: "current", doneAt: null }
      : { status: "superseded", doneAt: next.updatedAt };
    const { context, reason, alternatives, reversible, date } = row;
    const key = details({ context, reason, alternatives, reversible, date });
    items.push({ kind: "decision", id, name: short(decision), key, ...where, at, ...end });
  }
  for (const row of changed(state.blockers, next.blockers)) {
    const { id, description, status, reportedAt: at, resolvedAt: doneAt } = row;
    const where = positions.of(row, state.blockers.get(id));
    const { affects, workaround, resolution } = row;
    const key = details({ affects, workaround, resolution });
    items.push({ kind: "blocker", id, name: short(description), key, status, ...where, at, doneAt });
  }
  for (const row of changed(state.history, next.history)) {
    const { id, agent, status, startedAt: at, endedAt: doneAt } = row;
    const where = positions.of(row, state.history.get(id));
    const { contextUsage, completed, issues, handoffReason } = row;
    const key = details({ contextUsage, completed, issues, handoffReason });
    items.push({ kind: "history", id, name: short(agent), key, status, ...where, at, doneAt });
  }
  return items;
}

/** `key`: phase, plan and wave, e.g. `2.1.3`. */
function taskItem(task: Task, status: DisplayStatus): Item {
  const { id, createdAt, doneAt, phase, plan, wave } = task;
  const key = `${phase}.${plan ?? "-"}.${wave}`;
  return { kind: "task", id, name: short(task.title), status, key, at: createdAt, doneAt };
}

function* changed<Row>(old: ReadonlyMap<string, Row>, now: ReadonlyMap<string, Row>): Generator<Row> {
  for (const [id, row] of now) if (old.get(id) !== row) yield row;
}

const short = (text: string): string => firstLine(text, 200);
