/**
 * What a briefing says of sessions: first the last hand-off, which stands until another supersedes it, then who else is
 * at work or left something, the latest first. A session that was opened and closed again tells nobody anything.
 */

import type { Actor, GoalState, HistoryEntry } from "../model/goal/index.ts";
import { ago } from "./ago.ts";
import { named, quoted } from "./quoted-text.ts";
import { isOpeningNote } from "./session-acts.ts";

/** The others are counted. */
const MOST_LINES = 3;

export interface SessionFacts {
  readonly state: GoalState;
  readonly now: number;
  readonly limit: number;
  /** The session of whoever reads. */
  readonly reader: string | null;
}

export function sessionLines({ state, now, limit, reader }: SessionFacts): {
  readonly lines: readonly string[];
  readonly more: number;
} {
  const hasActed = actsOf(state);
  const told = [...state.history.values()]
    .filter((entry) => (entry.status === "active" ? entry.id !== reader : hasWorked(entry, hasActed)))
    .sort((a, b) => when(b) - when(a));
  const handoff = told.find(({ handoffReason }) => handoffReason !== null);
  const others = told.filter((entry) => entry !== handoff);
  const ranked = handoff ? [handoff, ...others] : others;
  const lines = ranked.slice(0, MOST_LINES).map((entry) => {
    const reason = entry.handoffReason === null ? "" : `, handed off: ${quoted(entry.handoffReason, limit)}`;
    const note = entry.notes.at(-1);
    const notes = note === undefined ? "" : `, note ${quoted(note, limit)}`;
    const work = `${entry.status}${placeOf(state, entry)} ${ago(now, when(entry))}`;
    return `LAST ${nameOf(entry, limit)} ${work}${reason}${notes}`;
  });
  return { lines, more: ranked.length - lines.length };
}

function when({ endedAt, startedAt }: HistoryEntry): number {
  return endedAt ?? startedAt;
}

/** Several sessions of one agent are told apart by their ids, most of which begin with the agent's name. */
function nameOf({ id, agent }: HistoryEntry, limit: number): string {
  if (id === agent || id.startsWith(`${agent}-`)) return named(id, limit);
  return `${named(id, limit)} of ${named(agent, limit)}`;
}

/** What an active session had before it crashed may be anybody's by now. */
function placeOf(state: GoalState, { id, status, workingOn }: HistoryEntry): string {
  if (workingOn === null) return "";
  if (status === "active" && state.tasks.get(workingOn)?.claim?.session !== id) return "";
  return ` in ${workingOn}`;
}

type HasActed = (entry: HistoryEntry) => boolean;

function hasWorked(entry: HistoryEntry, hasActed: HasActed): boolean {
  const { status, completed, issues, workingOn, handoffReason } = entry;
  if (handoffReason !== null || workingOn !== null || completed.length + issues.length > 0) return true;
  // The last word on a crash is of whoever noticed it.
  const own = status === "crashed" ? entry.notes.slice(0, -1) : entry.notes;
  return own.some((note) => !isOpeningNote(note, entry)) || hasActed(entry);
}

/** Whether it touched files, or said something that the goal keeps: under its own name, or its agent's in its time. */
function actsOf(state: GoalState): HasActed {
  const sessions = new Set([...state.files.values()].map(({ session }) => session));
  const acts = new Map<string, number[]>();
  const note = ({ name }: Actor, at: number): void => {
    const times = acts.get(name);
    if (times) times.push(at);
    else acts.set(name, [at]);
  };
  for (const { by, at } of state.decisions.values()) note(by, at);
  for (const { by, at } of state.facts.values()) note(by, at);
  for (const { by, at } of state.questions.values()) note(by, at);
  for (const { by, at } of state.implementations) note(by, at);
  for (const { by, reportedAt } of state.blockers.values()) note(by, reportedAt);
  return ({ id, agent, startedAt, endedAt }) => {
    if (sessions.has(id)) return true;
    const times = [...(acts.get(id) ?? []), ...(agent === id ? [] : (acts.get(agent) ?? []))];
    return times.some((at) => at >= startedAt && at <= (endedAt ?? at));
  };
}
