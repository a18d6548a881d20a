/**
 * Acts on the history of sessions. A session that ends holds nothing afterwards: its tasks go back.
 *
 * That needs no lease. What a session gives back is what the goal says is its own, decided on the state that the commit
 * stands on; and its lease may be under another name after a merge, in another copy's store, or with somebody who died
 * before claiming. None of that may keep a session from ending.
 */

import { HoldfastError } from "../model/errors.ts";
import {
  type Actor,
  findTask,
  type GoalDraft,
  type GoalState,
  type HistoryEntry,
  historyOf,
  type Task,
  taskOf,
} from "../model/goal/index.ts";
import type { Act } from "./act.ts";

export interface StartInput {
  readonly session: string;
  readonly agent?: string;
  /**
   * The session whose work it takes up. Without it, the latest that crashed or handed off and that nobody has taken
   * up yet; null for none.
   */
  readonly resumes?: string | null;
  readonly notes?: string | null;
}

export function startSession(state: GoalState, by: Actor, input: StartInput): Act<string> {
  const left = input.resumes === undefined ? leftBehind(state, input.session) : null;
  const resumes = input.resumes ?? left?.id ?? null;
  const notes = input.notes ?? openingNote(state, input.session, left);
  const data = { agent: by.name, ...input, resumes, notes, by };
  return { events: [{ type: "session.started", data }], result: input.session };
}

/** A session that goes on under its own name continues its own entry, and takes up nobody else's. */
function leftBehind(state: GoalState, session: string): HistoryEntry | null {
  if (state.history.has(session)) return null;
  const entries = [...state.history.values()];
  const taken = new Set(entries.map(({ resumes }) => resumes));
  const left = entries.filter(
    ({ id, status, handoffReason }) => !taken.has(id) && (status === "crashed" || handoffReason !== null),
  );
  return left.sort((a, b) => (a.endedAt ?? 0) - (b.endedAt ?? 0)).at(-1) ?? null;
}

const OWN_CRASH = "Resuming after its own crash";

/** The last note of a session is what others read of it: of one that goes on, not that it crashed. */
function openingNote(state: GoalState, session: string, left: HistoryEntry | null): string | null {
  if (left) return resumption(left);
  return state.history.get(session)?.status === "crashed" ? OWN_CRASH : null;
}

function resumption({ id, status, handoffReason }: HistoryEntry): string {
  if (status === "crashed") return `Resuming from ${id} crash`;
  return `Continuing from ${id}: ${handoffReason}`.slice(0, 1_000);
}

/** Whether the note says no more than how the session began. */
export function isOpeningNote(note: string, { resumes }: HistoryEntry): boolean {
  if (note === OWN_CRASH) return true;
  return note === `Resuming from ${resumes} crash` || note.startsWith(`Continuing from ${resumes}: `);
}

/** The sessions that led to this one, oldest first, over hand-offs and crashes. */
export function chainOf(state: GoalState, session: string): HistoryEntry[] {
  const chain: HistoryEntry[] = [];
  for (let entry = state.history.get(session); entry && !chain.includes(entry); ) {
    chain.unshift(entry);
    entry = state.history.get(entry.resumes ?? "");
  }
  return chain;
}

export interface NoteInput {
  readonly session: string;
  /** Share of the context window, 0 to 1. */
  readonly contextUsage?: number | null;
  readonly issues?: readonly string[];
  readonly notes?: string | null;
}

export function noteSession(_state: GoalState, by: Actor, input: NoteInput): Act<void> {
  const data = {
    contextUsage: null,
    issues: [],
    notes: null,
    ...input,
    by,
  } as GoalDraft<"session.noted">["data"];
  return { events: [{ type: "session.noted", data }], result: undefined };
}

export interface EndInput extends NoteInput {
  /** What it finished beside the tasks of the goal, which are known. */
  readonly completed?: readonly string[];
}

export function endSession(
  state: GoalState,
  by: Actor,
  input: EndInput,
  handoffReason: string | null = null,
): Act<readonly Task[]> {
  const entry = historyOf(state, input.session);
  if (entry.status !== "active") {
    throw new HoldfastError(
      "SESSION_ENDED",
      `session ${entry.id} of goal ${state.id} has ${entry.status} already`,
      {
        hint: "Start it again before you end it, or end the one that is active.",
        data: { session: entry.id, status: entry.status },
      },
    );
  }
  const tasks = [...state.tasks.values()].filter(({ claim }) => claim?.session === entry.id);
  const why = handoffReason === null ? "its session ended" : `handed off: ${handoffReason}`.slice(0, 1_000);
  const released = tasks.map(({ id, claim }): GoalDraft => {
    const under = claim?.uid ? { claim: claim.uid } : {};
    const data = { by, task: id, token: claim?.token ?? 0, ...under, why };
    return { type: "task.released", data };
  });
  const base = { contextUsage: null, completed: [], issues: [], notes: null };
  const data = { ...base, ...input, by, handoffReason } as GoalDraft<"session.ended">["data"];
  return { events: [...released, { type: "session.ended", data }], result: tasks };
}

export interface HandoffInput extends EndInput {
  /** Why the session stops, e.g. `context is full`. */
  readonly reason: string;
  /** The next action: a task id or free text. */
  readonly next?: string | NextInput | null;
}

export function handoff(state: GoalState, by: Actor, input: HandoffInput): Act<readonly Task[]> {
  const { reason, next, ...rest } = input;
  const ended = endSession(state, by, rest, reason);
  const following = next === undefined ? [] : setNext(state, by, next).events;
  return { ...ended, events: [...ended.events, ...following] };
}

/** Nothing is written for a session that has ended or crashed already: two may notice the same death. */
export function crashSession(
  state: GoalState,
  by: Actor,
  input: { session: string; notes?: string | null },
): Act<boolean> {
  if (historyOf(state, input.session).status !== "active") return { events: [], result: false };
  return { events: [{ type: "session.crashed", data: { notes: null, ...input, by } }], result: true };
}

export interface NextInput {
  readonly text?: string | null;
  readonly task?: string | null;
}

/** Sets the next action. A task id becomes a pointer to that task, anything else is text, null clears it. */
export function setNext(state: GoalState, by: Actor, next: string | NextInput | null): Act<void> {
  const given = typeof next === "string" ? (findTask(state, next) ? { task: next } : { text: next }) : next;
  const task = given?.task ? taskOf(state, given.task).id : null;
  return { events: [{ type: "next.set", data: { text: null, ...given, by, task } }], result: undefined };
}
