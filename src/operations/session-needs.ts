/** What sessions need of a person, as `status` says it: the most urgent first, each with the command that helps. */

import type { ItemRow, Store } from "../store.ts";
import { leasesOf } from "./held-leases.ts";
import { age, type Need } from "./need.ts";

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
  return [
    ...waitingNeeds(waiting, now),
    ...unattendedNeeds(others.filter(({ stream }) => !held.has(stream))),
  ];
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
