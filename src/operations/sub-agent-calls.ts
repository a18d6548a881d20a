/**
 * Finds open calls that wait for calls of their sub-agents. A person answers the inner calls, not the outer
 * ones. `status` reads this, so it uses only lists and folds nothing.
 */

import { allRows } from "../journal/index.ts";
import { streamId, streamName } from "../model/names.ts";
import { childId, incarnationOf } from "../session/index.ts";
import type { ItemRow } from "../store.ts";
import type { Source } from "./current-goal.ts";

type InnerCalls = ReadonlyMap<ItemRow, readonly ItemRow[]>;

/** For each call of `open` that has a sub-agent with open calls: the innermost of those. */
export async function openCallsBelow(
  { store, namespace }: Source,
  open: readonly ItemRow[],
): Promise<InnerCalls> {
  const request = { of: "streams", namespace, kind: "session", openCalls: true, limit: 500 } as const;
  const sessions = await allRows((from) => store.list<"streams">({ ...request, ...from }));
  const generations = new Map(sessions.map(({ stream, head }) => [stream, head.generation]));
  const byStream = new Map<string, ItemRow[]>();
  for (const call of open) {
    const known = byStream.get(call.stream);
    if (known) known.push(call);
    else byStream.set(call.stream, [call]);
  }
  const innermost = ({ stream, id }: ItemRow): readonly ItemRow[] => {
    const parent = incarnationOf(streamId(stream), generations.get(stream) ?? 1);
    const inner = byStream.get(streamName("session", childId(parent, id))) ?? [];
    return inner.flatMap((call) => {
      const further = innermost(call);
      return further.length === 0 ? [call] : further;
    });
  };
  const below = new Map<ItemRow, readonly ItemRow[]>();
  for (const call of open) {
    const calls = innermost(call);
    if (calls.length > 0) below.set(call, calls);
  }
  return below;
}

/** Splits calls that no process runs: `rest` needs a person, `waiting` says which resume without one. */
export async function withoutWaiting(
  source: Source,
  open: readonly ItemRow[],
  unattended: readonly ItemRow[],
): Promise<{ readonly rest: readonly ItemRow[]; readonly waiting: string | null }> {
  const below = await openCallsBelow(source, open);
  const outer = unattended.filter((call) => below.has(call));
  return { rest: unattended.filter((call) => !below.has(call)), waiting: describe(outer, below) };
}

function describe(calls: readonly ItemRow[], below: InnerCalls): string | null {
  const [only, second] = calls;
  const [inner] = (only && below.get(only)) ?? [];
  if (!only || !inner) return null;
  return second
    ? `${calls.length} calls resume once their sub-agents' calls are answered and their agents run again`
    : `${callLabel(only)} resumes once ${callLabel(inner)} is answered and its agent runs again`;
}

function callLabel({ name, id, stream }: ItemRow): string {
  return `${name} ${id} of ${streamId(stream)}`;
}
