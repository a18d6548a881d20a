/**
 * Removing a thread, and pruning its old checkpoints.
 *
 * A thread is two streams, its checkpoints and the record of its effects, and no commit covers both:
 *
 *     lock the effects ──▶ remove the thread, if unchanged since read ──▶ remove its effects ──▶ unlock
 *
 *  - A crash before the thread is gone leaves everything as it was.
 *  - A crash after that leaves effects without a thread. The other order would be worse: a thread without
 *    the record of its effects can still be invoked, and would repeat them.
 *  - A new thread of the same name must not reuse such leftovers. They are removed before the first
 *    checkpoint of a thread is saved, by `deleteThread`, and by every `removeExpired`.
 *  - The lock keeps effects from starting meanwhile. A record with an open call is not removed.
 *
 * A record counts as a leftover if it existed, and after that its thread did not: effects start only after
 * their thread is saved. It is removed only if unchanged since it was read.
 */

import { randomUUID } from "node:crypto";
import { type Decision, everyRow, type Journal, Lease } from "../../journal/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import { streamId } from "../../model/names.ts";
import type { Guard, StreamRow } from "../../store.ts";
import { FAILURE_NOTES, type Space, type ThreadState } from "./thread-state.ts";
import {
  effectsStream,
  listThreads,
  recordsEffectsOf,
  sessionIdOf,
  threadStream,
  threadStreamOfSession,
} from "./thread-streams.ts";

const PAGE = 200;

export async function removeThread(journal: Journal, thread: string): Promise<void> {
  const { store, namespace } = journal;
  const stream = threadStream(thread);
  const outcome = await withEffectsLocked(journal, thread, async (lock) => {
    for (;;) {
      const { state, head } = await journal.row(stream);
      if (state === "gone") break;
      const outcome = await store.remove({ of: "stream", namespace, stream, expect: head });
      if (outcome.outcome !== "conflict") break;
    }
    return journal.remove(effectsStream(thread), lock);
  });
  if (outcome === "open") throw stillInUse(thread, "deleted", "has effects without an outcome");
  if (outcome === "held") throw stillInUse(thread, "deleted", "is being run");
}

/** Removes threads past their TTL, unless they were written to since they were listed. Returns their ids. */
export async function removeExpired(journal: Journal): Promise<string[]> {
  const expired: StreamRow[] = [];
  for await (const row of listThreads(journal, { expiredAt: journal.now() })) expired.push(row);
  const removed: string[] = [];
  const { store, namespace } = journal;
  for (const { stream, head, facets } of expired) {
    const thread = facets.title ?? "";
    const outcome = await withEffectsLocked(journal, thread, async (lock) => {
      const outcome = await store.remove({ of: "stream", namespace, stream, expect: head });
      if (outcome.outcome !== "removed") return "changed";
      // If the lock was lost meanwhile, the record stays and `removeAllLeftovers` finds it now or next time.
      await journal.remove(effectsStream(thread), lock);
      return "removed";
    });
    if (outcome === "removed") removed.push(thread);
  }
  await removeAllLeftovers(journal);
  return removed;
}

export async function removeLeftoverEffects(journal: Journal, thread: string): Promise<void> {
  const outcome = await removeIfLeftover(journal, effectsStream(thread), threadStream(thread));
  if (outcome === "open")
    throw stillInUse(thread, "begun", "was removed, and left effects without an outcome");
  if (outcome === "held") throw stillInUse(thread, "begun", "was removed while it was being run");
}

async function removeIfLeftover(
  journal: Journal,
  effects: string,
  thread: string,
): Promise<"open" | "held" | "done"> {
  for (;;) {
    const found = await journal.row(effects);
    if (found.state === "gone" || (await journal.row(thread)).state !== "gone") return "done";
    if (!(await recordsEffectsOf(journal, effects, thread))) return "done";
    const outcome = await journal.remove(effects, { head: found.head });
    if (outcome === "open" || outcome === "held") return outcome;
    if (outcome !== "changed") return "done";
  }
}

