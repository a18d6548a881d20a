import type { Journal, OwnedLog } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { Json } from "../model/json.ts";
import type { Amounts, Call, CallResult, SessionState } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import type { Store } from "../store.ts";
import type { Outcome } from "./attempt.ts";
import type { VendorKeys } from "./keys.ts";
import type { ChildSession, ExecuteContext, Tool } from "./tool.ts";

/**
 * The attempts of this process, per store: which ones run, when those without an answer ended, and outcomes that could not be
 * written down yet. While an attempt runs here, nobody in this process declares it lost or starts another beside it, whichever
 * handle asks; and once it has ended, its effects settle from then on.
 */

interface Known {
  readonly attempt: number;
  readonly outcome: Outcome;
}

export class RunningAttempts {
  private readonly running = new Map<string, Promise<unknown>>();
  private readonly known = new Map<string, Known>();
  private readonly ends = new Map<string, { readonly attempt: number; readonly at: number }>();

  /** Registers work on a call until it ends. */
  track(callId: string, work: Promise<unknown>): void {
    this.running.set(callId, work);
    const done = (): void => {
      if (this.running.get(callId) === work) this.running.delete(callId);
    };
    work.then(done, done);
  }

  isRunning(callId: string): boolean {
    return this.running.has(callId);
  }

  /** Resolves when the work on the call has ended, however it did. */
  async ended(callId: string): Promise<void> {
    await this.running.get(callId)?.catch(() => undefined);
  }

  /** It ended without an answer, at this time of the steady clock. */
  end(run: { id: string; attempt: number }, at: number): void {
    this.ends.set(run.id, { attempt: run.attempt, at });
  }

  /** When it ended here without an answer; long ago, if that is not known. */
  endedAt(callId: string, attempt: number): number {
    const end = this.ends.get(callId);
    return end?.attempt === attempt ? end.at : Number.NEGATIVE_INFINITY;
  }

  /** Keeps an outcome until it is durable, so that a failing store does not make it unknown. */
  remember(run: { id: string; attempt: number }, outcome: Outcome): { forget(): void } {
    const known = { attempt: run.attempt, outcome };
    this.known.set(run.id, known);
    return {
      forget: () => {
        if (this.known.get(run.id) === known) this.known.delete(run.id);
      },
    };
  }

  recall(callId: string, attempt: number): Outcome | null {
    const known = this.known.get(callId);
    return known?.attempt === attempt ? known.outcome : null;
  }
}

const byStore = new WeakMap<Store, Map<string, RunningAttempts>>();

/** Those of one session, in one of its lives, on one store handle. */
export function attemptsOf(store: Store, life: string): RunningAttempts {
  let sessions = byStore.get(store);
  if (!sessions) {
    sessions = new Map();
    byStore.set(store, sessions);
  }
  let attempts = sessions.get(life);
  if (!attempts) {
    attempts = new RunningAttempts();
    sessions.set(life, attempts);
  }
  return attempts;
}

/** What happens to calls, as it happens: for a progress display. Nothing may depend on having seen it. */
export type CallProgress =
  | { readonly type: "call.issued"; readonly callId: string; readonly tool: string; readonly attempt: number }
  | { readonly type: "call.repeated"; readonly callId: string; readonly tool: string; readonly of: string }
  | { readonly type: "call.completed"; readonly callId: string; readonly tool: string; readonly by: string }
  | { readonly type: "call.failed"; readonly callId: string; readonly tool: string; readonly error: string }
  | { readonly type: "call.unknown"; readonly callId: string; readonly tool: string; readonly why: string }
  | {
      readonly type: "call.verified";
      readonly callId: string;
      readonly tool: string;
      readonly answer: string;
    }
  | { readonly type: "call.waiting"; readonly callId: string; readonly tool: string; readonly why: string };

/** What the parts of the ledger share: one session's log under its lease, and the tools of this program. */
export interface LedgerContext {
  readonly own: OwnedLog<SessionState>;
  readonly journal: Journal;
  /** Id of the session. */
  readonly session: string;
  readonly vendorKeys: VendorKeys;
  readonly tools: ReadonlyMap<string, Tool>;
  /** Aborts when the run is stopped, the session cancelled, or the lease lost. */
  readonly stop: AbortSignal;
  /** What runs in this process for this session, whichever handle started it. */
  readonly attempts: RunningAttempts;
  /** Since when this process has known that the call was lost, on the steady clock. */
  lostSince(call: Call): number;
  /** How long to wait in place for something that will be known soon. */
  readonly patienceMs: number;
  /** Events that must become durable together with a call's outcome, such as what its sub-agent spent. */
  readonly riders: Map<string, readonly Draft[]>;
  /** Opens the session of a sub-agent for a call. */
  child(callId: string, budget: Amounts | undefined): Promise<ChildSession>;
  on(progress: CallProgress): void;
}

const RESULT_LIMIT_BYTES = 256 * 1024;
const NUMBER_BYTES = 26;

/** A result that is certainly small enough to stand in the log; null for one that has to be measured. */
export function smallResult(value: Json): CallResult | null {
  return mostBytes(value) <= RESULT_LIMIT_BYTES ? { value } : null;
}

/** Large results are stored as artifacts before anything refers to them. */
export async function storeResult(journal: Journal, value: Json): Promise<CallResult> {
  const small = smallResult(value);
  if (small) return small;
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  if (bytes.length <= RESULT_LIMIT_BYTES) return { value };
  return { artifact: await journal.putArtifact(bytes), bytes: bytes.length };
}

/** More than this a value cannot take as JSON: six bytes for a unit of a text, however it has to be escaped. */
function mostBytes(value: Json): number {
  if (typeof value === "string") return 6 * value.length + 2;
  if (typeof value !== "object" || value === null) return NUMBER_BYTES;
  let bytes = 2;
  if (Array.isArray(value)) for (const each of value) bytes += mostBytes(each as Json) + 1;
  else for (const name of Object.keys(value)) bytes += mostBytes(name) + mostBytes(value[name as never]) + 2;
  return bytes;
}

/** Nothing is started for a session that somebody has cancelled, whoever holds it. */
export function mustNotBeCancelled(id: string, state: SessionState): void {
  if (state.status !== "cancelled") return;
  const by = state.ended?.by ? ` by ${state.ended.by}` : "";
  const why = state.ended?.why ? `: ${state.ended.why}` : "";
  throw new HoldfastError("SESSION_ENDED", `session ${id} was cancelled${by}${why}`, {
    hint: "Call session.reopen() if it should go on all the same.",
  });
}

/** What a tool is told about the attempt that starts now. */
export function executeFacts(
  context: LedgerContext,
  call: { id: string; vendorKey: string },
  attempt: number,
): ExecuteContext {
  return {
    key: call.vendorKey,
    callId: call.id,
    session: context.session,
    token: context.own.lease.token,
    attempt,
    signal: context.stop,
    child: (budget?: Amounts) => context.child(call.id, budget),
  };
}

/** A call that was given a moment ago and must still be there. */
export function callOf(state: SessionState, callId: string): Call {
  const call = state.calls.get(callId);
  if (!call) throw new Error(`call ${callId} vanished from its session`);
  return call;
}
