import * as z from "zod";
import { canonicalText } from "./canonical-text.ts";
import { sameJson } from "./json.ts";
import { type Message, messageSchema } from "./message.ts";

/**
 * Saving a whole transcript stores only what is new in it. The new transcript is described as segments: runs of
 * messages kept from the old one, by index, and messages that were not there. Appending is one segment of new
 * messages; editing, compacting and reordering are the same description with other runs.
 */

export type Segment =
  | { readonly keep: readonly [from: number, to: number] }
  | { readonly add: readonly Message[] };

export const segmentSchema = z.lazy(() =>
  z.union([
    z.strictObject({ keep: z.tuple([z.int().nonnegative(), z.int().positive()]) }),
    z.strictObject({ add: z.array(messageSchema) }),
  ]),
) as unknown as z.ZodType<Segment>;

export function applySegments(old: readonly Message[], segments: readonly Segment[]): Message[] {
  const result: Message[] = [];
  for (const segment of segments) {
    if ("add" in segment) result.push(...segment.add);
    else for (let index = segment.keep[0]; index < segment.keep[1]; index++) result.push(at(old, index));
  }
  return result;
}

/** Whether all messages are still there and no other: only their order may be another. */
export function isReordered(
  old: readonly Message[],
  next: readonly Message[],
  segments: readonly Segment[],
): boolean {
  if (next.length !== old.length || segments.some((segment) => "add" in segment)) return false;
  return new Set(next).size === old.length;
}

function at(messages: readonly Message[], index: number): Message {
  const message = messages[index];
  if (!message) throw new RangeError(`segment keeps message ${index} of ${messages.length}`);
  return message;
}

/** How many messages both begin with. Identity decides first: messages we hand out are frozen. */
function commonPrefix(old: readonly Message[], next: readonly Message[]): number {
  const limit = Math.min(old.length, next.length);
  for (let index = 0; index < limit; index++) if (!sameMessage(at(old, index), at(next, index))) return index;
  return limit;
}

function sameMessage(left: Message, right: Message): boolean {
  return sameJson(left, right);
}

export type TranscriptChange =
  | { readonly kind: "same" }
  | { readonly kind: "appended"; readonly messages: readonly Message[] }
  | { readonly kind: "replaced"; readonly segments: readonly Segment[] };

/** What happened between two transcripts, said as briefly as it can be stored. */
export function compareTranscripts(old: readonly Message[], next: readonly Message[]): TranscriptChange {
  const prefix = commonPrefix(old, next);
  if (prefix === old.length) {
    if (next.length === old.length) return { kind: "same" };
    return { kind: "appended", messages: next.slice(prefix) };
  }
  const places = new Map<string, number>();
  old.forEach((message, index) => {
    if (index >= prefix) places.set(canonicalText(message), index);
  });
  const segments: Segment[] = prefix > 0 ? [{ keep: [0, prefix] }] : [];
  for (const message of next.slice(prefix)) extend(segments, message, places.get(canonicalText(message)));
  return { kind: "replaced", segments };
}

function extend(segments: Segment[], message: Message, index: number | undefined): void {
  const last = segments.at(-1);
  if (index === undefined) {
    if (last && "add" in last) segments[segments.length - 1] = { add: [...last.add, message] };
    else segments.push({ add: [message] });
  } else if (last && "keep" in last && last.keep[1] === index) {
    segments[segments.length - 1] = { keep: [last.keep[0], index + 1] };
  } else {
    segments.push({ keep: [index, index + 1] });
  }
}
