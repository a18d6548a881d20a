/** I14: once faults stop, every session ends or waits for a person, visibly. */

import { EXIT } from "../scenario.ts";
import type { Rule, Violation } from "./evidence.ts";

const violation = (what: string): Violation => ({ invariant: "I14", what });

/** The harness runs the program again and answers every question, so in the end nothing may be open. */
export const comesToAnEnd: Rule = ({ ended, acks, sessions }) => {
  const found: Violation[] = [];
  if (ended !== EXIT.done) {
    const last = acks.findLast((ack) => ack.t === "end");
    const error = last?.t === "end" && last.error ? `: ${last.error}` : "";
    found.push(violation(`the program does not come to an end (exit ${ended}${error})`));
  }
  for (const ack of acks) {
    if (ack.t === "result" && ack.status === "waiting" && ack.persons === 0)
      found.push(violation(`session ${ack.session} waits, but for nobody`));
  }
  if (sessions.length === 0 && ended === EXIT.done) found.push(violation("it ended without a trace"));
  return found;
};
