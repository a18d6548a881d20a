/** The tool half of `durable`: the SDK's tools, with each call in the ledger of the session. */

import { never, type Tool, validate } from "../../ledger/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import { canonicalText, type Json } from "../../model/json.ts";
import type {
  Block,
  Call,
  JsonObject,
  Message,
  SessionState,
  ToolCallBlock,
} from "../../model/session/index.ts";
import { changedNote, isOpen, resultBlock as ledgerResult } from "../../model/session/index.ts";
import { sessionCore } from "../../session/index.ts";
import type { Artifacts } from "../artifacts.ts";
import type { RecordedOutcome, RecordedTurns, RenderedResult } from "../recorded-turns/index.ts";
import { CONTEXT, ledgerTool, outcomePending, ToolCallFailed } from "../recorded-turns/index.ts";
import type { Approvals } from "./approvals.ts";
import { outsideLedger } from "./errors.ts";
import { resultBlock, sdkExtra, toJson, toModelMessages } from "./messages.ts";
import type { DurableOptions, ToolDeclaration, ToolDeclarations } from "./options.ts";
import { type AnyTool, type ExecutionOptions, type Output, schemaOf, type ToolCaller } from "./sdk-tool.ts";
import type { CallOptions, GenerateResult, ToolSet } from "./sdk-types.ts";

export interface DurableContext {
  readonly options: DurableOptions;
  readonly turns: RecordedTurns;
  readonly callErrors: CallErrors;
  readonly approvals: Approvals;
  readonly artifacts: Artifacts;
  /** The prompt that `d.messages` stored before this turn. */
  promptAt(position: number): Message | null;
}

export function durableTools<Tools extends ToolSet>(
  tools: Tools,
  declarations: ToolDeclarations<Tools>,
  context: DurableContext,
): Tools {
  const unknown = Object.keys(declarations).find((name) => !Object.hasOwn(tools, name));
  if (unknown !== undefined) {
    throw new HoldfastError("INPUT_INVALID", `tool ${unknown} is declared and does not exist`, {
      hint: `The tools are: ${Object.keys(tools).join(", ")}.`,
    });
  }
  const made = Object.entries(tools).map(([name, tool]) => {
    const declaration = (declarations[name] ?? {}) as ToolDeclaration;
    return [name, durableTool(name, tool as AnyTool, declaration, context)];
  });
  return Object.fromEntries(made) as Tools;
}

/** A tool without `execute` is run by the client or the provider, so only its mark is added. */
function durableTool(
  name: string,
  tool: AnyTool,
  declaration: ToolDeclaration,
  context: DurableContext,
): AnyTool {
  const { experimental_toolCaller: caller } = tool;
  if (caller) return withCaller(name, tool, caller, declaration, context);
  const { execute, needsApproval, ...rest } = tool;
  if (!execute) return withMark(tool);
  const known = { name, tool: { ...tool, execute }, declaration };
  context.turns.registerTool(name, (call) => resumeCall(known, call, context));
  const toModelOutput = (options: { toolCallId: string; output: unknown }) =>
    modelOutput(tool, options, context);
  return {
    ...withMark(rest),
    ...(context.options.approvals === "sdk" && needsApproval !== undefined && { needsApproval }),
    toModelOutput: toModelOutput as AnyTool["toModelOutput"] & {},
    execute: (input, options) => runTool({ ...known, input, options: options as ExecutionOptions }, context),
  };
}

/**
 * A tool that runs other tools. Its own call has no effect: the calls that it makes are in the ledger, under
 * ids that follow from its own. An interrupted call of it runs again, and they give their recorded results.
 */
