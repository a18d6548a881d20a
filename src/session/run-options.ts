/** What a run is told, what it says while it goes, and what it comes to. */

import type { CallProgress, Tool } from "../ledger/index.ts";
import type { Amounts, Message } from "../model/index.ts";
import type { CadenceOption } from "./cadence.ts";
import type { Model } from "./model.ts";
import type { PromptInput } from "./prompt.ts";

export type RunProgress =
  | CallProgress
  | { readonly type: "model.asked"; readonly turn: number }
  | { readonly type: "model.partial"; readonly text?: string; readonly reasoning?: string }
  | { readonly type: "model.retried"; readonly error: string; readonly inMs: number }
  | { readonly type: "message"; readonly message: Message }
  | { readonly type: "loop"; readonly tool: string; readonly count: number };

export interface RunOptions {
  readonly model: Model;
  readonly tools?: readonly Tool[];
  readonly system?: string;
  /** Without a prompt the run continues what is there. With `{ id, text }` a finished prompt returns its answer. */
  readonly prompt?: PromptInput;
  /** Limits over the whole life of the session. `perCall` is the most that one model call may cost. */
  readonly budget?: Amounts & { readonly perCall?: Amounts };
  readonly cadence?: CadenceOption;
  /** Model calls in this run. */
  readonly maxTurns?: number;
  /** Calls of one message that run at once. */
  readonly parallel?: number;
  /** Pause before this much time has passed: for platforms that end a function after a while. */
  readonly deadlineMs?: number;
  readonly signal?: AbortSignal;
  readonly on?: (progress: RunProgress) => void;
  readonly modelRetries?: number;
  /** Identical calls in a row: a note to the model at `warnAt`, a pause at `stopAt`. */
  readonly loop?: { readonly warnAt: number; readonly stopAt: number };
  /** How long to wait in place for something that will be known without a person. */
  readonly patienceMs?: number;
}

export interface WaitingCall {
  readonly callId: string;
  readonly tool: string;
  /** True when a person has to answer; false when a later run will find out by itself. */
  readonly person: boolean;
  readonly why: string;
}

export interface RunResult {
  readonly status: "done" | "waiting" | "paused";
  /** Why it stopped: `answered`, `calls`, `budget`, `deadline`, `turns`, `loop`, `cancelled`, `stopped`. */
  readonly reason: string;
  readonly text: string;
  readonly waiting: readonly WaitingCall[];
  readonly spent: Amounts;
  /** Calls of this run that repeated a finished one, or a prompt whose answer was on record. */
  readonly replayed: readonly string[];
  readonly version: number;
}
