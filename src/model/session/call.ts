/**
 * One tool call, from intent to outcome.
 *
 *     issued ──result──▶ completed
 *        │────definite failure──▶ failed                 (releases its key)
 *        └────crash, throw, timeout──▶ unknown ──landed──▶ completed
 *                                        │──never, or same-key retry──▶ issued, attempt + 1
 *                                        │──undecidable──▶ waiting ──person──▶ completed, failed, unknown
 *                                        │──needs approval──▶ waiting ──approve──▶ unknown, ──deny──▶ failed
 *                                        │                    └──its tool is there again──▶ unknown
 *                                        └──its own late answer──▶ completed
 *     (nothing) ──same key as an earlier call──▶ repeated
 *
 * Invariants: an effect starts only while its call is durably `issued` (I1); `completed`, `failed` and
 * `repeated` are final (I8); a call leaves `unknown` only for a recorded reason (I9). The fold rejects every
 * transition that is not in the table below, so a log that breaks one cannot be loaded silently.
 */

import * as z from "zod";
import { canonicalOf, copyJson, type Json } from "../json.ts";
import { ARTIFACT_REFERENCE } from "../names.ts";
import { type DataOf, lazySchema } from "../stream/index.ts";
import { callIdSchema } from "./message.ts";

/** The state of a call. `issued`, `unknown` and `waiting` are open; the others are final. */
export type CallStatus = "issued" | "unknown" | "waiting" | "completed" | "failed" | "repeated";

export type CallAct = "issue" | "complete" | "fail" | "lose" | "verify" | "wait" | "grant" | "repeat";

/** `none` is a call that the session has not seen. A transition that is missing here is illegal. */
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

export const EFFECTS = ["read", "write", "mutate"] as const;
/**
 * A tool's effect: `read` none, `write` sets a state (repeating it changes nothing), `mutate` must not happen
 * twice.
 */
export type Effect = (typeof EFFECTS)[number];
export type DedupeScope = "call" | "session" | "global";

/** The reason or the actor that settled a call. */
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

/** A small result is in the log; a large one is an artifact, and the log has its hash. */
export type CallResult = { readonly value: Json } | { readonly artifact: string; readonly bytes: number };

export interface CallError {
  readonly message: string;
  readonly name?: string;
}

export type VerifyAnswer = "landed" | "never" | "notYet" | "unsure" | "error";

/** A series of `notYet` answers from `verify`: there is no trace of the effect so far. */
export interface NoTrace {
  /** Wall clock of the first such answer. */
  readonly since: number;
  /** How many owners of the session got that answer. */
  readonly owners: number;
  /** When the latest of them found the call lost. */
  readonly lostAt: number | null;
}

/**
 * One tool call as the log records it: what was done, and what is open and why. A person answers a call whose
 * outcome is undecidable with `holdfast.calls.resolve`.
 */
