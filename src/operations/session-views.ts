/** Sessions, their calls and their log lines, as operations return them. */

import * as z from "zod";
import { streamId } from "../model/names.ts";
import type { Block, Call, Message, SessionEvents, SessionState } from "../model/session/index.ts";
import { isNotStarted, isOpen, SESSION_STATUSES } from "../model/session/index.ts";
import type { Event, EventSpec } from "../model/stream/index.ts";
import type { SessionDetail, SessionSummary } from "../session/index.ts";
import type { Holder, ItemRow } from "../store.ts";
import { iso, isoOrNull, pickFields, time } from "./record-views.ts";

const text = z.string();
const amounts = z.strictObject({
  usd: z.number().optional(),
  tokens: z.number().optional(),
  turns: z.number().optional(),
});

export const sessionRow = z.strictObject({
  session: text,
  status: z.enum(SESSION_STATUSES),
  title: text.nullable(),
  /** The beginning of its first question, if it has no title. */
  opening: text.nullable(),
  goal: text.nullable(),
  createdAt: time,
  updatedAt: time,
  openCalls: z.int(),
  stale: z.boolean(),
  running: z.boolean(),
  /** Whether the process that held it last died without releasing it. */
  crashed: z.boolean(),
  /** For a sub-agent: the session whose call started it. */
  parent: text.nullable(),
});

const OPENING_CHARACTERS = 120;

/** The beginning of the user's first message, on one line. */
export function openingText(messages: readonly Message[]): string | null {
  const first = messages.find(({ role }) => role === "user");
  const words = blocksText(first?.blocks ?? [])
    .replace(/\s+/g, " ")
    .trim();
  return words === "" ? null : words.slice(0, OPENING_CHARACTERS);
}

export function sessionRowView(
  from: SessionSummary,
  around: {
    readonly running: boolean;
    readonly crashed: boolean;
    readonly parent: string | null;
    readonly opening: string | null;
  },
): z.input<typeof sessionRow> {
  const createdAt = from.createdAt.toISOString();
  const updatedAt = from.updatedAt.toISOString();
  return pickFields(sessionRow, { ...from, ...around, session: from.id, createdAt, updatedAt });
}

export const call = z.strictObject({
  callId: text,
  session: text,
  tool: text,
  effect: z.enum(["read", "write", "mutate"]),
  status: text,
  args: z.json(),
  attempt: z.int(),
  key: text,
  issuedAt: time,
  settledAt: time.nullable(),
  settledBy: text.nullable(),
  /** Why its outcome is unknown, or the reason that a person gave. */
  why: text.nullable(),
  /** A defect of its result: it does not match the output schema, or was changed to fit into JSON. */
  note: text.nullable(),
  verify: text.nullable(),
  verifiedAt: time.nullable(),
  error: text.nullable(),
  /** The person who allowed another attempt, or approved the first, that is not made yet. */
  grantedBy: text.nullable(),
  /** A person approved it, and it has not run yet. `grantedBy` names the person. */
  approved: z.boolean(),
  /** When the approval becomes void. */
  approvedUntil: time.nullable(),
  /** The arguments as the model sent them, if a person changed them with the approval. */
  askedArgs: z.json().optional(),
  open: z.boolean(),
  running: z.boolean(),
  /** Whether it is open and no process runs its session: a person may resolve it. */
  unattended: z.boolean(),
  cancelled: z.boolean(),
  /** Answers come from any person, only from an approver with a key, or from agents as well. */
  answers: z.enum(["person", "approver", "agent"]),
  /** It waits for approval and has not run: `approve` lets it run, `deny` refuses it. */
  unbegun: z.boolean(),
});

/** A call without an outcome, with everything that a person must know before resolving it. */
export const openCall = call.extend({
  namespace: text,
  /** Open calls of several sessions have its id: `resolve` needs the session as well. */
  shared: z.boolean(),
  /** For a sub-agent's call: the innermost open calls inside it. */
  subAgentCalls: z.array(z.strictObject({ session: text, callId: text, tool: text })),
  /** No person is needed: it resumes once those have an outcome and its agent runs again. */
  waitsForSubAgent: z.boolean(),
});

export function callView(
  session: string,
  from: Call,
  { isHeld, isCancelled }: { readonly isHeld: boolean; readonly isCancelled: boolean },
): z.input<typeof call> {
  const { status, verify } = from;
  return pickFields(call, {
    ...from,
    session,
    args: from.args as z.core.util.JSONType,
    key: from.vendorKey,
    issuedAt: iso(from.issuedAt),
    settledAt: isoOrNull(from.settledAt),
    verify: verify && [verify.answer, verify.detail].filter(Boolean).join(": "),
    verifiedAt: isoOrNull(verify?.at ?? null),
    error: from.error?.message ?? null,
    approved: status === "unknown" && from.approval !== null,
    approvedUntil: isoOrNull(from.approval?.until ?? null),
    ...(from.asked && { askedArgs: from.asked.args as z.core.util.JSONType }),
    grantedBy: status === "unknown" && from.granted ? from.by : null,
    open: isOpen(status),
    running: status === "issued" && isHeld,
    unattended: isOpen(status) && status !== "waiting" && !isHeld,
    cancelled: isCancelled,
    unbegun: isNotStarted(from),
  });
}

