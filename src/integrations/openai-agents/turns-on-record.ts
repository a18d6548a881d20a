/** Which recorded answer of a model something belongs to. */

import { type Message, toolCalls } from "../../model/session/index.ts";
import type { Session } from "../../session/index.ts";

/** As it is stored with each answer. */
interface Turn {
  readonly run: string;
  readonly position: number;
}

/** The turn whose answer asked for a call. */
export function turnThatAsked({ messages }: Session, callId: string): Turn | null {
  const asked = messages.findLast(
    (message) => turnOf(message) && toolCalls(message).some(({ id }) => id === callId),
  );
  return asked ? turnOf(asked) : null;
}

/** The last answer of a run. */
export function lastTurnOf({ messages }: Session, run: string): Message | undefined {
  return messages.findLast((message) => turnOf(message)?.run === run);
}

function turnOf({ role, meta }: Message): Turn | null {
  return role === "assistant" ? ((meta?.["turn"] as unknown as Turn | undefined) ?? null) : null;
}