export interface Call {
  readonly callId: string;
  readonly messageId: string | null;
  readonly tool: string;
  readonly effect: Effect;
  scope: DedupeScope;
  /** The current arguments. */
  args: Json;
  /** The arguments as the model sent them, if a person changed them with the approval. */
  asked: { readonly args: Json; readonly changedBy: string } | null;
  /** Calls with the same key are the same call. Empty from an approval with other arguments to the issue. */
  key: string;
  /** The idempotency key that the tool hands to the vendor. */
  vendorKey: string;
  failures: number;
  status: CallStatus;
  attempt: number;
  /** When the current attempt was issued. */
  issuedAt: number;
  readonly firstIssuedAt: number;
  /** Since when the vendor may know the key, from an earlier call whose failure proved nothing. */
  keySince: number | null;
  /** The position of the `call.issued` that set its key. */
  seq: number;
  /** The token of the lease under which the current attempt was issued. */
  token: number;
  result: CallResult | null;
  /** A defect of its result: it does not match the output schema, or was changed to fit into JSON. */
  note: string | null;
  error: CallError | null;
  settledBy: SettledBy | null;
  settledAt: number | null;
  /** Why the outcome is unknown, or the reason of the person who answered. */
  why: string | null;
  /** The person who answered. */
  by: string | null;
  /** The latest answer of the tool's `verify`, and the number of errors in a row. */
  verify: {
    readonly answer: VerifyAnswer;
    readonly detail: string | null;
    readonly at: number;
    readonly againAt: number | null;
    readonly errors: number;
    /** Null after any answer but `notYet`. */
    readonly noTrace: NoTrace | null;
  } | null;
  /** Since when the outcome is unknown. */
  lostAt: number | null;
  /**
   * The earliest attempt whose effect may have landed unnoticed; null if there is none. Until it is settled,
   * a later attempt cannot fail the call: "attempt 2 did nothing" says nothing about attempt 1.
   */
  doubt: number | null;
  /** A person allowed one more attempt. */
  granted: boolean;
  /** A person approved a call that had not run; after `until` the approval is void. */
  approval: { readonly until: number | null } | null;
  /** The signed answer that lets it run. Null if there is none, or if it was not signed. */
  proof: (AnswerContent & { readonly attempt: number; readonly signature: string }) | null;
  /** Answers come from any person, from a person with an approver's key, or from agents too. */
  answers: "person" | "approver" | "agent";
  /** Its sub-agent waits for a person's answer. */
  needsPerson: boolean;
  /** It waits for a person only because the program that settled it lacked its tool. */
  lacksTool: boolean;
  /** The model got a provisional result: the conversation continues, and the outcome follows as a prompt. */
  isAside: boolean;
  repeats: { readonly session: string; readonly callId: string } | null;
}

/** The signed part of an answer: `{ outcome: "approved", by: "ann", why: "ok" }`. */
export interface AnswerContent {
  readonly outcome: "landed" | "retry" | "failed" | "approved" | "denied";
  readonly by: string;
  readonly why: string;
  /** The approval is void from this time on. */
  readonly until?: number;
  readonly result?: Json;
}

/**
 * The text that an approver signs: this answer, for this attempt of this call with these arguments. It can be
 * made again from the record, so that a program that is about to run the call checks the signature itself.
 */
export function answerText(
  of: { readonly namespace: string; readonly session: string; readonly generation: number },
  { callId, attempt, args }: Pick<Call, "callId" | "attempt" | "args">,
  { outcome, by, why, until, result }: AnswerContent,
): string {
  const { namespace, session, generation } = of;
  const answer = { outcome, by, why, until, result };
  const about = { namespace, session, generation, callId, attempt, args, answer };
  return `holdfast answer\n${canonicalOf(copyJson(about, "answer"))}\n`;
}

/** The reason of an approval that was given without one. */
export const APPROVED = "approved";

/** True for a waiting call that certainly never ran: it can be allowed or refused, and cannot have landed. */
export function isNotStarted({ status, doubt, by, verify }: Call): boolean {
  return status === "waiting" && doubt === null && by === null && verify === null;
}

/** The series of `notYet` answers, with one more at `at`. */
export function unsettledAnswer({ verify, lostAt }: Call, at: number): NoTrace {
  const earlier = verify?.noTrace;
  if (!earlier) return { since: at, owners: 1, lostAt };
  const owners = earlier.lostAt === lostAt ? earlier.owners : earlier.owners + 1;
  return { since: Math.min(earlier.since, at), owners, lostAt };
}

/**
 * How long to wait before the next `verify`. 0 if the clock was set back since the last, as its age is then
 * unknown.
 */
export function verifyDelayMs({ verify }: Call, now: number): number {
  if (verify === null || verify.againAt === null || now < verify.at) return 0;
  return Math.max(0, verify.againAt - now);
}

const text = z.string();
/** The id of a recorded call is not checked again: whatever it is, the call can be settled. */
const knownCallId = text;
/** Drafts were copied as strict JSON before, so walking the value again would find nothing. */
const json = z.custom<Json>((value) => value !== undefined, "expected a JSON value");
const result = () =>
  z.union([
    z.strictObject({ value: json }),
    z.strictObject({ artifact: z.string().regex(ARTIFACT_REFERENCE), bytes: z.int().nonnegative() }),
  ]);
