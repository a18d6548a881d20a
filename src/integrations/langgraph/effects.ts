/**
 * Effects of a node, each at most once, although the node may run many times.
 *
 * LangGraph runs a node that was interrupted, by a crash or by `interrupt()`, again from its start: whatever it did
 * before that point it does again. Here each effect is a call in the ledger of the thread's session, with the ledger's
 * promises:
 *
 *     the node's checkpoint is durable ──▶ intent durable ──▶ effect ──▶ outcome durable
 *
 *  - A crash before the intent: the effect has not begun; the node runs again and begins it.
 *  - Between intent and outcome: nobody knows. `verify` finds out, `idempotent` repeats with the same key, else a person is
 *    asked: the graph stops with an interrupt that names the call, and goes on once `holdfast.calls.resolve` has an answer.
 *  - After the outcome: the node runs again, and gets the recorded result without running the effect.
 *
 * What identifies an effect, from the outside in:
 *
 *     thread         its session: nothing is shared between threads
 *     node run       LangGraph's namespace of the task: node and task id, and those of the graphs around it. A task id follows
 *                    from the checkpoint, so it is the same after a crash, a resume, and in another process
 *     caller         the durable node itself, or a durable tool by its name and the id of the tool call that it serves
 *     which time     how often that caller has come in this attempt at the task, in the order in which it came: a node may
 *                    call a tool many times, and models give two calls one id, or none
 *     name, place    the effect's name, and how many of that name this call of the node or tool has had
 *
 * An `id` replaces all but the thread: that effect happens once in the life of the thread.
 *
 * One that is on record as failed is followed by the next of its number where `failed-effects.ts` says so. All of them have one
 * key, so that the ledger counts their failures, and keeps the vendor's key while a failure proves nothing.
 *
 *  - A node that runs again must come to the same effects in the same order, as far as it comes. What it asks for is compared
 *    with the record (the arguments of a tool stand for its inline effects, if these have none), and other arguments are
 *    refused: a node that decides by chance or by the clock would otherwise get the result of something else.
 *  - Where no order is fixed, an inline effect without arguments could be taken for another one of its name. So a second one
 *    of a name needs `args` or an `id`. `args` tell a mix-up, an `id` allows any order.
 *  - A retry policy runs the node again within one run of the graph: each attempt counts from the beginning.
 *  - The node's checkpoint has to be durable first, or a crash would make a new one, with other names for the same calls.
 *
 * What else must not happen:
 *
 *  - A node goes on, or its model tries again, after an effect with no outcome or a refusal. So nothing more begins in that
 *    attempt, whoever catches the error; a tool that serves a tool call stops the graph, because LangGraph's ToolNode tells
 *    errors to the model; and as long as a call of a checkpoint that the thread has left has no outcome, no effect begins.
 *  - What was said to a graph that waits for an effect answers a question of its node. It is dropped (`notForNode`).
 *  - A branch does again what was done after the checkpoint that it branched from (`superseded.ts`), and so does a subgraph
 *    whose node a retry policy tries again. Nothing begins there before somebody says so.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import {
  DynamicStructuredTool,
  type ToolRunnableConfig,
  type ToolWrapperParams,
} from "@langchain/core/tools";
import type { InferInteropZodOutput, InteropZodObject } from "@langchain/core/utils/types";
import type { ExecuteContext, Tool, ToolSpec } from "../../ledger/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import type { Json } from "../../model/json.ts";
import type { CallError } from "../../model/session/index.ts";
import { type Session, sessionCore } from "../../session/index.ts";
import { EffectSessions } from "./effect-sessions.ts";
import {
  alike,
  asInterrupt,
  beginsAnew,
  explained,
  hasLeftCall,
  isStop,
  repeats,
  waits,
} from "./effect-stops.ts";
import { mayBeTriedAgain } from "./failed-effects.ts";
import { type EffectOptions, inlineTool, withKey } from "./inline-tool.ts";
import {
  type Caller,
  callIdOf,
  callsOn,
  isThreadCall,
  type NodeRun,
  nodeRun,
  threadCallId,
} from "./node-run.ts";
import type { HoldfastSaver } from "./saver.ts";

/** A checkpoint is saved within milliseconds of the node's start, or (`durability: "exit"`) not before the run's end. */
const SAVED_WITHIN_MS = 10_000;