function withCaller(
  name: string,
  tool: AnyTool,
  caller: ToolCaller,
  declaration: ToolDeclaration,
  context: DurableContext,
): AnyTool {
  const { bind } = caller;
  const rerun: ToolDeclaration = { verify: () => never(), dedupe: "call", ...declaration };
  const bound = bind && {
    bind: (tools: ToolSet) => {
      const { execute, ...rest } = bind(tools);
      const running =
        execute && ((input: unknown, options: object) => runCaller(execute, input, options, context));
      return durableTool(name, running ? { ...rest, execute: running } : rest, rerun, context);
    },
  };
  // The SDK's property is not enumerable, so a spread loses it.
  return Object.defineProperty(withMark(tool), "experimental_toolCaller", { value: { ...caller, ...bound } });
}

async function runCaller(
  execute: AnyTool["execute"] & {},
  input: unknown,
  options: object,
  { turns }: DurableContext,
): Promise<unknown> {
  const { toolCallId } = options as ExecutionOptions;
  return turns.callsWithin(toolCallId, async () => lastOf(await execute(input, options)));
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

async function runTool(run: ToolRun, context: DurableContext): Promise<unknown> {
  const { turns, callErrors } = context;
  const callId = run.options.toolCallId;
  const given = turns.provisionalFor(callId);
  if (given !== null && stateOf(turns).calls.get(callId)?.isAside) return given;
  const outcome = await callErrors.watch(callId, run.declaration.effect === "read", async () => {
    const { args, input } = recordedInput(turns, callId, run.input);
    const found = await recordedCall({ ...run, input }, args, context);
    if (found.status === "waiting" && turns.provisionalFor(callId) === null)
      throw outcomePending(turns.session, callId, run.name, found.why);
    return found;
  });
  if (outcome.status === "failed") throw new ToolCallFailed(outcome.error.message);
  return outcome.status === "waiting" ? turns.provisionalFor(callId) : outcome.value;
}

async function resumeCall(
  known: KnownTool,
  { callId, args: current, asked }: Call,
  context: DurableContext,
): Promise<boolean> {
  const args = asked?.args ?? current;
  const input = await validate(schemaOf(known.tool.inputSchema), args);
  if ("problem" in input) return false;
  const { messages: all } = stateOf(context.turns);
  const askedAt = all.findLastIndex(({ blocks }) => blocks.some((block) => asksFor(block, callId)));
  const messages = await toModelMessages(all.slice(0, Math.max(askedAt, 0)), context.artifacts);
  await recordedCall(
    { ...known, input: input.value, options: { toolCallId: callId, messages } },
    args,
    context,
  );
  return true;
}

async function recordedCall(run: ToolRun, args: Json, context: DurableContext): Promise<RecordedOutcome> {
  const { options, input, tool } = run;
  const { whileWaiting, ...declaration } = run.declaration;
  const { turns, artifacts } = context;
  const callId = options.toolCallId;
  const known = stateOf(turns).calls.get(callId);
  // A call with an outcome needs no approval any more. One without still does: it may never have started.
  const hasOutcome = known !== undefined && !isOpen(known.status);
  const isNeeded = !hasOutcome && (await context.approvals.isNeeded(tool, input, options));
  const render = async (value: Json): Promise<RenderedResult | null> => {
    // After an error the transcript gets the result as it is: the effect is on record, so the tool has not
    // failed. The SDK calls `toModelOutput` again in a moment, and ends the run with its error.
    const output = await modelOutput(tool, { ...options, input, output: value }, context).catch(() => null);
    if (!output) return null;
    const part = { type: "tool-result", toolCallId: callId, toolName: run.name, output };
    const { content, isError, meta } = await resultBlock(part, artifacts);
    return { content, ...(isError && { isError }), ...(meta && { meta }) };
  };
  return turns.call({
    tool: ledgerTool({
      name: run.name,
      description: typeof tool.description === "string" ? tool.description : run.name,
      declaration: declaration as Partial<Tool>,
      args,
      input,
      schema: schemaOf(tool.inputSchema),
      mustRecord: isNeeded !== false || known !== undefined,
      execute: async (parsed, own) =>
        lastOf(await tool.execute(parsed, { ...options, abortSignal: own.signal, [CONTEXT]: own })),
    }),
    callId,
    args,
    signal: options.abortSignal,
    needsApproval: isNeeded,
    whileWaiting,
    ...(tool.toModelOutput && { render }),
  });
}

/** A tool may yield preliminary results; the last one counts. */
async function lastOf(result: unknown): Promise<unknown> {
  if (typeof result !== "object" || result === null || !(Symbol.asyncIterator in result)) return result;
  let last: unknown;
  for await (const each of result as AsyncIterable<unknown>) last = each;
  return last;
}

/**
 * `args` as recorded, before any schema changed them, and `input` for the tool. The program repairs arguments
 * that were not JSON, perhaps differently than before: the ledger decides.
 */
function recordedInput(
  turns: RecordedTurns,
  callId: string,
  repaired: unknown,
): { readonly args: Json; readonly input: unknown } {
  const asked = askedArgs(turns, callId);
  if (asked !== undefined) return { args: asked, input: repaired };
  const known = stateOf(turns).calls.get(callId);
  const recorded = known?.asked?.args ?? known?.args;
  if (recorded === undefined) return { args: repaired as Json, input: repaired };
  const isSame = canonicalText(recorded) === canonicalText(toJson(repaired));
  return { args: recorded, input: isSame ? repaired : recorded };
}

/** The arguments in the recorded answer; undefined if they are not JSON. */
function askedArgs(turns: RecordedTurns, callId: string): Json | undefined {
  const { messages, callSlots } = stateOf(turns);
  if (!callSlots.has(callId)) return undefined;
  const block = messages.flatMap(({ blocks }) => blocks).findLast((each) => asksFor(each, callId));
  return typeof block?.args === "string" && sdkExtra(block.meta)["input"] === block.args
    ? undefined
    : block?.args;
}

function asksFor(block: Block, callId: string): block is ToolCallBlock {
  return block.kind === "tool_call" && block.id === callId;
}

function stateOf({ session }: RecordedTurns): SessionState {
  return sessionCore(session).state;
}

/** The output says if the tool was not run again, or ran with other arguments than the model sent. */
async function modelOutput(
  tool: AnyTool,
  options: { readonly toolCallId: string; readonly output: unknown; readonly input?: unknown },
  { turns }: DurableContext,
): Promise<Output> {
  const { output } = options;
  const provisional = turns.provisionalFor(options.toolCallId);
  if (provisional !== null) return { type: "text", value: provisional };
  const state = stateOf(turns);
  const call = state.calls.get(options.toolCallId);
  const repeats = call?.repeats;
  const changed = call ? changedNote(call) : null;
  if (!tool.toModelOutput) {
    if (repeats || changed !== null)
      return { type: "text", value: ledgerResult(state, options.toolCallId).content };
    return typeof output === "string"
      ? { type: "text", value: output }
      : { type: "json", value: output ?? null };
  }
  const rendered = await tool.toModelOutput(options);
  const note = repeats ? `[not run again: this repeats call ${repeats.callId}]` : changed;
  return note === null ? rendered : withNote(rendered, note);
}

function withNote(output: Output, note: string): Output {
  if (output.type === "content")
    return { ...output, value: [{ type: "text", text: note }, ...(output.value as JsonObject[])] };
  const text = typeof output.value === "string" ? output.value : JSON.stringify(output.value ?? null);
  return { type: output.type.startsWith("error") ? "error-text" : "text", value: `${note} ${text}` };
}

/**
 * Marks tools that came through `d.tools`, in what the SDK passes to its model. The durable model checks for
 * the mark, and removes it before a provider reads it. It is a symbol: a copy of the tool keeps it, and what
 * telemetry writes as JSON does not show it.
 *
 *     function tool    without the mark the question is refused, because the SDK might run the tool
 *     provider's tool  usually run by the provider, so no mark is needed; an answer that leaves a call of an
 *                      unmarked one to the SDK is refused
 */
const MARK = Symbol("holdfast.durable");

function withMark<Tool extends object>(tool: Tool): Tool {
  const { type, args, providerOptions } = tool as { type?: string; args?: object; providerOptions?: object };
  const mark = { [MARK]: true };
  return type === "provider"
    ? { ...tool, args: { ...args, ...mark } }
    : { ...tool, providerOptions: { ...providerOptions, ...mark } };
}

type Marked = { readonly [MARK]?: boolean };

type RequestTool = NonNullable<CallOptions["tools"]>[number];

/** Throws if a tool would run outside the ledger. */
export function withoutMarks(options: CallOptions): CallOptions {
  const { tools } = options;
  if (!tools) return options;
  const unmarked = tools.filter((each) => each.type === "function" && !isMarked(each));
  if (unmarked.length > 0) throw outsideLedger(unmarked, "The model was not asked");
  return { ...options, tools: tools.map(withoutMark) };
}

/** Throws if an answer calls a provider's tool that the SDK would run outside the ledger. */
export function checkCallsMarked({ content }: GenerateResult, { tools = [] }: CallOptions): void {
  const called = new Set(
    content.flatMap((part) => (part.type === "tool-call" && !part.providerExecuted ? [part.toolName] : [])),
  );
  const unmarked = tools.filter((each) => called.has(each.name) && !isMarked(each));
  if (unmarked.length > 0) throw outsideLedger(unmarked, "It was called and has not been run");
}

function isMarked(tool: RequestTool): boolean {
  const marked: Marked | undefined = tool.type === "provider" ? tool.args : tool.providerOptions;
  return marked?.[MARK] === true;
}

function withoutMark(tool: RequestTool): RequestTool {
  if (!isMarked(tool)) return tool;
  if (tool.type === "provider") {
    const { [MARK]: _mark, ...args } = tool.args as Marked & typeof tool.args;
    return { ...tool, args };
  }
  const { providerOptions, ...rest } = tool;
  const { [MARK]: _mark, ...others } = (providerOptions ?? {}) as Marked & typeof providerOptions;
  return Object.keys(others).length > 0 ? { ...rest, providerOptions: others } : rest;
}

/**
 * Calls whose error must not reach the model. The SDK reports every error of a tool to the model, which tries
 * again in other words. But a call in the ledger has happened, or may have: the next question is refused with
 * that error, and the run ends. A second run continues from the record.
 *
 *     call throws, and is in the ledger ──▶ noted ──question with its result──▶ refused with that error
 *                                                 ──runs again without error──▶ cleared
 *                                                 ──d.messages, which reads the record──▶ cleared
 */
export class CallErrors {
  private readonly turns: RecordedTurns;
  private readonly errors = new Map<string, unknown>();

  constructor(turns: RecordedTurns) {
    this.turns = turns;
  }

  async watch<Outcome>(callId: string, isRead: boolean, run: () => Promise<Outcome>): Promise<Outcome> {
    this.errors.delete(callId);
    try {
      return await run();
    } catch (error) {
      if (this.isOnRecord(callId, isRead)) this.errors.set(callId, error);
      throw error;
    }
  }

  /** The error to throw instead of asking this question, or null. */
  refusal(prompt: CallOptions["prompt"]): { readonly error: unknown } | null {
    if (this.errors.size === 0) return null;
    for (const { role, content } of prompt) {
      if (role !== "tool") continue;
      for (const part of content)
        if (part.type === "tool-result" && this.errors.has(part.toolCallId))
          return { error: this.errors.get(part.toolCallId) };
    }
    return null;
  }

  clear(): void {
    this.errors.clear();
  }

  /** A read is not in the ledger. Its own errors become its result, so this error came from elsewhere. */
  private isOnRecord(callId: string, isRead: boolean): boolean {
    const { calls, callSlots } = sessionCore(this.turns.session).state;
    return calls.has(callId) || (isRead && callSlots.has(callId));
  }
}
