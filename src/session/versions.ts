/** Versions of a session: made, loaded, compared and forked. Only making one needs the lease. */

import { commitResult, type Journal } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { streamName } from "../model/names.ts";
import { checkOption, checkOptions } from "../model/options.ts";
import type { Budget, Message, Plan, SessionDiff, SessionState } from "../model/session/index.ts";
import { diffSessions, draftCheckpoint, sessionKind } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";

/**
 * When a run makes checkpoints, to return to, compare with and fork from: after every `"turn"` (default) or
 * `"call"`, every `{ turns: 5 }` or `{ seconds: 60 }`. Every message and call is durable anyway.
 */
export type CadenceOption = "turn" | "call" | { readonly turns: number } | { readonly seconds: number };

/** `pending` counts model messages of the same commit that are not in the state yet. */
export function isCheckpointDue(cadence: CadenceOption, state: SessionState, now: number, pending: 0 | 1) {
  if (cadence === "turn" || cadence === "call") return true;
  const last = state.checkpoints.get(state.version);
  if ("seconds" in cadence) return !last || now - last.at >= cadence.seconds * 1000;
  const turns = state.messages.filter((message) => message.role === "assistant").length;
  return (turns + pending) % cadence.turns === 0;
}

/** A session as it was at one checkpoint. */
export interface SessionVersion {
  readonly session: string;
  readonly version: number;
  readonly createdAt: Date;
  readonly label: string | null;
  /** The system prompt of its last answer. */
  readonly system: string | null;
  readonly messages: readonly Message[];
  readonly plan: Plan | null;
  readonly budget: Budget;
}

/** A new fork, and the effects to consider before it may start its own. */
export interface ForkReport {
  readonly id: string;
  readonly version: number;
  /** Effects of the parent after the fork's point, which the fork may repeat. */
  readonly laterEffects: readonly {
    readonly callId: string;
    readonly tool: string;
    readonly status: string;
  }[];
}

export async function versionOf(journal: Journal, id: string, version: number): Promise<SessionVersion> {
  const state = await stateAt(journal, id, version);
  const checkpoint = state.checkpoints.get(version);
  if (!checkpoint) throw noVersion(id, version);
  const { system, messages, plan, budget } = state;
  const { label, at } = checkpoint;
  return { session: id, version, createdAt: new Date(at), label, system, messages, plan, budget };
}

export async function diffVersions(
  journal: Journal,
  id: string,
  before: number,
  after: number,
): Promise<SessionDiff> {
  const [old, recent] = await Promise.all([stateAt(journal, id, before), stateAt(journal, id, after)]);
  return diffSessions(old, recent);
}

/** Makes a session that shares another's past up to a version. Nothing is copied. */
export async function forkSession(
  journal: Journal,
  from: string,
  id: string,
  options: { version?: number; effects?: "live" },
): Promise<ForkReport> {
  checkOptions(`fork of ${from}`, options, { version: "number", effects: ["live"] });
  const now = await journal.load(sessionKind, from);
  if (now.row.state !== "live") throw noSession(from, journal.store.address);
  const version = options.version ?? now.state.version;
  const seq = options.version === undefined ? now.head.seq : await positionOf(journal, from, version);
  const { log, fork } = await journal.fork(sessionKind, from, seq, id);
  // Removed and made again meanwhile: version and position belong to the earlier session.
  if (fork.generation !== now.head.generation) throw noSession(from, journal.store.address);
  const openThen = new Set(log.state.openCalls);
  const data = { session: from, version, seq, live: options.effects === "live" };
  const forked = { type: "session.forked", data };
  commitResult(await log.commit(() => ({ events: [forked], result: undefined, fork })));
  const later = [...now.state.calls.values()].filter((call) => call.seq > seq || openThen.has(call.callId));
  const laterEffects = later
    .filter(({ effect, status }) => effect !== "read" && status !== "failed" && status !== "repeated")
    .map(({ callId, tool, status }) => ({ callId, tool, status }));
  return { id, version, laterEffects };
}

async function stateAt(journal: Journal, id: string, version: number): Promise<SessionState> {
  const seq = await positionOf(journal, id, version);
  const { state } = await journal.load(sessionKind, id, seq);
  // Not at that position any more: the session was removed meanwhile, and this is a new one of the same name.
  if (state.checkpoints.get(version)?.seq !== seq) throw noVersion(id, version);
  return state;
}

async function positionOf(journal: Journal, id: string, version: number): Promise<number> {
  checkOption(`session ${id}: version`, version, "number");
  const stream = streamName("session", id);
  const asked = { of: "items", kind: "checkpoint", stream, id: String(version), limit: 1 } as const;
  const [own] = (await journal.list<"items">(asked)).rows;
  if (own?.status === "deleted") throw noVersion(id, version);
  if (own && own.seq !== null) return own.seq;
  const row = await journal.row(stream);
  if (row.state !== "live") throw noSession(id, journal.store.address);
  if (!row.parent) throw noVersion(id, version);
  const past = await journal.load(sessionKind, id, row.base);
  const inherited = past.state.checkpoints.get(version);
  if (!inherited) throw noVersion(id, version);
  return inherited.seq;
}

export function noSession(id: string, address: string): HoldfastError {
  return new HoldfastError("STREAM_NOT_FOUND", `there is no session ${id} in ${address}`, {
    hint: "List the sessions of this store. It may be in another store or namespace.",
    data: { session: id },
  });
}

export function noVersion(id: string, version: number): HoldfastError {
  return new HoldfastError("VERSION_NOT_FOUND", `session ${id} has no version ${version}`, {
    hint: "List its versions. Deleted ones are not kept.",
    data: { session: id, version },
  });
}

export function checkpointDraft(state: SessionState, label: boolean | string): Draft {
  return draftCheckpoint(state.version + 1, typeof label === "string" ? label : null);
}
