/**
 * Decides whether a session needs a worker.
 *
 * A crash requests a worker, and so does a prompt that is queued for a session without an owner. It stays
 * requested if no supervisor starts any now: one may come later. Right before each
 * start the session is checked again, because anybody may have continued or ended it meanwhile.
 *
 *     removed · ended · part of a goal · a sub-agent · driven by a client · answered   over
 *     it has an owner                                                                  not now
 *     its last worker left it to a person, who has not answered                        not now
 *     its workers keep dying, and there is no news since                               not now
 *     it is stale: a worker would be refused until a person has looked                 not now
 *     otherwise                                                                        start a worker
 *
 * A session is answered if the last message is the model's, nothing is open or queued, and a new run would
 * put a prompt without an id again. If all prompts have ids, or calls were made without a model, the program
 * may have more steps than its messages show.
 */

import { allRows, type Journal } from "../journal/index.ts";
import { streamId, streamName } from "../model/names.ts";
import type { Call, Message, SessionState } from "../model/session/index.ts";
import { openCallsOf, sessionKind } from "../model/session/index.ts";
import type { Event } from "../model/stream/index.ts";
import { drivenBy } from "../session/index.ts";
import type { LeaseRow, StreamRow } from "../store.ts";
import { blockedOn, withSubAgents } from "./blocked-on.ts";
import { isLive } from "./crashed-sessions.ts";
import { type Work, type WorkerState, workerId, workerKind } from "./worker-kind.ts";

/** Requests a worker for a crashed session. A session of a goal continues with its task instead. */
export async function wantWorker(journal: Journal, session: string): Promise<void> {
  const { facets, head } = await journal.row(streamName("session", session));
  if (facets.goal !== null) return;
  const work: Work = { kind: "session", session };
  const life = head.generation;
  const log = await journal.open(workerKind, workerId(work));
  await log.commit((state) => {
    const isWanted = state.status === "running" ? state.isWantedAgain : state.status !== "idle";
    if (isWanted && state.life === life) return { events: [], result: undefined };
    return { events: [{ type: "worker.wanted", data: { work, life } }], result: undefined };
  });
}

/**
 * Requests workers for idle sessions that a prompt was queued for. A worker that runs is left
 * alone: it takes the prompt, or ends, and then the next sweep finds the prompt.
 */
export async function wantPrompted(journal: Journal, leases: ReadonlyMap<string, LeaseRow>): Promise<void> {
  const asked = { of: "items", kind: "prompt", open: true, limit: 500 } as const;
  const rows = await allRows((from) => journal.list<"items">({ ...asked, ...from }));
  for (const stream of new Set(rows.map((row) => row.stream))) {
    if (isLive(leases.get(stream))) continue;
    const session = streamId(stream);
    const worker = await journal.load(workerKind, workerId({ kind: "session", session }));
    if (worker.state.status !== "idle") continue;
    if (!("over" in (await remainingWork(journal, session, { life: null }))))
      await wantWorker(journal, session);
  }
}

export type Outlook = "start" | "wait" | { readonly over: string };

export async function outlookOf(
  journal: Journal,
  session: string,
  worker: WorkerState,
  news: SessionNews,
): Promise<Outlook> {
  const stream = streamName("session", session);
  const rest = await remainingWork(journal, session, worker);
  if ("over" in rest) return rest;
  if (rest.isStale) return "wait";
  if (isLive((await journal.leases.find(stream)) ?? undefined)) return "wait";
  if (worker.status === "looping" && !(await news.hasNewsSince(session, worker.leftAt))) return "wait";
  if (worker.status === "waiting" && (await blockedOn(journal, session)) === "person") return "wait";
  return "start";
}

interface RemainingWork {
  readonly open: readonly Call[];
  /** Ids of queued prompts. */
  readonly prompts: readonly string[];
  readonly isUnfinished: boolean;
  readonly isStale: boolean;
}

