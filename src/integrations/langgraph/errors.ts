/** Errors go to the program, never to the model: a model that reads one would simply try again. */

import { GraphInterrupt } from "@langchain/langgraph";
import { sha256 } from "../../model/digest.ts";
import { HoldfastError, isHoldfastError } from "../../model/errors.ts";
import type { CallError } from "../../model/session/index.ts";
import { refusal } from "../refusal.ts";
import type { CheckpointPlace } from "./loading.ts";

/**
 * Thrown by `effects.call` and `effects.effect`: the ledger records that the effect did not happen, and why.
 * Catch it to take another way; if the node ends with it, the next run of the node may try the effect again.
 * @example if (error instanceof EffectFailed) return { status: `declined: ${error.error.message}` };
 */
export class EffectFailed extends Error {
  override readonly name = "EffectFailed";
  /** The call in the ledger. */
  readonly callId: string;
  /** The recorded failure. */
  readonly error: CallError;

  constructor(callId: string, error: CallError) {
    super(error.message);
    this.callId = callId;
    this.error = error;
  }
}

interface EffectInterrupt {
  readonly waiting: "effect";
  readonly callId: string | null;
  readonly tool: string | null;
  readonly why: string;
  readonly code?: string;
  readonly hint?: string;
}

/**
 * Not by LangGraph's `interrupt()`: that numbers its calls, and if the effect is settled meanwhile, a resume
 * value would answer the next question of the node.
 */
export function interruptForCall(callId: string, tool: string, why: string): GraphInterrupt {
  return effectInterrupt({ waiting: "effect", callId, tool, why });
}

/** LangGraph's ToolNode passes every error but an interrupt to the model. */
export function asInterrupt(error: unknown, tool: string, callId: string | null): unknown {
  if (error instanceof GraphInterrupt || !(error instanceof Error)) return error;
  return effectInterrupt({
    waiting: "effect",
    callId,
    tool,
    why: error.message,
    ...(isHoldfastError(error) && { code: error.code, hint: error.hint }),
  });
}

function effectInterrupt(value: EffectInterrupt): GraphInterrupt {
  return new GraphInterrupt([{ id: sha256(JSON.stringify(value)).slice(0, 32), value }]);
}

/** False for an interrupt by a question of the node itself. */
export function isEffectInterrupt(interrupt: unknown): boolean {
  return (interrupt as { value?: Partial<EffectInterrupt> } | undefined)?.value?.waiting === "effect";
}

/** The ledger's hint on changed arguments is for callers that choose call ids themselves. */
export function explainChangedArgs(error: unknown, callId: string, tool: string): unknown {
  if (!isHoldfastError(error, "INPUT_INVALID") || error.data?.["callId"] !== callId) return error;
  return new HoldfastError("INPUT_INVALID", `effect ${tool}: ${error.message}`, {
    hint:
      "Make the node ask for the same effects in the same order whenever it runs again. Read random " +
      "values and the clock in an effect. Give effects whose order varies an `id`.",
    cause: error,
    data: { callId, tool },
  });
}

export function ambiguousEffect(name: string): HoldfastError {
  return refusal(
    "INPUT_INVALID",
    `effect ${name}: called twice, with nothing to tell the calls apart`,
    "Pass different `args` to each, or an `id` if their order may change: otherwise a node that runs " +
      "again could take the result of one for the other. The second was not started.",
    { effect: name },
  );
}

export function abandonedCall(
  thread: string,
  { callId, tool }: { callId: string; tool: string },
): HoldfastError {
  return refusal(
    "SESSION_HAS_OPEN_CALLS",
    `thread ${thread}: call ${callId} of ${tool} has no outcome, and the thread continued without it`,
    "The same effect may be about to happen again. Answer the call first (holdfast.calls.resolve, or " +
      "`holdfast resolve`), then invoke again with null. No effect was started.",
    { thread, callId: callId, tool: tool },
  );
}

export function repeatsCheckpoint(thread: string, checkpoint: string, earlier: string): HoldfastError {
  return refusal(
    "STATE_STALE",
    `thread ${thread}: this run repeats nodes after checkpoint ${earlier}, whose effects may have happened`,
    "It branched from an older checkpoint, or from one that was updated. To let its effects happen " +
      'again, pass { configurable: { holdfast_effects: "live" } } to this and every further invoke ' +
      "until the next input. No effect was started.",
    { thread, checkpoint, earlier },
  );
}

export function retriedSubgraph(thread: string, ns: string): HoldfastError {
  return refusal(
    "STATE_STALE",
    `thread ${thread}: a retry policy restarts the node around a subgraph, and so the whole subgraph`,
    "Effects of the attempt before would happen again. Give the retry policy to the nodes of the " +
      "subgraph, and invoke with null to continue where it failed. To let its effects happen again, " +
      'pass { configurable: { holdfast_effects: "live" } }. No effect was started.',
    { thread, ns },
  );
}

export function checkpointNotSaved({ thread, ns, id }: CheckpointPlace): HoldfastError {
  return refusal(
    "STATE_STALE",
    `thread ${thread}: checkpoint ${id} of this node is not saved, so its effects could not be found again`,
    "Compile the graph with the saver that the durable node or tool was made with, and use durability " +
      '"sync" or "async". No effect was started.',
    { thread, ns, id },
  );
}

export function checkpointNotFound(thread: string, ns: string, parent: string): HoldfastError {
  return new HoldfastError("VERSION_NOT_FOUND", `thread ${thread}: checkpoint ${parent} does not exist`, {
    hint:
      "It was deleted, pruned, or never saved here. Begin a new thread, or continue with a checkpoint that " +
      "getStateHistory() lists.",
    data: { thread, ns, parent },
  });
}

export function threadMovedOn(thread: string, from: string, other: string): HoldfastError {
  return refusal(
    "STREAM_BUSY",
    `thread ${thread}: this run follows ${from}, but another run has saved ${other} after it`,
    "Two runs worked on one thread. Nothing of the other is lost: invoke again to continue after it, " +
      "or pass a checkpoint_id to branch.",
    { thread, from, latest: other },
  );
}
