/**
 * Differences: how a saved transcript differs from the stored one, and how two versions of a session differ.
 *
 * Saving a whole transcript stores only what is new in it. The new transcript is described by segments: runs
 * of kept messages, by index, and new messages. Appending is one segment of new messages; editing, compacting
 * and reordering use the same description with other runs.
 *
 *     [a b c] ──▶ [a x c]    keep [0, 1] · add [x] · keep [2, 3]
 */

import * as z from "zod";
import { canonicalText, sameJson } from "../json.ts";
import type { Amounts } from "./budget.ts";
import { type Message, messageSchema } from "./message.ts";
import type { Plan, PlanStep, SessionState } from "./session-state.ts";

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
    // One by one: `push(...messages)` fails for a hundred thousand arguments.
    if ("add" in segment) for (const message of segment.add) result.push(message);
    else for (let index = segment.keep[0]; index < segment.keep[1]; index++) result.push(at(old, index));
  }
  return result;
}

/** Whether the transcript has the same messages, perhaps in another order. */
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

/** The number of messages that both begin with. Messages are frozen, so the same object is equal. */
function commonPrefix(old: readonly Message[], next: readonly Message[]): number {
  const limit = Math.min(old.length, next.length);
  for (let index = 0; index < limit; index++) if (!sameJson(at(old, index), at(next, index))) return index;
  return limit;
}

export type TranscriptChange =
  | { readonly kind: "same" }
  | { readonly kind: "appended"; readonly messages: readonly Message[] }
  | { readonly kind: "replaced"; readonly segments: readonly Segment[] };

/** The shortest description of the change between two transcripts. */
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

/** The difference between two versions of a session: messages, plan and budget. */
export interface SessionDiff {
  readonly messages: {
    readonly added: readonly Message[];
    readonly removed: readonly Message[];
    /** Messages with the same id and other content. */
    readonly changed: readonly { readonly before: Message; readonly after: Message }[];
    readonly same: number;
  };
  readonly system: { readonly before: string | null; readonly after: string | null };
  readonly plan: {
    readonly before: Plan | null;
    readonly after: Plan | null;
    readonly steps: readonly { readonly before: PlanStep | null; readonly after: PlanStep | null }[];
  };
  readonly budget: {
    readonly spent: { readonly before: Amounts; readonly after: Amounts };
    readonly limit: { readonly before: Amounts; readonly after: Amounts };
  };
}

export function diffSessions(before: SessionState, after: SessionState): SessionDiff {
  return {
    messages: diffMessages(before.messages, after.messages),
    system: { before: before.system, after: after.system },
    plan: { before: before.plan, after: after.plan, steps: diffSteps(before.plan, after.plan) },
    budget: {
      spent: { before: before.budget.spent, after: after.budget.spent },
      limit: { before: before.budget.limit, after: after.budget.limit },
    },
  };
}

function diffMessages(before: readonly Message[], after: readonly Message[]): SessionDiff["messages"] {
  // A saved transcript may have an id twice: the first is compared with the first, and so on.
  const old = new Map<string, Message[]>();
  for (const message of before) {
    const known = old.get(message.id);
    if (known) known.push(message);
    else old.set(message.id, [message]);
  }
  const added: Message[] = [];
  const changed: { before: Message; after: Message }[] = [];
  let same = 0;
  for (const message of after) {
    const earlier = old.get(message.id)?.shift();
    if (!earlier) added.push(message);
    else if (canonicalText(earlier) === canonicalText(message)) same++;
    else changed.push({ before: earlier, after: message });
  }
  return { added, removed: [...old.values()].flat(), changed, same };
}

function diffSteps(before: Plan | null, after: Plan | null): SessionDiff["plan"]["steps"] {
  const old = new Map((before?.steps ?? []).map((step) => [step.id, step]));
  const steps: { before: PlanStep | null; after: PlanStep | null }[] = [];
  for (const step of after?.steps ?? []) {
    const earlier = old.get(step.id) ?? null;
    old.delete(step.id);
    if (!earlier || canonicalText(earlier) !== canonicalText(step))
      steps.push({ before: earlier, after: step });
  }
  for (const step of old.values()) steps.push({ before: step, after: null });
  return steps;
}
