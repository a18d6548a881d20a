/** Conversations in Anthropic's format and in a session's, both ways. */

import type Anthropic from "@anthropic-ai/sdk";
import type { Message } from "../../model/session/index.ts";
import type { MessageInput } from "../../session/index.ts";
import { type Artifacts, anthropicExtra, anthropicMeta, blockOf, contentsOf } from "./content.ts";

type MessageParam = Anthropic.MessageParam;

/**
 * As `messages.create` takes them. Results of tools are part of a user message there, and system messages are not messages
 * at all: they are given beside them.
 */
export async function toAnthropicMessages(
  messages: readonly Message[],
  artifacts: Artifacts,
): Promise<{ system: Anthropic.TextBlockParam[]; messages: MessageParam[] }> {
  const system: Anthropic.TextBlockParam[] = [];
  const params: MessageParam[] = [];
  for (const message of messages) {
    const content = await contentsOf(message.blocks, artifacts);
    if (message.role === "system") {
      system.push(...(content as unknown as Anthropic.TextBlockParam[]));
      continue;
    }
    const { content: spelling, joined } = anthropicExtra(message.meta);
    const [first] = message.blocks;
    const before = params.at(-1);
    const role = message.role === "assistant" ? "assistant" : "user";
    if (spelling === "text" && first?.kind === "text") params.push({ role, content: first.text });
    else if (joined === true && Array.isArray(before?.content))
      (before.content as unknown[]).push(...content);
    else if (content.length > 0) params.push({ role, content });
  }
  return { system, messages: params };
}

/** As `session.append` takes them. Results become messages of their own; images and documents become artifacts. */
export async function fromAnthropicMessages(
  params: readonly MessageParam[],
  artifacts: Artifacts,
): Promise<MessageInput[]> {
  const inputs: MessageInput[] = [];
  for (const { role, content } of params) {
    if (typeof content === "string") {
      inputs.push({ role, blocks: [{ kind: "text", text: content }], ...anthropicMeta({ content: "text" }) });
      continue;
    }
    const blocks = await Promise.all(content.map((each) => blockOf(each as never, artifacts)));
    const results = role === "user" ? countResults(blocks) : 0;
    if (results > 0) inputs.push({ role: "tool", blocks: blocks.slice(0, results) });
    const rest = blocks.slice(results);
    if (rest.length > 0)
      inputs.push({ role, blocks: rest, ...anthropicMeta({ joined: results > 0 || undefined }) });
  }
  return inputs;
}

/** The API wants them first, so that is where they are. */
function countResults(blocks: readonly { kind: string }[]): number {
  const other = blocks.findIndex(({ kind }) => kind !== "tool_result");
  return other < 0 ? blocks.length : other;
}
