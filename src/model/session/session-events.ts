/**
 * The events of a session: for each its version, schema and effect on the state. Calls are in
 * `session-calls.ts`.
 */

import * as z from "zod";
import { JsonText } from "../json-text.ts";
import type { DataOf, Draft, EventSchema, EventSpec, Place } from "../stream/index.ts";
import { checkedDraft, event, lazySchema } from "../stream/index.ts";
import { isoTime } from "../time.ts";
import { amountsSchema, changeBudget, isChildReservation, largestOf } from "./budget.ts";
import type { Call, CallResult, CompletedData, IssuedData } from "./call.ts";
import {
  approvedSchema,
  completedSchema,
  failedSchema,
  grantedSchema,
  issuedSchema,
  lostSchema,
  repeatedSchema,
  verifiedSchema,
  waitingSchema,
} from "./call.ts";
import type { Block, JsonObject, Message, ToolResultBlock } from "./message.ts";
import { blockSchema, checkMessage, fastCopyMessage, messageSchema, toolCalls } from "./message.ts";
import {
  approveCall,
  completeCall,
  failCall,
  grantCall,
  issueCall,
  loseCall,
  repeatCall,
  verifyCall,
  waitCall,
} from "./session-calls.ts";
import { openCallsOf, type Plan, SESSION_STATUSES, type SessionState } from "./session-state.ts";
import { applySegments, isReordered, segmentSchema } from "./transcript.ts";

const text = z.string();
const metadata = () => z.record(text, z.json()) as unknown as z.ZodType<JsonObject>;
const limits = () =>
  z.strictObject({
    usd: z.number().nonnegative().nullable().optional(),
    tokens: z.number().nonnegative().nullable().optional(),
    turns: z.number().nonnegative().nullable().optional(),
  });

const description = () => ({
  title: text.nullable().optional(),
  scratchpadRoot: text.nullable().optional(),
  metadata: metadata().optional(),
  goal: text.nullable().optional(),
  ttlMs: z.number().positive().nullable().optional(),
});
const described = lazySchema(() => z.strictObject(description()));
type Described = DataOf<typeof described>;

const parent = () => z.strictObject({ session: text, callId: text });
const opened = lazySchema(() => z.strictObject({ ...description(), parent: parent().optional() }));
const forked = lazySchema(() =>
  z.strictObject({ session: text, version: z.int(), seq: z.int(), live: z.boolean() }),
);

/**
 * A block is a result, or the id of a settled call whose recorded result it stands for: nothing is stored
 * twice.
 */
const results = lazySchema(() =>
  z.strictObject({
    id: text.min(1),
    createdAt: z.iso.datetime({ offset: true }),
    blocks: z.array(
      z.union([z.strictObject({ callId: text }), z.looseObject({ kind: z.literal("tool_result") })]),
    ),
  }),
);

const planSchema = z.lazy(() =>
  z.strictObject({
    title: z.string().optional(),
    steps: z.array(
      z.strictObject({
        id: z.string().min(1),
        description: z.string(),
        status: z.enum(["pending", "in_progress", "done", "skipped", "failed"]),
        postconditions: z.array(z.string()),
        evidence: z.array(z.string()),
      }),
    ),
  }),
) as unknown as z.ZodType<Plan>;

const messageAppended = lazySchema(() => z.strictObject({ message: messageSchema }));

/** The event that makes an ended session active again, if it is not. */
export function reactivation({ status }: SessionState): readonly Draft[] {
  if (status === "active") return [];
  return [{ type: "session.status", data: { status: "active", why: null, by: null } }];
}

/** Puts `reactivation` before events that continue a session. */
export function reactivate(state: SessionState, events: readonly Draft[]): readonly Draft[] {
  return events.length === 0 || state.status === "active" ? events : [...reactivation(state), ...events];
}

/** The event that appends a message, which is copied and checked here. */
export function draftMessage(value: unknown): Draft<"message", { readonly message: Message }> {
  const text = new JsonText();
  text.json('{"message":');
  const message = fastCopyMessage(value, text);
  if (!message) return checkedDraft("message", { message: checkMessage(value) }, messageAppended);
  text.json("}");
  return checkedDraft("message", { message }, messageAppended, text);
}

