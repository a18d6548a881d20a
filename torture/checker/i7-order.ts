/** I7: tokens grow, seq is gapless, and nothing is written under an older token after a newer grant. */

import { type Evidence, field, type Rule, type SessionLog, type Violation } from "./evidence.ts";

const violation = (what: string): Violation => ({ invariant: "I7", what });

export const order: Rule = (evidence) => [
  ...grantedTwice(evidence),
  ...evidence.sessions.flatMap((session) => [...gaps(session), ...olderTokens(session, evidence)]),
];

function grantedTwice({ acks }: Evidence): Violation[] {
  const granted = new Set<string>();
  return acks.flatMap((ack) => {
    if (ack.t !== "granted") return [];
    const name = `${ack.name} token ${ack.token}`;
    if (granted.has(name)) return [violation(`${name} was granted twice`)];
    granted.add(name);
    return [];
  });
}

function gaps(session: SessionLog): Violation[] {
  const index = session.events.findIndex((event, at) => event.seq !== at + 1);
  return index < 0 ? [] : [violation(`${session.id}: event ${index + 1} is missing`)];
}

/** Compares acknowledged writes with the grants before them in the log. */
function olderTokens(session: SessionLog, { acks }: Evidence): Violation[] {
  const found: Violation[] = [];
  const tokens = new Map<string, number>();
  for (const ack of acks) {
    if (ack.t === "append" && ack.token !== null && ack.stream === `session/${session.id}`)
      tokens.set(ack.batch, ack.token);
  }
  let newest = 0;
  for (const event of session.events) {
    const place = `${session.id}: ${event.type} at ${event.seq}`;
    if (event.type === "session.taken") {
      const token = field<number>(event, "token");
      if (token <= newest) found.push(violation(`${place} has token ${token} after ${newest}`));
      newest = Math.max(newest, token);
    }
    const token = tokens.get(event.batch);
    if (token !== undefined && token < newest)
      found.push(violation(`${place} was written under token ${token}, after ${newest} was granted`));
    if (event.type === "call.issued" && field<number>(event, "token") !== newest)
      found.push(violation(`${place} was issued under token ${field(event, "token")}, not ${newest}`));
  }
  return found;
}
