/** The SDK's items as messages of a session, for people to read; the items themselves are kept beside the text. */

import type { AgentInputItem } from "@openai/agents";
import { copyJson, type Json, type Message } from "../../model/index.ts";
import type { MessageInput } from "../../session/index.ts";

export function textItem(text: string): AgentInputItem {
  return { type: "message", role: "user", content: text };
}

/** What the user said. */
export function messageOf(items: readonly AgentInputItem[]): MessageInput {
  const [only] = items;
  const kept = items.map((item) => copyJson(item, "input item"));
  const isPlain = items.length === 1 && only && "content" in only && typeof only.content === "string";
  const text = items
    .map((item) => contentOf("content" in item ? item.content : ""))
    .filter((each) => each !== "")
    .join("\n");
  return { role: "user", text, ...(!isPlain && { meta: { items: kept as Json } }) };
}

/** The items of a stored message of the user. */
export function itemsOf(message: Message): AgentInputItem[] {
  const kept = message.meta?.["items"];
  if (Array.isArray(kept)) return structuredClone(kept) as unknown as AgentInputItem[];
  const [block] = message.blocks;
  return [textItem(block?.kind === "text" ? block.text : "")];
}

/** The text in a content of whatever form. */
export function contentOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (Array.isArray(content)) return content.map(contentOf).join("");
  if (content === null || typeof content !== "object") return "";
  const { text, type } = content as { text?: unknown; type?: unknown };
  if (typeof text === "string") return text;
  return typeof type === "string" ? `[${type}]` : "";
}
