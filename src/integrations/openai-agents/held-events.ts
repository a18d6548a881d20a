/**
 * A streamed response on its way to the SDK. Text goes on as it comes; whatever tells of a call, and the end of the response,
 * is held until the answer is durable, because the end is what makes the SDK run its tools.
 *
 *     delta ─▶ handed on ─▶ … ─▶ end of the stream ─▶ recorded ─▶ the held events ─▶ the end, from the record
 *                                      └──▶ it broke off: nothing is recorded, the error is the reader's
 *
 * A reader that leaves early has seen text and nothing else; nothing is recorded, and the question may be asked again.
 */

import type { ModelResponse, StreamEvent } from "@openai/agents";

type Done = Extract<StreamEvent, { type: "response_done" }>;

export interface EventKeeper {
  /** Makes the answer durable, and returns what is stored. */
  record(response: Done["response"]): Promise<ModelResponse>;
  failed(): void;
}

export async function* heldEvents(
  events: AsyncIterable<StreamEvent>,
  keeper: EventKeeper,
): AsyncGenerator<StreamEvent> {
  const held: StreamEvent[] = [];
  let isRecorded = false;
  try {
    for await (const event of events) {
      if (event.type === "response_done") {
        const stored = await keeper.record(event.response);
        isRecorded = true;
        yield* held.splice(0);
        yield doneOf(stored, event);
      } else if (isRecorded || isSafe(event)) yield event;
      else held.push(event);
    }
    yield* held;
  } finally {
    if (!isRecorded) keeper.failed();
  }
}

/** The record as a stream: its texts in one piece each. */
export function* eventsOf(response: ModelResponse): Generator<StreamEvent> {
  yield { type: "response_started" };
  for (const item of response.output) {
    const content = (item as { content?: unknown }).content;
    if (item.type !== "message" || !Array.isArray(content)) continue;
    for (const part of content as { type: string; text?: string }[]) {
      if (part.type === "output_text" && part.text) yield { type: "output_text_delta", delta: part.text };
    }
  }
  yield doneOf(response, undefined);
}

/** `live` has what only this exchange can tell. */
function doneOf(response: ModelResponse, live: Done | undefined): Done {
  const { usage, output, responseId } = response;
  const { requests, inputTokens, outputTokens, totalTokens, inputTokensDetails, outputTokensDetails } = usage;
  return {
    ...live,
    type: "response_done",
    response: {
      ...live?.response,
      id: responseId ?? "",
      usage: { requests, inputTokens, outputTokens, totalTokens, inputTokensDetails, outputTokensDetails },
      output: output as Done["response"]["output"],
    },
  };
}

/** Events of the provider itself may hold a call, or the whole response with its calls. */
function isSafe(event: StreamEvent): boolean {
  if (event.type !== "model") return true;
  const raw = JSON.stringify(event.event) ?? "";
  return !/function_call|tool_call|"response\.completed"/.test(raw);
}
