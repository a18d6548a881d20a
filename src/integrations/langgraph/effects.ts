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
 * A call is the same call when its thread, the run of its node (LangGraph derives that from the checkpoint, so it is the
 * same after a resume), the tool call that it serves, its name, and its place among the calls of that name are the same. An
 * `id` replaces all but the thread: that effect happens once in the life of the thread. The node's checkpoint has to be
 * durable first, or a crash would make a new one, with other names for the same calls. Other arguments for a call that is
 * on record are refused: a node that decides by chance or by the clock would otherwise get the result of something else.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import {
  DynamicStructuredTool,
  type ToolRunnableConfig,
  type ToolWrapperParams,
} from "@langchain/core/tools";
import type { InferInteropZodOutput, InteropZodObject } from "@langchain/core/utils/types";
import { interrupt } from "@langchain/langgraph";
import type { ExecuteContext, StandardSchema, Tool, ToolSpec } from "../../ledger/index.ts";
import { type CallError, HoldfastError, type Json, sha256 } from "../../model/index.ts";
import type { Session } from "../../session/index.ts";
import { EffectSessions } from "./effect-sessions.ts";
import type { HoldfastSaver } from "./saver.ts";

/** A checkpoint is saved within milliseconds of the node's start, or (`durability: "exit"`) not before the run's end. */
const SAVED_WITHIN_MS = 10_000;

type Inline<Result> = Omit<
  ToolSpec<Json, Result>,
  "name" | "description" | "input" | "execute" | "effect" | "dedupe"
>;

/** How an effect that was interrupted is settled (`verify`, `idempotent`, `settleMs` …), and what makes it the same effect. */
export interface EffectOptions<Result> extends Partial<Inline<Result>> {
  /** This effect happens once in the life of the thread, wherever it is called from. */
  readonly id?: string;
  /** What is recorded with it, for people and for `verify`. */
  readonly args?: Json;
  /** `mutate` unless set. */
  readonly effect?: ToolSpec<Json, Result>["effect"];
}

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
  return (state, config) => withEffects(saver, config, null, (effects) => body(state, effects, config));
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
  return new DynamicStructuredTool({
    ...fields,
    description: fields.description ?? fields.name,
    schema: fields.schema as Schema,
    func: (args: unknown, _manager: unknown, config?: ToolRunnableConfig) =>
      withEffects(saver, config ?? {}, config?.toolCall?.id ?? null, (effects) =>
        body(args as InferInteropZodOutput<Schema>, effects, config ?? {}),
      ),
  } as never);
}

const sessions = new WeakMap<HoldfastSaver, EffectSessions>();

async function withEffects<Result>(
  saver: HoldfastSaver,
  config: RunnableConfig,
  toolCall: string | null,
  body: (effects: Effects) => Promise<Result> | Result,
): Promise<Result> {
  const run = nodeRun(config);
  const known = sessions.get(saver) ?? new EffectSessions(saver.holdfast);
  sessions.set(saver, known);
  const use = known.use(run.thread);
  const began = { session: null as Promise<Session> | null };
  const begin = (): Promise<Session> => {
    began.session ??= mustBeSaved(saver, run).then(() => use.session());
    return began.session;
  };
  const counts = new Map<string, number>();
  const call = async <Value>(tool: Tool<Value>, args: unknown, id: string | undefined): Promise<Value> => {
    // Counted before anything is awaited: calls side by side keep the order in which the node made them.
    const place = (counts.get(tool.name) ?? 0) + 1;
    counts.set(tool.name, place);
    const named = id === undefined ? [run.ns, toolCall, tool.name, place] : ["id", id];
    const callId = `lg_${sha256(JSON.stringify(named)).slice(0, 32)}`;
    return settled(await begin(), tool, args, callId, config.signal);
  };
  try {
    return await body({
      call: (tool, args, options) => call(tool, args, options?.id),
      effect: (name, execute, { id, args = null, ...options } = {}) =>
        call(inlineTool(name, execute, options), args, id),
    });
  } finally {
    await use.done();
  }
}

/** Until it has an outcome: with a person's help if nobody else can tell. */
async function settled<Result>(
  session: Session,
  tool: Tool<Result>,
  args: unknown,
  id: string,
  signal: AbortSignal | undefined,
): Promise<Result> {
  for (;;) {
    const outcome = await session.call({ tool, args, id, ...(signal && { signal }) });
    if (outcome.status === "completed") return outcome.value;
    if (outcome.status === "failed") throw new EffectFailed(id, outcome.error);
    // Throws, and the run stops here; a resumed one asks the ledger first and comes here only if there is no answer yet.
    interrupt({ waiting: "effect", callId: id, tool: tool.name, why: outcome.why });
  }
}

const ANYTHING: StandardSchema<unknown, Json> = {
  "~standard": { version: 1, vendor: "holdfast", validate: (value) => ({ value: value as Json }) },
};

function inlineTool<Result>(
  name: string,
  execute: (context: ExecuteContext) => Promise<Result> | Result,
  options: Omit<EffectOptions<Result>, "id" | "args">,
): ToolSpec<Json, Result> {
  const spec = { effect: "mutate" as const, ...options, dedupe: "call" as const };
  return { ...spec, name, description: name, input: ANYTHING, execute: (_args, context) => execute(context) };
}

interface NodeRun {
  readonly thread: string;
  /** Names this run of the node, also after a resume. */
  readonly ns: string;
  /** The checkpoints it stands on: its graph's, and those of the graphs around it. */
  readonly checkpoints: Readonly<Record<string, string>>;
}

function nodeRun({ configurable }: RunnableConfig): NodeRun {
  const thread: unknown = configurable?.["thread_id"];
  const ns: unknown = configurable?.["checkpoint_ns"];
  const checkpoints: unknown = configurable?.["checkpoint_map"];
  if (typeof thread === "string" && typeof ns === "string" && ns !== "" && checkpoints) {
    return { thread, ns, checkpoints: checkpoints as NodeRun["checkpoints"] };
  }
  throw new HoldfastError("INPUT_INVALID", "a durable node or tool was called outside the run of a graph", {
    hint: "Call it from a graph that was compiled with the saver, invoke that with a thread_id, and hand its config on to tools.",
  });
}

async function mustBeSaved(saver: HoldfastSaver, { thread, checkpoints }: NodeRun): Promise<void> {
  for (const [ns, id] of Object.entries(checkpoints)) {
    if (await saver.whenSaved({ thread, ns, id }, SAVED_WITHIN_MS)) continue;
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