/** The event that appends results: of settled calls by their id, and blocks without a recorded call. */
export function draftResults(
  id: string,
  createdAt: string,
  blocks: readonly (Block | { readonly callId: string })[],
): Draft<"results"> {
  const data = { id, createdAt, blocks };
  // Other blocks come from integrations and are checked when they are appended.
  for (const block of blocks) if ("kind" in block) return { type: "results", data };
  return checkedDraft("results", data, results);
}

/**
 * The ledger's events about a call skip the schema, because the ledger builds them itself. Arguments and
 * results were copied and frozen before; the fold takes the rest apart.
 */
export function draftIssued(data: IssuedData): Draft<"call.issued"> {
  return checkedDraft("call.issued", data, issuedSchema);
}

export function draftCompleted(data: CompletedData): Draft<"call.completed"> {
  Object.freeze(data.result);
  return checkedDraft("call.completed", data, completedSchema);
}

const checkpointMade = lazySchema(() =>
  z.strictObject({ version: z.int().positive(), label: text.nullable() }),
);

export function draftCheckpoint(version: number, label: string | null): Draft<"checkpoint"> {
  return checkedDraft("checkpoint", { version, label }, checkpointMade);
}

/** An event whose handler also updates `updatedAt`. */
function on<Data>(
  version: number,
  schema: EventSchema<Data>,
  apply: (state: SessionState, data: Data, place: Place) => void,
): EventSpec<SessionState, Data> {
  return event(version, schema, (state: SessionState, data: Data, place: Place) => {
    apply(state, data, place);
    state.updatedAt = place.at;
  });
}

