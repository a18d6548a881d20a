/**
 * The state of a goal: the fold of its log up to one position.
 *
 * Position, progress, blocked tasks and paused phases are not part of it: they are computed. Records are
 * immutable and replaced whole; only the collections change in place. So `branchGoal` costs no more than
 * copying references.
 */

import { HoldfastError } from "../errors.ts";
import type { Json } from "../json.ts";
import { quoteValue } from "../names.ts";
import { exactAge } from "../time.ts";
import { CLOCK_START, type Clock, EventIds } from "./entries.ts";
import type { Merge } from "./merge-notes.ts";
import {
  type Assumption,
  type Blocker,
  type Counters,
  type DecisionRecord,
  type Fact,
  type FileRecord,
  type HistoryEntry,
  type KeyImplementation,
  type NextAction,
  NO_COUNTERS,
  type Question,
  type TakenEdit,
} from "./notes.ts";
import type { EventSource, WaitingAct } from "./origin.ts";
import type { Verification } from "./roles.ts";
import type { Task } from "./task.ts";

export const DEFAULT_TTL_MS = 72 * 3_600_000;
export const DEFAULT_MAX_ATTEMPTS = 3;

export interface GoalPhase {
  readonly number: number;
  readonly name: string;
  readonly plans: readonly { readonly number: number; readonly name: string }[];
  /** When it was declared complete. A phase with unfinished tasks is not complete all the same. */
  readonly closedAt: number | null;
}

export type CheckpointKind = "task_completed" | "phase_changed" | "significant_finding" | "error_occurred";

export interface GoalCheckpoint {
  readonly kind: CheckpointKind;
  readonly about: string;
  readonly seq: number;
  readonly at: number;
}

export interface GoalState {
  id: string;
  statement: string;
  title: string | null;
  createdAt: number;
  updatedAt: number;
  touchedAt: number; // When a person or agent last changed it; notes of hooks and supervisors do not count.
  humanAt: number | null; // When a person last wrote; agents hold back their writes for a moment.
  ttlMs: number | null;
  verification: Verification;
  maxAttempts: number;
  phases: readonly GoalPhase[];
  phasesRevision: number;
  focus: number | null; // The phase that was moved to last; it is the current one while it has work to do.
  tasks: Map<string, Task>;
  aliases: Map<string, string>;
  facts: Map<string, Fact>;
  decisions: Map<string, DecisionRecord>;
  blockers: Map<string, Blocker>;
  files: Map<string, FileRecord>;
  history: Map<string, HistoryEntry>;
  questions: Map<string, Question>;
  assumptions: Map<string, Assumption>;
  implementations: KeyImplementation[];
  next: NextAction | null;
  counters: Counters;
  checkpoint: GoalCheckpoint | null;
  /** The highest number given so far for each kind of id; numbers are not reused. */
  given: {
    readonly T: number;
    readonly D: number;
    readonly B: number;
    readonly Q: number;
    readonly A: number;
  };
  /** How many events the goal has, merged ones included: equal in all copies that have the same events. */
  revision: number;
  clock: Clock;
  names: Map<string, string>; // `T-014`, `P2`, `P2.1` → the uid of the event that made it.
  known: EventIds;
  /** The events that other copies wrote: uid → place in `sources`, -1 if nothing is known of it. */
  origins: Map<string, number>;
  sources: readonly EventSource[];
  /** The events with a signature that was made or verified here: uid → name of the signer. */
  signed: Map<string, string>;
  /** The events that have no effect here until a person confirms them: see `origin.ts`. */
  waiting: readonly WaitingAct[];
  /** Ids that a merge gave and no event has made final yet. */
  unsettled: readonly { readonly uid: string; readonly name: string }[];
  merges: readonly Merge[];
  edits: Map<string, TakenEdit>;
}

export function emptyGoal(): GoalState {
  return {
    id: "",
    statement: "",
    title: null,
    createdAt: 0,
    updatedAt: 0,
    touchedAt: 0,
    humanAt: null,
    ttlMs: DEFAULT_TTL_MS,
    verification: "separate",
    maxAttempts: DEFAULT_MAX_ATTEMPTS,
    phases: [],
    phasesRevision: 0,
    focus: null,
    tasks: new Map(),
    aliases: new Map(),
    facts: new Map(),
    decisions: new Map(),
    blockers: new Map(),
    files: new Map(),
    history: new Map(),
    questions: new Map(),
    assumptions: new Map(),
    implementations: [],
    next: null,
    counters: NO_COUNTERS,
    checkpoint: null,
    given: { T: 0, D: 0, B: 0, Q: 0, A: 0 },
    revision: 0,
    clock: CLOCK_START,
    names: new Map(),
    known: new EventIds(),
    origins: new Map(),
    sources: [],
    signed: new Map(),
    waiting: [],
    unsettled: [],
    merges: [],
    edits: new Map(),
  };
}

