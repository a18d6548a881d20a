/**
 * A message with the values that its fields had when it was written. A conversation of thousands of messages is looked
 * through at every save, so each kind of message has a check of its own that reads its fields by name: the engine then
 * compiles it for one shape of object.
 */

import { isBaseMessage } from "@langchain/core/messages";
import type { Part } from "./stored-part.ts";

type Fields = Readonly<Record<string, unknown>>;

/** `a` to `d` are the fields that only this kind of message has. */
export interface KnownMessage {
  readonly message: object;
  readonly part: Part;
  readonly kind: "plain" | "ai" | "tool" | "other";
  readonly content: unknown;
  readonly id: unknown;
  readonly name: unknown;
  readonly kwargs: unknown;
  readonly response: unknown;
  readonly a: unknown;
  readonly b: unknown;
  readonly c: unknown;
  readonly d: unknown;
}

/** Undefined for what is no message: other data is often changed in place, so it is always compared. */
export function knownMessage(element: unknown, part: Part): KnownMessage | undefined {
  if (typeof element !== "object" || element === null || !isBaseMessage(element)) return undefined;
  const message = element as unknown as Fields;
  const kind = kindOf(message);
  const isAi = kind === "ai";
  return {
    message: element,
    part,
    kind,
    content: message["content"],
    id: message["id"],
    name: message["name"],
    kwargs: message["additional_kwargs"],
    response: message["response_metadata"],
    a: isAi ? message["tool_calls"] : kind === "tool" ? message["tool_call_id"] : message["role"],
    b: isAi ? message["invalid_tool_calls"] : message["status"],
    c: isAi ? message["usage_metadata"] : message["artifact"],
    d: isAi ? message["tool_call_chunks"] : message["metadata"],
  };
}

function kindOf({ type }: Fields): KnownMessage["kind"] {
  switch (type) {
    case "human":
    case "system":
      return "plain";
    case "ai":
    case "tool":
      return type;
    default:
      return "other";
  }
}

/** Whether every field holds the same value as before. What lies deeper is not looked at. */
export function hasSameFields(known: KnownMessage): boolean {
  switch (known.kind) {
    case "plain":
      return isSamePlain(known.message as Fields, known);
    case "ai":
      return isSameAi(known.message as Fields, known);
    case "tool":
      return isSameTool(known.message as Fields, known);
    case "other":
      return isSameOther(known.message as Fields, known);
  }
}

function isSamePlain(message: Fields, known: KnownMessage): boolean {
  return (
    message["content"] === known.content &&
    message["id"] === known.id &&
    message["name"] === known.name &&
    message["additional_kwargs"] === known.kwargs &&
    message["response_metadata"] === known.response
  );
}

function isSameAi(message: Fields, known: KnownMessage): boolean {
  return (
    message["content"] === known.content &&
    message["id"] === known.id &&
    message["name"] === known.name &&
    message["additional_kwargs"] === known.kwargs &&
    message["response_metadata"] === known.response &&
    message["tool_calls"] === known.a &&
    message["invalid_tool_calls"] === known.b &&
    message["usage_metadata"] === known.c &&
    message["tool_call_chunks"] === known.d
  );
}

function isSameTool(message: Fields, known: KnownMessage): boolean {
  return (
    message["content"] === known.content &&
    message["id"] === known.id &&
    message["name"] === known.name &&
    message["additional_kwargs"] === known.kwargs &&
    message["response_metadata"] === known.response &&
    message["tool_call_id"] === known.a &&
    message["status"] === known.b &&
    message["artifact"] === known.c &&
    message["metadata"] === known.d
  );
}

function isSameOther(message: Fields, known: KnownMessage): boolean {
  return (
    isSamePlain(message, known) &&
    message["role"] === known.a &&
    message["status"] === known.b &&
    message["artifact"] === known.c &&
    message["metadata"] === known.d
  );
}