export const sessionEvents = {
  "session.opened": on(1, opened, (state, data, { at }) => {
    state.createdAt = at;
    describe(state, data);
    state.parent = data.parent ?? null;
  }),
  "session.described": on(1, described, describe),
  "session.status": on(
    1,
    lazySchema(() =>
      z.strictObject({
        status: z.enum(SESSION_STATUSES),
        why: text.nullable(),
        by: text.nullable(),
        /** The surface that a person used, if it was not the command line: `web`. */
        via: text.optional(),
      }),
    ),
    (state, { status, why, by }) => {
      state.status = status;
      state.ended = status === "active" ? null : { why, by };
    },
  ),
  "session.forked": on(1, forked, fork),
  "session.effects": on(
    1,
    lazySchema(() =>
      z.strictObject({
        effects: z.enum(["live", "refused"]),
        by: text.optional(),
        via: text.optional(),
        why: text.optional(),
      }),
    ),
    (state, data) => {
      state.effects = data.effects;
    },
  ),
  "session.taken": on(
    1,
    lazySchema(() =>
      z.strictObject({ owner: text, token: z.int(), host: text, pid: z.int(), from: text.nullable() }),
    ),
    (state, { token }) => {
      state.token = token;
    },
  ),
  message: on(1, messageAppended, (state, { message }) => {
    addMessage(state, message);
    if (state.prompts.length > 0) state.prompts = state.prompts.filter((prompt) => prompt.id !== message.id);
  }),
  results: on(1, results, (state, { id, createdAt, blocks }) => {
    const resolved: unknown[] = [];
    for (const block of blocks) {
      resolved.push("kind" in block ? block : resultBlock(state, block.callId));
      const call = "kind" in block && isProvisional(block) ? state.calls.get(String(block["callId"])) : null;
      if (call) call.isAside = true;
    }
    addMessage(state, { id, role: "tool", createdAt, blocks: resolved as Block[] });
  }),
  "transcript.replaced": on(
    1,
    lazySchema(() => z.strictObject({ segments: z.array(segmentSchema), why: text.optional() })),
    (state, { segments }) => {
      const before = state.messages;
      state.messages = applySegments(before, segments);
      if (!isReordered(before, state.messages, segments)) state.edited = true;
      for (const message of segments.flatMap((segment) => ("add" in segment ? segment.add : [])))
        index(state, message);
      forgetFinished(state);
    },
  ),
  "system.set": on(
    1,
    lazySchema(() => z.strictObject({ text: z.string().nullable() })),
    (state, { text: system }) => {
      state.system = system;
    },
  ),
  "plan.set": on(
    1,
    lazySchema(() => z.strictObject({ plan: planSchema.nullable() })),
    (state, { plan }) => {
      state.plan = plan;
    },
  ),
  "budget.limited": on(
    1,
    lazySchema(() =>
      z.strictObject({
        limits: limits(),
        by: text.optional(),
        via: text.optional(),
        why: text.optional(),
      }),
    ),
    (state, data) => {
      state.budget = changeBudget(state.budget, { act: "limit", limits: data.limits as never });
    },
  ),
  "budget.reserved": on(
    1,
    lazySchema(() => z.strictObject({ id: text, amounts: amountsSchema })),
    (state, { id, amounts }) => {
      state.budget = changeBudget(state.budget, { act: "reserve", id, amounts });
    },
  ),
  "budget.settled": on(
    1,
    lazySchema(() => z.strictObject({ id: text, spent: amountsSchema, lost: z.boolean().optional() })),
    (state, { id, spent }) => {
      state.budget = changeBudget(state.budget, { act: "settle", id, spent });
      if (!isChildReservation(id)) state.largestCall = largestOf(state.largestCall, spent);
    },
  ),
  "budget.spent": on(
    1,
    lazySchema(() => z.strictObject({ amounts: amountsSchema })),
    (state, { amounts }) => {
      state.budget = changeBudget(state.budget, { act: "spend", amounts });
      state.largestCall = largestOf(state.largestCall, amounts);
    },
  ),
  checkpoint: on(1, checkpointMade, (state, { version, label }, { seq, at }) => {
    state.version = version;
    state.checkpoints.set(version, { version, seq, at, label });
  }),
  "checkpoint.deleted": on(
    1,
    lazySchema(() => z.strictObject({ version: z.int().positive() })),
    (state, { version }) => {
      state.checkpoints.delete(version);
    },
  ),
  "prompt.queued": on(
    1,
    // The schema is as strict as that of the message: a prompt that no run could use must not be
    // acknowledged.
    lazySchema(() => z.strictObject({ id: text.min(1).max(256), blocks: z.array(blockSchema), by: text })),
    (state, { id, blocks, by }, { at }) => {
      state.prompts.push({ id, blocks, by, at });
    },
  ),
  "call.issued": on(1, issuedSchema, issueCall),
  "call.completed": on(1, completedSchema, completeCall),
  "call.failed": on(1, failedSchema, failCall),
  "call.lost": on(1, lostSchema, loseCall),
  "call.verified": on(1, verifiedSchema, verifyCall),
  "call.waiting": on(1, waitingSchema, waitCall),
  "call.granted": on(1, grantedSchema, grantCall),
  "call.approved": on(1, approvedSchema, approveCall),
  "call.repeated": on(1, repeatedSchema, repeatCall),
} as const;

function addMessage(state: SessionState, message: Message): void {
  state.messages.push(message);
  index(state, message);
}

/** Remembers ids for good. An assistant message is unfinished until its calls have all results. */
function index(state: SessionState, message: Message): void {
  state.messageIds.add(message.id);
  let calls = 0;
  const { blocks } = message;
  for (let at = 0; at < blocks.length; at++) {
    const block = blocks[at] as Block;
    if (block.kind !== "tool_call") continue;
    state.callSlots.add(block.id);
    calls += 1;
  }
  if (message.role === "assistant" && calls > 0) state.unfinished.add(message.id);
  if (message.role === "tool") finish(state, message);
}

/** Marks messages as finished whose results are all there, in one message or in several. */
function finish(state: SessionState, results: Message): void {
  for (const id of state.unfinished) {
    const before = state.messages.at(-2);
    if (before?.id === id && answersInOrder(before, results)) {
      state.unfinished.delete(id);
      continue;
    }
    const asked = state.messages.findLastIndex((message) => message.id === id);
    const missing = new Set<string>();
    for (const call of toolCalls(state.messages[asked] ?? results)) missing.add(call.id);
    for (let at = asked + 1; at < state.messages.length; at++) {
      for (const block of state.messages[at]?.blocks ?? [])
        if (block.kind === "tool_result") missing.delete(block.callId);
    }
    for (const block of results.blocks) if (block.kind === "tool_result") missing.delete(block.callId);
    if (missing.size === 0) state.unfinished.delete(id);
  }
}

