/** Taking away old checkpoints of a thread, and listing threads. `removal.ts` takes a thread as a whole. */

import { type Decision, everyRow, type Journal } from "../../journal/index.ts";
import type { StreamRow } from "../../store.ts";
import { FAILURES } from "./failed-effects.ts";
import { threadKind } from "./thread-kind.ts";
import type { Space, ThreadState } from "./thread-state.ts";

const PAGE = 200;

export function dropOld(state: ThreadState, keepLast: number): Decision<number> {
  const drops = [...state.spaces]
    .map(([ns, space]) => ({ ns, ids: droppable(space, keepLast) }))
    .filter(({ ids }) => ids.length > 0);
  const noted = state.spaces.get(FAILURES)?.slots;
  const notes = drops.find(({ ns }) => ns === "")?.ids.filter((id) => noted?.has(id)) ?? [];
  const all = notes.length > 0 ? [...drops, { ns: FAILURES, ids: notes }] : drops;
  return {
    events: all.map((data) => ({ type: "checkpoints.dropped", data })),
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
