/**
 * What supervisors remember of the workers for one piece of work, in a stream of its own, so that back-off and counts
 * outlive a supervisor and are shared by several.
 *
 *     idle, wanted, waiting ──start──▶ running ──ended: done──▶ idle, no deaths
 *                                │──ended: waiting──▶ waiting, no deaths, not before a while
 *                                │──ended: stopped──▶ as before it was started
 *                                └──ended: died──▶ as before it was started, deaths + 1, not before a while
 *     deaths reach the limit ──loop──▶ looping ──pardon: a person has looked──▶ as before, no deaths
 *     there is nothing left to do ──unwanted──▶ idle, no deaths
 *
 * `wanted`: a session whose process died; a task is wanted by being ready, so its goal says so. One that dies while a
 * worker runs is wanted again as soon as that has ended. `waiting`: the worker ended well and left calls
 * without an outcome; when no person has to answer any more, its session is as good as wanted, its task may be started. Of a session, all this is about one
 * life of its name.
 */

import * as z from "zod";
import { sha256 } from "../model/digest.ts";
import type { Json } from "../model/json.ts";
import {
  applyEvent,
  type DraftOf,
  type Event,
  event,
  type FacetChange,
  lazySchema,
  type StreamKind,
} from "../model/stream/index.ts";

/** What a worker can be started for: a task that is ready, or a session whose process died in the middle. */
export type Work =
  | { readonly kind: "task"; readonly goal: string; readonly task: string }
  | { readonly kind: "session"; readonly session: string };

export function titleOf(work: Work): string {
  return work.kind === "task" ? `${work.task} of ${work.goal}` : `session ${work.session}`;
}

/** The name of the stream and of the lease for this work. */
export function workerId(work: Work): string {
  const parts = work.kind === "task" ? [work.kind, work.goal, work.task] : [work.kind, work.session];
  return sha256(JSON.stringify(parts)).slice(0, 32);
}

/** Does one thing of several. What goes wrong with it is told, and `none` is what it came to. */
export type Try = <Result>(doing: string, act: () => Promise<Result>, none: Result) => Promise<Result>;

export type WorkerStatus = "idle" | "wanted" | "running" | "waiting" | "looping";

export interface WorkerState {
  work: Work | null;
  status: WorkerStatus;
  /** Generation of the session; null for tasks, and where that was not recorded. */
  life: number | null;
  /** Wanted since it was started. */
  isWantedAgain: boolean;
  /** In a row. */
  deaths: number;
  lastDeath: string | null;
  notBefore: number;
  /** Of a task: its next worker comes when no person has to answer in this session any more. */
  waitsIn: string | null;
  /** When its last worker ended, by the clock of whoever saw it. */
  endedAt: number | null;
  /** How far the logs of its session and of the sub-agents had come when it was left alone, by their streams. */
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
    /** Of a task: the session in which a person has to answer before it can go on. */
    session: name.optional(),
  }),
);
const looping = lazySchema(() =>
  z.strictObject({
    why,
    blocker: name.nullable(),
    places: z.record(z.string(), z.int().nonnegative()),
  }),
);
const pardoned = lazySchema(() => z.strictObject({ why }));
const unwanted = lazySchema(() => z.strictObject({ why }));

/** Where a piece of work stands while nobody works on it. */
function atRest({ work: about }: WorkerState): WorkerStatus {
  return about?.kind === "session" ? "wanted" : "idle";
}

const AFRESH = { deaths: 0, notBefore: 0, leftAt: {}, isWantedAgain: false } as const;

const workerEvents = {
  "worker.wanted": event(
    2,
    wanted,
    (state: WorkerState, data) => {
      if (state.status === "running") state.isWantedAgain = true;
      else Object.assign(state, AFRESH, { status: "wanted" });
      state.work = data.work;
      state.life = data.life;
    },
    { 1: (data) => ({ ...(data as { work: Json }), life: null }) },
  ),
  "worker.unwanted": event(1, unwanted, (state: WorkerState) => {
    Object.assign(state, AFRESH, { status: "idle" });
  }),
  "worker.started": event(1, started, (state: WorkerState, data) => {
    state.work = data.work;
    state.status = "running";
    state.isWantedAgain = false;
  }),
  "worker.ended": event(1, ended, (state: WorkerState, data, place) => {
    state.endedAt = place.at;
    state.waitsIn = data.session ?? null;
    const isWell = data.how === "done" || data.how === "waiting";
    if (data.how === "waiting") state.status = "waiting";
    else state.status = data.how === "done" && !state.isWantedAgain ? "idle" : atRest(state);
    state.isWantedAgain = false;
    if (isWell) state.deaths = 0;
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
    // Where that was not recorded, whatever has happened in it counts as new: it is tried once more.
    { 1: (data) => ({ ...(data as { why: Json }), places: {} }) },
  ),
  "worker.pardoned": event(1, pardoned, (state: WorkerState) => {
    Object.assign(state, AFRESH, { status: atRest(state) });
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
