/** Detects a model that asks for the same calls again and again. */

import { sameJson } from "../model/json.ts";
import type { Message, ToolCallBlock } from "../model/session/index.ts";
import { toolCalls } from "../model/session/index.ts";

export interface RepeatedCalls {
  readonly tool: string;
  readonly count: number;
}

/** A loop has at most so many turns: `search`, `read`, `search`, `read` … repeats two. */
const LOOP_TURNS = 3;

/**
 * Counts how often the last turns repeat the same calls, alone or in a cycle of up to three turns. It reads
 * the durable transcript, so a restart does not reset the count. `next` is about to be appended.
 */
export function repeatedCalls(messages: readonly Message[], next?: Message): RepeatedCalls {
  const turns: (readonly ToolCallBlock[])[] = [];
  let lengths = Array.from({ length: LOOP_TURNS }, (_, index) => index + 1);
  let best: RepeatedCalls = { tool: "", count: 0 };
  const last = next ? messages.length : messages.length - 1;
  for (let index = last; index >= 0 && lengths.length > 0; index--) {
    const message = (messages[index] ?? next) as Message;
    if (message.role === "tool" || message.meta?.["holdfast"] === "loop") continue;
    const calls = message.role === "assistant" ? toolCalls(message) : [];
    if (calls.length === 0) break;
    turns.push(calls);
    const at = turns.length - 1;
    lengths = lengths.filter((length) => at < length || sameCalls(calls, turns[at - length] ?? []));
    for (const length of lengths) {
      const count = Math.floor(turns.length / length);
      if (count > best.count) best = { tool: namesOf(turns.slice(0, length)), count };
    }
  }
  return best;
}

function sameCalls(these: readonly ToolCallBlock[], those: readonly ToolCallBlock[]): boolean {
  if (these.length !== those.length) return false;
  return these.every(({ name, args }, index) => {
    const other = those[index];
    return name === other?.name && sameJson(args, other.args);
  });
}

function namesOf(turns: readonly (readonly ToolCallBlock[])[]): string {
  const names = turns.map((calls) => calls.map(({ name }) => name).join(" + "));
  return names.reverse().join(", ");
}
