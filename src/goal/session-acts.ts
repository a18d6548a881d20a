/**
 * Acts on the session history and the next action.
 *
 * A session that ends puts back every task that it holds. This needs no lease, which may be out of reach:
 * renamed by a merge, in another copy's store, or held by a process that died before its claim. The commit
 * decides on the state alone which tasks are the session's own.
 *
 * Hooks run this in a cold process: keep it free of schemas.
 */

import { HoldfastError } from "../model/errors.ts";
import type { Actor, GoalDraft, GoalState, HistoryEntry, Task } from "../model/goal/index.ts";
import { findTask, historyOf, taskOf } from "../model/goal/index.ts";
import type { Act } from "./act.ts";

export interface StartInput {
  /** The session's name, unique within the goal, e.g. `"claude-2024-01-14"`. */
  readonly session: string;
  readonly agent?: string;
  /** The session to continue; by default the latest one that crashed or handed off. Null for none. */
  readonly resumes?: string | null;
  readonly notes?: string | null;
}

export function startSession(state: GoalState, by: Actor, input: StartInput): Act<string> {
  const left = input.resumes === undefined ? unfinishedSession(state, input.session) : null;
  const resumes = input.resumes ?? left?.id ?? null;
  const notes = input.notes ?? openingNote(state, input.session, left);
  const data = { agent: by.name, ...input, resumes, notes, by };
  return { events: [{ type: "session.started", data }], result: input.session };
}

/** A session that starts again under its own name continues its own entry instead. */
function unfinishedSession(state: GoalState, session: string): HistoryEntry | null {
  if (state.history.has(session)) return null;
  const entries = [...state.history.values()];
  const continued = new Set(entries.map(({ resumes }) => resumes));
  const left = entries.filter(
    ({ id, status, handoffReason }) => !continued.has(id) && (status === "crashed" || handoffReason !== null),
  );
  return left.sort((a, b) => (a.endedAt ?? 0) - (b.endedAt ?? 0)).at(-1) ?? null;
}

/** Begins an issue of a session that may have had an effect outside: `…git push origin main`. */
export const UNKNOWN_OUTCOME = "started, outcome unknown: ";

const OWN_CRASH = "Resuming after its own crash";

/** Others read the last note of a session, so a restart replaces the note on its crash. */
function openingNote(state: GoalState, session: string, left: HistoryEntry | null): string | null {
  if (!left) return state.history.get(session)?.status === "crashed" ? OWN_CRASH : null;
  if (left.status === "crashed") return `Resuming from ${left.id} crash`;
  return `Continuing from ${left.id}: ${left.handoffReason}`.slice(0, 1_000);
}

/** Whether the active session started again after its own crash. */
export function hasCrashed({ status, notes }: HistoryEntry): boolean {
  return status === "active" && notes.at(-1) === OWN_CRASH;
}

export function isOpeningNote(note: string, { resumes }: HistoryEntry): boolean {
  if (note === OWN_CRASH) return true;
  return note === `Resuming from ${resumes} crash` || note.startsWith(`Continuing from ${resumes}: `);
}

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
  /** The used share of the context window, from 0 to 1. */
  readonly contextUsage?: number | null;
  readonly issues?: readonly string[];
  readonly notes?: string | null;
}

const NO_NOTE = { contextUsage: null, issues: [], notes: null };

export function noteSession(_state: GoalState, by: Actor, input: NoteInput): Act<void> {
  const data = { ...NO_NOTE, ...input, by } as GoalDraft<"session.noted">["data"];
  return { events: [{ type: "session.noted", data }], result: undefined };
}

export interface EndInput extends NoteInput {
  /** Work that it finished beside the tasks of the goal, which are recorded anyway. */
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
    const message = `session ${entry.id} of goal ${state.id} is not active (${entry.status})`;
    throw new HoldfastError("SESSION_ENDED", message, {
      hint: "Start it again before you end it, or end an active session.",
      data: { session: entry.id, status: entry.status },
    });
  }
  const tasks = [...state.tasks.values()].filter(({ claim }) => claim?.session === entry.id);
  const why = handoffReason === null ? "its session ended" : `handed off: ${handoffReason}`.slice(0, 1_000);
  const released = tasks.map(({ id, claim }): GoalDraft => {
    const under = claim?.uid ? { claim: claim.uid } : {};
    return { type: "task.released", data: { by, task: id, token: claim?.token ?? 0, ...under, why } };
  });
  const all = { ...NO_NOTE, completed: [], ...input, by, handoffReason };
  const data = all as GoalDraft<"session.ended">["data"];
  return { events: [...released, { type: "session.ended", data }], result: tasks };
}

/** The end of a session in the goal's history, and what its successor should do next. */
export interface HandoffInput extends EndInput {
  /** Why the session stops, e.g. `context is full`. */
  readonly reason: string;
  readonly next?: string | NextInput | null;
}

export function handoff(state: GoalState, by: Actor, input: HandoffInput): Act<readonly Task[]> {
  const { reason, next, ...rest } = input;
  const ended = endSession(state, by, rest, reason);
  const following = next === undefined ? [] : setNext(state, by, next).events;
  return { ...ended, events: [...ended.events, ...following] };
}

/** Writes nothing for a session that is not active: two processes may notice the same crash. */
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
