/**
 * Effects of a node, each at most once, although the node may run many times.
 *
 * LangGraph runs an interrupted node again from its start, and so repeats everything it did before. Here each
 * effect is a call in the ledger of the thread's session:
 *
 *     the node's checkpoint is durable ──▶ intent durable ──▶ effect ──▶ outcome durable
 *
 * | crash                      | the node runs again, and the effect …                                     |
 * |----------------------------|---------------------------------------------------------------------------|
 * | before the intent          | has not started; it starts now                                            |
 * | between intent and outcome | may have happened: `verify` finds out, `idempotent` repeats it with the   |
 * |                            | same key, otherwise the graph stops with an interrupt that names the      |
 * |                            | call, until `holdfast.calls.resolve` answers                              |
 * | after the outcome          | is not run; the node gets the recorded result                             |
 *
 * `effect-identity.ts` says which effects count as the same. From that follow these rules:
 *
 *  - A node that runs again must ask for the same effects in the same order, as far as it gets. Arguments
 *    that differ from the record are refused: a node that depends on chance or on the clock would get the
 *    result of another effect. An inline effect without arguments is compared by its tool's arguments.
 *  - A second inline effect of one name needs `args`, which detect a mix-up, or an `id`, which allows any
 *    order. Without either, two effects could swap their results.
 *  - The node's checkpoint has to be durable first. Otherwise a crash would make a new one, with other call
 *    ids.
 *
 * A node must not continue after an effect without an outcome, or after a refusal:
 *
 *  - No further effect starts in that attempt, even if the body catches the error.
 *  - A tool that serves a tool call stops the graph: LangGraph's ToolNode would pass the error to the model.
 *  - While a call of an abandoned checkpoint has no outcome, no effect starts in the thread.
 *  - A resume value for a graph that waits for an effect is dropped: no question of the node was asked.
 *  - A branch, or a subgraph that a retry policy restarts, repeats effects (`branches.ts`). Nothing starts
 *    there until the caller allows it with `holdfast_effects: "live"`.
 *
 * Retries of a failed effect. A node run gets a failure in two steps, each noted in the thread:
 *
 *     none ──▶ delivered: the body got the failure ──▶ ended: the body threw it, and did nothing more
 *
 *  - `delivered` only: the body may have continued, and paid in another way. It gets the same failure on
 *    every run.
 *  - `ended`: the attempt had no result. The next run makes a new call: `<id>.2`, `<id>.3` …
 *  - `none`, for an effect with an `id`: another node run made the failed call, so this one makes a new
 *    call. Without an `id` only one node run can get the failure, so `delivered` is not noted.
 *
 * A crash before `delivered` is saved leaves a body that never got the failure. A crash before `ended`
 * delivers the failure once more. A failure that a person declared, or that is only presumed (`interrupted:
 * "fail"`), is not retried. All numbers of an effect share one key, so that the vendor's key stays.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import { INTERRUPT, RESUME, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import type { ExecuteContext, Tool, ToolSpec } from "../../ledger/index.ts";
import type { Json } from "../../model/json.ts";
import type { Jsonify } from "../../model/jsonify.ts";
import type { Holdfast } from "../../open.ts";
import { type Session, sessionCore } from "../../session/index.ts";
import { repeatedCheckpoint } from "./branches.ts";
import type { Caller, NodeRun } from "./effect-identity.ts";
import { callIdOf, callIdPrefix, isThreadCall, nodeRun, threadCallId } from "./effect-identity.ts";
import {
  abandonedCall,
  ambiguousEffect,
  checkpointNotSaved,
  EffectFailed,
  explainChangedArgs,
  interruptForCall,
  isEffectInterrupt,
  repeatsCheckpoint,
  retriedSubgraph,
} from "./errors.ts";
import { NO_TASK } from "./save-failures.ts";
import { type HoldfastSaver, saverInternals } from "./saver.ts";
import { draftWrites } from "./saving.ts";
import { FAILURE_NOTES, findCheckpoint, type ThreadState, writeKey } from "./thread-state.ts";
import { effectsMetadata, sessionIdOf, threadStream } from "./thread-streams.ts";
import type { Part } from "./values.ts";

/** With `durability: "exit"` a checkpoint is not saved before the end of the run. */
const SAVED_WITHIN_MS = 10_000;