export async function remainingWork(
  journal: Journal,
  session: string,
  { life }: Pick<WorkerState, "life">,
): Promise<{ readonly over: string } | RemainingWork> {
  const row = await journal.row(streamName("session", session));
  if (row.state !== "live" || (life !== null && row.head.generation !== life))
    return { over: "it was removed" };
  if (row.facets.status !== "active") return { over: `it is ${row.facets.status}` };
  const { state } = await journal.load(sessionKind, session);
  if (state.goal !== null) return { over: "it continues with its task" };
  if (state.parent !== null) return { over: "it continues with its parent" };
  const whom = drivenBy(state);
  if (whom !== null) return { over: `it continues with ${whom}` };
  if (isAnswered(state)) return { over: "it is answered" };
  const open = openCallsOf(state);
  const isStale = state.ttlMs !== null && journal.now() - state.updatedAt > state.ttlMs;
  const prompts = state.prompts.map(({ id }) => id);
  return { open, prompts, isUnfinished: open.length > 0 || state.unfinished.size > 0, isStale };
}

function isAnswered(state: SessionState): boolean {
  const { messages, unfinished, prompts, calls, callSlots } = state;
  if (messages.at(-1)?.role !== "assistant") return false;
  if (unfinished.size > 0 || prompts.length > 0 || openCallsOf(state).length > 0) return false;
  const own = messages.filter(isOfItsProgram);
  const areNamed = own.length > 0 && own.every(({ id }) => !GENERATED_ID.test(id));
  return !areNamed && [...calls.keys()].every((id) => callSlots.has(id));
}

function isOfItsProgram({ role, meta }: Message): boolean {
  return role === "user" && meta?.["holdfast"] === undefined && meta?.["by"] === undefined;
}

/** An id made by `journal.newId`: the program gave the message none. */
const GENERATED_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

// ---- News
//
// An event is news if it says, starts or settles something, or if a person acts. Taking a session, looking at
// its open calls and releasing it again writes events, too, which are no news however often they come.

const NO_NEWS: readonly string[] = [
  "session.taken",
  "session.described",
  "budget.reserved",
  "call.lost",
  "call.verified",
  "call.waiting",
];

function isNews({ type, data }: Event): boolean {
  const { attempt = 1, lost = false } = data as { attempt?: number; lost?: boolean };
  if (type === "call.issued") return attempt === 1;
  if (type === "budget.settled") return !lost;
  return !NO_NEWS.includes(type);
}

type Positions = ReadonlyMap<string, number>;

export class SessionNews {
  readonly #journal: Journal;
  /** By stream: the position up to which it was read, and the position of its latest news. */
  readonly #read = new Map<string, { generation: number; seq: number; news: number }>();

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  async positions(session: string): Promise<Positions> {
    const members = await withSubAgents(this.#journal, session);
    return new Map(members.map(({ row }) => [row.stream, row.head.seq]));
  }

  async hasNewsAfter(session: string, positions: Positions): Promise<boolean> {
    for (const { row } of await withSubAgents(this.#journal, session)) {
      const events = this.#journal.events(row.stream, positions.get(row.stream) ?? 0);
      for await (const [, event] of events) if (isNews(event)) return true;
    }
    return false;
  }

  /** Like `hasNewsAfter`, for recorded positions. Clocks differ, so times would not do. */
  async hasNewsSince(session: string, positions: Readonly<Record<string, number>>): Promise<boolean> {
    for (const { row } of await withSubAgents(this.#journal, session)) {
      const position = positions[row.stream] ?? 0;
      if (row.head.seq > position && (await this.#latestNews(row, position)) > position) return true;
    }
    return false;
  }

  /** Reads every event once: a looping session is checked at every sweep, perhaps for days. */
  async #latestNews({ stream, head }: StreamRow, from: number): Promise<number> {
    const known = this.#read.get(stream);
    const { generation } = head;
    const read = known?.generation === generation ? known : { generation, seq: from, news: 0 };
    this.#read.set(stream, read);
    for await (const [seq, event] of this.#journal.events(stream, read.seq)) {
      read.seq = seq;
      if (isNews(event)) read.news = seq;
    }
    return read.news;
  }
}
