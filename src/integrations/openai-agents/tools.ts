/**
 * The tool half of `durable`: the SDK's function tools, with each call in the ledger of the session. The SDK
 * turns an error of a tool into a text for the model, inside the tool. So a durable tool is made from the
 * options of `tool()`, not from its result: an error after the effect started is not a failure.
 */

import type { FunctionTool, ModelRequest, ToolInputParameters } from "@openai/agents";
import { RunContext, tool } from "@openai/agents";
import type { StandardSchema, Tool } from "../../ledger/index.ts";
import { HoldfastError, isHoldfastError } from "../../model/errors.ts";
import { copyArgs, type Json } from "../../model/json.ts";
import { type Call, changedNote } from "../../model/session/index.ts";
import { sessionCore } from "../../session/index.ts";
import {
  argsOf,
  CONTEXT,
  ledgerTool,
  outcomePending,
  type RecordedTurns,
  ToolCallFailed,
} from "../recorded-turns/index.ts";
import type { DurableToolOptions, EffectOptions } from "./options.ts";

export interface ToolContext {
  readonly turns: RecordedTurns;
  readonly approvals: "queue" | "sdk";
  /** The SDK runs this call, which may belong to a state that the SDK has restored. */
  moveAfter(callId: string): void;
}

type ToolCallDetails = NonNullable<Parameters<FunctionTool["invoke"]>[2]>;

interface AnyOptions extends EffectOptions {
  readonly parameters?: unknown;
  readonly name?: string;
  readonly description: string;
  readonly needsApproval?:
    | boolean
    | ((context: unknown, input: unknown, callId?: string) => Promise<boolean>);
  readonly errorFunction?: ((context: never, error: unknown, details?: never) => unknown) | null;
  readonly execute: (input: unknown, context: unknown, details?: object) => unknown;
}

/** Marks durable tools in their parameters. JSON has no symbols, so it is never sent. */
const DURABLE = Symbol.for("holdfast.openai-agents.durable");

/** The names of function tools that the SDK would run outside the ledger. */
export function plainToolsIn({ tools }: ModelRequest): string[] {
  return tools.flatMap((each) =>
    each.type === "function" && !(DURABLE in each.parameters) ? [each.name] : [],
  );
}

export function durableTool<Parameters extends ToolInputParameters, Context>(
  options: DurableToolOptions<Parameters, Context>,
  context: ToolContext,
): FunctionTool<Context, Parameters, unknown> {
  const untyped = options as unknown as AnyOptions;
  const { effect, dedupe, idempotent, settleMs, interrupted, definite, verify, ...rest } = untyped;
  const declared = { effect, dedupe, idempotent, settleMs, interrupted, definite };
  const declaration: EffectOptions = {
    ...Object.fromEntries(Object.entries(declared).filter(([, value]) => value !== undefined)),
    ...(verify && { verify: storableVerify(verify) }),
  };
  const started = new Set<string>();
  const resumed = new Set<string>();
  const made = tool({
    ...(rest as object),
    ...(context.approvals === "queue" && { needsApproval: false }),
    errorFunction: (runContext: never, error: unknown, details: never) => {
      // Our errors are for the program, not for the model: a call without an outcome, a lost session.
      if (isHoldfastError(error) || untyped.errorFunction === null) throw error;
      if (untyped.errorFunction) return untyped.errorFunction(runContext, error, details);
      return error instanceof ToolCallFailed
        ? `The tool was not run to its end: ${error.message}`
        : "An error occurred while running the tool. Please try again.";
    },
    execute: (input: unknown, runContext: RunContext<unknown>, details?: ToolCallDetails) => {
      const callId = details?.toolCall?.callId;
      if (callId !== undefined) started.add(callId);
      if (callId !== undefined && !resumed.has(callId)) context.moveAfter(callId);
      // The SDK may have changed the name; the model and the registration below use its spelling.
      return runTool(
        { name: sdkTool.name, options: untyped, declaration, input, runContext, details },
        context,
      );
    },
  } as never);
  const sdkTool = made as unknown as FunctionTool<Context, Parameters, unknown>;
  context.turns.registerTool(sdkTool.name, async (call) => {
    started.delete(call.callId);
    resumed.add(call.callId);
    try {
      await resumeCall(sdkTool as unknown as FunctionTool, call);
    } finally {
      resumed.delete(call.callId);
    }
    // If `execute` was not called, the SDK has refused the arguments.
    return started.has(call.callId);
  });
  return Object.assign(sdkTool, { parameters: { ...sdkTool.parameters, [DURABLE]: true } });
}

async function resumeCall({ name, invoke }: FunctionTool, { callId, args, asked }: Call): Promise<void> {
  const written = JSON.stringify(asked?.args ?? args);
  const status = "completed" as const;
  const toolCall = { type: "function_call" as const, callId, name, arguments: written, status };
  try {
    await invoke(new RunContext(), written, { toolCall });
  } catch (error) {
    // The outcome is on record. If there is none yet, the next question is refused for it.
    if (isHoldfastError(error) && error.code !== "SESSION_HAS_OPEN_CALLS") throw error;
  }
}

