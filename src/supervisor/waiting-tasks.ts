/** A task whose worker ended well because a session that it works in waits for a person. */

import { allRows, type Journal } from "../journal/index.ts";
import { streamId } from "../model/names.ts";
import { hindranceOf } from "./hindrance.ts";

/**
 * The session of that goal which the worker has had open since it was started, and in which it could not go on without a
 * person; null where there is none. Which task a session is for is not on record: the worker's own was written to last.
 */
export async function sessionLeftToPerson(
  journal: Journal,
  goal: string,
  since: number,
): Promise<string | null> {
  const asked = { of: "streams", kind: "session", goal, openCalls: true, limit: 500 } as const;
  const rows = await allRows((from) => journal.list<"streams">({ ...asked, ...from }));
  for (const { stream, updatedAt } of rows) {
    const session = streamId(stream);
    if (updatedAt >= since && (await hindranceOf(journal, session)) === "person") return session;
  }
  return null;
}