/** The surface that a person used, if it was not the command line: `web`. */
const via = () => text.optional();
/** The signature of an answer to a tool that requires an approver, and the name of its key. */
const proof = () => ({ approver: text.optional(), signature: text.optional() });
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
    /** Earlier definite failures of this key: the vendor's key changes with them. */
    failures: z.int().nonnegative(),
    attempt: z.int().positive(),
    token: z.int().nonnegative(),
    /** Set if answers need an approver's key, or may come from agents. */
    answers: z.enum(["approver", "agent"]).optional(),
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
    via: via(),
    ...proof(),
    why: text.optional(),
    note: text.optional(),
  }),
);
export type CompletedData = DataOf<typeof completedSchema>;

/** `tool` and `args` are present only if the call failed before it was issued. */
export const failedSchema = lazySchema(() =>
  z.strictObject({
    callId: knownCallId,
    attempt: z.int().nonnegative(),
    error: error(),
    by: settledBy(),
    person: text.optional(),
    via: via(),
    ...proof(),
    why: text.optional(),
    messageId: text.nullable().optional(),
    tool: text.optional(),
    args: json.optional(),
    /** Definite failures of a global key, with those that other sessions recorded meanwhile. */
    failures: z.int().nonnegative().optional(),
    /** An earlier call with the same global key failed without proof that nothing happened. */
    doubted: z.literal(true).optional(),
  }),
);
export type FailedData = DataOf<typeof failedSchema>;

/** `started: false` if the attempt certainly never began. */
export const lostSchema = lazySchema(() =>
  z.strictObject({
    callId: knownCallId,
    attempt: z.int().positive(),
    why: text,
    started: z.literal(false).optional(),
    /** Written by another process, because the one that ran the call is gone. */
    gone: z.literal(true).optional(),
    /** It waits for a person's answer to another session, such as its sub-agent. */
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
    /** The tool's `settleMs` is over: nothing that was sent can still arrive. */
    settled: z.literal(true).optional(),
  }),
);
export type VerifiedData = DataOf<typeof verifiedSchema>;

export const waitingSchema = lazySchema(() =>
  z.strictObject({
    callId: knownCallId,
    why: text,
    /** It waits only because the program lacked its tool: a program that has it may decide. */
    lacks: z.literal("tool").optional(),
    /** The approval is void: it expired, or its arguments were not accepted. The call needs another. */
    again: z.literal(true).optional(),
    /** From now on answers need an approver's key: the tool requires it, and the last answer had none. */
    answers: z.literal("approver").optional(),
  }),
);
export type WaitingData = DataOf<typeof waitingSchema>;

export const grantedSchema = lazySchema(() =>
  z.strictObject({ callId: knownCallId, person: text, via: via(), ...proof(), why: text }),
);
export type GrantedData = DataOf<typeof grantedSchema>;

/** A person lets a call run that has not run yet: perhaps with other arguments, perhaps not for ever. */
export const approvedSchema = lazySchema(() =>
  z.strictObject({
    callId: knownCallId,
    person: text,
    via: via(),
    ...proof(),
    why: text.optional(),
    args: json.optional(),
    /** The approval is void from this time on. */
    until: z.number().optional(),
  }),
);
export type ApprovedData = DataOf<typeof approvedSchema>;

export const repeatedSchema = lazySchema(() =>
  z.strictObject({
    callId: callIdSchema,
    messageId: text.nullable(),
    tool: text.min(1),
    effect: z.enum(["read", "write", "mutate"]),
    args: json,
    key: text,
    of: z.strictObject({ session: text, callId: knownCallId }),
    /** When the first call finished. */
    since: z.number(),
    /** Only if the first call belongs to another session, so that the repeat can be read without that one. */
    result: result().optional(),
  }),
);
export type RepeatedData = DataOf<typeof repeatedSchema>;
