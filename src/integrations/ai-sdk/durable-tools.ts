/** The tool half of `durable`: the SDK's tools, each call through the ledger of the session. */

import {
  type ExecuteContext,
  type StandardSchema,
  type Tool,
  type ToolSpec,
  type Verdict,
  type VerifyContext,
  validate,
} from "../../ledger/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import { canonicalText, type Json } from "../../model/json.ts";
import {
  type Block,
  type Call,
  isOpen,
  type JsonObject,
  resultBlock as ledgerResult,
  type SessionState,
  type ToolCallBlock,
} from "../../model/session/index.ts";
import { sessionCore } from "../../session/index.ts";
import {
  executeWithChild,
  outcomePending,
  type RecordedOutcome,
  type RecordedTurns,
  type RenderedResult,
} from "../recorded-turns/index.ts";
import { type Artifacts, sdkExtra } from "./file-data.ts";
import { type InputSchema, schemaOf } from "./input-schema.ts";
import type { InferToolInput, InferToolOutput, ModelMessage, SdkTool, ToolSet } from "./language-model.ts";
import { toModelMessages } from "./messages.ts";
import type { MisreportedCalls } from "./misreported-calls.ts";
import { plain, resultBlock } from "./parts.ts";
import { marked } from "./tool-marks.ts";

/**
 * What a tool does to the world, and how to find out whether it did: as in holdfast's own `tool`. A tool without a
 * declaration counts as mutating, and an interrupted call of it waits for a person.
 */
export interface ToolDeclaration<Args = never, Result = unknown>
  extends Omit<
    ToolSpec<Args, Result>,
    | "name"
    | "description"
    | "input"
    | "output"
    | "inputJsonSchema"
    | "execute"
    | "effect"
    | "verify"
    | "repeatable"
  > {
  readonly effect?: ToolSpec<Args, Result>["effect"];
  readonly verify?: (args: Args, context: VerifyContext) => Promise<Verdict<Result>> | Verdict<Result>;
}

/** By the tool's name. A tool that is not named counts as mutating. */
export type ToolDeclarations<Tools extends ToolSet> = {
  readonly [Name in keyof Tools]?: Tools[Name] extends SdkTool
    ? ToolDeclaration<InferToolInput<Tools[Name]>, InferToolOutput<Tools[Name]>>
    : never;
};

/** What `execute` is called with. */
interface ExecutionOptions {
  readonly toolCallId: string;
  readonly messages: ModelMessage[];
  readonly abortSignal?: AbortSignal;
  readonly experimental_context?: unknown;
}

type AnyTool = {
  readonly description?: string;
  readonly inputSchema?: InputSchema;
  readonly needsApproval?: boolean | ((input: unknown, options: object) => boolean | PromiseLike<boolean>);
  readonly execute?: (input: unknown, options: object) => unknown;
  readonly toModelOutput?: (options: object) => Output | PromiseLike<Output>;
};

type Output = { readonly type: string; readonly value?: unknown };

const CONTEXT = Symbol.for("holdfast.ai-sdk.context");

/**
 * The ledger's side of a durable tool's call: the idempotency key for the vendor, the attempt, the fencing token. Call it
 * with the options that `execute` was given.
 */
export function callContext(options: object): ExecuteContext {
  const context = (options as { [CONTEXT]?: ExecuteContext })[CONTEXT];
  if (context) return context;
  throw new HoldfastError("INPUT_INVALID", "callContext was asked outside a durable tool", {
    hint: "Pass the tool through durable(session).tools() and hand over the options that its execute was called with.",
  });
}

/** It is on record that the call did not happen, and why. The SDK tells the model. */
export class ToolCallFailed extends Error {
  override readonly name = "ToolCallFailed";
}

export interface ToolContext {
  readonly turns: RecordedTurns;
  readonly misreported: MisreportedCalls;
  readonly artifacts: Artifacts;
  readonly approvals: "queue" | "sdk";
}

export function durableTools<Tools extends ToolSet>(
  tools: Tools,
  declarations: ToolDeclarations<Tools>,
  context: ToolContext,
): Tools {
  for (const name of Object.keys(declarations)) {
    if (!Object.hasOwn(tools, name)) {
      throw new HoldfastError("INPUT_INVALID", `there is a declaration for ${name} and no such tool`, {
        hint: `The tools are: ${Object.keys(tools).join(", ")}.`,
      });
    }
  }
  const made = Object.entries(tools).map(([name, tool]) => {
    const declaration = (declarations[name] ?? {}) as ToolDeclaration;
    return [name, durableTool(name, tool as AnyTool, declaration, context)];
  });
  return Object.fromEntries(made) as Tools;
}