/** What a durable node or tool gets beside its input. */
export interface Effects {
  /** Runs a tool that was declared with holdfast's `tool`, or returns what it came to before. Throws `EffectFailed`. */
  call<Args, Result>(
    tool: ToolSpec<Args, Result>,
    args: NoInfer<Args>,
    options?: { id?: string },
  ): Promise<Result>;
  /** The same for a function. Its result must be JSON: it is what a later run gets. */
  effect<Result>(
    name: string,
    execute: (context: ExecuteContext) => Promise<Result> | Result,
    options?: EffectOptions<Result>,
  ): Promise<Result>;
}

/** It is on record that the effect did not happen, and why. */
export class EffectFailed extends Error {
  override readonly name = "EffectFailed";
  readonly callId: string;
  readonly error: CallError;

  constructor(callId: string, error: CallError) {
    super(error.message);
    this.callId = callId;
    this.error = error;
  }
}

/** A node whose effects happen once. Pass it to `addNode`. */
export function durableNode<State, Update>(
  saver: HoldfastSaver,
  body: (state: State, effects: Effects, config: RunnableConfig) => Promise<Update> | Update,
): (state: State, config: RunnableConfig) => Promise<Update> {
  const caller = { tool: null, toolCall: null, args: null, thrown: ({ error }: Stop) => error };
  return (state, config) => withEffects(saver, config, caller, (effects) => body(state, effects, config));
}

/** LangChain's `tool`, with effects that happen once for each tool call of a message. */
export function durableTool<Schema extends InteropZodObject, Output>(
  saver: HoldfastSaver,
  body: (
    args: InferInteropZodOutput<Schema>,
    effects: Effects,
    config: RunnableConfig,
  ) => Promise<Output> | Output,
  fields: ToolWrapperParams<Schema>,
): DynamicStructuredTool<Schema> {
  const { name } = fields;
  return new DynamicStructuredTool({
    ...fields,
    description: fields.description ?? name,
    schema: fields.schema as Schema,
    func: (args: unknown, _manager: unknown, config: ToolRunnableConfig = {}) => {
      const { toolCall } = config;
      // A node that calls the tool itself gets the error; a tool call of a message has nobody but the model to get it.
      const thrown = ({ error, callId }: Stop) => (toolCall ? asInterrupt(error, name, callId) : error);
      const caller = { tool: name, toolCall: toolCall?.id ?? null, args: asJson(args), thrown };
      return withEffects(saver, config, caller, (effects) =>
        body(args as InferInteropZodOutput<Schema>, effects, config),
      );
    },
  } as never);
}

/** Only to be compared and shown: what JSON does not have is written as near to it as it goes. */
function asJson(args: unknown): Json {
  const text = JSON.stringify(args, (_name, value) => (typeof value === "bigint" ? `${value}n` : value));
  return text === undefined ? null : (JSON.parse(text) as Json);
}

interface EffectCaller extends Caller {
  /** What is recorded with an inline effect that has no arguments of its own. */
  readonly args: Json;
  /** As what it hears of an error that stopped it. */
  thrown(stop: Stop): unknown;
}

type Stop = NonNullable<NodeRun["attempt"]["stopped"]>;

const sessions = new WeakMap<HoldfastSaver, EffectSessions>();

