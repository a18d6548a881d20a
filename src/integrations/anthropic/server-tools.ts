/**
 * What tools of the API's own (search, code execution) leave open in a conversation. Their use and its result stand in the
 * assistant's turn, which may go on over several messages: with stop reason `tool_use` a server's tool waits for the results of
 * our calls, and ends in a later answer. What waits has to be sent back, with the container it runs in. A use that nothing can
 * end any more (the answer was cut off or refused, or somebody spoke in between) is left out: the API refuses a conversation
 * with it. The transcript keeps it all.
 */

import type Anthropic from "@anthropic-ai/sdk";
import type { Block, JsonObject, Message } from "../../model/session/index.ts";
import { anthropicExtra } from "./content.ts";

/** The container of the last answer that had one, unless it has expired: the API refuses one that is gone. */
export function liveContainer(messages: readonly Message[], nowMs: number): string | undefined {
  const kept = messages.findLast(({ meta }) => anthropicExtra(meta)["container"] !== undefined);
  const container = anthropicExtra(kept?.meta)["container"] as Partial<Anthropic.Container> | undefined;
  return Date.parse(container?.expires_at ?? "") <= nowMs ? undefined : container?.id;
}

export function withoutDeadUses(messages: readonly Message[], container: string | undefined): Message[] {
  const open = messages.findLastIndex((message) => !goesOn(message)) + 1;
  const blocks = messages.flatMap((message) => message.blocks);
  const answered = new Set<unknown>(blocks.map((block) => wholeOf(block)["tool_use_id"]));
  const callers = new Set<unknown>(blocks.map(callerOf));
  const dead = new Set<unknown>();
  messages.forEach((message, index) => {
    // An answer with nothing after it is being continued.
    const isOpen = index >= open || index === messages.length - 1;
    for (const id of message.blocks.map(usedIn)) {
      if (id === undefined || answered.has(id)) continue;
      // Code that called something waits in its container, and nowhere else.
      if (!isOpen || (callers.has(id) && container === undefined)) dead.add(id);
    }
  });
  if (dead.size === 0) return [...messages];
  return messages.map((message) => {
    const left = message.blocks.filter((block) => !dead.has(usedIn(block)));
    const blocks = left.map((block) => (dead.has(callerOf(block)) ? withoutCaller(block) : block));
    return { ...message, blocks };
  });
}

/** After this message the assistant's turn is not over. */
function goesOn({ role, blocks, meta }: Message): boolean {
  if (role !== "assistant") return role !== "user";
  const { stop_reason = "tool_use" } = anthropicExtra(meta);
  return stop_reason === "tool_use" && blocks.some(({ kind }) => kind === "tool_call");
}

/** The block as the API gave it, where ours has no kind for it. */
function wholeOf(block: Block): JsonObject {
  return (anthropicExtra(block.meta)["block"] as JsonObject | undefined) ?? {};
}

function usedIn(block: Block): unknown {
  const { type, id } = wholeOf(block);
  return type === "server_tool_use" || type === "mcp_tool_use" ? id : undefined;
}

/** The use of code execution whose code made this call. */
function callerOf(block: Block): unknown {
  const caller = wholeOf(block)["caller"] ?? anthropicExtra(block.meta)["caller"];
  return (caller as JsonObject | undefined)?.["tool_id"];
}

function withoutCaller(block: Block): Block {
  const { caller: _, block: whole, ...anthropic } = anthropicExtra(block.meta);
  if (whole === undefined) return { ...block, meta: { ...block.meta, anthropic } };
  const { caller: __, ...rest } = whole as JsonObject;
  return { ...block, meta: { ...block.meta, anthropic: { ...anthropic, block: rest } } };
}
