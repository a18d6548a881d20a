/**
 * Whether a thread has been here before.
 *
 *     input ──▶ A ──▶ B ──▶ C          invoked again from A: B and C come a second time, as B′ and C′
 *               └───▶ B′ ─▶ C′
 *
 * A node that runs on B′ does what one on B may have done already, and its effects are other effects: they stand on another
 * checkpoint. The same holds for a checkpoint that was updated by hand while a node that had effects on it was interrupted.
 * A new input is a new order: what follows it is not a repetition.
 */

import type { CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import type { Parts } from "./part.ts";
import { findCheckpoint, type ThreadState } from "./thread-state.ts";

/** The checkpoint whose nodes this one lets run again, or null. `hasEffects`: whether nodes had effects on a checkpoint. */
export async function repeatedBy(
  parts: Parts,
  state: ThreadState,
  id: string,
  hasEffects: (id: string) => boolean,
): Promise<string | null> {
  const first = firstChildren(state);
  for (let at = id; ; ) {
    const saved = findCheckpoint(state, "", at);
    if (!saved) return null;
    const { source } = (await parts.load(saved.metadata)) as CheckpointMetadata;
    if (source === "input") return null;
    const elder = first.get(saved.parent);
    if (elder !== undefined && elder !== at) return elder;
    if (saved.parent === null) return null;
    if ((source === "update" || source === "fork") && hasEffects(saved.parent)) return saved.parent;
    at = saved.parent;
  }
}

function firstChildren(state: ThreadState): Map<string | null, string> {
  const first = new Map<string | null, string>();
  for (const id of state.spaces.get("")?.order ?? []) {
    const parent = findCheckpoint(state, "", id)?.parent ?? null;
    if (!first.has(parent)) first.set(parent, id);
  }
  return first;
}
