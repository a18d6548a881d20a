import * as z from "zod";
import type { Json } from "../json.ts";
import { type DataOf, lazySchema } from "../stream/index.ts";
import { callIdSchema } from "./message.ts";

/**
 * One tool call, from intent to outcome.
 *
 *     issued ──result──▶ completed
 *        │────definite failure──▶ failed                 (releases its key)
 *        └────crash, throw, timeout──▶ unknown ──landed──▶ completed
 *                                        │──never, or same-key retry──▶ issued, attempt + 1
 *                                        │──nobody can tell──▶ waiting ──person──▶ completed · failed · unknown (retry)
 *                                        │                        └──its tool is there again──▶ unknown
 *                                        └──its own late answer──▶ completed
 *     (nothing) ──same key as an earlier call──▶ repeated
 *
 * Invariants: an effect starts only while its call is `issued` and that is durable (I1); `completed`, `failed`
 * and `repeated` are final (I8); `unknown` is left only by a recorded reason (I9). The fold refuses every
 * transition that the table below does not name, so a log that breaks one cannot be loaded silently.
 */

const CALL_STATUSES = ["issued", "unknown", "waiting", "completed", "failed", "repeated"] as const;
export type CallStatus = (typeof CALL_STATUSES)[number];

export type CallAct = "issue" | "complete" | "fail" | "lose" | "verify" | "wait" | "grant" | "repeat";

/** `none` is a call that the session has not seen. What is not in the table does not happen. */
export const CALL_TRANSITIONS: Readonly<Record<CallStatus | "none", Partial<Record<CallAct, CallStatus>>>> = {
  none: { issue: "issued", repeat: "repeated", fail: "failed" },
  issued: { complete: "completed", fail: "failed", lose: "unknown" },
  unknown: {
    verify: "unknown",
    complete: "completed",
    fail: "failed",
    issue: "issued",
    wait: "waiting",
    lose: "unknown",
  },
  waiting: { complete: "completed", fail: "failed", grant: "unknown", lose: "unknown" },
  completed: {},
  failed: {},
  repeated: {},
};

export function isOpen(status: CallStatus): boolean {
  return status === "issued" || status === "unknown" || status === "waiting";
}

/** What a tool does to the world: nothing; the same however often in a row; something that must not happen twice. */
export const EFFECTS = ["read", "write", "mutate"] as const;
export type Effect = (typeof EFFECTS)[number];
export type DedupeScope = "call" | "session" | "global";

/** Who or what settled a call. */
const SETTLED_BY = [
  "execute",
  "late",
  "verify",
  "person",
  "input",
  "definite",
  "presumed",
  "interrupted",
  "fork",
  "tool",
] as const;
export type SettledBy = (typeof SETTLED_BY)[number];

/** Small results stand in the log; large ones are artifacts and the log keeps their hash. */
export type CallResult = { readonly value: Json } | { readonly artifact: string; readonly bytes: number };

export interface CallError {
  readonly message: string;
  readonly name?: string;
}

export type VerifyAnswer = "landed" | "never" | "notYet" | "unsure" | "error";

/** A verify that says again and again that there is no trace yet. */
export interface NoTrace {
  /** By the wall clock, when it first said so. */
  readonly since: number;
  /** How many of those who took the session it has said so to, and when the last of them found the call lost. */
  readonly owners: number;
  readonly lostAt: number | null;
}

/**
 * One tool call as the log tells it. Read it to show what is open and why, and what was done; it changes only by the
 * table above. An outcome that nobody knows is answered by `holdfast.calls.resolve`.
 */
export interface Call {
  readonly id: string;
  readonly messageId: string | null;
  readonly tool: string;
  readonly effect: Effect;
  readonly scope: DedupeScope;
  readonly args: Json;
  /** Decides what counts as the same call; `vendorKey` is the one that the tool hands on. */
  readonly key: string;
  readonly vendorKey: string;
  readonly failures: number;
  status: CallStatus;
  attempt: number;
  /** Of the current attempt, and of the first. */
  issuedAt: number;
  readonly firstIssuedAt: number;
  /** Since when the vendor may know its key from an earlier call, whose failure did not prove that nothing happened. */
  readonly keySince: number | null;
  /** Where its first `call.issued` stands. */
  readonly seq: number;
  /** The lease's token under which the current attempt was issued. */
  token: number;
  result: CallResult | null;
  error: CallError | null;
  settledBy: SettledBy | null;
  settledAt: number | null;
  /** Why it is unknown, or what the person who answered said. */
  why: string | null;
  by: string | null;
  /** The last answer of the tool's verify, and how many errors in a row led to it. */
  verify: {
    readonly answer: VerifyAnswer;
    readonly detail: string | null;
    readonly at: number;
    readonly againAt: number | null;
    readonly errors: number;
    /** Null once it says something else than that there is no trace yet. */
    readonly noTrace: NoTrace | null;
  } | null;
  /** Since when the outcome is unknown. */
  lostAt: number | null;
  /**
   * The earliest attempt that may have had its effect without our knowing. While there is one, no later attempt can
   * fail the call: "this one did nothing" says nothing about that one. Null: nothing that was started is in doubt.
   */
  doubt: number | null;
  /** A person allowed one more attempt. */
  granted: boolean;
  /** It is not finished because a person has not answered its sub-agent yet. */
  needsPerson: boolean;
  /** It waits for a person only because a program without its tool settled it. */
  lacksTool: boolean;
  repeats: { readonly session: string; readonly callId: string } | null;
}

