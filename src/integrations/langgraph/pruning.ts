/** Taking away: old checkpoints of a thread, threads that nobody used for long, a thread as a whole. */

import { type Decision, everyRow, type Journal } from "../../journal/index.ts";
import { HoldfastError, streamName } from "../../model/index.ts";
import type { StreamRow } from "../../store.ts";
import { threadKind } from "./thread-kind.ts";
import { sessionIdOf, streamIdOf } from "./thread-name.ts";
import type { Space, ThreadState } from "./thread-state.ts";

const PAGE = 200;

export function dropOld(state: ThreadState, keepLast: number): Decision<number> {
  const drops = [...state.spaces]
    .map(([ns, space]) => ({ ns, ids: droppable(space, keepLast) }))
    .filter(({ ids }) => ids.length > 0);
  return {
    events: drops.map((data) => ({ type: "checkpoints.dropped", data })),
    result: drops.reduce((sum, { ids }) => sum + ids.length, 0),
  };
}

function droppable(space: Space, keepLast: number): string[] {
  const kept = new Set(space.order.slice(-keepLast));
  for (const id of [...kept]) {
    for (const needed of neededFor(space, id)) kept.add(needed);
  }
  return space.order.filter((id) => !kept.has(id));
}

/** The ancestors whose writes make up the delta channels of a checkpoint, back to the one that has the value. */
function* neededFor({ slots }: Space, id: string): Generator<string> {
  const checkpoint = slots.get(id)?.checkpoint;
  const missing = new Set(checkpoint?.delta.filter((channel) => !checkpoint.values.has(channel)));
  // Before version 4, tasks that were sent are in the writes of the parent.
  if (checkpoint && checkpoint.v < 4 && checkpoint.parent !== null) yield checkpoint.parent;
  for (let at = checkpoint?.parent ?? null; at !== null && missing.size > 0; ) {
    const ancestor = slots.get(at)?.checkpoint;
    if (!ancestor) return;
    yield at;
    for (const channel of missing) if (ancestor.values.has(channel)) missing.delete(channel);
    at = ancestor.parent;
  }
}

export function threadStreams(
  journal: Journal,
  only: { readonly expiredAt?: number } = {},
): AsyncGenerator<StreamRow> {
  const request = { of: "streams", kind: threadKind.kind, limit: PAGE, ...only } as const;
  return everyRow((from) => journal.list<"streams">({ ...request, ...from }));
}

/** What was written to since it was found is not removed: the removal is conditional on where the thread ended. */
export async function removeExpired(journal: Journal): Promise<string[]> {
  const expired: StreamRow[] = [];
  for await (const row of threadStreams(journal, { expiredAt: journal.now() })) expired.push(row);
  const removed: string[] = [];
  for (const { stream, head, facets } of expired) {
    const thread = facets.title ?? "";
    if ((await hasOpenEffects(journal, thread)) || (await journal.leases.isHeld(effectsOf(thread)))) continue;
    const { store, namespace } = journal;
    const outcome = await store.remove({ of: "stream", namespace, stream, expect: head });
    if (outcome.outcome !== "removed") continue;
    await journal.remove(effectsOf(thread));
    removed.push(thread);
  }
  return removed;
}

/** The thread goes before the record of its effects: a crash in between must not leave a thread that repeats them. */
export async function removeThread(journal: Journal, thread: string): Promise<void> {
  if (await hasOpenEffects(journal, thread)) throw stillAtWork(thread, "has effects without an outcome");
  if (await journal.leases.isHeld(effectsOf(thread))) throw stillAtWork(thread, "is being run");
  const { store, namespace } = journal;
  const stream = streamName(threadKind.kind, streamIdOf(thread));
  for (;;) {
    const { state, head } = await journal.row(stream);
    if (state === "gone") break;
    const outcome = await store.remove({ of: "stream", namespace, stream, expect: head });
    if (outcome.outcome !== "conflict") break;
  }
  const effects = await journal.remove(effectsOf(thread));
  if (effects === "held" || effects === "open") throw stillAtWork(thread, "is being run");
}

function effectsOf(thread: string): string {
  return streamName("session", sessionIdOf(thread));
}

async function hasOpenEffects(journal: Journal, thread: string): Promise<boolean> {
  return (await journal.row(effectsOf(thread))).facets.openCalls > 0;
}

function stillAtWork(thread: string, what: string): HoldfastError {
  return new HoldfastError("STREAM_BUSY", `thread ${thread} cannot be deleted: it ${what}`, {
    hint: "Stop its run, or answer its calls with holdfast.calls.resolve(), then delete it again.",
    data: { thread, session: sessionIdOf(thread) },
  });
}
