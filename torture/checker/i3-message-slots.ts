/** I3: every issued call matches one durable message slot. */

import { canonicalText } from "../../src/model/json.ts";
import { type Message, toolCalls } from "../../src/model/session/index.ts";
import { field, type Rule, type SessionLog, type Violation } from "./evidence.ts";

const violation = (what: string): Violation => ({ invariant: "I3", what });

export const messageSlots: Rule = ({ sessions, scenario }) =>
  sessions.flatMap((session) => checkSession(session, scenario.loop === "direct"));

interface Slot {
  readonly messageId: string;
  readonly seq: number;
  readonly name: string;
  readonly args: string;
}

function checkSession(session: SessionLog, isDirect: boolean): Violation[] {
  const slots = new Map<string, Slot>();
  const found: Violation[] = [];
  for (const event of session.events) {
    if (event.type === "message") {
      const message = field<Message>(event, "message");
      for (const { id, name, args } of toolCalls(message)) {
        if (slots.has(id)) found.push(violation(`${id} has two slots`));
        slots.set(id, { messageId: message.id, seq: event.seq, name, args: canonicalText(args) });
      }
    }
    if (event.type !== "call.issued" && event.type !== "call.repeated") continue;
    // A direct call belongs to no message: its arguments are durable with its intent.
    if (isDirect && field(event, "messageId") === null) continue;
    const id = field<string>(event, "callId");
    const slot = slots.get(id);
    const place = `${id} at ${event.seq}`;
    if (!slot) found.push(violation(`${place}: no message before it asks for it`));
    else if (
      slot.messageId !== field(event, "messageId") ||
      slot.name !== field(event, "tool") ||
      slot.args !== canonicalText(field(event, "args"))
    ) {
      found.push(violation(`${place}: it is not what its message asked for`));
    }
  }
  return found;
}
