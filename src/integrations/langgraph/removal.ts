/**
 * Removing a thread: two streams, its checkpoints and the record of its effects, and no commit that takes both.
 *
 *     hold the effects ──▶ remove the thread, if it is as it was found ──▶ remove its effects ──▶ let go
 *
 *  - A crash before the thread is gone leaves everything as it was.
 *  - A crash after that leaves effects without a thread. The other way round would be worse: a thread without the record of
 *    its effects is still there to be invoked, and does them again.
 *  - What is left like that is nobody's: a new thread of the name must not take the results in it for its own. So it is
 *    removed before the first checkpoint of a thread is saved, by `deleteThread` again, and by every `removeExpired`. A crash
 *    in any of these leaves it once more, or not.
 *  - Effects are held meanwhile, so that none can begin, and none can be open: what nobody has answered is not removed.
 *
 * What counts as left: the record was there, and after that its thread was not. Effects begin only when their thread is saved,
 * so the record is of a life that is over; and it goes only as it was seen, so that nothing of a new life goes with it.
 */

import { v7 as uuid } from "uuid";
import { everyRow, type Journal, Lease } from "../../journal/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import { streamId, streamName } from "../../model/names.ts";
import type { Guard, StreamRow } from "../../store.ts";
import { keepsEffectsOf } from "./effect-sessions.ts";
import { threadStreams } from "./pruning.ts";
import { threadKind } from "./thread-kind.ts";
import { servedBy, sessionIdOf, streamIdOf } from "./thread-name.ts";

const PAGE = 200;

/** What was written to since it was found is not removed: the removal is conditional on where the thread ended. */
export async function removeExpired(journal: Journal): Promise<string[]> {
  const expired: StreamRow[] = [];
  for await (const row of threadStreams(journal, { expiredAt: journal.now() })) expired.push(row);
  const removed: string[] = [];
  const { store, namespace } = journal;
  for (const { stream, head, facets } of expired) {
    const thread = facets.title ?? "";
    const outcome = await withEffectsHeld(journal, thread, async (held) => {
      const outcome = await store.remove({ of: "stream", namespace, stream, expect: head });
      if (outcome.outcome !== "removed") return "changed";
      // If the lease was lost meanwhile they stay, and are found below or by the next one.
      await journal.remove(effectsOf(thread), held);
      return "removed";
    });
    if (outcome === "removed") removed.push(thread);
  }
  await removeAllLeft(journal);
  return removed;
}

export async function removeThread(journal: Journal, thread: string): Promise<void> {
  const { store, namespace } = journal;
  const stream = threadOf(thread);
  const outcome = await withEffectsHeld(journal, thread, async (held) => {
    for (;;) {
      const { state, head } = await journal.row(stream);
      if (state === "gone") break;
      const outcome = await store.remove({ of: "stream", namespace, stream, expect: head });
      if (outcome.outcome !== "conflict") break;
    }
    return journal.remove(effectsOf(thread), held);
  });
  if (outcome === "open") throw stillAtWork(thread, "deleted", "has effects without an outcome");
  if (outcome === "held") throw stillAtWork(thread, "deleted", "is being run");
}

/** For a thread that is about to begin: it must not find what an earlier one of its name did. */
export async function removeLeft(journal: Journal, thread: string): Promise<void> {
  const outcome = await removeIfLeft(journal, effectsOf(thread), threadOf(thread));
  if (outcome === "open")
    throw stillAtWork(thread, "begun", "was removed, and left effects without an outcome");
  if (outcome === "held") throw stillAtWork(thread, "begun", "was removed while it was being run");
}

async function removeIfLeft(
  journal: Journal,
  effects: string,
  thread: string,
): Promise<"open" | "held" | "done"> {
  for (;;) {
    const left = await journal.row(effects);
    if (left.state === "gone" || (await journal.row(thread)).state !== "gone") return "done";
    if (!(await keepsEffectsOf(journal, effects, thread))) return "done";
    const outcome = await journal.remove(effects, { head: left.head });
    if (outcome === "open" || outcome === "held") return outcome;
    if (outcome !== "changed") return "done";
  }
}

/** What is held or open is looked at again the next time. */
async function removeAllLeft(journal: Journal): Promise<void> {
  const threads = new Set<string>();
  for await (const { stream } of threadStreams(journal)) threads.add(stream);
  const request = { of: "streams", kind: "session", limit: PAGE } as const;
  const left: (readonly [effects: string, thread: string])[] = [];
  for await (const { stream } of everyRow((from) => journal.list<"streams">({ ...request, ...from }))) {
    const id = servedBy(streamId(stream));
    const thread = id === null ? null : streamName(threadKind.kind, id);
    if (thread !== null && !threads.has(thread)) left.push([stream, thread]);
  }
  for (const [effects, thread] of left) await removeIfLeft(journal, effects, thread);
}

/** Where there is no record of effects, there is nothing to hold: a lease would only leave its row behind. */
async function withEffectsHeld<Result>(
  journal: Journal,
  thread: string,
  remove: (held: { readonly guards?: readonly Guard[] }) => Promise<Result>,
): Promise<Result | "held" | "open"> {
  const effects = effectsOf(thread);
  if ((await journal.row(effects)).state === "gone") return remove({});
  const lease = await journal.leases.take(effects, uuid(), { label: "removal", waitMs: 0 });
  if (!(lease instanceof Lease)) return "held";
  try {
    // Only now: nothing can begin any more.
    if ((await journal.row(effects)).facets.openCalls > 0) return "open";
    return await remove({ guards: [lease.guard] });
  } finally {
    await lease.release();
  }
}

function threadOf(thread: string): string {
  return streamName(threadKind.kind, streamIdOf(thread));
}

function effectsOf(thread: string): string {
  return streamName("session", sessionIdOf(thread));
}

function stillAtWork(thread: string, what: "deleted" | "begun", why: string): HoldfastError {
  return new HoldfastError("STREAM_BUSY", `thread ${thread} cannot be ${what}: it ${why}`, {
    hint: "Stop its run, or answer its calls with holdfast.calls.resolve(), then try again.",
    data: { thread, session: sessionIdOf(thread) },
  });
}
