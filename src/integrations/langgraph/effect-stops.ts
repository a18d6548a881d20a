/** What stops a node at an effect: an answer that is missing, or a refusal. Errors are for the program, never for the model. */

import { GraphInterrupt } from "@langchain/langgraph";
import { sha256 } from "../../model/digest.ts";
import { HoldfastError, isHoldfastError } from "../../model/errors.ts";

/** What the interrupt of a graph says when it stopped at an effect. */
interface Stop {
  readonly waiting: "effect";
  readonly callId: string | null;
  readonly tool: string | null;
  readonly why: string;
  readonly code?: string;
  readonly hint?: string;
}

/**
 * Not by LangGraph's `interrupt()`: that counts its calls, and a resume value goes to the one with that number. A call that
 * was settled meanwhile asks no more, so what was said to it would answer the next question of the node.
 */
export function waits(callId: string, tool: string, why: string): GraphInterrupt {
  return stopWith({ waiting: "effect", callId, tool, why });
}

/** LangGraph's ToolNode tells the model of every error but this one, and the model would simply call again. */
export function asInterrupt(error: unknown, tool: string, callId: string | null): unknown {
  if (error instanceof GraphInterrupt || !(error instanceof Error)) return error;
  return stopWith({
    waiting: "effect",
    callId,
    tool,
    why: error.message,
    ...(isHoldfastError(error) && { code: error.code, hint: error.hint }),
  });
}

function stopWith(stop: Stop): GraphInterrupt {
  return new GraphInterrupt([{ id: sha256(JSON.stringify(stop)).slice(0, 32), value: stop }]);
}

/** Whether this is what a graph was stopped with here, and not by a question of its node. */
export function isStop(interrupt: unknown): boolean {
  return (interrupt as { value?: Partial<Stop> } | undefined)?.value?.waiting === "effect";
}

/** The ledger's own hint is for those who choose ids. */
export function explained(error: unknown, callId: string, tool: string): unknown {
  if (!isHoldfastError(error, "INPUT_INVALID") || error.data?.["callId"] !== callId) return error;
  return new HoldfastError("INPUT_INVALID", `effect ${tool}: ${error.message}`, {
    hint: "A node that runs again must ask for the same in the same order. Take chance and time from an effect, and name effects that come in no fixed order with an `id`.",
    cause: error,
    data: { callId, tool },
  });
}

export function alike(name: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `there are two effects ${name}, and nothing tells them apart`, {
    hint: "Pass `args` that say what each is about, or an `id` if their order may change: a node that runs again could take the result of one for the other's. The second was not started.",
    data: { effect: name },
  });
}

export function hasLeftCall(thread: string, open: { id: string; tool: string }): HoldfastError {
  return new HoldfastError(
    "SESSION_HAS_OPEN_CALLS",
    `thread ${thread}: call ${open.id} of ${open.tool} has no outcome, and the thread went on without it`,
    {
      hint: "The same may be about to happen again. Answer it first (holdfast.calls.resolve, or `holdfast resolve`), then invoke again with null. No effect was started.",
      data: { thread, callId: open.id, tool: open.tool },
    },
  );
}

export function repeats(thread: string, checkpoint: string, earlier: string): HoldfastError {
  return new HoldfastError(
    "STATE_STALE",
    `thread ${thread}: this run repeats what nodes after checkpoint ${earlier} may have done already`,
    {
      hint: 'It branched from an older checkpoint, or from one that was updated. If its effects shall happen again, pass { configurable: { holdfast_effects: "live" } } to this and every further invoke until the next input. No effect was started.',
      data: { thread, checkpoint, earlier },
    },
  );
}

export function beginsAnew(thread: string, ns: string): HoldfastError {
  return new HoldfastError(
    "STATE_STALE",
    `thread ${thread}: a retry policy lets the node around a subgraph try again, and LangGraph begins the subgraph anew`,
    {
      hint: 'What it did in the attempt before would be done again. Give the retry policy to the nodes of the subgraph, and invoke with null to go on where it failed. If its effects shall happen again, pass { configurable: { holdfast_effects: "live" } }. No effect was started.',
      data: { thread, ns },
    },
  );
}
