/**
 * Sessions that a worker is wanted for, and what is left to do in them.
 *
 * Wanted is whatever crashed, also where nobody starts workers: who does may come later. Whether there still is anything
 * to do is looked at right before each start, because until then anybody may have gone on with the session or ended it.
 *
 *     removed · ended · of a goal · a sub-agent · answered ──▶ over
 *     somebody holds it · a call waits for a person whom its last worker left it to ──▶ not now
 *     else ──▶ a worker may start
 *
 * `answered`: the last word is the model's, nothing is open or queued, and whoever runs the session anew would put a prompt
 * without a name once more. Where prompts have names, or calls are made without a model, a program may have more in mind
 * than its messages say, and what it repeats is answered from the record.
 */

import type { Journal } from "../journal/index.ts";
import { type Call, openCallsOf, type SessionState, sessionKind, streamName } from "../model/index.ts";
import { isLive } from "./leases.ts";
import { type Work, workerId } from "./work.ts";
import { type WorkerState, workerKind } from "./worker-kind.ts";

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

export async function outlookOf(journal: Journal, session: string, worker: WorkerState): Promise<Outlook> {
  const stream = streamName("session", session);
  const left = await whatIsLeft(journal, session, worker);
  if ("over" in left) return left;
  if (isLive((await journal.leases.find(stream)) ?? undefined)) return "wait";
  if (worker.status === "looping" && left.updatedAt <= (worker.loopedAt ?? 0)) return "wait";
  if (worker.status === "waiting" && left.open.some(waitsForAPerson)) return "wait";
  return "start";
}

export function waitsForAPerson({ status }: Call): boolean {
  return status === "waiting";
}

/** Why there is nothing to do, or which calls are open and when anything was last written. */
export async function whatIsLeft(
  journal: Journal,
  session: string,
  { life }: WorkerState,
): Promise<{ readonly over: string } | { readonly open: readonly Call[]; readonly updatedAt: number }> {
  const row = await journal.row(streamName("session", session));
  if (row.state !== "live" || (life !== null && row.head.generation !== life)) return REMOVED;
  if (row.facets.status !== "active") return { over: `it is ${row.facets.status}` };
  const { state } = await journal.load(sessionKind, session);
  if (state.goal !== null) return { over: "it goes on with its task" };
  if (state.parent !== null) return { over: "it goes on with its parent" };
  if (isAnswered(state)) return { over: "it is answered" };
  return { open: openCallsOf(state), updatedAt: row.updatedAt };
}

const REMOVED = { over: "it was removed" } as const;

function isAnswered(state: SessionState): boolean {
  const { messages, unfinished, prompts, calls, callSlots } = state;
  if (messages.at(-1)?.role !== "assistant") return false;
  if (unfinished.size > 0 || prompts.length > 0 || openCallsOf(state).length > 0) return false;
  const prompt = messages.findLast(({ role }) => role === "user");
  const isNamed = prompt !== undefined && !GIVEN_ID.test(prompt.id);
  return !isNamed && [...calls.keys()].every((id) => callSlots.has(id));
}

/** An id of `journal.newId`: whoever wrote the message gave it none. */
const GIVEN_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;
