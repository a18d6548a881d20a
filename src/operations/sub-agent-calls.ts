/** Which open calls wait for calls of their sub-agents: a person answers for those, and not for the ones above them. */

import { allRows } from "../journal/index.ts";
import { streamId, streamName } from "../model/index.ts";
import type { ItemRow, Store } from "../store.ts";

/** By its name, which no other session has: nothing has to be read for it. */
export function isSubAgent(session: string): boolean {
  return /^sub-[0-9a-f]{32}$/.test(session);
}

/**
 * The innermost open calls of the sub-agent that works for a call, by that call's row. `open` are all calls without an outcome.
 * Only what lists show is read, and where no sub-agent has an open call, nothing: `status` asks for this.
 */
export async function openCallsBelow(
  store: Pick<Store, "list">,
  namespace: string,
  open: readonly ItemRow[],
): Promise<ReadonlyMap<ItemRow, readonly ItemRow[]>> {
  const below = new Map<ItemRow, readonly ItemRow[]>();
  if (!open.some(({ stream }) => isSubAgent(streamId(stream)))) return below;
  const { childId, lifeOf } = await import("../session/index.ts");
  const asked = { of: "streams", namespace, kind: "session", openCalls: true, limit: 500 } as const;
  const sessions = await allRows((from) => store.list<"streams">({ ...asked, ...from }));
  const generations = new Map(sessions.map(({ stream, head }) => [stream, head.generation]));
  const byStream = new Map<string, ItemRow[]>();
  for (const call of open) byStream.set(call.stream, [...(byStream.get(call.stream) ?? []), call]);
  const innermost = ({ stream, id }: ItemRow): readonly ItemRow[] => {
    const life = lifeOf(streamId(stream), generations.get(stream) ?? 1);
    const theirs = byStream.get(streamName("session", childId(life, id))) ?? [];
    return theirs.flatMap((call) => {
      const further = innermost(call);
      return further.length === 0 ? [call] : further;
    });
  };
  for (const call of open) {
    const calls = innermost(call);
    if (calls.length > 0) below.set(call, calls);
  }
  return below;
}
