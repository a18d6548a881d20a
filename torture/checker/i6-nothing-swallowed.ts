/** I6: no call is swallowed: it was attempted, or it points at the call that it repeats. */

import { type Call, type Message, toolCalls } from "../../src/model/session/index.ts";
import { EXIT } from "../scenario.ts";
import { type Evidence, field, type Rule, type SessionLog, type Violation } from "./evidence.ts";
import { classOf } from "./tool-classes.ts";

const violation = (what: string): Violation => ({ invariant: "I6", what });

/** Only a finished session must have done everything. */
export const nothingSwallowed: Rule = (evidence) => {
  if (evidence.ended !== EXIT.done) return [];
  return evidence.sessions.flatMap((session) => [
    ...missingTurns(session, evidence),
    ...slots(session, evidence.scenario.loop === "direct").flatMap(({ id, name }) =>
      checkSlot(evidence, session, id, name),
    ),
  ]);
};

/** The calls that the script asks for: of messages, or direct ones. */
function slots(session: SessionLog, isDirect: boolean): { id: string; name: string }[] {
  if (isDirect) return (session.calls ?? []).map(({ callId, tool }) => ({ id: callId, name: tool }));
  const messages = session.events.filter((event) => event.type === "message");
  return messages.flatMap((event) => [...toolCalls(field<Message>(event, "message"))]);
}

function missingTurns(session: SessionLog, { scenario }: Evidence): Violation[] {
  const asked = slots(session, scenario.loop === "direct").length;
  const scripted = scenario.turns.flat().length;
  if (asked === scripted) return [];
  return [violation(`${session.id}: the script has ${scripted} calls, the transcript ${asked}`)];
}

function checkSlot(evidence: Evidence, session: SessionLog, id: string, name: string): Violation[] {
  const sent = evidence.world.some((entry) => {
    return entry.session === session.id && entry.callId === id && entry.kind !== "verified";
  });
  if (classOf(name).read) return sent ? [] : [violation(`${id} was never read`)];
  const call = session.calls?.find((each) => each.callId === id);
  if (!call) return session.calls ? [violation(`${id} is in a message and nowhere else`)] : [];
  if (call.repeats) return pointsAtNothing(evidence, call);
  if (call.status === "completed" && !sent) return [violation(`${id} is completed but was never sent`)];
  if (call.status === "completed" || call.status === "failed") return [];
  return [violation(`${id} is ${call.status} in a session that is finished`)];
}

function pointsAtNothing(evidence: Evidence, call: Call): Violation[] {
  const { session, callId } = call.repeats as NonNullable<Call["repeats"]>;
  const first = evidence.sessions
    .find((each) => each.id === session)
    ?.calls?.find((each) => each.callId === callId);
  if (first?.status === "completed" && JSON.stringify(first.result) === JSON.stringify(call.result))
    return [];
  return [violation(`${call.callId} says that it repeats ${session}/${callId}, which has no such result`)];
}
