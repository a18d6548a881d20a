/**
 * The tool half of `durable`: the SDK's function tools, each call through the ledger of the session.
 *
 * The SDK turns what a tool throws into a text for the model, inside the tool, where nobody else sees it. So a durable tool
 * is made from the options of `tool()`, not from what `tool()` returns: a throw after the effect began is not a failure.
 */

import {
  type FunctionTool,
  type ModelRequest,
  RunContext,
  type ToolExecuteArgument,
  type ToolInputParameters,
  type ToolOptions,
  tool,
} from "@openai/agents";
import type {
  ExecuteContext,
  StandardSchema,
  Tool,
  ToolSpec,
  Verdict,
  VerifyContext,
} from "../../ledger/index.ts";
import { HoldfastError, isHoldfastError } from "../../model/errors.ts";
import { copyArgs, type Json } from "../../model/json.ts";
import type { Call } from "../../model/session/index.ts";
import { executeWithChild, outcomePending, type RecordedTurns } from "../recorded-turns/index.ts";
import { argsOf } from "./response.ts";

/** What the SDK calls them in a tool's output, by the place at which it takes bytes. */
const BYTES = ["data", "fileData"];
const NESTED = ["image", "file"];

/**
 * What a tool returned, as it can be stored. The SDK takes the bytes of an image or a file as they are or in base64, and makes
 * the same of both; JSON can hold only the latter. Bytes anywhere else stay: the SDK itself would send them as JSON.
 */
