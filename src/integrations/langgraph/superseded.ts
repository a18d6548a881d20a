/**
 * Whether a thread has been here before.
 *
 *     input ──▶ A ──▶ B ──▶ C          invoked again from A: B and C come a second time, as B′ and C′
 *               └───▶ B′ ─▶ C′
 *
 * A node that runs on B′ does what one on B may have done already, and its effects are other effects: they stand on another
 * checkpoint. The same holds for a checkpoint that was updated while a node that had effects on it was interrupted, by
 * `updateState` or by a `Command` with an update or a goto and no resume: the node runs again, on another checkpoint.
 * A new input is a new order: LangGraph discards what was waiting, and what follows is not a repetition.
 */

import { type CheckpointMetadata, INTERRUPT } from "@langchain/langgraph-checkpoint";
import type { Parts } from "./part.ts";
import { findCheckpoint, type SavedCheckpoint, type ThreadState } from "./thread-state.ts";

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
    const isCommand = source === "input" && isCommands(state, saved);
    if (source === "input" && !isCommand) return null;
    const elder = first.get(saved.parent);
    if (elder !== undefined && elder !== at) return elder;
    if (saved.parent === null) return null;
    const isUpdate = isCommand || source === "update" || source === "fork";
    if (isUpdate && hasEffects(saved.parent)) return saved.parent;
    at = saved.parent;
  }
}

/**
 * LangGraph also calls it an input when it saves the update or goto of a `Command`. But then it notes every version as seen
 * by the interrupts, also those that the Command has just made; of an input it never does, and that has a new version.
 */
function isCommands(state: ThreadState, { parent, versions, seen }: SavedCheckpoint): boolean {
  const before = parent === null ? undefined : findCheckpoint(state, "", parent)?.versions;
  const noted = seen.get(INTERRUPT) ?? {};
  return [...versions].every(
    ([channel, version]) => before?.get(channel) === version || noted[channel] === version,
  );
}

function firstChildren(state: ThreadState): Map<string | null, string> {
  const first = new Map<string | null, string>();
  for (const id of state.spaces.get("")?.order ?? []) {
    const parent = findCheckpoint(state, "", id)?.parent ?? null;
    if (!first.has(parent)) first.set(parent, id);
  }
  return first;
}
