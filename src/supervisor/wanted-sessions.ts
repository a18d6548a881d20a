/**
 * Sessions that a worker is wanted for, and what is left to do in them.
 *
 * Wanted is whatever crashed, also where nobody starts workers: who does may come later. Whether there still is anything
 * to do is looked at right before each start, because until then anybody may have gone on with the session or ended it.
 *
 *     removed · ended · of a goal · a sub-agent · of a client elsewhere · answered ──▶ over
 *     somebody holds it · its last worker left it to a person, who has not answered ──▶ not now
 *     its workers died again and again, and nothing has happened since ──▶ not now
 *     it is past its time to live: a worker would be refused until somebody has looked ──▶ not now
 *     else ──▶ a worker may start
 *
 * `answered`: the last word is the model's, nothing is open or queued, and whoever runs the session anew would put a prompt
 * without a name once more. Where all prompts have names, or calls are made without a model, a program may have more in mind
 * than its messages say, and what it repeats is answered from the record.
 */

import type { Journal } from "../journal/index.ts";
import { streamName } from "../model/names.ts";
import {
  type Call,
  type Message,
  openCallsOf,
  type SessionState,
  sessionKind,
} from "../model/session/index.ts";
import type { Event } from "../model/stream/index.ts";
import { drivenBy } from "../session/index.ts";
import type { StreamRow } from "../store.ts";
import { blockedOn, withSubAgents } from "./blocked-on.ts";
import { isLive } from "./crashed-sessions.ts";
import { type Work, type WorkerState, workerId, workerKind } from "./worker-kind.ts";

/**
 * Whether anything has happened in a session or with its sub-agents: something was said, begun or settled, or a person has
 * spoken. Whoever takes a session, looks at its open calls and lets go of it again writes, too; that by itself is nothing new,
 * however often.
 */

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

/** How far each of the logs had come. */
type Places = ReadonlyMap<string, number>;

export class SessionNews {
  readonly #journal: Journal;
  /** Up to where a log has been read, and where the latest news in it stands. */
  readonly #read = new Map<string, { life: number; seq: number; news: number }>();

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  async places(session: string): Promise<Places> {
    const members = await withSubAgents(this.#journal, session);
    return new Map(members.map(({ row }) => [row.stream, row.head.seq]));
  }

  async hasComeBehind(session: string, places: Places): Promise<boolean> {
    for (const { row } of await withSubAgents(this.#journal, session)) {
      const events = this.#journal.events(row.stream, places.get(row.stream) ?? 0);
      for await (const [, event] of events) if (isNews(event)) return true;
    }
    return false;
  }

  /** The same, by places that were recorded. Times would not do: those who write have clocks of their own. */
  async hasComeSince(session: string, places: Readonly<Record<string, number>>): Promise<boolean> {
    for (const { row } of await withSubAgents(this.#journal, session)) {
      const place = places[row.stream] ?? 0;
      if (row.head.seq > place && (await this.#latestNews(row, place)) > place) return true;
    }
    return false;
  }

  /** Every look asks this of what loops, for days maybe: what was read once is not read again. */
  async #latestNews({ stream, head }: StreamRow, from: number): Promise<number> {
    const known = this.#read.get(stream);
    const read = known?.life === head.generation ? known : { life: head.generation, seq: from, news: 0 };
    this.#read.set(stream, read);
    for await (const [seq, event] of this.#journal.events(stream, read.seq)) {
      read.seq = seq;
      if (isNews(event)) read.news = seq;
    }
    return read.news;
  }
}

/** A session of a goal goes on with its task: that is wanted for itself. */
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

export type Outlook = "start" | "wait" | { readonly over: string };

export async function outlookOf(
  journal: Journal,
  session: string,
  worker: WorkerState,
  news: SessionNews,
): Promise<Outlook> {
  const stream = streamName("session", session);
  const left = await whatIsLeft(journal, session, worker);
  if ("over" in left) return left;
  if (left.isStale) return "wait";
  if (isLive((await journal.leases.find(stream)) ?? undefined)) return "wait";
  if (worker.status === "looping" && !(await news.hasComeSince(session, worker.leftAt))) return "wait";
  if (worker.status === "waiting" && (await blockedOn(journal, session)) === "person") return "wait";
  return "start";
}

interface Left {
  readonly open: readonly Call[];
  /** Calls are open, or were asked for and not even begun. */
  readonly isUnfinished: boolean;
  /** As whoever opens it counts. */
  readonly isStale: boolean;
}

/** Why there is nothing to do, or what is left. */
export async function whatIsLeft(
  journal: Journal,
  session: string,
  { life }: WorkerState,
): Promise<{ readonly over: string } | Left> {
  const row = await journal.row(streamName("session", session));
  if (row.state !== "live" || (life !== null && row.head.generation !== life)) return REMOVED;
  if (row.facets.status !== "active") return { over: `it is ${row.facets.status}` };
  const { state } = await journal.load(sessionKind, session);
  if (state.goal !== null) return { over: "it goes on with its task" };
  if (state.parent !== null) return { over: "it goes on with its parent" };
  const whom = drivenBy(state);
  if (whom !== null) return { over: `it goes on with ${whom}` };
  if (isAnswered(state)) return { over: "it is answered" };
  const open = openCallsOf(state);
  const isStale = state.ttlMs !== null && journal.now() - state.updatedAt > state.ttlMs;
  return { open, isUnfinished: open.length > 0 || state.unfinished.size > 0, isStale };
}

const REMOVED = { over: "it was removed" } as const;

function isAnswered(state: SessionState): boolean {
  const { messages, unfinished, prompts, calls, callSlots } = state;
  if (messages.at(-1)?.role !== "assistant") return false;
  if (unfinished.size > 0 || prompts.length > 0 || openCallsOf(state).length > 0) return false;
  const own = messages.filter(isOfItsProgram);
  const areNamed = own.length > 0 && own.every(({ id }) => !GIVEN_ID.test(id));
  return !areNamed && [...calls.keys()].every((id) => callSlots.has(id));
}

/** Neither a note of the loop nor what somebody queued from outside, whose name stands with it: no program puts those. */
function isOfItsProgram({ role, meta }: Message): boolean {
  return role === "user" && meta?.["holdfast"] === undefined && meta?.["by"] === undefined;
}

/** An id of `journal.newId`: whoever wrote the message gave it none. */
const GIVEN_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;
