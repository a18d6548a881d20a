/** The effect of events on decisions, blockers, files, questions and sessions. */

import type { Place } from "../stream/index.ts";
import { idNumber } from "./entries.ts";
import type { EventData } from "./event-schemas.ts";
import { blockerOf, decisionOf, type GoalState, historyOf, questionOf } from "./goal-state.ts";
import type { Blocker, BlockerAct, FileAct, FileRecord, HistoryEntry } from "./notes.ts";
import { nextBlockerStatus } from "./notes.ts";
import type { Actor } from "./roles.ts";

export function makeDecision(state: GoalState, data: EventData<"decision.made">, { seq, at }: Place): void {
  const { uid: _uid, ...content } = data;
  if (data.supersedes !== null) {
    const old = decisionOf(state, data.supersedes);
    state.decisions.set(old.id, { ...old, supersededBy: data.id, revision: seq });
  }
  state.given = { ...state.given, D: Math.max(state.given.D, idNumber(data.id)) };
  state.decisions.set(data.id, { ...content, supersededBy: null, at, seq, revision: seq });
}

export function reportBlocker(
  state: GoalState,
  data: EventData<"blocker.reported">,
  { seq, at }: Place,
): void {
  const { id, description, affects, by } = data;
  state.given = { ...state.given, B: Math.max(state.given.B, idNumber(id)) };
  state.blockers.set(id, {
    id,
    status: "new",
    description,
    affects,
    by,
    reportedAt: data.reportedAt ?? at,
    identifiedAt: null,
    bypassedAt: null,
    resolvedAt: null,
    workaround: null,
    followUps: [],
    resolution: null,
    seq,
    revision: seq,
  });
}

export function identifyBlocker(
  state: GoalState,
  data: EventData<"blocker.identified">,
  { seq, at }: Place,
): void {
  moveBlocker(state, data.blocker, "identify", { identifiedAt: at, revision: seq });
}

export function bypassBlocker(state: GoalState, data: EventData<"blocker.bypassed">, place: Place): void {
  const { workaround, followUps } = data;
  const change = { bypassedAt: place.at, workaround, followUps, revision: place.seq };
  moveBlocker(state, data.blocker, "bypass", change);
}

export function resolveBlocker(state: GoalState, data: EventData<"blocker.resolved">, place: Place): void {
  const change = { resolvedAt: place.at, resolution: data.resolution, revision: place.seq };
  moveBlocker(state, data.blocker, "resolve", change);
}

function moveBlocker(state: GoalState, id: string, act: BlockerAct, change: Partial<Blocker>): void {
  const blocker = blockerOf(state, id);
  state.blockers.set(id, { ...blocker, ...change, status: nextBlockerStatus(blocker, act) });
}

interface FileSeen {
  readonly path: string;
  readonly hash: string | null;
  readonly act: FileAct;
  readonly task: string | null;
  readonly session: string | null;
  readonly by: Actor;
  readonly at: number;
}

/** The hash is that of the last read or change: a resume compares the file with what an agent last saw. */
export function recordFile(state: GoalState, seen: FileSeen): void {
  const old = state.files.get(seen.path);
  const isRead = seen.act === "examined";
  const record: FileRecord = {
    path: seen.path,
    hash: seen.hash,
    examinedAt: isRead ? seen.at : (old?.examinedAt ?? null),
    modifiedAt: isRead ? (old?.modifiedAt ?? null) : seen.at,
    task: seen.task ?? old?.task ?? null,
    session: isRead ? (old?.session ?? seen.session) : seen.session,
    by: seen.by,
  };
  state.files.set(seen.path, record);
}

export function recordFiles(state: GoalState, data: EventData<"files.recorded">, { at }: Place): void {
  const { by, task, session } = data;
  for (const { path, hash, act } of data.files) recordFile(state, { path, hash, act, task, session, by, at });
}

export function askQuestion(state: GoalState, data: EventData<"question.asked">, { at }: Place): void {
  const { id, text, by } = data;
  state.given = { ...state.given, Q: Math.max(state.given.Q, idNumber(id)) };
  state.questions.set(id, { id, text, answer: null, by, at, answeredAt: null });
}

export function answerQuestion(state: GoalState, data: EventData<"question.answered">, { at }: Place): void {
  const question = questionOf(state, data.question);
  state.questions.set(question.id, { ...question, answer: data.answer, answeredAt: at });
}

/** A session that starts again under its name continues its own entry. */
export function startSession(state: GoalState, data: EventData<"session.started">, { seq, at }: Place): void {
  const { session: id, agent, resumes } = data;
  const old = state.history.get(id);
  const notes = [...(old?.notes ?? []), ...(data.notes === null ? [] : [data.notes])];
  state.history.set(id, {
    id,
    agent,
    status: "active",
    startedAt: old?.startedAt ?? data.startedAt ?? at,
    endedAt: null,
    restarts: old ? old.restarts + 1 : 0,
    resumes: resumes ?? old?.resumes ?? null,
    contextUsage: old?.contextUsage ?? null,
    completed: old?.completed ?? [],
    issues: old?.issues ?? [],
    notes,
    handoffReason: null,
    workingOn: old?.workingOn ?? null,
    seq: old?.seq ?? seq,
    revision: seq,
  });
}

export function noteSession(state: GoalState, data: EventData<"session.noted">, { seq }: Place): void {
  const entry = historyOf(state, data.session);
  state.history.set(entry.id, { ...entry, ...noted(entry, data), revision: seq });
}

export function endSession(state: GoalState, data: EventData<"session.ended">, { seq, at }: Place): void {
  const entry = historyOf(state, data.session);
  state.history.set(entry.id, {
    ...entry,
    ...noted(entry, data),
    status: "ended",
    endedAt: data.endedAt ?? at,
    completed: [...new Set([...entry.completed, ...data.completed])],
    handoffReason: data.handoffReason,
    revision: seq,
  });
}

export function crashSession(state: GoalState, data: EventData<"session.crashed">, { seq, at }: Place): void {
  const entry = historyOf(state, data.session);
  const notes = [...entry.notes, ...(data.notes === null ? [] : [data.notes])];
  state.history.set(entry.id, { ...entry, status: "crashed", endedAt: at, notes, revision: seq });
}

function noted(
  entry: HistoryEntry,
  data: { contextUsage: number | null; issues: string[]; notes: string | null },
): Partial<HistoryEntry> {
  return {
    contextUsage: data.contextUsage ?? entry.contextUsage,
    issues: [...entry.issues, ...data.issues],
    notes: data.notes === null ? entry.notes : [...entry.notes, data.notes],
  };
}