/** Skips records that are locked or have open calls; the next call tries them again. */
async function removeAllLeftovers(journal: Journal): Promise<void> {
  const threads = new Set<string>();
  for await (const { stream } of listThreads(journal)) threads.add(stream);
  const request = { of: "streams", kind: "session", limit: PAGE } as const;
  const leftovers: (readonly [effects: string, thread: string])[] = [];
  for await (const { stream } of everyRow((from) => journal.list<"streams">({ ...request, ...from }))) {
    const thread = threadStreamOfSession(streamId(stream));
    if (thread !== null && !threads.has(thread)) leftovers.push([stream, thread]);
  }
  for (const [effects, thread] of leftovers) await removeIfLeftover(journal, effects, thread);
}

/** Without a record of effects there is nothing to lock, and a lease would only leave its row behind. */
async function withEffectsLocked<Result>(
  journal: Journal,
  thread: string,
  remove: (lock: { readonly guards?: readonly Guard[] }) => Promise<Result>,
): Promise<Result | "held" | "open"> {
  const effects = effectsStream(thread);
  if ((await journal.row(effects)).state === "gone") return remove({});
  const lease = await journal.leases.take(effects, randomUUID(), { label: "removal", waitMs: 0 });
  if (!(lease instanceof Lease)) return "held";
  try {
    // Checked under the lease: from here on no call can start.
    if ((await journal.row(effects)).facets.openCalls > 0) return "open";
    return await remove({ guards: [lease.guard] });
  } finally {
    await lease.release();
  }
}

function stillInUse(thread: string, what: "deleted" | "begun", why: string): HoldfastError {
  return new HoldfastError("STREAM_BUSY", `thread ${thread} cannot be ${what}: it ${why}`, {
    hint: "Stop its run, or answer its calls with holdfast.calls.resolve(), then try again.",
    data: { thread, session: sessionIdOf(thread) },
  });
}

export function pruneCheckpoints(state: ThreadState, keepLast: number): Decision<number> {
  const drops = [...state.spaces]
    .map(([ns, space]) => ({ ns, ids: findUnused(space, keepLast) }))
    .filter(({ ids }) => ids.length > 0);
  const noted = state.spaces.get(FAILURE_NOTES)?.slots;
  const notes = drops.find(({ ns }) => ns === "")?.ids.filter((id) => noted?.has(id)) ?? [];
  const all = notes.length > 0 ? [...drops, { ns: FAILURE_NOTES, ids: notes }] : drops;
  return {
    events: all.map((data) => ({ type: "checkpoints.dropped", data })),
    result: drops.reduce((sum, { ids }) => sum + ids.length, 0),
  };
}

function findUnused(space: Space, keepLast: number): string[] {
  const used = new Set(space.order.slice(-keepLast));
  for (const id of [...used]) {
    for (const ancestor of ancestorsNeededBy(space, id)) used.add(ancestor);
  }
  return space.order.filter((id) => !used.has(id));
}

/** The ancestors whose writes make up a checkpoint's delta channels, back to the one that has the value. */
function* ancestorsNeededBy({ slots }: Space, id: string): Generator<string> {
  const checkpoint = slots.get(id)?.checkpoint;
  const missing = new Set(checkpoint?.delta.filter((channel) => !checkpoint.values.has(channel)));
  // Checkpoints before version 4 keep their sent tasks in the writes of the parent.
  if (checkpoint && checkpoint.v < 4 && checkpoint.parent !== null) yield checkpoint.parent;
  for (let at = checkpoint?.parent ?? null; at !== null && missing.size > 0; ) {
    const ancestor = slots.get(at)?.checkpoint;
    if (!ancestor) return;
    yield at;
    for (const channel of missing) if (ancestor.values.has(channel)) missing.delete(channel);
    at = ancestor.parent;
  }
}
