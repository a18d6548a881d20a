/**
 * I4: effects per call as in the promise's table.
 *
 *     the tool takes our key, or verifies with a fence    exactly once
 *     it verifies by time                                 once, if nothing outlives its settleMs
 *     neither                                             at most one automatic attempt, then a person
 *
 * For every class: a call that the ledger calls completed happened once. A failed call did not happen, unless
 * the tool declared that an unknown outcome may be given up.
 *
 * A key belongs to one call at a time. While the outcome of a call is open, the same key must not be issued
 * for another call: the effect may have happened.
 */

import {
  type Evidence,
  field,
  historyOf,
  type Logged,
  type Rule,
  type SessionLog,
  type Violation,
} from "./evidence.ts";
import { classOf } from "./tool-classes.ts";

const violation = (what: string): Violation => ({ invariant: "I4", what });

type Ending = "completed" | "failed" | "gaveUp" | "repeated" | "open";

const EFFECTS: Readonly<Record<Ending, readonly number[]>> = {
  completed: [1],
  failed: [0],
  gaveUp: [0, 1],
  repeated: [0],
  open: [0, 1],
};

export const promise: Rule = (evidence) => {
  return evidence.sessions.flatMap((session) => {
    const ofCalls = [...historyOf(session)].flatMap(([callId, history]) => {
      return checkCall(evidence, session.id, callId, history);
    });
    return [...ofCalls, ...checkKeys(session)];
  });
};

function checkKeys({ events }: SessionLog): Violation[] {
  const found: Violation[] = [];
  const holders = new Map<string, string>();
  for (const event of events) {
    const callId = field<string>(event, "callId");
    if (event.type === "call.completed" || event.type === "call.failed") {
      for (const [key, holder] of holders) if (holder === callId) holders.delete(key);
    }
    const key = event.type === "call.issued" ? field<string | undefined>(event, "key") : undefined;
    if (key === undefined) continue;
    const holder = holders.get(key) ?? callId;
    if (holder !== callId) {
      found.push(violation(`${callId} was issued with the key of ${holder}, whose outcome was open`));
    }
    holders.set(key, callId);
  }
  return found;
}

function checkCall(
  evidence: Evidence,
  session: string,
  callId: string,
  history: readonly Logged[],
): Violation[] {
  const effects = evidence.world.filter((entry) => {
    return entry.kind === "effect" && entry.session === session && entry.callId === callId;
  }).length;
  const ending = endingOf(history);
  const found: Violation[] = [];
  if (!EFFECTS[ending].includes(effects)) {
    found.push(violation(`${callId} is ${ending} but happened ${effects} times`));
  }
  const issued = history.filter((event) => event.type === "call.issued");
  const tool = issued[0] && field<string>(issued[0], "tool");
  const { idempotent, verifies } = tool ? classOf(tool) : {};
  const granted = history.filter((event) => event.type === "call.granted").length;
  const unbegun = history.filter((event) => event.type === "call.lost" && field(event, "started") === false);
  const attempts = issued.length - unbegun.length;
  if (tool && !idempotent && !verifies && attempts > 1 + granted) {
    found.push(violation(`${callId} was attempted ${attempts} times; a person allowed ${granted} of them`));
  }
  return found;
}

function endingOf(history: readonly Logged[]): Ending {
  const last = history.findLast(({ type }) => {
    return type === "call.completed" || type === "call.failed" || type === "call.repeated";
  });
  if (!last) return "open";
  if (last.type === "call.completed") return "completed";
  if (last.type === "call.repeated") return "repeated";
  return field(last, "by") === "interrupted" ? "gaveUp" : "failed";
}
