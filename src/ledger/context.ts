/** The state that all parts of the ledger share: the session's log, and the calls in progress here. */

import type { Journal, OwnedLog } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { Json } from "../model/json.ts";
import { maxJsonBytes } from "../model/jsonify.ts";
import type { Amounts, Call, CallResult, SessionState } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import type { Store } from "../store.ts";
import type { Outcome } from "./attempt.ts";
import type { VendorKeys } from "./keys.ts";
import type { ChildSession, ExecuteContext, Tool } from "./tool.ts";

/** A step of a call, as it happens. For a progress display: nothing may depend on receiving it. */
export type CallProgress = { readonly callId: string; readonly tool: string } & (
  | { readonly type: "call.issued"; readonly attempt: number }
  | { readonly type: "call.repeated"; readonly of: string }
  /** `note`: its result does not match the output schema, or was changed to be stored as JSON. */
  | { readonly type: "call.completed"; readonly by: string; readonly note?: string }
  | { readonly type: "call.failed"; readonly error: string }
  | { readonly type: "call.verified"; readonly answer: string }
  | { readonly type: "call.unknown" | "call.waiting"; readonly why: string }
);

export interface LedgerContext {
  readonly own: OwnedLog<SessionState>;
  readonly journal: Journal;
  readonly session: string;
  readonly vendorKeys: VendorKeys;
  readonly tools: ReadonlyMap<string, Tool>;
  /** Aborts when the run is stopped, the session cancelled, or the lease lost. */
  readonly stop: AbortSignal;
  /** Aborts when no new call may start. Calls in flight are finished. */
  readonly drain: AbortSignal;
  readonly attempts: RunningAttempts;
  /** The time on the steady clock since which this process has known that the call was lost. */
  lostSince(call: Call): number;
  readonly patienceMs: number;
  /** Events for the commit of a call's outcome, such as its sub-agent's spending. By call id. */
  readonly riders: Map<string, readonly Draft[]>;
  child(callId: string, budget: Amounts | undefined): Promise<ChildSession>;
  on(progress: CallProgress): void;
}

export function callOf(state: SessionState, callId: string): Call {
  const call = state.calls.get(callId);
  if (!call) throw new Error(`call ${callId} vanished from its session`);
  return call;
}

/** Nothing new starts in a cancelled session, not even by its owner. */
export function mustNotBeCancelled(id: string, state: SessionState): void {
  if (state.status !== "cancelled") return;
  const by = state.ended?.by ? ` by ${state.ended.by}` : "";
  const why = state.ended?.why ? `: ${state.ended.why}` : "";
  throw new HoldfastError("SESSION_ENDED", `session ${id} was cancelled${by}${why}`, {
    hint: "Call session.reopen() to continue it.",
  });
}

export function executeFacts(
  context: LedgerContext,
  call: { callId: string; vendorKey: string },
  attempt: number,
): ExecuteContext {
  return {
    key: call.vendorKey,
    callId: call.callId,
    session: context.session,
    token: context.own.lease.token,
    attempt,
    signal: context.stop,
    child: (budget?: Amounts) => context.child(call.callId, budget),
  };
}

// ---- Attempts of this process

/** While an attempt runs here, no handle of the session may declare it lost or start a second one. */
export class RunningAttempts {
  private readonly running = new Map<string, Promise<unknown>>();
  private readonly expected = new Map<string, () => void>();
  private readonly undurable = new Map<string, { readonly attempt: number; readonly outcome: Outcome }>();
  private readonly ends = new Map<string, { readonly attempt: number; readonly at: number }>();

  /** Counts an issued call as running until `track` gets its attempt: it is about to start here. */
  expect(callId: string): void {
    const begun = new Promise<void>((resolve) => this.expected.set(callId, resolve));
    this.running.set(callId, begun);
  }

  track(callId: string, work: Promise<unknown>): void {
    this.running.set(callId, work);
    this.expected.get(callId)?.();
    this.expected.delete(callId);
    const done = (): void => {
      if (this.running.get(callId) === work) this.running.delete(callId);
    };
    work.then(done, done);
  }

  isRunning(callId: string): boolean {
    return this.running.has(callId);
  }

  async ended(callId: string): Promise<void> {
    await this.running.get(callId)?.catch(() => undefined);
  }

  /** Notes the end of an attempt without an answer, on the steady clock. Its effects settle from then on. */
  end(run: { id: string; attempt: number }, at: number): void {
    this.ends.set(run.id, { attempt: run.attempt, at });
  }

  endedAt(callId: string, attempt: number): number {
    const end = this.ends.get(callId);
    return end?.attempt === attempt ? end.at : Number.NEGATIVE_INFINITY;
  }

  /** Keeps an outcome until it is durable, so that a store that fails does not make it unknown. */
  remember(run: { id: string; attempt: number }, outcome: Outcome): () => void {
    const entry = { attempt: run.attempt, outcome };
    this.undurable.set(run.id, entry);
    return () => {
      if (this.undurable.get(run.id) === entry) this.undurable.delete(run.id);
    };
  }

  recall(callId: string, attempt: number): Outcome | null {
    const entry = this.undurable.get(callId);
    return entry?.attempt === attempt ? entry.outcome : null;
  }
}

const byStore = new WeakMap<Store, Map<string, RunningAttempts>>();

export function attemptsOf(store: Store, incarnation: string): RunningAttempts {
  const sessions = byStore.get(store) ?? new Map<string, RunningAttempts>();
  const attempts = sessions.get(incarnation) ?? new RunningAttempts();
  byStore.set(store, sessions.set(incarnation, attempts));
  return attempts;
}

// ---- Results

const RESULT_LIMIT_BYTES = 256 * 1024;

export function smallResult(value: Json): CallResult | null {
  return maxJsonBytes(value) <= RESULT_LIMIT_BYTES ? { value } : null;
}

export async function storeResult(journal: Journal, value: Json): Promise<CallResult> {
  const small = smallResult(value);
  if (small) return small;
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  if (bytes.length <= RESULT_LIMIT_BYTES) return { value };
  return { artifact: await journal.putArtifact(bytes), bytes: bytes.length };
}
