/** What sessions need of a person, as `status` says it: the most urgent first, each with the command that helps. */

import { allRows } from "../journal/index.ts";
import { age } from "../model/time.ts";
import type { ItemRow, Store, StreamRow } from "../store.ts";
import { leasesOf } from "./held-leases.ts";
import type { Need } from "./need.ts";

/** `open` are all calls without an outcome. */
export async function callNeeds(
  store: Pick<Store, "list">,
  namespace: string,
  open: readonly ItemRow[],
  now: number,
): Promise<Need[]> {
  const waiting = open.filter(({ status }) => status === "waiting");
  const others = open.filter(({ status }) => status !== "waiting");
  const streams = [...new Set(others.map(({ stream }) => stream))];
  const { held } = await leasesOf(store, namespace, "session/", streams);
  const unattended = others.filter(({ stream }) => !held.has(stream));
  const { rest, needs } = open.some(({ stream }) => isSubAgent(stream.slice("session/".length)))
    ? await (await import("./sub-agent-calls.ts")).withoutWaiting(store, namespace, open, unattended)
    : { rest: unattended, needs: [] };
  return [...waitingNeeds(waiting, now), ...unattendedNeeds(rest), ...needs];
}

/** By its name, which no other session has: nothing has to be read for it. */
export function isSubAgent(session: string): boolean {
  return /^sub-[0-9a-f]{32}$/.test(session);
}

function waitingNeeds(waiting: readonly ItemRow[], now: number): Need[] {
  const [oldest] = waiting;
  if (!oldest) return [];
  const since = oldest.at === null ? "" : `, since ${age(now - oldest.at)}`;
  const who = waiting.length === 1 ? "1 call waits" : `${waiting.length} calls wait`;
  return [{ what: `${who} for you${since}`, command: "holdfast calls" }];
}

/** Nobody finds out what became of these before somebody runs their session. */
function unattendedNeeds(calls: readonly ItemRow[]): Need[] {
  const [first, second] = calls;
  if (!first) return [];
  const session = first.stream.slice("session/".length);
  const what = second
    ? `${calls.length} calls have no outcome, and nobody runs them: run their agents again, or answer for them`
    : `${first.name} ${first.id} of ${session} has no outcome, and nobody runs it: run the agent again, or answer for it`;
  return [{ what, command: "holdfast calls" }];
}

export function crashNeeds(crashed: number): Need[] {
  if (crashed === 0) return [];
  const what = crashed === 1 ? "1 session crashed" : `${crashed} sessions crashed`;
  return [{ what: `${what}, run the agent again or clear up`, command: "holdfast supervise --once" }];
}

/** Sessions that supervisors leave alone until somebody has looked, by what they have on record of their workers. */
export async function leftAloneNeeds(
  store: Pick<Store, "list">,
  namespace: string,
  now: number,
): Promise<Need[]> {
  const list = (asked: { kind: string; status: string }): Promise<StreamRow[]> =>
    allRows((from) => store.list<"streams">({ of: "streams", namespace, limit: 500, ...asked, ...from }));
  const workers = [
    ...(await list({ kind: "worker", status: "looping" })),
    ...(await list({ kind: "worker", status: "wanted" })),
  ].filter(({ facets }) => facets.title?.startsWith(OF_SESSION));
  if (workers.length === 0) return [];
  const active = await list({ kind: "session", status: "active" });
  const sessions = new Map(active.map((row) => [row.stream.slice("session/".length), row]));
  const { held } = await leasesOf(
    store,
    namespace,
    "session/",
    active.map(({ stream }) => stream),
  );
  return workers.flatMap((worker) => {
    const id = worker.facets.title?.slice(OF_SESSION.length) ?? "";
    const session = sessions.get(id);
    if (!session || held.has(session.stream)) return [];
    const what = whyLeftAlone(worker, session, now);
    return what === null ? [] : [{ what: what(id), command: `holdfast session retry ${id}` }];
  });
}

const OF_SESSION = "session ";

function whyLeftAlone(
  worker: StreamRow,
  { facets, updatedAt }: StreamRow,
  now: number,
): ((id: string) => string) | null {
  if (facets.expiresAt !== null && facets.expiresAt < now)
    return (id) => `session ${id} is past its time to live: look at it, then let it go on`;
  // What was written to it since, its agent or a person wrote.
  if (worker.facets.status !== "looping" || updatedAt > worker.updatedAt) return null;
  return (id) => `workers for session ${id} died again and again: find out why, then let it be tried`;
}