/** The second argument of a durable node or tool: runs side effects that happen once. */
export interface Effects {
  /**
   * Runs a tool declared with Holdfast's `tool`, or returns its recorded result. Throws `EffectFailed` if it
   * is on record that it did not happen. With an `id` it happens once in the life of the thread.
   * @example const { receipt } = await effects.call(charge, { order: state.order });
   */
  call<Args, Result>(
    tool: ToolSpec<Args, Result>,
    args: NoInfer<Args>,
    options?: { id?: string; settle?: Settle },
  ): Promise<Jsonify<Result>>;
  /**
   * Runs a function in the same way. Its result comes back as JSON: a later run gets the recorded one.
   * @example const id = await effects.effect("book", () => book(state.seat), { args: { seat: state.seat } });
   */
  effect<Result>(
    name: string,
    execute: (context: ExecuteContext) => Promise<Result> | Result,
    options?: EffectOptions<Result>,
  ): Promise<Jsonify<Result>>;
}

/**
 * The moment at which the outcome of an effect becomes durable. `"now"` (default): at once. `"with-next"`:
 * with the next intent, and at the latest before the node's result is returned.
 */
type Settle = "now" | "with-next";

/** Options of `effects.effect`: how an interrupted effect is settled, and what identifies it. */
export interface EffectOptions<Result>
  extends Omit<Partial<ToolSpec<Json, Result>>, "name" | "description" | "input" | "execute" | "dedupe"> {
  /** Makes the effect happen once in the life of the thread, wherever it is called from. */
  readonly id?: string;
  /** For people, for `verify`, and to tell two effects of one name apart. Default: the tool's arguments. */
  readonly args?: Json;
  /** `"with-next"` saves a commit per effect; a crash before the next one leaves it interrupted. */
  readonly settle?: Settle;
  /** `read` runs again freely, `write` sets a state, `mutate` counts each time. Default: `mutate`. */
  readonly effect?: ToolSpec<Json, Result>["effect"];
}

export interface EffectCaller extends Caller {
  readonly args: Json;
  /** An interrupt for a tool call of a message, otherwise the error itself. */
  toThrown(stop: Stop): unknown;
}

export type Stop = NonNullable<NodeRun["attempt"]["stopped"]>;

const sessionsBySaver = new WeakMap<HoldfastSaver, EffectSessions>();

export async function withEffects<Result>(
  saver: HoldfastSaver,
  config: RunnableConfig,
  caller: EffectCaller,
  body: (effects: Effects) => Promise<Result> | Result,
): Promise<Result> {
  let calls: EffectCalls;
  try {
    calls = new EffectCalls(saver, config, caller);
    await dropResumeForEffect(saver, calls.run);
  } catch (error) {
    throw caller.toThrown({ error, callId: null });
  }
  const { attempt } = calls.run;
  try {
    const result = await body(calls.effects);
    await calls.record();
    if (!attempt.stopped) return result;
  } catch (error) {
    // The caller of a tool may still handle the failure; a node that ends with it has not.
    if (error instanceof EffectFailed && caller.tool === null && !attempt.stopped)
      await noteFailure(saver, { ...calls.run, callId: error.callId }, "ended");
    if (!attempt.stopped) throw error;
  } finally {
    await calls.record().finally(() => calls.lease.release());
  }
  // Also if the body caught the error: its result may rest on an unknown outcome.
  throw caller.toThrown(attempt.stopped);
}

