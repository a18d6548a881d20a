/** Operations that read a session's past: its log by pages, one event, its timeline, its transcript. */

import * as z from "zod";
import { HoldfastError } from "../model/errors.ts";
import { shellWord, streamName } from "../model/names.ts";
import type { Block } from "../model/session/index.ts";
import type { Event } from "../model/stream/index.ts";
import type { Holdfast } from "../open.ts";
import type { Context } from "./context.ts";
import { query } from "./operation.ts";
import { iso, time } from "./record-views.ts";
import { heldBy, sessionId, withVersionHint } from "./session-operations.ts";
import { callOf, logLine } from "./session-views.ts";
import { buildTimeline, timeline } from "./timeline.ts";

const text = z.string();
const session = text;

/** The presets of a log: which events each shows. */
const PRESETS = {
  effects: (type: string) => type.startsWith("call."),
  failures: (type: string, data: Record<string, unknown>) =>
    type === "call.failed" ||
    type === "call.lost" ||
    (type === "call.verified" && data["answer"] !== "landed") ||
    (type === "session.taken" && data["from"] !== null) ||
    (type === "session.status" && data["status"] === "failed"),
  people: (type: string, data: Record<string, unknown>) =>
    data["person"] !== undefined ||
    ["call.waiting", "call.granted", "prompt.queued", "session.effects"].includes(type) ||
    (type === "session.status" && typeof data["by"] === "string"),
} as const;
const PRESET_NAMES = ["effects", "failures", "people"] as const;

/** Events that one answer may read while it looks for those of a preset. */
const MAX_READ = 10_000;
const CHUNK = 500;

type Numbered = [seq: number, Event];

async function eventsBetween(holdfast: Holdfast, id: string, after: number, upTo: number) {
  const events: Numbered[] = [];
  for await (const each of holdfast.journal.events(streamName("session", id), after, upTo)) events.push(each);
  return events;
}

async function find(context: Context, typed: string): Promise<{ holdfast: Holdfast; id: string }> {
  const holdfast = await context.holdfast();
  return { holdfast, id: await sessionId(holdfast, typed) };
}

async function headOf({ journal }: Holdfast, id: string): Promise<number> {
  return (await journal.row(streamName("session", id))).head.seq;
}

interface Asked {
  readonly before: number;
  readonly limit: number;
  readonly isWanted: (event: Event) => boolean;
}

/** The latest events before a position, newest first. `next` is where an older page ends, if there is one. */
async function newestFirst(holdfast: Holdfast, id: string, { before, limit, isWanted }: Asked) {
  const found: Numbered[] = [];
  let end = before;
  while (end > 1 && found.length < limit && before - end < MAX_READ) {
    const start = Math.max(1, end - Math.min(CHUNK, Math.max(limit, 1)));
    const events = await eventsBetween(holdfast, id, start - 1, end - 1);
    for (const each of events.reverse()) if (isWanted(each[1])) found.push(each);
    end = start;
  }
  const page = found.slice(0, limit);
  const last = page.at(-1)?.[0] ?? end;
  const next = found.length > page.length ? last : end;
  return { page, next: next > 1 ? next : null };
}

async function oldestFirst(holdfast: Holdfast, id: string, after: number, asked: Asked) {
  const page: Numbered[] = [];
  for await (const each of holdfast.journal.events(streamName("session", id), after, asked.before - 1)) {
    if (asked.isWanted(each[1])) page.push(each);
    if (page.length >= asked.limit) break;
  }
  return { page, next: null };
}

const line = z.strictObject({
  seq: z.int(),
  at: time,
  type: text,
  word: text,
  text,
  callId: text.nullable(),
});

const block = z.strictObject({
  kind: z.enum(["text", "reasoning", "tool_call", "tool_result", "file"]),
  text,
  callId: text.nullable(),
  tool: text.nullable(),
});
const message = z.strictObject({ id: text, role: text, at: text, blocks: z.array(block) });

function blockView(from: Block): z.input<typeof block> {
  const none = { callId: null, tool: null };
  switch (from.kind) {
    case "text":
    case "reasoning":
      return { ...none, kind: from.kind, text: from.text };
    case "tool_call":
      return { kind: "tool_call", text: JSON.stringify(from.args), callId: from.id, tool: from.name };
    case "file":
      return { ...none, kind: "file", text: `${from.mediaType} ${from.artifact}` };
    case "tool_result": {
      const { content, callId } = from;
      const words =
        typeof content === "string" ? content : content.map((each) => blockView(each).text).join("\n");
      return { kind: "tool_result", text: words, callId, tool: null };
    }
  }
}

