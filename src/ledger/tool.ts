import { type Amounts, type Effect, HoldfastError, type Json } from "../model/index.ts";
import type { StandardSchema } from "./standard-schema.ts";

/** What a tool's `execute` is told beside its arguments. */
export interface ExecuteContext {
  /** Hand this to the vendor as its idempotency key. It stays the same over attempts whose outcome is unknown. */
  readonly key: string;
  readonly callId: string;
  readonly session: string;
  /** The lease's fencing token: a target that remembers the highest one it saw can refuse a zombie. */
  readonly token: number;
  readonly attempt: number;
  /** Aborts on time-out, when the session is cancelled, and when another process has taken over. */
  readonly signal: AbortSignal;
  /** Opens the session of a sub-agent that works for this call; `agentTool` is the comfortable way to it. */
  child(budget?: Amounts): Promise<ChildSession>;
}

/** The session layer's, seen from below it. */
export interface ChildSession {
  readonly session: unknown;
  /** Counts what the sub-agent spent, together with the call's outcome. */
  finished(): void;
}

export interface VerifyContext extends Omit<ExecuteContext, "child"> {
  /** Wall clock of the attempt whose outcome is asked for, milliseconds. */
  readonly issuedAt: number;
}

/** What `verify` found out about an attempt that may or may not have had its effect. */
export type Verdict<Result> =
  | { readonly answer: "landed"; readonly result: Result }
  | { readonly answer: "never" }
  | { readonly answer: "notYet"; readonly againInMs: number }
  | { readonly answer: "unsure"; readonly why: string };

/** It happened: the result is recorded and the tool is not run again. */
export function landed<Result>(result: Result): Verdict<Result> {
  return { answer: "landed", result };
}

/** It did not happen and cannot happen any more: the target knows our key or token and will refuse it. */
export function never(): Verdict<never> {
  return { answer: "never" };
}

/** There is no trace of it, but it may still arrive. Asked again until the tool's `settleMs` are over. */
export function notYet(options: { againInMs: number }): Verdict<never> {
  return { answer: "notYet", againInMs: options.againInMs };
}

/** Nobody can tell from here: a person decides. */
export function unsure(why: string): Verdict<never> {
  return { answer: "unsure", why };
}

/** Throw this from `execute` when it is certain that nothing has happened: the call fails instead of waiting. */
export class DefiniteFailure extends Error {
  override readonly name = "DefiniteFailure";
}

/**
 * Throw this from `execute` when the work goes on elsewhere and is not done yet, such as a sub-agent that waits for a
 * person. The call stays open and is taken up again by the next run.
 */
export class NotFinished extends Error {
  override readonly name = "NotFinished";
}

/** What counts as the same call. The default is `session`: same session, same tool, same arguments. */
export type Dedupe<Args> =
  | "call"
  | "session"
  | "global"
  | { readonly scope: "session" | "global"; readonly key: (args: Args) => string };

export interface ToolSpec<Args, Result> {
  readonly name: string;
  readonly description: string;
  /** Any Standard Schema (zod, valibot, arktype …). */
  readonly input: StandardSchema<unknown, Args>;
  readonly output?: StandardSchema<unknown, Result>;
  /** JSON Schema of the input for the model, where the input schema cannot give it. */
  readonly inputJsonSchema?: Json;
  /**
   * `read` changes nothing and is simply run again. `write` sets something to a state (a file's content). `mutate`
   * does something that counts (a payment, an e-mail).
   */
  readonly effect: Effect;
  readonly dedupe?: Dedupe<Args>;
  /** Repeating with the same key is safe: for ever, or for so long after the first attempt. */
  readonly idempotent?: true | { readonly forMs: number };
  readonly timeoutMs?: number;
  /** Nothing that was sent can still take effect after this long. Allows a retry after `notYet`. */
  readonly settleMs?: number;
  /** What becomes of a call whose outcome nobody can tell: ask a person (default), or fail and let the agent decide. */
  readonly interrupted?: "ask" | "fail";
  /** The model may repeat a finished call if it says why, in an argument `againBecause`. */
  readonly repeatable?: boolean;
  /** True for errors after which nothing can have happened. */
  readonly definite?: (error: unknown) => boolean;
  readonly execute: (args: Args, context: ExecuteContext) => Promise<Result> | Result;
  readonly verify?: (args: Args, context: VerifyContext) => Promise<Verdict<Result>> | Verdict<Result>;
}

/** Any tool, whatever its types: what the ledger works with. Every `ToolSpec` is one. */
export interface Tool<Result = unknown> extends Omit<ToolSpec<never, Result>, "input" | "output"> {
  readonly input: StandardSchema<unknown, unknown>;
  readonly output?: StandardSchema<unknown, Result>;
}

/**
 * Declares a tool. Say what it does to the world and, if you can, how to find out whether it did it: that decides
 * what a crash in the middle of it comes to.
 */
export function tool<Args, Result>(spec: ToolSpec<Args, Result>): ToolSpec<Args, Result> {
  const { dedupe, effect, name } = spec;
  const scope = typeof dedupe === "object" ? dedupe.scope : dedupe;
  if (effect === "write" && scope === "global") {
    throw new HoldfastError("INPUT_INVALID", `tool ${name}: a write cannot be once ever over all sessions`, {
      hint: 'A write sets a state and may have to be set again. Use effect "mutate", or dedupe "session".',
    });
  }
  return spec;
}