/** Calls of tools that somebody else runs, the client or the provider, are none of our business. */
function durableTool(
  name: string,
  tool: AnyTool,
  declaration: ToolDeclaration,
  context: ToolContext,
): AnyTool {
  const { execute, needsApproval, ...rest } = tool;
  if (!execute) return marked(tool);
  const known = { name, tool: { ...tool, execute }, declaration };
  context.turns.registerTool(name, (call) => takeUp(known, call, context));
  const toModelOutput = (options: { toolCallId: string; output: unknown }) =>
    modelOutput(tool, options, context);
  return {
    ...marked(rest),
    ...(context.approvals === "sdk" && needsApproval !== undefined && { needsApproval }),
    toModelOutput: toModelOutput as AnyTool["toModelOutput"] & {},
    execute: (input, options) => runTool({ ...known, input, options: options as ExecutionOptions }, context),
  };
}

interface KnownTool {
  readonly name: string;
  readonly tool: AnyTool & { readonly execute: (input: unknown, options: object) => unknown };
  readonly declaration: ToolDeclaration;
}

interface ToolRun extends KnownTool {
  readonly input: unknown;
  readonly options: ExecutionOptions;
}

async function runTool(run: ToolRun, context: ToolContext): Promise<unknown> {
  const { turns, misreported } = context;
  const callId = run.options.toolCallId;
  const outcome = await misreported.watch(callId, run.declaration.effect === "read", async () => {
    const { args, input } = recordedInput(turns, callId, run.input);
    const found = await recordedCall({ ...run, input }, args, context);
    if (found.status === "waiting") throw outcomePending(turns.session, callId, run.name, found.why);
    return found;
  });
  if (outcome.status === "failed") throw new ToolCallFailed(outcome.error.message);
  return outcome.value;
}

/** A call that the SDK does not run now: another run asked for it, and was killed before it had an outcome. */
async function takeUp(known: KnownTool, { id, args }: Call, context: ToolContext): Promise<boolean> {
  const input = await validate(schemaOf(known.tool.inputSchema), args);
  if ("problem" in input) return false;
  const messages = await messagesBefore(id, context);
  await recordedCall({ ...known, input: input.value, options: { toolCallId: id, messages } }, args, context);
  return true;
}

/** What the model had been told when it asked for a call. */
function messagesBefore(callId: string, { turns, artifacts }: ToolContext): Promise<ModelMessage[]> {
  const { messages } = stateOf(turns);
  const asked = messages.findLastIndex(({ blocks }) => blocks.some((block) => asksFor(block, callId)));
  return toModelMessages(messages.slice(0, Math.max(asked, 0)), artifacts);
}

async function recordedCall(run: ToolRun, args: Json, context: ToolContext): Promise<RecordedOutcome> {
  const { options, input, tool } = run;
  const { turns, artifacts } = context;
  const callId = options.toolCallId;
  const known = stateOf(turns).calls.get(callId);
  // Nothing is left to allow of a call that has its outcome. One without still needs it: it may never have begun.
  const approval = known && !isOpen(known.status) ? null : await approvalOf(run, context);
  return turns.call({
    tool: ledgerTool(run, approval !== null || known !== undefined),
    callId,
    args,
    signal: options.abortSignal,
    approval,
    render: async (value) => {
      const output = await presented(tool, { ...options, input, output: value }, context);
      if (!output) return null;
      const part = { type: "tool-result", toolCallId: callId, toolName: run.name, output };
      const { content, isError, meta } = await resultBlock(part, artifacts);
      return { content, ...(isError && { isError }), ...(meta && { meta }) } satisfies RenderedResult;
    },
  });
}

