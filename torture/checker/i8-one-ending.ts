/** I8: a call has one terminal state, and nothing happens to it afterwards. */

import { historyOf, type Rule, type Violation } from "./evidence.ts";

const ENDINGS = new Set(["call.completed", "call.failed", "call.repeated"]);

export const oneEnding: Rule = ({ sessions }) => {
  return sessions.flatMap((session) => {
    const unreadable: Violation[] = session.foldError
      ? [{ invariant: "I8", what: `${session.id} cannot be folded: ${session.foldError}` }]
      : [];
    return [...unreadable, ...[...historyOf(session)].flatMap(([id, history]) => afterTheEnd(id, history))];
  });
};

function afterTheEnd(id: string, history: readonly { type: string; seq: number }[]): Violation[] {
  const end = history.findIndex(({ type }) => ENDINGS.has(type));
  if (end < 0) return [];
  return history.slice(end + 1).map(({ type, seq }) => {
    return { invariant: "I8", what: `${id} had ended; then came ${type} at ${seq}` };
  });
}