function storable(output: unknown): unknown {
  if (Array.isArray(output)) return output.map(storable);
  if (!isRecord(output) || (output["type"] !== "image" && output["type"] !== "file")) return output;
  const nested = NESTED.flatMap((name) => {
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

/**
 * What a tool does to the world, and how to find out whether it did: as in holdfast's own `tool`. Without it a tool counts
 * as mutating, and an interrupted call of it waits for a person.
 */
export interface EffectOptions<Args = never>
  extends Pick<ToolSpec<Args, unknown>, "dedupe" | "idempotent" | "settleMs" | "interrupted" | "definite"> {
  readonly effect?: ToolSpec<Args, unknown>["effect"];
  readonly verify?: (args: Args, context: VerifyContext) => Promise<Verdict<unknown>> | Verdict<unknown>;
}

/** What the SDK's `tool` takes, and what the tool does to the world: for `durable(session).tool()`. */
export type DurableToolOptions<
  Parameters extends ToolInputParameters = undefined,
  Context = unknown,
> = ToolOptions<Parameters, Context> & EffectOptions<ToolExecuteArgument<Parameters>>;

type ToolCallDetails = NonNullable<Parameters<FunctionTool["invoke"]>[2]>;

/** The options as the code below uses them, whatever their types are. */
interface AnyOptions extends EffectOptions {
  readonly name?: string;
  readonly description: string;
  readonly needsApproval?:
    | boolean
    | ((context: unknown, input: unknown, callId?: string) => Promise<boolean>);
  readonly errorFunction?: ((context: never, error: unknown, details?: never) => unknown) | null;
  readonly execute: (input: unknown, context: unknown, details?: object) => unknown;
}

export interface ToolContext {
  readonly turns: RecordedTurns;
  readonly approvals: "queue" | "sdk";
  /** The SDK runs this call: of the run under way, or of one whose state it has kept. */
  follow(callId: string): void;
}

const CONTEXT = Symbol.for("holdfast.openai-agents.context");

/** Of what the SDK shows its model of a tool, the parameters have a place for a mark that is never sent: JSON has no symbols. */
const DURABLE = Symbol.for("holdfast.openai-agents.durable");

/** Function tools by name that the SDK would run outside the ledger. */
export function plainToolsIn({ tools }: ModelRequest): string[] {
  return tools.flatMap((each) =>
    each.type === "function" && !(DURABLE in each.parameters) ? [each.name] : [],
  );
}

/**
 * The ledger's side of a durable tool's call: the idempotency key for the vendor, the attempt, the fencing token. Call it
 * with the third argument of `execute`.
 */
export function callContext(details: object | undefined): ExecuteContext {
  const context = (details as { [CONTEXT]?: ExecuteContext } | undefined)?.[CONTEXT];
  if (context) return context;
  throw new HoldfastError("INPUT_INVALID", "callContext was asked outside a durable tool", {
    hint: "Make the tool with durable(session).tool() and hand over the third argument of its execute.",
  });
}

/** It is on record that the call did not happen, and why. The tool's `errorFunction` tells the model. */
export class ToolCallFailed extends Error {
  override readonly name = "ToolCallFailed";
}

export function durableTool<Parameters extends ToolInputParameters, Context>(
  options: DurableToolOptions<Parameters, Context>,
  context: ToolContext,
): FunctionTool<Context, Parameters, unknown> {
  const given = options as unknown as AnyOptions;
  const { effect, dedupe, idempotent, settleMs, interrupted, definite, verify, ...rest } = given;
  const declared = { effect, dedupe, idempotent, settleMs, interrupted, definite, verify };
  const begun = new Set<string>();
  const takenUp = new Set<string>();
  const made = tool({
    ...(rest as object),
    ...(context.approvals === "queue" && { needsApproval: false }),
    errorFunction: (runContext: never, error: unknown, details: never) => {
      // Ours are for the program, not for the model: a call without an outcome, a session that was lost.
      if (isHoldfastError(error) || given.errorFunction === null) throw error;
      if (given.errorFunction) return given.errorFunction(runContext, error, details);
      return error instanceof ToolCallFailed
        ? `The tool was not run to its end: ${error.message}`
        : "An error occurred while running the tool. Please try again.";
    },
    execute: (input: unknown, runContext: RunContext<unknown>, details?: ToolCallDetails) => {
      const callId = details?.toolCall?.callId;
      if (callId !== undefined) begun.add(callId);
      if (callId !== undefined && !takenUp.has(callId)) context.follow(callId);
      // As the SDK spells its name: so the model asks for it, and so it is known below.
      return runTool({ name: known.name, options: given, declared, input, runContext, details }, context);
    },
  } as never);
  const known = made as unknown as FunctionTool<Context, Parameters, unknown>;
  context.turns.registerTool(known.name, async (call) => {
    begun.delete(call.id);
    takenUp.add(call.id);
    try {
      await takeUp(known as unknown as FunctionTool, call);
    } finally {
      takenUp.delete(call.id);
    }
    // Without, the SDK has refused its arguments.
    return begun.has(call.id);
  });
  return Object.assign(known, { parameters: { ...known.parameters, [DURABLE]: true } });
}

/** A call that the SDK does not run now: another run asked for it, and was killed before it had an outcome. */
async function takeUp({ name, invoke }: FunctionTool, { id, args }: Call): Promise<void> {
  const written = JSON.stringify(args);
  const toolCall = {
    type: "function_call",
    callId: id,
    name,
    arguments: written,
    status: "completed",
  } as const;
  try {
    await invoke(new RunContext(), written, { toolCall });
  } catch (error) {
    // Whatever came of it is on record. That it has no outcome yet is told by whoever asks the next question.
    if (isHoldfastError(error) && error.code !== "SESSION_HAS_OPEN_CALLS") throw error;
  }
}

interface ToolRun {
  readonly name: string;
  readonly options: AnyOptions;
  readonly declared: { readonly [Name in keyof EffectOptions]: EffectOptions[Name] | undefined };
  readonly input: unknown;
  readonly runContext: RunContext<unknown>;
  readonly details: ToolCallDetails | undefined;
}

async function runTool(run: ToolRun, context: ToolContext): Promise<unknown> {
  const call = run.details?.toolCall;
  const { name } = run;
  if (!call) {
    throw new HoldfastError("INPUT_INVALID", `tool ${name} was invoked without a call of a model`, {
      hint: "Let the SDK's run() invoke it, or call the function behind it.",
    });
  }
  const args = ledgerArgs(call.arguments, name);
  const approval = await approvalOf(run, context);
  const outcome = await context.turns.call({
    tool: ledgerTool(run, approval !== null),
    callId: call.callId,
    args,
    signal: ownSignal(run.details?.signal),
    approval,
  });
  // As it is stored, the first time as well: what the model reads must be the same after a crash.
  if (outcome.status === "completed") return JSON.parse(JSON.stringify(outcome.value ?? null));
  if (outcome.status === "failed") throw new ToolCallFailed(outcome.error.message);
  throw outcomePending(context.turns.session, call.callId, name, outcome.why);
}

/** What the ledger cannot hold, half of a surrogate pair say, is a fault of the model like other bad arguments: it is told. */
function ledgerArgs(written: string, name: string): Json {
  try {
    return copyArgs(argsOf(written), `args of ${name}`);
  } catch (error) {
    if (isHoldfastError(error, "ARGS_NOT_JSON")) throw new ToolCallFailed(error.message);
    throw error;
  }
}

/** The SDK aborts the other calls of an answer when one throws. An effect that has begun is not given up for that. */
function ownSignal(signal: AbortSignal | undefined): AbortSignal | undefined {
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

/** One call's tool: what the SDK made of the input is what `execute` and `verify` get. */
function ledgerTool({ name, options, declared, input, runContext, details }: ToolRun, asks: boolean): Tool {
  const parsed: StandardSchema<unknown, unknown> = {
    "~standard": { version: 1, vendor: "holdfast", validate: () => ({ value: input }) },
  };
  const given = Object.fromEntries(Object.entries(declared).filter(([, value]) => value !== undefined));
  const { verify } = declared;
  // What a person has to allow is a call that counts, even if it only reads.
  const asksFirst = asks && declared.effect === "read";
  return {
    ...(given as Partial<Tool>),
    ...(asksFirst && { dedupe: "call", idempotent: true }),
    name,
    description: options.description,
    effect: asksFirst ? "mutate" : (declared.effect ?? "mutate"),
    input: parsed,
    execute: async (args: unknown, context: ExecuteContext): Promise<Json> => {
      const result = await executeWithChild(context, (own) =>
        options.execute(args, runContext, { ...details, signal: own.signal, [CONTEXT]: own }),
      );
      return storable(result) as Json;
    },
    ...(verify && {
      verify: async (args: never, context: VerifyContext) => {
        const verdict = await verify(args, context);
        return verdict.answer === "landed" ? { ...verdict, result: storable(verdict.result) } : verdict;
      },
    }),
  };
}

async function approvalOf(
  { name, options, input, runContext, details }: ToolRun,
  { approvals }: ToolContext,
): Promise<string | null> {
  const { needsApproval } = options;
  if (approvals === "sdk" || !needsApproval) return null;
  const isNeeded =
    typeof needsApproval === "function"
      ? await needsApproval(runContext, input, details?.toolCall?.callId)
      : true;
  return isNeeded ? `${name} needs approval: "retry" runs it, "failed" refuses it` : null;
}