/** One call's tool: what the SDK made of the input is what `execute` and `verify` get, as long as this program runs. */
function ledgerTool({ name, tool, declaration, input, options }: ToolRun, counts: boolean): Tool {
  const parsed: StandardSchema<unknown, unknown> = {
    "~standard": { version: 1, vendor: "holdfast", validate: () => ({ value: input }) },
  };
  // What a person has to allow is a call that counts, even if it only reads; and so is one that the ledger has.
  const asksFirst = counts && declaration.effect === "read";
  const effect = asksFirst ? "mutate" : (declaration.effect ?? "mutate");
  return {
    ...(declaration as Partial<Tool>),
    ...(asksFirst && { dedupe: "call", idempotent: true }),
    name,
    description: tool.description ?? name,
    effect,
    input: parsed,
    execute: async (args: unknown, context: ExecuteContext) => {
      const result = await executeWithChild(context, (own) =>
        tool.execute(args, { ...options, abortSignal: own.signal, [CONTEXT]: own }),
      );
      return lastOf(result);
    },
  };
}

/** A tool may yield results on its way; the last one counts. */
async function lastOf(result: unknown): Promise<unknown> {
  if (typeof result !== "object" || result === null || !(Symbol.asyncIterator in result)) return result;
  let last: unknown;
  for await (const each of result as AsyncIterable<unknown>) last = each;
  return last;
}

async function approvalOf(
  { name, tool, input, options }: ToolRun,
  context: ToolContext,
): Promise<string | null> {
  const { needsApproval } = tool;
  if (context.approvals === "sdk" || !needsApproval) return null;
  const isNeeded = typeof needsApproval === "function" ? await needsApproval(input, options) : true;
  return isNeeded ? `${name} needs approval: "retry" runs it, "failed" refuses it` : null;
}

/**
 * What a call is made with: `args` as they are on record, before any schema changed them, and `input` for the tool. What was
 * not JSON has been repaired by the program, perhaps in another way than before: then the ledger says what was run.
 */
function recordedInput(
  turns: RecordedTurns,
  callId: string,
  given: unknown,
): { readonly args: Json; readonly input: unknown } {
  const asked = askedArgs(turns, callId);
  if (asked !== undefined) return { args: asked, input: given };
  const run = stateOf(turns).calls.get(callId)?.args;
  if (run === undefined) return { args: given as Json, input: given };
  const isSame = canonicalText(run) === canonicalText(plain(given));
  return { args: run, input: isSame ? given : run };
}

/** As the recorded answer has them; undefined where that is not JSON. */
function askedArgs(turns: RecordedTurns, callId: string): Json | undefined {
  const { messages, callSlots } = stateOf(turns);
  if (!callSlots.has(callId)) return undefined;
  const block = messages
    .findLast((message) => message.blocks.some((each) => asksFor(each, callId)))
    ?.blocks.find((each) => asksFor(each, callId));
  return typeof block?.args === "string" && sdkExtra(block.meta)["input"] === block.args
    ? undefined
    : block?.args;
}

function asksFor(block: Block, callId: string): block is ToolCallBlock {
  return block.kind === "tool_call" && block.id === callId;
}

function stateOf(turns: RecordedTurns): SessionState {
  return sessionCore(turns.session).state;
}

/** How the transcript has a result, if not plainly. */
async function presented(
  tool: AnyTool,
  options: Parameters<typeof modelOutput>[1],
  context: ToolContext,
): Promise<Output | null> {
  if (!tool.toModelOutput) return null;
  try {
    return await modelOutput(tool, options, context);
  } catch {
    // The effect is on record, so the tool has not failed. The SDK asks for the same in a moment and ends the run with
    // what is thrown; the transcript has the plain result.
    return null;
  }
}

/** How the model reads a result. Of a repeated call it reads that it was not run again, and since when. */
async function modelOutput(
  tool: AnyTool,
  options: { readonly toolCallId: string; readonly output: unknown; readonly input?: unknown },
  { turns }: ToolContext,
): Promise<Output> {
  const { output } = options;
  const state = stateOf(turns);
  const repeats = state.calls.get(options.toolCallId)?.repeats;
  if (!tool.toModelOutput) {
    if (repeats) return { type: "text", value: ledgerResult(state, options.toolCallId).content };
    return typeof output === "string"
      ? { type: "text", value: output }
      : { type: "json", value: output ?? null };
  }
  const given = await tool.toModelOutput(options);
  return repeats ? noted(given, `[not run again: this repeats call ${repeats.callId}]`) : given;
}

function noted(output: Output, note: string): Output {
  if (output.type === "content")
    return { ...output, value: [{ type: "text", text: note }, ...(output.value as JsonObject[])] };
  const text = typeof output.value === "string" ? output.value : JSON.stringify(output.value ?? null);
  return { type: output.type.startsWith("error") ? "error-text" : "text", value: `${note} ${text}` };
}