/** A call of a session that cannot be decoded, as far as the list of items shows it. */
export function undecodedCall(row: ItemRow, isHeld: boolean): z.input<typeof call> {
  const status = row.status ?? "unknown";
  return {
    callId: row.id,
    session: streamId(row.stream),
    tool: row.name ?? "unknown",
    effect: "mutate",
    status,
    args: null,
    attempt: 1,
    key: row.key ?? "",
    issuedAt: iso(row.at ?? 0),
    settledAt: null,
    settledBy: null,
    why: "its session cannot be decoded here",
    note: null,
    verify: null,
    verifiedAt: null,
    error: null,
    grantedBy: null,
    approved: false,
    approvedUntil: null,
    open: true,
    running: status === "issued" && isHeld,
    unattended: status !== "waiting" && !isHeld,
    cancelled: false,
    answers: "person",
    unbegun: false,
  };
}

export const version = z.strictObject({ version: z.int(), seq: z.int(), at: time, label: text.nullable() });

const step = z.strictObject({ id: text, description: text, status: text });
export const holder = z.strictObject({ label: text, host: text, pid: z.int() });

export const session = sessionRow.extend({
  /** The position of its last event. */
  seq: z.int(),
  version: z.int(),
  messages: z.int(),
  /** Prompts that wait for the next turn. */
  prompts: z.int(),
  metadata: z.record(text, z.json()),
  callCount: z.int(),
  calls: z.array(call),
  budget: z.strictObject({ spent: amounts, limit: amounts }),
  plan: z.strictObject({ title: text.nullable(), steps: z.array(step) }).nullable(),
  scratchpadRoot: text.nullable(),
  forkedFrom: text.nullable(),
  forkedAtVersion: z.int().nullable(),
  /** A fork's effects are off until a person switches them on. */
  effects: z.enum(["on", "off"]),
  heldBy: holder.nullable(),
  goneHolder: holder.nullable(),
});

/** The holder of a session: `held` may be alive, `gone` is provably dead. */
export interface HeldBy {
  readonly held: Holder | null;
  readonly gone: Holder | null;
}

export function sessionView(
  from: SessionDetail,
  { held, gone }: HeldBy,
  more: { readonly seq: number; readonly callCount: number },
): z.input<typeof session> {
  const { plan, parent, budget } = from;
  const around = { isHeld: held !== null, isCancelled: from.status === "cancelled" };
  return pickFields(session, {
    ...from,
    ...more,
    metadata: from.metadata as Record<string, z.core.util.JSONType>,
    ...sessionRowView(from, {
      running: held !== null,
      crashed: gone !== null,
      parent,
      opening: from.title === null ? openingText(from.messages) : null,
    }),
    messages: from.messages.length,
    prompts: from.prompts.length,
    calls: from.calls.map((each) => callView(from.id, each, around)),
    budget: { spent: budget.spent, limit: budget.limit },
    plan: plan && { title: plan.title ?? null, steps: plan.steps.map((each) => pickFields(step, each)) },
    effects: from.effects === "live" ? "on" : "off",
    heldBy: held && pickFields(holder, held),
    goneHolder: gone && pickFields(holder, gone),
  });
}

interface LogLine {
  readonly seq: number;
  readonly at: string;
  readonly type: string;
  readonly word: string;
  readonly text: string;
}

type Words = readonly [word: string, text: string];

type Formatters = {
  readonly [Type in keyof SessionEvents]: SessionEvents[Type] extends EventSpec<SessionState, infer Data>
    ? (data: Data) => Words
    : never;
};

const TEXT_LIMIT = 300;