const MESSAGES = 50;

export const historyOperations = [
  query("session log", "Show a session's events, one line each; the newest first with `newest`", {
    input: z.strictObject({
      session,
      after: z.int().optional(),
      before: z.int().optional(),
      newest: z.boolean().optional(),
      only: z.enum(PRESET_NAMES).optional(),
      limit: z.int().positive().optional(),
    }),
    result: z.strictObject({
      session: text,
      lines: z.array(line),
      /** Pass it as `before` for older lines; null at the beginning of the log. */
      next: z.int().nullable(),
    }),
    async run(context, { session: typed, after = 0, before, newest = false, only, limit = 100_000 }) {
      const { holdfast, id } = await find(context, typed);
      const isWanted = ({ type, data }: Event): boolean =>
        only === undefined || PRESETS[only](type, data as Record<string, unknown>);
      const end = before ?? (newest ? (await headOf(holdfast, id)) + 1 : Number.MAX_SAFE_INTEGER);
      const asked = { before: end, limit, isWanted };
      const { page, next } = newest
        ? await newestFirst(holdfast, id, asked)
        : await oldestFirst(holdfast, id, after, asked);
      const lines = page.map(([seq, event]) => ({ ...logLine(seq, event), callId: callOf(event) }));
      return { session: id, lines, next };
    },
  }),
  query("session event", "Show one event of a session as it is recorded", {
    input: z.strictObject({ session, seq: z.int().positive() }),
    result: z.strictObject({ session: text, seq: z.int(), at: time, type: text, data: z.json() }),
    async run(context, { session: typed, seq }) {
      const { holdfast, id } = await find(context, typed);
      const [found] = await eventsBetween(holdfast, id, seq - 1, seq);
      if (!found) {
        throw new HoldfastError("INPUT_INVALID", `session ${id} has no event ${seq}`, {
          hint: `List them: holdfast session log ${shellWord(id)}`,
          data: { session: id, seq },
        });
      }
      const [, { at, type, data }] = found;
      return { session: id, seq, at: iso(at), type, data: data as z.core.util.JSONType };
    },
  }),
  query("session timeline", "Show who held a session and when: model calls, tool calls, waits, crashes", {
    input: z.strictObject({
      session,
      before: z.int().optional(),
      limit: z.int().positive().max(20_000).optional(),
    }),
    result: timeline,
    async run(context, { session: typed, before, limit = 2_000 }) {
      const { holdfast, id } = await find(context, typed);
      const head = await headOf(holdfast, id);
      const upTo = Math.min(before === undefined ? head : before - 1, head);
      const after = Math.max(0, upTo - limit);
      const events = await eventsBetween(holdfast, id, after, upTo);
      const holder = upTo === head ? await heldBy(holdfast, id) : { held: null, gone: null };
      return {
        ...buildTimeline(events, holder, context.now()),
        session: id,
        earlier: after > 0 ? after + 1 : null,
      };
    },
  }),
  query("session at", "Show a session's transcript at a version, the latest messages of it", {
    input: z.strictObject({
      session,
      version: z.int().positive(),
      /** Only messages before this index, for older pages. */
      before: z.int().nonnegative().optional(),
      limit: z.int().positive().optional(),
    }),
    result: z.strictObject({
      session: text,
      version: z.int(),
      at: time,
      label: text.nullable(),
      total: z.int(),
      /** The index of the first of `messages`. */
      first: z.int(),
      messages: z.array(message),
      plan: z.array(z.strictObject({ description: text, status: text })),
      spent: z.record(text, z.number()),
    }),
    async run(context, { session: typed, version, before, limit = MESSAGES }) {
      const { holdfast, id } = await find(context, typed);
      const then = await withVersionHint(id, holdfast.sessions.at(id, version));
      const end = Math.min(before ?? then.messages.length, then.messages.length);
      const first = Math.max(0, end - limit);
      return {
        session: id,
        version,
        at: then.createdAt.toISOString(),
        label: then.label,
        total: then.messages.length,
        first,
        messages: then.messages.slice(first, end).map(({ id: messageId, role, createdAt, blocks }) => {
          return { id: messageId, role, at: createdAt, blocks: blocks.map(blockView) };
        }),
        plan: (then.plan?.steps ?? []).map(({ description, status }) => ({ description, status })),
        spent: { ...then.budget.spent },
      };
    },
  }),
];