/** True for one that waits and has certainly never been run: it can be allowed or refused, and cannot have landed. */
export function isNotStarted({ status, doubt, by, verify }: Call): boolean {
  return status === "waiting" && doubt === null && by === null && verify === null;
}

/** What it comes to when its verify says `notYet` now. */
export function unsettledAnswer({ verify, lostAt }: Call, at: number): NoTrace {
  const earlier = verify?.noTrace;
  if (!earlier) return { since: at, owners: 1, lostAt };
  const owners = earlier.lostAt === lostAt ? earlier.owners : earlier.owners + 1;
  return { since: Math.min(earlier.since, at), owners, lostAt };
}

/**
 * How long its tool wants not to be asked again, by this clock. Never longer than was meant: by one that was set back since it said
 * so, nobody can tell how long ago that was, and it may be asked at once.
 */
export function verifyDelayMs({ verify }: Call, now: number): number {
  if (verify === null || verify.againAt === null || now < verify.at) return 0;
  return Math.max(0, verify.againAt - now);
}

const text = z.string();
/** Ids are checked where they come in. Here the call is on record, and whatever its id is, it can be settled. */
const knownCallId = text;
/** Drafts are copied as strict JSON before they are checked; walking them once more would say nothing new. */
const json = z.custom<Json>((value) => value !== undefined, "expected a JSON value");
const result = () =>
  z.union([
    z.strictObject({ value: json }),
    z.strictObject({ artifact: z.string().length(64), bytes: z.int().nonnegative() }),
  ]);
const error = () => z.strictObject({ message: text, name: text.optional() });
const settledBy = () => z.enum(SETTLED_BY);

export const issuedSchema = lazySchema(() =>
  z.strictObject({
    callId: callIdSchema,
    messageId: text.nullable(),
    tool: text.min(1),
    effect: z.enum(["read", "write", "mutate"]),
    scope: z.enum(["call", "session", "global"]),
    args: json,
    key: text,
    vendorKey: text,
    /** Definite failures of this key before: the vendor's key changes with them. */
    failures: z.int().nonnegative(),
    attempt: z.int().positive(),
    token: z.int().nonnegative(),
  }),
);
export type IssuedData = DataOf<typeof issuedSchema>;

export const completedSchema = lazySchema(() =>
  z.strictObject({
    callId: knownCallId,
    attempt: z.int().positive(),
    result: result(),
    by: settledBy(),
    person: text.optional(),
    why: text.optional(),
  }),
);
export type CompletedData = DataOf<typeof completedSchema>;

/** `tool` and `args` stand here only when the call failed before it could be issued. */
export const failedSchema = lazySchema(() =>
  z.strictObject({
    callId: knownCallId,
    attempt: z.int().nonnegative(),
    error: error(),
    by: settledBy(),
    person: text.optional(),
    why: text.optional(),
    messageId: text.nullable().optional(),
    tool: text.optional(),
    args: json.optional(),
    /** Definite failures of a global key that others have recorded since this call was issued are counted in. */
    failures: z.int().nonnegative().optional(),
    /** Of a global key: an earlier call with it, of whichever session, failed without proof that nothing happened. */
    doubted: z.literal(true).optional(),
  }),
);
export type FailedData = DataOf<typeof failedSchema>;

/** `started: false` when it is certain that the attempt never began. */
export const lostSchema = lazySchema(() =>
  z.strictObject({
    callId: knownCallId,
    attempt: z.int().positive(),
    why: text,
    started: z.literal(false).optional(),
    /** What it waits for is a person's answer to somebody else, such as its sub-agent. */
    person: z.literal(true).optional(),
  }),
);
export type LostData = DataOf<typeof lostSchema>;

export const verifiedSchema = lazySchema(() =>
  z.strictObject({
    callId: knownCallId,
    attempt: z.int().positive(),
    answer: z.enum(["landed", "never", "notYet", "unsure", "error"]),
    detail: text.optional(),
    againAt: z.number().optional(),
    /** Nothing that was sent can still arrive: the tool's own time for that is over. */
    settled: z.literal(true).optional(),
  }),
);
export type VerifiedData = DataOf<typeof verifiedSchema>;

export const waitingSchema = lazySchema(() =>
  z.strictObject({
    callId: knownCallId,
    why: text,
    /** It waits only because the program that settled it could not tell: one that has its tool may. */
    lacks: z.literal("tool").optional(),
  }),
);
export type WaitingData = DataOf<typeof waitingSchema>;

export const grantedSchema = lazySchema(() =>
  z.strictObject({ callId: knownCallId, person: text, why: text }),
);
export type GrantedData = DataOf<typeof grantedSchema>;

export const repeatedSchema = lazySchema(() =>
  z.strictObject({
    callId: callIdSchema,
    messageId: text.nullable(),
    tool: text.min(1),
    effect: z.enum(["read", "write", "mutate"]),
    args: json,
    key: text,
    of: z.strictObject({ session: text, callId: knownCallId }),
    /** When the first one finished. */
    since: z.number(),
    /** Only when the first one belongs to another session, so that the repeat can be read without it. */
    result: result().optional(),
  }),
);
export type RepeatedData = DataOf<typeof repeatedSchema>;