async function withEffects<Result>(
  saver: HoldfastSaver,
  config: RunnableConfig,
  caller: EffectCaller,
  body: (effects: Effects) => Promise<Result> | Result,
): Promise<Result> {
  const known = sessions.get(saver) ?? new EffectSessions(saver.holdfast);
  sessions.set(saver, known);
  let work: EffectCalls;
  try {
    const run = nodeRun(config);
    // Counted before anything is awaited, in the order in which they come.
    work = new EffectCalls(saver, known.use(run.thread), run, caller, run.attempt.enter(caller), config);
    await notForNode(saver, run);
  } catch (error) {
    throw caller.thrown({ error, callId: null });
  }
  const { attempt } = work.run;
  try {
    const result = await body(work.effects);
    if (!attempt.stopped) return result;
  } catch (error) {
    // A tool's caller may have an answer to it; a node that ends with it has none.
    if (error instanceof EffectFailed && caller.tool === null && !attempt.stopped)
      await saver.noteHeard({ ...work.run, callId: error.callId }, "ended");
    if (!attempt.stopped) throw error;
  } finally {
    await work.use.done();
  }
  // Also if the body caught it: nobody knows what it goes on with.
  throw caller.thrown(attempt.stopped);
}

/** A resume without a name, given to a task that was stopped here, has been heard: no question of the node was asked. */
async function notForNode(saver: HoldfastSaver, { scratchpad, places, task }: NodeRun): Promise<void> {
  if (scratchpad.nullResume === undefined || !isStop(await saver.lastInterrupt(places, task))) return;
  delete scratchpad.nullResume;
  for (const place of places) await saver.forgetResume(place);
}

/** The effects of one call of a node or tool. */
class EffectCalls {
  readonly run: NodeRun;
  readonly use: ReturnType<EffectSessions["use"]>;
  private readonly saver: HoldfastSaver;
  private readonly caller: EffectCaller;
  private readonly time: number;
  private readonly config: RunnableConfig;
  private readonly places = new Map<string, number>();
  private session: Promise<Session> | null = null;
  private fresh: Promise<void> | null = null;

  constructor(
    saver: HoldfastSaver,
    use: ReturnType<EffectSessions["use"]>,
    run: NodeRun,
    caller: EffectCaller,
    time: number,
    config: RunnableConfig,
  ) {
    this.saver = saver;
    this.use = use;
    this.run = run;
    this.caller = caller;
    this.time = time;
    this.config = config;
  }

  readonly effects: Effects = {
    call: (tool, args, options) => this.call(tool, args, options?.id, true),
    effect: (name, execute, { id, args, ...options } = {}) => {
      // One with an id may be asked for by any call of any tool.
      const told = args ?? (args === undefined && id === undefined ? this.caller.args : null);
      return this.call(inlineTool(name, execute, options), told, id, args !== undefined);
    },
  };

  /** `isTold`: the arguments say what it is about. */
  private async call<Result>(
    tool: Tool<Result>,
    args: unknown,
    id: string | undefined,
    isTold: boolean,
  ): Promise<Result> {
    // Before anything is awaited: calls side by side keep the order in which the node made them.
    const place = id === undefined ? this.nextPlace(tool.name) : 1;
    const { tool: caller, toolCall } = this.caller;
    const first =
      id === undefined
        ? callIdOf(this.run, [caller, toolCall, this.time, tool.name, place])
        : threadCallId(id);
    let callId = first;
    const isRead = tool.effect === "read";
    let isReading = false;
    try {
      if (this.run.attempt.stopped) throw this.run.attempt.stopped.error;
      if (place > 1 && !isTold && !isRead) throw alike(tool.name);
      const session = await this.begin();
      if (!isRead) {
        callId = await this.numbered(session, first);
        await this.mayBegin(session, callId);
      }
      isReading = isRead;
      return await this.heard(settled(session, withKey(tool, first), args, callId, this.config.signal));
    } catch (error) {
      // What is on record as failed, and what a read came to, is the body's to deal with.
      if (error instanceof EffectFailed || isReading) throw error;
      this.run.attempt.stopped ??= { error: explained(error, callId, tool.name), callId };
      throw this.caller.thrown(this.run.attempt.stopped);
    }
  }

