/** I2: no acknowledged record is lost or changed. */

import { type Evidence, field, type Rule, type Violation } from "./evidence.ts";

export const nothingLost: Rule = (evidence) => {
  const { acks, writes, problems } = evidence;
  const stored = new Map(writes.map((write) => [`${write.stream} ${write.first} ${write.batch}`, write]));
  const lost = acks.flatMap((ack): Violation[] => {
    if (ack.t !== "append") return [];
    const what = `${ack.stream} ${ack.first}-${ack.last}`;
    const found = stored.get(`${ack.stream} ${ack.first} ${ack.batch}`);
    if (!found) return [{ invariant: "I2", what: `${what} was acknowledged and is not there` }];
    if (found.sum === ack.sum && found.last === ack.last) return [];
    return [{ invariant: "I2", what: `${what} is not what was acknowledged` }];
  });
  return [
    ...lost,
    ...settledTooEarly(evidence),
    ...problems.map(({ invariant, where, what }) => ({
      invariant: invariant === "medium" ? "I2" : invariant,
      what: `${where}: ${what}`,
    })),
  ];
};

/** By the agent's own record: the store had acknowledged the outcome before the program relied on it. */
function settledTooEarly({ acks, sessions }: Evidence): Violation[] {
  const found: Violation[] = [];
  const told = new Set<string>();
  for (const ack of acks) {
    if (ack.t === "append") told.add(ack.batch);
    if (ack.t !== "settled") continue;
    const events = sessions.find(({ id }) => id === ack.session)?.events ?? [];
    const outcome = events.find(
      (event) => event.type === "call.completed" && field(event, "callId") === ack.callId,
    );
    // Others append in processes of their own: a person, for example.
    const isOwn = outcome && field(outcome, "by") === "execute";
    if (!outcome || (isOwn && !told.has(outcome.batch)))
      found.push({
        invariant: "I2",
        what: `the outcome of ${ack.callId} was not durable when it was settled`,
      });
  }
  return found;
}