/** After an edit: a removed message, or one whose results are all there, is not unfinished. */
function forgetFinished(state: SessionState): void {
  if (state.unfinished.size === 0) return;
  const answered = new Set<string>();
  const unfinished = new Set<string>();
  for (let at = state.messages.length - 1; at >= 0; at--) {
    const message = state.messages[at] as Message;
    for (const block of message.blocks) if (block.kind === "tool_result") answered.add(block.callId);
    if (state.unfinished.has(message.id) && toolCalls(message).some((call) => !answered.has(call.id)))
      unfinished.add(message.id);
  }
  for (const id of state.unfinished) if (!unfinished.has(id)) state.unfinished.delete(id);
}

/** The usual case: one result for each call, in their order. */
function answersInOrder(message: Message, results: Message): boolean {
  let next = 0;
  const { blocks } = message;
  for (let at = 0; at < blocks.length; at++) {
    const block = blocks[at] as Block;
    if (block.kind !== "tool_call") continue;
    const result = results.blocks[next];
    if (result?.kind !== "tool_result" || result.callId !== block.id) return false;
    next += 1;
  }
  return true;
}

function describe(state: SessionState, data: Described): void {
  if (data.title !== undefined) state.title = data.title;
  if (data.scratchpadRoot !== undefined) state.scratchpadRoot = data.scratchpadRoot;
  if (data.goal !== undefined) state.goal = data.goal;
  if (data.ttlMs !== undefined) state.ttlMs = data.ttlMs;
  if (data.metadata !== undefined) state.metadata = { ...state.metadata, ...data.metadata };
}

/** Calls that are open at the fork belong to the parent: only it can learn how they ended. */
function fork(state: SessionState, data: DataOf<typeof forked>, place: Place): void {
  for (const call of openCallsOf(state)) {
    const error = { message: `belongs to session ${data.session}` };
    failCall(state, { callId: call.callId, attempt: call.attempt, error, by: "fork" }, place);
  }
  state.forked = { session: data.session, version: data.version, seq: data.seq };
  state.effects = data.live ? "live" : "refused";
  state.status = "active";
  state.ended = null;
  state.token = 0;
  state.createdAt = place.at;
  state.prompts = [];
  // The call that a sub-agent works for belongs to the original.
  state.parent = null;
}

/** The result of a settled call as the model reads it. A repeat says so, and since when. */
export function resultBlock(state: SessionState, callId: string): ToolResultBlock {
  const call = state.calls.get(callId);
  if (!call) return { kind: "tool_result", callId, content: "no record of this call", isError: true };
  if (call.error) return { kind: "tool_result", callId, content: call.error.message, isError: true };
  const changed = changedNote(call);
  const content = `${changed === null ? "" : `${changed} `}${resultText(call.result)}`;
  if (!call.repeats)
    return { kind: "tool_result", callId, content, ...(changed !== null && { meta: { changed } }) };
  const since = isoTime(call.settledAt ?? 0);
  return {
    kind: "tool_result",
    callId,
    content: `[not run again: this repeats call ${call.repeats.callId}, done ${since}] ${content}`,
    meta: { repeats: call.repeats.callId, since },
  };
}

/** The result of a call that is set aside: it waits for a person, and the conversation continues. */
export function provisionalResult(callId: string): ToolResultBlock & { readonly content: string } {
  const content = `[holdfast] call ${callId} waits for a person. It has not failed: its outcome will follow.`;
  return { kind: "tool_result", callId, content, meta: { provisional: true } };
}

export function isProvisional(block: object): boolean {
  return (block as { meta?: JsonObject }).meta?.["provisional"] === true;
}

/** Tells the model that its call ran with other arguments than it sent. */
export function changedNote({ asked, args }: Call): string | null {
  return asked ? `[${asked.changedBy} changed the arguments to ${JSON.stringify(args)}]` : null;
}

function resultText(result: CallResult | null): string {
  if (!result) return "";
  if ("artifact" in result) return `[${result.bytes} bytes, stored as artifact ${result.artifact}]`;
  return typeof result.value === "string" ? result.value : JSON.stringify(result.value);
}

export type SessionEvents = typeof sessionEvents;
