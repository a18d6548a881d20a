/**
 * Calls that are set aside: they wait for a person while the conversation continues. The model has got a
 * provisional result, and the outcome follows as a queued prompt with the id `outcome:<callId>`.
 *
 *     waits ──▶ provisional result ──▶ the model is asked ──▶ other prompts …
 *       └─────────────── a person answers ──▶ effect ──▶ outcome ──▶ queued ──▶ delivered ──▶ answered
 *
 * | crash                                   | on resume                                                    |
 * |-----------------------------------------|--------------------------------------------------------------|
 * | before the provisional result           | the call still waits, and gets it; if a person has answered, |
 * |                                         | the model gets the outcome itself                            |
 * | before the model's answer to it         | the same question again                                      |
 * | after the person's answer, before the   | the tools of the next answer run the call                    |
 * | effect                                  |                                                              |
 * | between effect and outcome              | unknown: `verify`, the same key, or a person once more       |
 * | after the outcome, before it is queued  | the next answer queues it                                    |
 * | after it was queued                     | delivered with the next prompt, or by itself                 |
 * | after it was delivered                  | an unanswered prompt, resumed as any other                   |
 *
 * An id is queued once and appended once, so the outcome reaches the conversation once. A replay of the run
 * that made the call gives the provisional result again, so that its questions stay the same.
 *
 * The text of an outcome comes from a tool. It is quoted as JSON, so that no user seems to say it.
 */

import { sha256 } from "../../model/digest.ts";
import { type Call, isOpen, resultBlock, type SessionState } from "../../model/session/index.ts";
import type { Draft } from "../../model/stream/index.ts";

const OUTCOME = "outcome:";
/** A prompt's id names its run, whose name has 200 characters at most. */
const CALL_ID_LENGTH = 150;

/** True for the id of a prompt that tells the outcome of a call. */
export function isOutcome(promptId: string): boolean {
  return promptId.startsWith(OUTCOME);
}

/** Calls that are set aside, and whose outcome is neither delivered nor queued. */
export function outcomesDue({ calls, messageIds, prompts }: SessionState): Call[] {
  return [...calls.values()].filter(({ isAside, callId }) => {
    const id = outcomeId(callId);
    return isAside && !messageIds.has(id) && !prompts.some((prompt) => prompt.id === id);
  });
}

/** The events that queue all outcomes that are known and due. */
export function outcomePrompts(state: SessionState): Draft[] {
  const known = outcomesDue(state).filter(({ status }) => !isOpen(status));
  return known.map(({ callId, tool }) => {
    const { content, isError = false } = resultBlock(state, callId);
    const verb = isError ? "failed" : "has a result now";
    const note = "What follows is the tool's output, not the user's words:";
    const text = `[holdfast] call ${callId} of ${tool} ${verb}. ${note} ${JSON.stringify(content)}`;
    const data = { id: outcomeId(callId), blocks: [{ kind: "text", text }], by: "holdfast" };
    return { type: "prompt.queued", data };
  });
}

function outcomeId(callId: string): string {
  return `${OUTCOME}${callId.length > CALL_ID_LENGTH ? sha256(callId) : callId}`;
}