const FORMATTERS: Formatters = {
  "session.opened": ({ title, goal }) => [
    "opened",
    [title, goal && `for goal ${goal}`].filter(Boolean).join(" "),
  ],
  "session.described": (data) => ["described", Object.keys(data).join(", ")],
  "session.status": ({ status, why, by }) => [status, [by && `by ${by}`, why].filter(Boolean).join(": ")],
  "session.forked": ({ session, version }) => ["forked", `from ${session} at version ${version}`],
  "session.effects": ({ effects, by, why }) => [
    "effects",
    [by ? `${effects} by ${by}` : effects, why].filter(Boolean).join(": "),
  ],
  "session.taken": ({ owner, token, host, pid, from }) => [
    from === null ? "taken" : "resumed",
    `${from === null ? "" : `${from} was lost; `}${owner} (${host}, pid ${pid}), token ${token}`,
  ],
  message: ({ message }) => [message.role, blocksText(message.blocks)],
  results: ({ blocks }) => ["results", blocks.map(({ callId }) => callId).join(", ")],
  "transcript.replaced": ({ segments, why }) => [
    "replaced",
    why ?? `the transcript, ${segments.length} segments`,
  ],
  "system.set": ({ text: system }) => ["system", system ?? "none"],
  "plan.set": ({ plan }) => ["plan", plan === null ? "cleared" : `${plan.steps.length} steps`],
  "budget.limited": ({ limits, by, why }) => [
    "limit",
    [`${amountsText(limits)}${by ? ` by ${by}` : ""}`, why].filter(Boolean).join(": "),
  ],
  "budget.reserved": ({ amounts }) => ["reserved", amountsText(amounts)],
  "budget.settled": ({ spent, lost }) => [
    "spent",
    `${amountsText(spent)}${lost ? ", no answer received" : ""}`,
  ],
  "budget.spent": ({ amounts }) => ["spent", amountsText(amounts)],
  checkpoint: ({ version, label }) => ["version", `${version}${label ? ` ${label}` : ""}`],
  "checkpoint.deleted": ({ version }) => ["dropped", `version ${version}`],
  "prompt.queued": ({ by, blocks }) => ["prompt", `by ${by}: ${blocksText(blocks as unknown as Block[])}`],
  "call.issued": ({ callId, tool, vendorKey, attempt }) => [
    "issued",
    `${callId} ${tool} ${vendorKey}${attempt > 1 ? `, attempt ${attempt}` : ""}`,
  ],
  "call.completed": ({ callId, by, person, why, note, result }) => [
    "completed",
    `${callId}${settled(by, person, why)}${note ? ` (${note})` : ""} ${resultText(result)}`,
  ],
  "call.failed": ({ callId, by, person, error }) => [
    "failed",
    `${callId}${by === "presumed" ? ", judging by its error" : settled(by, person, undefined)}: ` +
      error.message,
  ],
  "call.lost": ({ callId, why }) => ["unknown", `${callId}: ${why}`],
  "call.verified": ({ callId, answer, detail }) => [
    "verified",
    `${callId} ${answer}${detail ? `: ${detail}` : ""}`,
  ],
  "call.waiting": ({ callId, why }) => ["waits", `${callId} for a person: ${why}`],
  "call.granted": ({ callId, person, why }) => ["granted", `${callId} one more attempt by ${person}: ${why}`],
  "call.approved": ({ callId, person, why, args, until }) => [
    "approved",
    `${callId} by ${person}${why ? `: ${why}` : ""}` +
      (args === undefined ? "" : `, with ${JSON.stringify(args)}`) +
      (until === undefined ? "" : `, until ${iso(until)}`),
  ],
  "call.repeated": ({ callId, tool, of }) => [
    "repeats",
    `${callId} ${tool}: not run again, same as ${of.callId}`,
  ],
};

export function logLine(seq: number, event: Event): LogLine {
  const formatters: Readonly<Record<string, (data: never) => Words>> = FORMATTERS;
  const format = Object.hasOwn(formatters, event.type) ? formatters[event.type] : undefined;
  const [word, text] = format?.(event.data as never) ?? [event.type, JSON.stringify(event.data)];
  return { seq, at: new Date(event.at).toISOString(), type: event.type, word, text: short(text) };
}

/** The call that an event is about; null for other events. */
export function callOf({ type, data }: Event): string | null {
  const { callId } = data as { callId?: unknown };
  return type.startsWith("call.") && typeof callId === "string" ? callId : null;
}

export function blocksText(blocks: readonly Block[]): string {
  return short(
    blocks
      .map((block) => {
        if (block.kind === "text") return block.text;
        if (block.kind === "reasoning") return "(reasoning)";
        if (block.kind === "tool_call") return `→ ${block.name} ${JSON.stringify(block.args)}`;
        if (block.kind === "file") return `[${block.mediaType}]`;
        return `← ${typeof block.content === "string" ? block.content : blocksText(block.content)}`;
      })
      .join(" "),
  );
}

function settled(by: string, person: string | undefined, why: string | undefined): string {
  return `${by === "execute" ? "" : ` by ${person ?? by}`}${why ? ` (${why})` : ""}`;
}

export function resultText(result: { value?: unknown; artifact?: string; bytes?: number }): string {
  if (result.artifact !== undefined) return `[${result.bytes} bytes]`;
  return typeof result.value === "string" ? result.value : JSON.stringify(result.value);
}

function amountsText(amounts: { readonly [unit: string]: number | null | undefined }): string {
  return Object.entries(amounts)
    .map(([unit, value]) =>
      unit === "usd" && typeof value === "number"
        ? `$${value}`
        : `${value ?? "no limit of"} ${value === 1 ? unit.replace(/s$/, "") : unit}`,
    )
    .join(", ");
}

function short(text: string): string {
  // A text of megabytes is cut before it is scanned.
  const line = text
    .slice(0, 10 * TEXT_LIMIT)
    .replace(/\s+/g, " ")
    .trim();
  return line.length > TEXT_LIMIT ? `${line.slice(0, TEXT_LIMIT - 1)}…` : line;
}
