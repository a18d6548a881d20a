/**
 * The stream in which supervisors record the workers for one piece of work. Backoff and counts outlive a
 * supervisor and are shared by several.
 *
 *     idle, wanted, waiting ──start──▶ running ──ended: done──▶ idle, no deaths
 *                                │──ended: waiting──▶ waiting, no deaths, with a pause
 *                                │──ended: stopped──▶ as before the start
 *                                └──ended: died──▶ as before the start, deaths + 1, with a pause
 *     deaths reach the limit ──loop──▶ looping ──pardon: a person has looked──▶ as before, no deaths
 *     nothing left to do ──unwanted──▶ idle, no deaths
 *
 * `wanted` is a session whose process died. A task needs no such mark: its goal says that it is ready.
 * `waiting` means that the worker ended well and left calls without an outcome. For a session, the state is
 * about one generation of its name (`life`).
 */

import * as z from "zod";
import { sha256 } from "../model/digest.ts";
import type { Json } from "../model/json.ts";
import { streamName } from "../model/names.ts";
import type { DraftOf, Event, FacetChange, StreamKind } from "../model/stream/index.ts";
import { applyEvent, event, lazySchema } from "../model/stream/index.ts";

/** Work for a worker: a task that is ready, or a session whose process died. */
export type Work =
  | { readonly kind: "task"; readonly goal: string; readonly task: string }
  | { readonly kind: "session"; readonly session: string };

export function titleOf(work: Work): string {
  return work.kind === "task" ? `${work.task} of ${work.goal}` : `session ${work.session}`;
}

export function workerId(work: Work): string {
  const parts = work.kind === "task" ? [work.kind, work.goal, work.task] : [work.kind, work.session];
  return sha256(JSON.stringify(parts)).slice(0, 32);
}

/** The stream about the workers of a session. It names the session and why workers died. */
export function workerStreamOf(session: string): string {
  return streamName("worker", workerId({ kind: "session", session }));
}

/** Runs one of several acts. Reports an error and returns `fallback`, so that the others still run. */
export type Attempt = <T>(doing: string, act: () => Promise<T>, fallback: T) => Promise<T>;

type WorkerStatus = "idle" | "wanted" | "running" | "waiting" | "looping";

export interface WorkerState {
  work: Work | null;
  status: WorkerStatus;
  /** Generation of the session. Null for a task, and if it was not recorded. */
  life: number | null;
  isWantedAgain: boolean;
  deaths: number;
  lastDeath: string | null;
  notBefore: number;
  /** For a task: the session in which a person has to answer before the next worker. */
  waitsIn: string | null;
  endedAt: number | null;
  /** The positions of the session's log and its sub-agents' when it began to loop, by stream. */
  leftAt: Readonly<Record<string, number>>;
}

const name = z.string().min(1).max(200);
const work = () =>
  z.discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("task"), goal: name, task: name }),
    z.strictObject({ kind: z.literal("session"), session: name }),
  ]);
const why = z.string().max(1_000);
const wanted = lazySchema(() => z.strictObject({ work: work(), life: z.number().nullable() }));
const started = lazySchema(() => z.strictObject({ work: work(), by: name }));
const ended = lazySchema(() =>
  z.strictObject({
    how: z.enum(["done", "waiting", "died", "stopped"]),
    why: why.nullable(),
    notBefore: z.number(),
    session: name.optional(),
  }),
);
const places = () => z.record(z.string(), z.int().nonnegative());
const looping = lazySchema(() => z.strictObject({ why, blocker: name.nullable(), places: places() }));
const reason = lazySchema(() => z.strictObject({ why }));

function atRest({ work: about }: WorkerState): WorkerStatus {
  return about?.kind === "session" ? "wanted" : "idle";
}

const RESET = { deaths: 0, notBefore: 0, leftAt: {}, isWantedAgain: false } as const;

const workerEvents = {
  "worker.wanted": event(
    2,
    wanted,
    (state: WorkerState, data) => {
      if (state.status === "running") state.isWantedAgain = true;
      else Object.assign(state, RESET, { status: "wanted" });
      state.work = data.work;
      state.life = data.life;
    },
    { 1: (data) => ({ ...(data as { work: Json }), life: null }) },
  ),
  "worker.unwanted": event(1, reason, (state: WorkerState) => {
    Object.assign(state, RESET, { status: "idle" });
  }),
  "worker.started": event(1, started, (state: WorkerState, data) => {
    state.work = data.work;
    state.status = "running";
    state.isWantedAgain = false;
  }),
  "worker.ended": event(1, ended, (state: WorkerState, data, place) => {
    state.endedAt = place.at;
    state.waitsIn = data.session ?? null;
    const endedWell = data.how === "done" || data.how === "waiting";
    if (data.how === "waiting") state.status = "waiting";
    else state.status = data.how === "done" && !state.isWantedAgain ? "idle" : atRest(state);
    state.isWantedAgain = false;
    if (endedWell) state.deaths = 0;
    if (data.how === "done" || data.how === "stopped") return;
    state.notBefore = data.notBefore;
    if (data.how === "waiting") return;
    state.deaths += 1;
    state.lastDeath = data.why;
  }),
  "worker.looping": event(
    2,
    looping,
    (state: WorkerState, data) => {
      state.status = "looping";
      state.leftAt = data.places;
    },
    // Version 1 recorded no positions: everything counts as news, and the work is tried once more.
    { 1: (data) => ({ ...(data as { why: Json }), places: {} }) },
  ),
  "worker.pardoned": event(1, reason, (state: WorkerState) => {
    Object.assign(state, RESET, { status: atRest(state) });
  }),
} as const;

type WorkerEvents = typeof workerEvents;
export type WorkerDraft = DraftOf<WorkerEvents>;

export const workerKind: StreamKind<WorkerState, WorkerEvents> = {
  kind: "worker",
  foldVersion: 4,
  events: workerEvents,
  initial: () => ({
    work: null,
    status: "idle",
    life: null,
    isWantedAgain: false,
    deaths: 0,
    lastDeath: null,
    notBefore: 0,
    waitsIn: null,
    endedAt: null,
    leftAt: {},
  }),
  encode: (state) => ({ ...state }) as unknown as Json,
  decode: (json) => ({ ...(json as unknown as WorkerState) }),
  facets: workerFacets,
};

function workerFacets(state: WorkerState, events: readonly Event[], firstSeq: number): FacetChange {
  const next = { ...state };
  events.forEach((each, index) => {
    applyEvent(workerKind, next, each, firstSeq + index);
  });
  const goal = next.work?.kind === "task" ? next.work.goal : null;
  return { facets: { status: next.status, title: next.work && titleOf(next.work), goal } };
}
