/** Sessions and their calls, as operations answer. */

import * as z from "zod";
import { type Call, isNotStarted, isOpen, SESSION_STATUSES } from "../model/session/index.ts";
import type { SessionDetail, SessionSummary } from "../session/index.ts";
import type { Holder } from "../store.ts";
import { iso, isoOrNull, time } from "./record-views.ts";

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
  goal: text.nullable(),
  createdAt: time,
  updatedAt: time,
  openCalls: z.int(),
  stale: z.boolean(),
  /** Whether a process holds it right now. */
  running: z.boolean(),
  /** Whether the process that held it last is gone, and never let go of it. */
  crashed: z.boolean(),
  /** Of a sub-agent: whose call started it. */
  parent: text.nullable(),
});

/** What the summary of a session does not say. */
export interface Around {
  readonly running: boolean;
  readonly crashed: boolean;
  readonly parent: string | null;
}

export function sessionRowView(from: SessionSummary, around: Around): z.input<typeof sessionRow> {
  const { id, status, title, goal, createdAt, updatedAt, openCalls, stale } = from;
  return {
    session: id,
    status,
    title,
    goal,
    createdAt: createdAt.toISOString(),
    updatedAt: updatedAt.toISOString(),
    openCalls,
    stale,
    ...around,
  };
}

export const call = z.strictObject({
  call: text,
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
  /** Why its outcome is unknown, or what the person who answered said. */
  why: text.nullable(),
  /** What the tool's own look came to, the last time. */
  verify: text.nullable(),
  error: text.nullable(),
  /** The person who allowed another attempt, until it is made. */
  grantedBy: text.nullable(),
  open: z.boolean(),
  /** Whether the process that holds its session is at it right now. */
  running: z.boolean(),
  /** Whether it is in doubt while nobody runs its session: a person may answer for it. */
  unattended: z.boolean(),
  /** Whether its session was cancelled: nothing of it is tried again. */
  cancelled: z.boolean(),
  /** It waits for approval and has not been run: retry lets it run, failed refuses it. */
  unbegun: z.boolean(),
});

interface Surroundings {
  readonly isHeld: boolean;
  readonly isCancelled: boolean;
}

export function callView(session: string, from: Call, around: Surroundings): z.input<typeof call> {
  const { isHeld, isCancelled } = around;
  const { id, tool, effect, status, args, attempt, vendorKey, issuedAt, settledAt, settledBy } = from;
  const { why, verify } = from;
  const looked = verify && [verify.answer, verify.detail].filter(Boolean).join(": ");
  return {
    call: id,
    session,
    tool,
    effect,
    status,
    args: args as z.core.util.JSONType,
    attempt,
    key: vendorKey,
    issuedAt: iso(issuedAt),
    settledAt: isoOrNull(settledAt),
    settledBy,
    why,
    verify: looked,
    error: from.error?.message ?? null,
    grantedBy: status === "unknown" && from.granted ? from.by : null,
    open: isOpen(status),
    running: status === "issued" && isHeld,
    unattended: isOpen(status) && status !== "waiting" && !isHeld,
    cancelled: isCancelled,
    unbegun: isNotStarted(from),
  };
}

export const version = z.strictObject({
  version: z.int(),
  seq: z.int(),
  at: time,
  label: text.nullable(),
});

const holder = z.strictObject({ label: text, host: text, pid: z.int() });

export const session = sessionRow.extend({
  version: z.int(),
  messages: z.int(),
  calls: z.array(call),
  budget: z.strictObject({ spent: amounts, limit: amounts }),
  plan: z
    .strictObject({
      title: text.nullable(),
      steps: z.array(z.strictObject({ id: text, description: text, status: text })),
    })
    .nullable(),
  scratchpadRoot: text.nullable(),
  forkedFrom: text.nullable(),
  forkedAtVersion: z.int().nullable(),
  /** Those of a fork are off until a person switches them on. */
  effects: z.enum(["on", "off"]),
  heldBy: holder.nullable(),
  /** Of a session that crashed: what held it last. */
  goneHolder: holder.nullable(),
});

function holderView(from: Holder | null): z.input<typeof holder> | null {
  return from && { label: from.label, host: from.host, pid: from.pid };
}

/** Who holds a session: `held` may be alive, `gone` provably is not. */
export interface HeldBy {
  readonly held: Holder | null;
  readonly gone: Holder | null;
}

export function sessionView(from: SessionDetail, { held, gone }: HeldBy): z.input<typeof session> {
  const { version: latest, messages, calls, budget, plan, scratchpadRoot, parent } = from;
  const { forkedFrom, forkedAtVersion, effects } = from;
  return {
    ...sessionRowView(from, { running: held !== null, crashed: gone !== null, parent }),
    version: latest,
    messages: messages.length,
    calls: calls.map((each) => {
      return callView(from.id, each, { isHeld: held !== null, isCancelled: from.status === "cancelled" });
    }),
    budget: { spent: budget.spent, limit: budget.limit },
    plan: plan && {
      title: plan.title ?? null,
      steps: plan.steps.map(({ id, description, status }) => ({ id, description, status })),
    },
    scratchpadRoot,
    forkedFrom,
    forkedAtVersion,
    effects: effects === "live" ? "on" : "off",
    heldBy: holderView(held),
    goneHolder: holderView(gone),
  };
}
