/** Where an effect stands: in which run of which node, and in which call of a node or a tool within that. */

import type { RunnableConfig } from "@langchain/core/runnables";
import { sha256 } from "../../model/digest.ts";
import { HoldfastError } from "../../model/errors.ts";
import type { CheckpointPlace } from "./loading.ts";

/** Who has effects: a durable node, or a durable tool for a tool call of a message or for a node that calls it itself. */
export interface Caller {
  readonly tool: string | null;
  readonly toolCall: string | null;
}

/** What LangGraph keeps for a task: the same object for every attempt at it, and wherever its config is handed on. */
export interface Scratchpad {
  /** What a resume without a name said, for the first interrupt that asks. */
  nullResume?: unknown;
}

export interface NodeRun {
  readonly thread: string;
  /** Names this run of the node, also after a resume: the nodes on the way to it, each with the id of its task. */
  readonly ns: string;
  readonly task: string;
  /** The checkpoint of the outermost graph that it stands on. */
  readonly root: string;
  /** The checkpoints it stands on: its graph's, and those of the graphs around it. */
  readonly places: readonly CheckpointPlace[];
  readonly scratchpad: Scratchpad;
  readonly attempt: TaskAttempt;
}

/**
 * One attempt at a task. A retry policy makes several, each from the start of the node, so each counts anew. One that has
 * failed may go on beside the next: what it calls late is still counted as its own.
 */
class TaskAttempt {
  private readonly number: number | null;
  private readonly entered = new Map<string, number>();
  /** Why no further effect may begin in this attempt. */
  stopped: { readonly error: unknown; readonly callId: string | null } | null = null;

  constructor(number: number | null) {
    this.number = number;
  }

  /** How often this caller has come, with this time. */
  enter(caller: Caller): number {
    const key = JSON.stringify([caller.tool, caller.toolCall]);
    const times = (this.entered.get(key) ?? 0) + 1;
    this.entered.set(key, times);
    // Without the number of the attempt the second call of a node is not to be told from the first of its second attempt.
    if (this.number === null && times > 1) throw configIsMissing(caller);
    return times;
  }
}

const attempts = new WeakMap<object, Map<number | null, TaskAttempt>>();

function attemptOf(scratchpad: Scratchpad, number: number | null): TaskAttempt {
  const known = attempts.get(scratchpad) ?? new Map<number | null, TaskAttempt>();
  attempts.set(scratchpad, known);
  const attempt = known.get(number) ?? new TaskAttempt(number);
  known.set(number, attempt);
  return attempt;
}

export function nodeRun(
  config: RunnableConfig & { executionInfo?: { nodeAttempt?: number } | null },
): NodeRun {
  const { configurable, executionInfo } = config;
  const thread: unknown = configurable?.["thread_id"];
  const ns: unknown = configurable?.["checkpoint_ns"];
  const checkpoints = configurable?.["checkpoint_map"] as Readonly<Record<string, string>> | undefined;
  const scratchpad: Scratchpad | undefined = configurable?.["__pregel_scratchpad"];
  const root = checkpoints?.[""];
  if (
    typeof thread === "string" &&
    typeof ns === "string" &&
    ns !== "" &&
    checkpoints &&
    root &&
    scratchpad
  ) {
    const attempt = attemptOf(scratchpad, executionInfo?.nodeAttempt ?? null);
    const places = placesOf(thread, checkpoints);
    return { thread, ns, task: ns.slice(ns.lastIndexOf(":") + 1), root, places, scratchpad, attempt };
  }
  throw new HoldfastError("INPUT_INVALID", "a durable node or tool was called outside the run of a graph", {
    hint: "Call it from a graph that was compiled with the saver, invoke that with a thread_id, and hand its config on to tools.",
  });
}

/** A task of the functional API stands on the checkpoint of its entrypoint, although it has a namespace of its own. */
function placesOf(thread: string, checkpoints: Readonly<Record<string, string>>): CheckpointPlace[] {
  const places = new Map<string, CheckpointPlace>();
  for (const ns of Object.keys(checkpoints).sort((one, other) => one.length - other.length)) {
    const id = checkpoints[ns] as string;
    if (!places.has(id)) places.set(id, { thread, ns, id });
  }
  return [...places.values()];
}

/** The beginning of the ids of all calls that nodes made on this checkpoint of the outermost graph. */
export function callsOn(checkpoint: string): string {
  return `lg_${sha256(checkpoint).slice(0, 12)}_`;
}

export function callIdOf({ root, ns }: NodeRun, within: readonly (string | number | null)[]): string {
  return `${callsOn(root)}${sha256(JSON.stringify([ns, ...within])).slice(0, 32)}`;
}

/** Of a call that is the same wherever in the thread it is made. */
export function threadCallId(id: string): string {
  // As JSON text, which keeps half surrogate pairs apart that UTF-8 would make alike.
  return `lg_id_${sha256(id.isWellFormed() ? id : JSON.stringify(id)).slice(0, 32)}`;
}

export function isThreadCall(callId: string): boolean {
  return callId.startsWith("lg_id_");
}

function configIsMissing({ tool }: Caller): HoldfastError {
  const what = tool === null ? "a durable node" : `the durable tool ${tool}`;
  return new HoldfastError(
    "INPUT_INVALID",
    `${what} was called a second time with a config that does not say which attempt at its node this is`,
    {
      hint: "Hand the config that the node got on as it is: tool.invoke(args, config). No effect was started.",
    },
  );
}