/** A resume value without an interrupt id, for a task that stopped at an effect. */
async function dropResumeForEffect(
  saver: HoldfastSaver,
  { scratchpad, places, task }: NodeRun,
): Promise<void> {
  if (scratchpad.nullResume === undefined) return;
  const { threads, codec } = saverInternals(saver);
  const key = writeKey(task, WRITES_IDX_MAP[INTERRUPT] as number);
  let interrupt: Part | undefined;
  for (const { thread, ns, id } of places) {
    const state = await threads.read(thread);
    interrupt ??= state.spaces.get(ns)?.slots.get(id)?.writes.get(key)?.part;
  }
  if (!interrupt || !isEffectInterrupt(await codec.decode(interrupt))) return;
  delete scratchpad.nullResume;
  const nothing = await codec.encode(undefined, `write to ${RESUME}`);
  for (const { thread, ns, id } of places) {
    const place = { ns, checkpoint: id, task: NO_TASK };
    await threads.commit(thread, (state) => draftWrites(state, place, [[RESUME, nothing]]));
  }
}

class EffectCalls {
  readonly run: NodeRun;
  readonly lease: SessionLease;
  private readonly saver: HoldfastSaver;
  private readonly config: RunnableConfig;
  private readonly caller: EffectCaller;
  private readonly entry: number;
  private readonly counts = new Map<string, number>();
  private session: Promise<Session> | null = null;
  private repetitionCheck: Promise<void> | null = null;

  constructor(saver: HoldfastSaver, config: RunnableConfig, caller: EffectCaller) {
    const sessions = sessionsBySaver.get(saver) ?? new EffectSessions(saver.holdfast);
    sessionsBySaver.set(saver, sessions);
    this.saver = saver;
    this.config = config;
    this.caller = caller;
    this.run = nodeRun(config);
    // Count the entry before the first `await`, so that callers keep their order.
    this.entry = this.run.attempt.enter(caller);
    this.lease = sessions.lease(this.run.thread);
  }

  readonly effects: Effects = {
    call: (tool, args, options) => this.call(tool, args, options?.id, true, options?.settle),
    effect: (name, execute, { id, args, settle, ...options } = {}) => {
      // Any call of any tool may ask for an effect with an id, so the tool's arguments do not belong to it.
      const recorded = args ?? (args === undefined && id === undefined ? this.caller.args : null);
      return this.call(inlineTool(name, execute, options), recorded, id, args !== undefined, settle);
    },
  };

  /** Makes the outcomes durable that wait for a next effect: what follows the node rests on them. */
  async record(): Promise<void> {
    if (this.session) await sessionCore(await this.session).kept.flush();
  }

  /** `hasOwnArgs`: the arguments tell this effect from another one of its name. */
  private async call<Result>(
    tool: Tool<Result>,
    args: unknown,
    id: string | undefined,
    hasOwnArgs: boolean,
    settle: Settle = "now",
  ): Promise<Jsonify<Result>> {
    // Count before the first `await`: parallel calls keep the order in which the node made them.
    const index = id === undefined ? this.nextIndex(tool.name) : 1;
    const { tool: caller, toolCall } = this.caller;
    const firstId =
      id === undefined
        ? callIdOf(this.run, [caller, toolCall, this.entry, tool.name, index])
        : threadCallId(id);
    let callId = firstId;
    const isRead = tool.effect === "read";
    let isReading = false;
    try {
      if (this.run.attempt.stopped) throw this.run.attempt.stopped.error;
      if (index > 1 && !hasOwnArgs && !isRead) throw ambiguousEffect(tool.name);
      const session = await this.openSession();
      if (!isRead) {
        callId = await this.currentCallId(session, firstId);
        await this.checkMayStart(session, callId);
      }
      isReading = isRead;
      return await this.settle(session, withKey(tool, firstId), args, { callId, settle });
    } catch (error) {
      // The body handles recorded failures and errors of reads. Everything else stops the attempt.
      if (error instanceof EffectFailed || isReading) throw error;
      this.run.attempt.stopped ??= { error: explainChangedArgs(error, callId, tool.name), callId };
      throw this.caller.toThrown(this.run.attempt.stopped);
    }
  }

  private nextIndex(name: string): number {
    const index = (this.counts.get(name) ?? 0) + 1;
    this.counts.set(name, index);
    return index;
  }

