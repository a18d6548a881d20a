/**
 * The identity of an effect of a node, from the outside in:
 *
 *     thread         its session: threads share nothing
 *     node run       LangGraph's namespace of the task: node name and task id, with those of outer graphs. A
 *                    task id follows from the checkpoint, so it survives a crash and a resume
 *     caller         the durable node itself, or a durable tool by its name and its tool call's id
 *     entry          how often that caller was entered in this attempt at the task: a node may call a tool
 *                    many times, and models give two calls the same id, or none
 *     name, index    the effect's name, and how many effects of that name this entry has had
 *
 * An `id` replaces all but the thread: that effect happens once in the life of the thread.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import { sha256 } from "../../model/digest.ts";
import { HoldfastError } from "../../model/errors.ts";
import { refusal } from "../refusal.ts";
import type { CheckpointPlace } from "./loading.ts";

/** A durable node (`tool` is null), or a durable tool, called for a tool call of a message or by a node. */
export interface Caller {
  readonly tool: string | null;
  readonly toolCall: string | null;
}

/** LangGraph's object for a task: the same for every attempt at it, and wherever its config is passed on. */
interface Scratchpad {
  /** The value of a resume without an interrupt id, for the first interrupt that asks. */
  nullResume?: unknown;
}

export interface NodeRun {
  readonly thread: string;
  /** Names this run of the node, also after a resume: the nodes on the way to it, each with its task id. */
  readonly ns: string;
  readonly task: string;
  /** The checkpoint of the outermost graph. */
  readonly root: string;
  /** The checkpoints that the node runs on: its graph's, and those of the graphs around it. */
  readonly places: readonly CheckpointPlace[];
  readonly scratchpad: Scratchpad;
  readonly attempt: TaskAttempt;
}

/**
 * Each attempt of a retry policy starts the node again, so each counts from zero. A failed one may still run
 * beside the next: its late calls count as its own.
 */
class TaskAttempt {
  private readonly number: number | null;
  private readonly entries = new Map<string, number>();
  /** The reason why no further effect may start in this attempt. */
  stopped: { readonly error: unknown; readonly callId: string | null } | null = null;

  constructor(number: number | null) {
    this.number = number;
  }

  enter(caller: Caller): number {
    const key = JSON.stringify([caller.tool, caller.toolCall]);
    const count = (this.entries.get(key) ?? 0) + 1;
    this.entries.set(key, count);
    // Without an attempt number, the second entry looks like the first entry of a second attempt.
    if (this.number === null && count > 1) throw attemptUnknown(caller);
    return count;
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
  const isInGraph = typeof thread === "string" && typeof ns === "string" && ns !== "";
  if (isInGraph && checkpoints && root && scratchpad) {
    const attempt = attemptOf(scratchpad, executionInfo?.nodeAttempt ?? null);
    const places = placesOf(thread, checkpoints);
    return { thread, ns, task: ns.slice(ns.lastIndexOf(":") + 1), root, places, scratchpad, attempt };
  }
  throw new HoldfastError("INPUT_INVALID", "a durable node or tool was called outside the run of a graph", {
    hint:
      "Call it from a graph that was compiled with the saver, invoke the graph with a thread_id, and pass " +
      "the node's config on to tools.",
  });
}

/** A task of the functional API has its own namespace, but runs on the checkpoint of its entrypoint. */
function placesOf(thread: string, checkpoints: Readonly<Record<string, string>>): CheckpointPlace[] {
  const places = new Map<string, CheckpointPlace>();
  for (const ns of Object.keys(checkpoints).sort((one, other) => one.length - other.length)) {
    const id = checkpoints[ns] as string;
    if (!places.has(id)) places.set(id, { thread, ns, id });
  }
  return [...places.values()];
}

export function callIdPrefix(checkpoint: string): string {
  return `lg_${sha256(checkpoint).slice(0, 12)}_`;
}

export function callIdOf({ root, ns }: NodeRun, within: readonly (string | number | null)[]): string {
  return `${callIdPrefix(root)}${sha256(JSON.stringify([ns, ...within])).slice(0, 32)}`;
}

/** The call id of an effect with an `id`: the same everywhere in the thread. */
export function threadCallId(id: string): string {
  // Hash the JSON text of an id with lone surrogates: UTF-8 would encode all of them alike.
  return `lg_id_${sha256(id.isWellFormed() ? id : JSON.stringify(id)).slice(0, 32)}`;
}

export function isThreadCall(callId: string): boolean {
  return callId.startsWith("lg_id_");
}

function attemptUnknown({ tool }: Caller): HoldfastError {
  const what = tool === null ? "durable node" : `durable tool ${tool}`;
  return refusal(
    "INPUT_INVALID",
    `${what}: called a second time with a config that lacks the attempt number of its node`,
    "Pass the node's config on unchanged: tool.invoke(args, config). No effect was started.",
  );
}