  /** The number of this effect that counts: the first, or the next after one that failed and may be tried again. */
  private async numbered(session: Session, first: string): Promise<string> {
    const { calls } = sessionCore(session).state;
    for (let callId = first, number = 2; ; callId = `${first}.${number}`, number++) {
      const call = calls.get(callId);
      if (!call || !mayBeTriedAgain(call)) return callId;
      const heard = await this.saver.howHeard({ ...this.run, callId });
      if (heard === "heard" || (heard === "no" && !isThreadCall(callId))) return callId;
    }
  }

  /** Noted before the body gets it: what it does from there on rests on that. */
  private async heard<Result>(outcome: Promise<Result>): Promise<Result> {
    try {
      return await outcome;
    } catch (error) {
      if (error instanceof EffectFailed && isThreadCall(error.callId))
        await this.saver.noteHeard({ ...this.run, callId: error.callId }, "heard");
      throw error;
    }
  }

  private nextPlace(name: string): number {
    const place = (this.places.get(name) ?? 0) + 1;
    this.places.set(name, place);
    return place;
  }

  private begin(): Promise<Session> {
    this.session ??= mustBeSaved(this.saver, this.run).then(() => this.use.session());
    return this.session;
  }

  /** One that is on record goes on as it stands. Another one must not do a second time what somebody did, or may have done. */
  private async mayBegin(session: Session, callId: string): Promise<void> {
    const { thread, root } = this.run;
    const isKnown = (): boolean => sessionCore(session).state.calls.has(callId);
    // Of the calls on this checkpoint each has a task that takes it up; of those with an id, whoever asks for it again.
    const left = () => session.openCalls.find(({ id }) => !id.startsWith(callsOn(root)) && !isThreadCall(id));
    if (isKnown()) return;
    if (left()) await session.refresh();
    const open = left();
    if (open) throw hasLeftCall(thread, open);
    // With an id it would be on record if it had ever begun in this thread.
    if (isThreadCall(callId) || this.config.configurable?.["holdfast_effects"] === "live") return;
    this.fresh ??= this.mustBeFresh(session);
    await this.fresh;
  }

  /** Looked at once: what the thread was before this checkpoint does not change. */
  private async mustBeFresh(session: Session): Promise<void> {
    const { thread, root, places } = this.run;
    const retried = places.find((place) => this.saver.isRetried(place));
    if (retried) throw beginsAnew(thread, retried.ns);
    const hasEffects = (checkpoint: string): boolean => {
      const prefix = callsOn(checkpoint);
      return [...sessionCore(session).state.calls.keys()].some((id) => id.startsWith(prefix));
    };
    const earlier = await this.saver.repeatedBy({ thread, ns: "", id: root }, hasEffects);
    if (earlier !== null) throw repeats(thread, root, earlier);
  }
}

/** With its outcome. Without one the graph stops; a resumed one asks the ledger again. */
async function settled<Result>(
  session: Session,
  tool: Tool<Result>,
  args: unknown,
  id: string,
  signal: AbortSignal | undefined,
): Promise<Result> {
  const outcome = await session.call({ tool, args, id, ...(signal && { signal }) });
  if (outcome.status === "completed") return outcome.value;
  if (outcome.status === "failed") throw new EffectFailed(id, outcome.error);
  throw waits(id, tool.name, outcome.why);
}

async function mustBeSaved(saver: HoldfastSaver, { places }: NodeRun): Promise<void> {
  for (const place of places) {
    if (await saver.whenSaved(place, SAVED_WITHIN_MS)) continue;
    const { thread, ns, id } = place;
    throw new HoldfastError(
      "STATE_STALE",
      `thread ${thread}: the checkpoint ${id} that this node runs on is not saved, so its effects could not be found again`,
      {
        hint: 'Compile the graph with the saver that the helper was given, and use durability "sync" or "async". No effect was started.',
        data: { thread, ns, id },
      },
    );
  }
}
