/**
 * What supervisors remember of the workers for one piece of work, in a stream of its own, so that back-off and counts
 * outlive a supervisor and are shared by several.
 *
 *     idle, wanted ──start──▶ running ──ended: done──▶ idle, no deaths
 *                                │──ended: stopped──▶ as before it was started
 *                                └──ended: died──▶ as before it was started, deaths + 1, not before a while
 *     deaths reach the limit ──loop──▶ looping ──pardon: a person has looked──▶ as before, no deaths
 *
 * `wanted`: a session whose process died; a task is wanted by being ready, so its goal says so.
 */

import * as z from "zod";
import {
  applyEvent,
  type DraftOf,
  type Event,
  event,
  type FacetChange,
  type Json,
  type StreamKind,
} from "../model/index.ts";
import { titleOf, type Work } from "./work.ts";

export type WorkerStatus = "idle" | "wanted" | "running" | "looping";

export interface WorkerState {
  work: Work | null;
  status: WorkerStatus;
  /** In a row. */
  deaths: number;
  lastDeath: string | null;
  notBefore: number;
  loopedAt: number | null;
}

const name = z.string().min(1).max(200);
const work = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("task"), goal: name, task: name }),
  z.strictObject({ kind: z.literal("session"), session: name }),
]);
const why = z.string().max(1_000);
const wanted = z.strictObject({ work });
const started = z.strictObject({ work, by: name });
const ended = z.strictObject({
  how: z.enum(["done", "died", "stopped"]),
  why: why.nullable(),
  notBefore: z.number(),
});
const looping = z.strictObject({ why, blocker: name.nullable() });
const pardoned = z.strictObject({ why });

/** Where a piece of work stands while nobody works on it. */
function atRest({ work: about }: WorkerState): WorkerStatus {
  return about?.kind === "session" ? "wanted" : "idle";
}

const workerEvents = {
  "worker.wanted": event(1, wanted, (state: WorkerState, data) => {
    state.work = data.work;
    if (state.status === "idle") state.status = "wanted";
  }),
  "worker.started": event(1, started, (state: WorkerState, data) => {
    state.work = data.work;
    state.status = "running";
  }),
  "worker.ended": event(1, ended, (state: WorkerState, data) => {
    state.status = data.how === "done" ? "idle" : atRest(state);
    if (data.how === "done") state.deaths = 0;
    if (data.how !== "died") return;
    state.deaths += 1;
    state.lastDeath = data.why;
    state.notBefore = data.notBefore;
  }),
  "worker.looping": event(1, looping, (state: WorkerState, _data, place) => {
    state.status = "looping";
    state.loopedAt = place.at;
  }),
  "worker.pardoned": event(1, pardoned, (state: WorkerState) => {
    state.status = atRest(state);
    state.deaths = 0;
    state.notBefore = 0;
    state.loopedAt = null;
  }),
} as const;

type WorkerEvents = typeof workerEvents;
export type WorkerDraft = DraftOf<WorkerEvents>;

export const workerKind: StreamKind<WorkerState, WorkerEvents> = {
  kind: "worker",
  foldVersion: 1,
  events: workerEvents,
  initial: () => ({
    work: null,
    status: "idle",
    deaths: 0,
    lastDeath: null,
    notBefore: 0,
    loopedAt: null,
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