  private openSession(): Promise<Session> {
    this.session ??= checkSaved(this.saver, this.run).then(() => this.lease.session());
    return this.session;
  }

  /** The first call id, or the next number after calls that failed and may be retried. */
  private async currentCallId(session: Session, firstId: string): Promise<string> {
    const { calls } = sessionCore(session).state;
    const { threads } = saverInternals(this.saver);
    for (let callId = firstId, number = 2; ; callId = `${firstId}.${number}`, number++) {
      const call = calls.get(callId);
      const mayRetry =
        call?.status === "failed" && call.settledBy !== "person" && call.settledBy !== "interrupted";
      if (!mayRetry) return callId;
      const note = failureNote(await threads.read(this.run.thread), { ...this.run, callId });
      if (note === "delivered" || (note === "none" && !isThreadCall(callId))) return callId;
    }
  }

  private async checkMayStart(session: Session, callId: string): Promise<void> {
    const { thread, root } = this.run;
    if (sessionCore(session).state.calls.has(callId)) return;
    // A call on this checkpoint is resumed by its own task, one with an id by the next node that asks for it.
    const findAbandoned = () =>
      session.openCalls.find(({ callId: id }) => !id.startsWith(callIdPrefix(root)) && !isThreadCall(id));
    if (findAbandoned()) await session.refresh();
    const abandoned = findAbandoned();
    if (abandoned) throw abandonedCall(thread, abandoned);
    // An effect with an id would be on record if it had ever started in this thread.
    if (isThreadCall(callId) || this.config.configurable?.["holdfast_effects"] === "live") return;
    this.repetitionCheck ??= this.checkNotRepeated(session);
    await this.repetitionCheck;
  }

  /** Checked once per entry: the history before this checkpoint does not change. */
  private async checkNotRepeated(session: Session): Promise<void> {
    const { thread, root, places } = this.run;
    const { threads, codec, reads } = saverInternals(this.saver);
    const retried = places.find((place) => reads.retried.has(place.thread, place.ns));
    if (retried) throw retriedSubgraph(thread, retried.ns);
    const hasEffects = (checkpoint: string): boolean => {
      const prefix = callIdPrefix(checkpoint);
      return [...sessionCore(session).state.calls.keys()].some((id) => id.startsWith(prefix));
    };
    const { state } = await threads.log(thread);
    const earlier = await repeatedCheckpoint(codec, state, root, hasEffects);
    if (earlier !== null) throw repeatsCheckpoint(thread, root, earlier);
  }

  private async settle<Result>(
    session: Session,
    tool: Tool<Result>,
    args: unknown,
    how: { readonly callId: string; readonly settle: Settle },
  ): Promise<Jsonify<Result>> {
    const { signal } = this.config;
    const id = how.callId;
    const outcome = await session.call({ tool, args, ...how, ...(signal && { signal }) });
    if (outcome.status === "completed") return outcome.value;
    if (outcome.status !== "failed") throw interruptForCall(id, tool.name, outcome.why);
    // Durable before the body gets the failure: what the body does next depends on it.
    if (isThreadCall(id)) await noteFailure(this.saver, { ...this.run, callId: id }, "delivered");
    throw new EffectFailed(id, outcome.error);
  }
}

/** Resolves once the checkpoints of a node are durable. Rejects when saving one was refused. */
async function checkSaved(saver: HoldfastSaver, { places }: NodeRun): Promise<void> {
  const { threads, signals } = saverInternals(saver);
  for (const place of places) {
    const { thread, ns, id } = place;
    const isSaved = async (): Promise<boolean> => {
      const log = await threads.log(thread);
      return Boolean(findCheckpoint(log.state, ns, id) ?? findCheckpoint(await log.refresh(), ns, id));
    };
    if (!(await signals.wait(place, isSaved, SAVED_WITHIN_MS))) throw checkpointNotSaved(place);
  }
}

