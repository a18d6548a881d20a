/** I1: every effect has a durable `issued` before it, and only calls that start now are issued. */

import { type Evidence, field, type Logged, type Rule, type SessionLog, type Violation } from "./evidence.ts";

const violation = (what: string): Violation => ({ invariant: "I1", what });

export const intentBeforeEffect: Rule = (evidence) => [
  ...evidence.world.flatMap((entry): Violation[] => {
    if (entry.kind === "read" || entry.kind === "verified") return [];
    const { session, callId, attempt, key } = entry;
    const issued = findIssued(evidence, session, callId, attempt);
    const place = `${entry.kind} of ${session}/${callId} attempt ${attempt}`;
    if (!issued) return [violation(`${place}: the log has no such intent`)];
    return field(issued, "vendorKey") === key ? [] : [violation(`${place}: sent with another key`)];
  }),
  ...startsWithoutAcknowledgement(evidence),
  ...evidence.sessions.flatMap((session) => tooManyAtOnce(session, evidence.scenario.parallel)),
];

function findIssued(
  evidence: Evidence,
  session: string,
  callId: string,
  attempt: number,
): Logged | undefined {
  const log = evidence.sessions.find((each) => each.id === session);
  return log?.events.find((event) => {
    return (
      event.type === "call.issued" && field(event, "callId") === callId && field(event, "attempt") === attempt
    );
  });
}

/** By the agent's own record: its intent was acknowledged before its tool began. */
function startsWithoutAcknowledgement(evidence: Evidence): Violation[] {
  const told = new Set<string>();
  const found: Violation[] = [];
  for (const ack of evidence.acks) {
    if (ack.t === "append") told.add(ack.batch);
    if (ack.t !== "start") continue;
    const issued = findIssued(evidence, ack.session, ack.callId, ack.attempt);
    if (issued && !told.has(issued.batch)) {
      found.push(violation(`${ack.callId} attempt ${ack.attempt} began before its intent was acknowledged`));
    }
  }
  return found;
}

/** A call that is issued but not started would be unknown after a crash for no reason. */
function tooManyAtOnce(session: SessionLog, parallel: number): Violation[] {
  const issued = new Set<string>();
  let most = 0;
  session.events.forEach((event, index) => {
    if (event.type === "call.issued") issued.add(field(event, "callId"));
    else if (event.type.startsWith("call.")) issued.delete(field(event, "callId"));
    if (session.events[index + 1]?.batch !== event.batch) most = Math.max(most, issued.size);
  });
  if (most <= parallel) return [];
  return [violation(`${session.id}: ${most} calls were issued at once, ${parallel} may run`)];
}