interface ToolRun {
  readonly name: string;
  readonly options: AnyOptions;
  readonly declaration: EffectOptions;
  readonly input: unknown;
  readonly runContext: RunContext<unknown>;
  readonly details: ToolCallDetails | undefined;
}

async function runTool(run: ToolRun, context: ToolContext): Promise<unknown> {
  const call = run.details?.toolCall;
  const { name } = run;
  if (!call) {
    throw new HoldfastError("INPUT_INVALID", `tool ${name}: invoked without a tool call of a model`, {
      hint: "Let the SDK's run() invoke it, or call the function behind it.",
    });
  }
  const args = ledgerArgs(call.arguments, name);
  const { needsApproval = false } = context.approvals === "sdk" ? {} : run.options;
  const isNeeded =
    typeof needsApproval === "function"
      ? await needsApproval(run.runContext, run.input, call.callId)
      : needsApproval;
  const outcome = await context.turns.call({
    tool: ledgerTool({
      name,
      description: run.options.description,
      declaration: run.declaration as Partial<Tool>,
      args,
      input: run.input,
      schema: schemaOf(run.options.parameters),
      mustRecord: isNeeded,
      execute: async (input, own) =>
        storable(
          await run.options.execute(input, run.runContext, {
            ...run.details,
            signal: own.signal,
            [CONTEXT]: own,
          }),
        ),
    }),
    callId: call.callId,
    args,
    signal: withoutSiblingAborts(run.details?.signal),
    needsApproval: isNeeded,
  });
  const known = sessionCore(context.turns.session).state.calls.get(call.callId);
  const changed = known ? changedNote(known) : null;
  if (outcome.status === "completed" && changed !== null)
    return `${changed} ${typeof outcome.value === "string" ? outcome.value : JSON.stringify(outcome.value)}`;
  // Return the value as it is stored, the first time too: the model must read the same after a crash.
  if (outcome.status === "completed") return JSON.parse(JSON.stringify(outcome.value ?? null));
  if (outcome.status === "failed") throw new ToolCallFailed(outcome.error.message);
  throw outcomePending(context.turns.session, call.callId, name, outcome.why);
}

/** Parses arguments that a person approved instead of the model's. A JSON Schema is not checked here. */
function schemaOf(parameters: unknown): StandardSchema<unknown, unknown> {
  const isStandard = typeof parameters === "object" && parameters !== null && "~standard" in parameters;
  if (isStandard) return parameters as StandardSchema<unknown, unknown>;
  return { "~standard": { version: 1, vendor: "holdfast", validate: (value) => ({ value }) } };
}

/** Arguments that the ledger cannot store, such as a lone surrogate, are reported to the model as invalid. */
function ledgerArgs(written: string, name: string): Json {
  try {
    return copyArgs(argsOf(written), `args of ${name}`);
  } catch (error) {
    if (isHoldfastError(error, "ARGS_NOT_JSON")) throw new ToolCallFailed(error.message);
    throw error;
  }
}

/** The SDK aborts all calls of an answer when one throws. An effect that has started ignores that. */
function withoutSiblingAborts(signal: AbortSignal | undefined): AbortSignal | undefined {
  if (!signal) return undefined;
  const own = new AbortController();
  const pass = (): void => {
    const { reason } = signal;
    if (!(reason instanceof Error && /sibling/i.test(reason.message))) own.abort(reason);
  };
  if (signal.aborted) pass();
  else signal.addEventListener("abort", pass, { once: true });
  return own.signal;
}

type Verify = NonNullable<EffectOptions["verify"]>;

function storableVerify(verify: Verify): Verify {
  return async (args, context) => {
    const verdict = await verify(args, context);
    return verdict.answer === "landed" ? { ...verdict, result: storable(verdict.result) } : verdict;
  };
}

const BYTES = ["data", "fileData"];

/** Encodes bytes of images and files as base64, which the SDK treats alike. Other bytes stay. */
function storable(output: unknown): unknown {
  if (Array.isArray(output)) return output.map(storable);
  if (!isRecord(output) || (output["type"] !== "image" && output["type"] !== "file")) return output;
  const nested = ["image", "file"].flatMap((name) => {
    const value = output[name];
    return isRecord(value) ? [[name, { ...value, ...encoded(value) }]] : [];
  });
  return { ...output, ...encoded(output), ...Object.fromEntries(nested) };
}

function encoded(record: Record<string, unknown>): Record<string, string> {
  const members = BYTES.flatMap((name) => {
    const value = record[name];
    return value instanceof Uint8Array ? [[name, Buffer.from(value).toString("base64")]] : [];
  });
  return Object.fromEntries(members);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !(value instanceof Uint8Array);
}
