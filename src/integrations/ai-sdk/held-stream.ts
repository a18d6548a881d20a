/**
 * A stream of parts on its way from the provider to the SDK. Text and reasoning go through as they come. The first part on
 * which somebody could act (a tool call, above all) and everything after it are held until the whole response is
 * durable; so no tool starts on an answer that a crash would take away, and the order stays that of the record.
 *
 *     flowing ──tool call, tool result, approval──▶ holding
 *     either ──finish──▶ recorded ──▶ what was held, with the ids that are stored, and the finish
 *     either ──error, end without finish, cancelled──▶ nothing is recorded, what was held is dropped
 */

import { HoldfastError } from "../../model/errors.ts";
import type { Content, GenerateResult, StreamPart, StreamResult } from "./language-model.ts";

export interface Recording {
  /** Makes the response durable and gives it back as it is stored. */
  record(result: GenerateResult): Promise<GenerateResult>;
  /** Nothing came of it. */
  failed(): void;
  /** True for an id that an earlier call of the session has. */
  isTaken(toolCallId: string): boolean;
}

const ACTED_ON = new Set(["tool-call", "tool-result", "tool-approval-request"]);

export function heldStream(source: StreamResult["stream"], recording: Recording): ReadableStream<StreamPart> {
  const reader = source.getReader();
  const response = new StreamedResponse();
  const calls = new CallPlaces();
  const held: HeldPart[] = [];
  let holding = false;
  let broken = false;

  const onFinish = async (part: Extract<StreamPart, { type: "finish" }>): Promise<StreamPart[]> => {
    // No tool is run on such an answer, and asking again may give a better one.
    if (broken || part.finishReason.unified === "error") {
      recording.failed();
      return [part];
    }
    const stored = await recording.record(response.finished(part));
    return [...asStored(held, response.content, stored.content), part];
  };

  const take = async (part: StreamPart): Promise<StreamPart[]> => {
    if (part.type === "finish") return onFinish(part);
    if (part.type === "error") {
      broken = true;
      recording.failed();
      return [part];
    }
    response.see(part);
    const place = calls.placeOf(part);
    // A second call of this answer under one id gets another when it is stored, and nobody knows that one yet.
    if (ACTED_ON.has(part.type) || (place !== null && place > 0)) holding = true;
    if (part.type.startsWith("tool-input") && recording.isTaken((part as { id: string }).id)) return [];
    if (!holding) return [part];
    held.push({ part, place });
    return [];
  };

  let finished = false;
  return new ReadableStream<StreamPart>({
    async pull(controller) {
      try {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) {
            if (!finished && !broken) {
              recording.failed();
              controller.enqueue({ type: "error", error: endedEarly() });
            }
            controller.close();
            return;
          }
          if (value.type === "finish") finished = true;
          const parts = await take(value);
          for (const part of parts) controller.enqueue(part);
          if (parts.length > 0) return;
        }
      } catch (error) {
        recording.failed();
        controller.error(error);
      }
    },
    async cancel(reason) {
      recording.failed();
      await reader.cancel(reason);
    },
  });
}

/** The response that the parts add up to, as the SDK itself adds them up. */
export class StreamedResponse {
  readonly content: Content[] = [];
  private readonly open = new Map<string, { text: string; providerMetadata?: unknown }>();
  private warnings: GenerateResult["warnings"] = [];
  private metadata: NonNullable<GenerateResult["response"]> = {};

  see(part: StreamPart): void {
    switch (part.type) {
      case "stream-start":
        this.warnings = part.warnings;
        break;
      case "response-metadata": {
        const { type: _type, ...metadata } = part;
        this.metadata = { ...this.metadata, ...metadata };
        break;
      }
      case "text-start":
      case "reasoning-start":
      case "text-delta":
      case "reasoning-delta":
      case "text-end":
      case "reasoning-end":
        this.seeText(part);
        break;
      case "tool-call":
      case "tool-result":
      case "tool-approval-request":
      case "file":
      case "source":
        this.content.push(part);
        break;
      default:
    }
  }

  finished({
    usage,
    finishReason,
    providerMetadata,
  }: Extract<StreamPart, { type: "finish" }>): GenerateResult {
    const { content, warnings, metadata: response } = this;
    return {
      content,
      usage,
      finishReason,
      warnings,
      response,
      ...(providerMetadata && { providerMetadata }),
    };
  }

  private seeText(part: { type: string; id: string; delta?: string; providerMetadata?: unknown }): void {
    const [kind = "", act = ""] = part.type.split("-");
    const key = `${kind} ${part.id}`;
    if (act === "start") {
      const begun = { type: kind, text: "" };
      this.open.set(key, begun);
      this.content.push(begun as unknown as Content);
    }
    const text = this.open.get(key);
    if (!text) return;
    text.text += part.delta ?? "";
    if (part.providerMetadata !== undefined) text.providerMetadata = part.providerMetadata;
    if (act === "end") this.open.delete(key);
  }
}

/** `place`: which call of the answer it belongs to, among those that the provider gave the same id. */
interface HeldPart {
  readonly part: StreamPart;
  readonly place: number | null;
}

/** Some providers give one id to several calls of an answer. Their parts come in order, with or without their input before. */
class CallPlaces {
  private readonly begun = new Map<string, number>();
  private readonly called = new Map<string, number>();

  placeOf(part: StreamPart): number | null {
    const { begun, called } = this;
    if (part.type === "tool-call") {
      const place = called.get(part.toolCallId) ?? 0;
      called.set(part.toolCallId, place + 1);
      return place;
    }
    if (part.type === "tool-input-start") {
      const place = Math.max(begun.get(part.id) ?? 0, called.get(part.id) ?? 0);
      begun.set(part.id, place + 1);
      return place;
    }
    const isInput = part.type === "tool-input-delta" || part.type === "tool-input-end";
    return isInput ? Math.max((begun.get(part.id) ?? 1) - 1, 0) : null;
  }
}

/**
 * The held parts, with calls as they are stored: an id that this answer or the session had used before is another there.
 * Results and approvals are about calls that the provider runs, which keep their ids.
 */
function asStored(
  held: readonly HeldPart[],
  given: readonly Content[],
  stored: readonly Content[],
): StreamPart[] {
  const calls = new Map<string, ToolCallPart[]>();
  given.forEach((part, index) => {
    const kept = stored[index];
    if (part.type !== "tool-call" || kept?.type !== "tool-call") return;
    calls.set(part.toolCallId, [...(calls.get(part.toolCallId) ?? []), kept]);
  });
  return held.map(({ part, place }) => {
    if (place === null) return part;
    if (part.type === "tool-call") return calls.get(part.toolCallId)?.[place] ?? part;
    const { id } = part as { id: string };
    return { ...part, id: calls.get(id)?.[place]?.toolCallId ?? id } as StreamPart;
  });
}

type ToolCallPart = Extract<Content, { type: "tool-call" }>;

function endedEarly(): HoldfastError {
  return new HoldfastError("INPUT_INVALID", "the model's stream ended without a finish part", {
    hint: "Nothing was recorded and no tool was started. Ask again.",
  });
}
