import * as z from "zod";
import { canonicalText, sameJson } from "../json.ts";
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
    // One by one: as arguments of a call, a hundred thousand are too many.
    if ("add" in segment) for (const message of segment.add) result.push(message);
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
  const segments: ({ keep: [number, number] } | { add: Message[] })[] = [];
  if (prefix > 0) segments.push({ keep: [0, prefix] });
  for (const message of next.slice(prefix)) {
    const index = places.get(canonicalText(message));
    const last = segments.at(-1);
    if (index === undefined) {
      if (last && "add" in last) last.add.push(message);
      else segments.push({ add: [message] });
    } else if (last && "keep" in last && last.keep[1] === index) last.keep[1] = index + 1;
    else segments.push({ keep: [index, index + 1] });
  }
  return { kind: "replaced", segments };
}
