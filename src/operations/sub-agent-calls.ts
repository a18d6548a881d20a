/** Which open calls wait for calls of their sub-agents: a person answers for those, and not for the ones above them. */

import { allRows } from "../journal/index.ts";
import { streamId, streamName } from "../model/names.ts";
import { childId, incarnationOf } from "../session/index.ts";
import type { ItemRow, Store } from "../store.ts";
import type { Need } from "./status.ts";

type Lister = Pick<Store, "list">;
type Below = ReadonlyMap<ItemRow, readonly ItemRow[]>;

/**
 * The innermost open calls of the sub-agent that works for a call, by that call's row. `open` are all calls without an outcome.
 * Only what lists show is read, because `status` asks for this.
 */
export async function openCallsBelow(
  store: Lister,
  namespace: string,
  open: readonly ItemRow[],
): Promise<Below> {
  const asked = { of: "streams", namespace, kind: "session", openCalls: true, limit: 500 } as const;
  const sessions = await allRows((from) => store.list<"streams">({ ...asked, ...from }));
  const generations = new Map(sessions.map(({ stream, head }) => [stream, head.generation]));
  const byStream = new Map<string, ItemRow[]>();
  for (const call of open) {
    const known = byStream.get(call.stream);
    if (known) known.push(call);
    else byStream.set(call.stream, [call]);
  }
  const innermost = ({ stream, id }: ItemRow): readonly ItemRow[] => {
    const life = incarnationOf(streamId(stream), generations.get(stream) ?? 1);
    const theirs = byStream.get(streamName("session", childId(life, id))) ?? [];
    return theirs.flatMap((call) => {
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

/** Of calls that nobody runs, those that somebody has to see to, and what `status` says of the others. */
export async function withoutWaiting(
  store: Lister,
  namespace: string,
  open: readonly ItemRow[],
  unattended: readonly ItemRow[],
): Promise<{ readonly rest: readonly ItemRow[]; readonly needs: Need[] }> {
  const below = await openCallsBelow(store, namespace, open);
  const above = unattended.filter((call) => below.has(call));
  return { rest: unattended.filter((call) => !below.has(call)), needs: needsOf(above, below) };
}

function needsOf(calls: readonly ItemRow[], below: Below): Need[] {
  const [only, second] = calls;
  const [first] = (only && below.get(only)) ?? [];
  if (!only || !first) return [];
  const what = second
    ? `${calls.length} calls go on by themselves once those of their sub-agents are answered and their agents run again`
    : `${called(only)} goes on by itself once ${called(first)} is answered and its agent run again`;
  return [{ what, command: "holdfast calls" }];
}

function called({ name, id, stream }: ItemRow): string {
  return `${name} ${id} of ${streamId(stream)}`;
}