const RECORD_KEYS = {
  tasks: "id",
  facts: "key",
  decisions: "id",
  blockers: "id",
  files: "path",
  history: "id",
  questions: "id",
  assumptions: "id",
  edits: "file",
} as const satisfies Partial<Record<keyof GoalState, string>>;
const RECORD_MAPS = Object.keys(RECORD_KEYS) as (keyof typeof RECORD_KEYS)[];
const NAME_MAPS = ["aliases", "names"] as const satisfies readonly (keyof GoalState)[];
export const GOAL_MAPS = [...RECORD_MAPS, ...NAME_MAPS] as const;

export function branchGoal(state: GoalState): GoalState {
  const implementations = [...state.implementations];
  const [origins, signed] = [new Map(state.origins), new Map(state.signed)];
  const branch = { ...state, known: state.known.branch(), origins, signed, implementations };
  const maps = branch as unknown as Record<string, Map<string, unknown>>;
  for (const name of GOAL_MAPS) maps[name] = new Map<string, unknown>(state[name]);
  return branch;
}

/** Maps become lists, so that a snapshot is plain JSON and no key can collide with a prototype. */
export function encodeGoal(state: GoalState): Json {
  const { known, origins, signed } = state;
  const encoded: Record<string, unknown> = {
    ...state,
    known: [...known],
    origins: [...origins],
    signed: [...signed],
  };
  for (const name of RECORD_MAPS) encoded[name] = [...state[name].values()];
  for (const name of NAME_MAPS) encoded[name] = [...state[name]];
  return encoded as Json;
}

export function decodeGoal(json: Json): GoalState {
  const stored = json as Record<string, unknown>;
  const decoded: Record<string, unknown> = {
    ...stored,
    known: new EventIds(stored["known"] as string[]),
    origins: new Map(stored["origins"] as [string, number][]),
    signed: new Map(stored["signed"] as [string, string][]),
    implementations: [...(stored["implementations"] as KeyImplementation[])],
  };
  for (const name of RECORD_MAPS) {
    const records = stored[name] as Record<string, string>[];
    decoded[name] = new Map(records.map((record) => [record[RECORD_KEYS[name]], record]));
  }
  for (const name of NAME_MAPS) decoded[name] = new Map(stored[name] as [string, string][]);
  return decoded as unknown as GoalState;
}

/** A task by its id or an alias. */
export function findTask(state: GoalState, id: string): Task | undefined {
  return named(state, state.tasks, id);
}

function named<Row>(state: GoalState, rows: ReadonlyMap<string, Row>, id: string): Row | undefined {
  return rows.get(id) ?? rows.get(state.aliases.get(id) ?? "");
}

/** The position in this log at which the goal had that revision; null: it never had exactly that one here. */
export function seqOfRevision(state: GoalState, revision: number): number | null {
  if (revision < 1 || revision > state.revision) return null;
  const after = state.merges.findLast((merge) => merge.revision <= revision) ?? { seq: 0, revision: 0 };
  const seq = after.seq + (revision - after.revision);
  const next = state.merges.find((merge) => merge.seq > after.seq);
  return next === undefined || seq < next.seq ? seq : null;
}

export function phaseOf(state: GoalState, number: number): GoalPhase {
  const phase = state.phases.find((each) => each.number === number);
  return phase ?? absent(state, "phase", number, "Add the phase first, or name an existing one.");
}

type Lookup<Row> = (state: GoalState, id: string) => Row;

export const taskOf: Lookup<Task> = (state, id) =>
  findTask(state, id) ?? absent(state, "task", id, "List the tasks of the goal to see their ids.");

export const decisionOf: Lookup<DecisionRecord> = (state, id) =>
  named(state, state.decisions, id) ?? absent(state, "decision", id, "Search the decisions for its id.");

export const blockerOf: Lookup<Blocker> = (state, id) =>
  named(state, state.blockers, id) ??
  absent(state, "blocker", id, "List the blockers of the goal for its id.");

export const questionOf: Lookup<Question> = (state, id) =>
  named(state, state.questions, id) ?? absent(state, "question", id, "List the open questions for its id.");

export const assumptionOf: Lookup<Assumption> = (state, id) =>
  named(state, state.assumptions, id) ?? absent(state, "assumption", id, "List the assumptions for its id.");

export const historyOf: Lookup<HistoryEntry> = (state, id) =>
  state.history.get(id) ?? absent(state, "session", id, "Record its start first.");

function absent(state: GoalState, what: string, id: string | number, hint: string): never {
  throw new HoldfastError("GOAL_ITEM_NOT_FOUND", `goal ${state.id} has no ${what} ${quoteValue(id)}`, {
    hint,
    data: { goal: state.id, what, id },
  });
}

export function staleness(state: GoalState, now: number): { stale: boolean; ageMs: number } {
  const ageMs = Math.max(0, now - state.touchedAt);
  return { stale: state.ttlMs !== null && ageMs > state.ttlMs, ageMs };
}

/** The warning that leads every text which hands a stale state to an agent. Null: the state is fresh. */
export function staleNotice(state: GoalState, now: number): string | null {
  const { stale, ageMs } = staleness(state, now);
  if (!stale || state.ttlMs === null) return null;
  const ages = `last touched ${exactAge(ageMs)} ago (limit ${exactAge(state.ttlMs)})`;
  return `goal ${state.id} is stale: ${ages}. Check that it still holds`;
}
