/** I5: a completed call never runs again, and its replay is byte-identical. */

import { resultBlock, type SessionState } from "../../src/model/session/index.ts";
import type { Evidence, Rule, Violation } from "./evidence.ts";

const violation = (what: string): Violation => ({ invariant: "I5", what });

export const finishedStays: Rule = (evidence) => [...startsTwice(evidence), ...readsOtherwise(evidence)];

/** A retry is a new attempt with an intent of its own; each attempt begins once. */
function startsTwice({ acks, world }: Evidence): Violation[] {
  const found: Violation[] = [];
  const started = new Set<string>();
  const reads = new Set(world.filter((entry) => entry.kind === "read").map((entry) => entry.callId));
  for (const ack of acks) {
    if (ack.t !== "start" || reads.has(ack.callId)) continue;
    const name = `${ack.session}/${ack.callId} attempt ${ack.attempt}`;
    if (started.has(name)) found.push(violation(`${name} ran twice`));
    started.add(name);
  }
  return found;
}

/** The model reads the same result of a call in every run, and it is the ledger's. */
function readsOtherwise({ acks, sessions }: Evidence): Violation[] {
  const found: Violation[] = [];
  const seen = new Map<string, string>();
  for (const ack of acks) {
    if (ack.t !== "saw") continue;
    const name = `${ack.session}/${ack.callId}`;
    const before = seen.get(name);
    if (before !== undefined && before !== ack.content) {
      found.push(violation(`${name} read ${JSON.stringify(before)}, then ${JSON.stringify(ack.content)}`));
    }
    seen.set(name, ack.content);
  }
  for (const { id, calls } of sessions) {
    const state = { calls: new Map(calls?.map((call) => [call.callId, call])) } as SessionState;
    for (const call of calls ?? []) {
      const content = seen.get(`${id}/${call.callId}`);
      if (content === undefined || content === resultBlock(state, call.callId).content) continue;
      found.push(violation(`${id}/${call.callId} read ${JSON.stringify(content)}, which is not its record`));
    }
  }
  return found;
}