function inlineTool<Result>(
  name: string,
  execute: (context: ExecuteContext) => Promise<Result> | Result,
  options: Omit<EffectOptions<Result>, "id" | "args">,
): ToolSpec<Json, Result> {
  const validate = (value: unknown) => ({ value: value as Json });
  return {
    effect: "mutate",
    ...options,
    dedupe: "call",
    name,
    description: name,
    input: { "~standard": { version: 1, vendor: "holdfast", validate } },
    execute: (_args, context) => execute(context),
  };
}

/** All numbers of an effect that is identified by its call id share the key of the first. */
function withKey<Result>(tool: Tool<Result>, firstId: string): Tool<Result> {
  return tool.dedupe === "call" ? { ...tool, dedupe: { scope: "session", key: () => firstId } } : tool;
}

// Notes on failed effects: writes that belong to no task, in a namespace of their own.

type DeliveredFailure = Pick<NodeRun, "thread" | "root" | "ns"> & { readonly callId: string };

/** The channels are named "heard" and "ended" in the log. `failureNote` reads their indexes, 0 and 1. */
async function noteFailure(
  saver: HoldfastSaver,
  failure: DeliveredFailure,
  note: "delivered" | "ended",
): Promise<void> {
  const { threads, codec } = saverInternals(saver);
  const yes = await codec.encode(true, note);
  const channels = note === "delivered" ? ["heard"] : ["heard", "ended"];
  const place = { ns: FAILURE_NOTES, checkpoint: failure.root, task: noteTask(failure) };
  await threads.commit(failure.thread, (state) => {
    // No node runs again on a pruned or deleted checkpoint, and a note must not bring that back.
    if (!findCheckpoint(state, "", failure.root)) return [];
    return draftWrites(
      state,
      place,
      channels.map((channel) => [channel, yes] as const),
    );
  });
}

function failureNote(state: ThreadState, failure: DeliveredFailure): "none" | "delivered" | "ended" {
  const notes = state.spaces.get(FAILURE_NOTES)?.slots.get(failure.root)?.writes;
  if (notes?.has(writeKey(noteTask(failure), 1))) return "ended";
  return notes?.has(writeKey(noteTask(failure), 0)) ? "delivered" : "none";
}

function noteTask({ ns, callId }: DeliveredFailure): string {
  return JSON.stringify([ns, callId]);
}

type SessionLease = ReturnType<EffectSessions["lease"]>;

interface SharedSession {
  users: number;
  session: Promise<Session>;
}

/** A session is closed with its last user in this process, so that another process can continue at once. */
class EffectSessions {
  private readonly holdfast: Holdfast;
  private readonly shared = new Map<string, SharedSession>();
  private readonly closing = new Map<string, Promise<void>>();

  constructor(holdfast: Holdfast) {
    this.holdfast = holdfast;
  }

  /** `session` opens it at the first effect; `release` must always be called. */
  lease(thread: string) {
    let mine: SharedSession | null = null;
    return {
      session: (): Promise<Session> => {
        if (!mine) {
          mine = this.shared.get(thread) ?? { users: 0, session: this.open(thread) };
          mine.users += 1;
          this.shared.set(thread, mine);
        }
        return mine.session;
      },
      release: async (): Promise<void> => {
        if (!mine) return;
        mine.users -= 1;
        if (mine.users === 0) await this.close(thread, mine);
      },
    };
  }

  private async open(thread: string): Promise<Session> {
    await this.closing.get(thread);
    return this.holdfast.session(sessionIdOf(thread), {
      title: `LangGraph thread ${thread}`,
      ttlMs: null,
      metadata: effectsMetadata(threadStream(thread)),
    });
  }

  private async close(thread: string, shared: SharedSession): Promise<void> {
    this.shared.delete(thread);
    const closed = shared.session.then(
      (session) => session.close(),
      // It was never opened, and the effect that asked for it got the error.
      () => undefined,
    );
    this.closing.set(thread, closed);
    await closed;
    if (this.closing.get(thread) === closed) this.closing.delete(thread);
  }
}
