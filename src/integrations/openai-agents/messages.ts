/** The SDK's items as messages of a session, for people to read; the items themselves are kept beside the text. */

import type { AgentInputItem } from "@openai/agents";
import { canonicalText, copyJson, type Json } from "../../model/json.ts";
import type { JsonObject, Message } from "../../model/session/index.ts";
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

/** The items of a stored message of the user, or of one that was queued. */
export function itemsOf({ blocks, meta }: Pick<Message, "blocks" | "meta">): AgentInputItem[] {
  const kept = meta?.["items"];
  if (Array.isArray(kept)) return structuredClone(kept) as unknown as AgentInputItem[];
  const [block] = blocks;
  return [textItem(block?.kind === "text" ? block.text : "")];
}

/** What was said, images and files included, whatever form, id and provider's data it was said with. */
export function wordsOf(items: readonly AgentInputItem[]): string {
  return canonicalText(
    items.map((item) => {
      const { id: _id, providerData: _data, ...said } = copyJson(item, "input item") as JsonObject;
      const { content } = said;
      if (content === undefined) return said;
      const parts = typeof content === "string" ? [{ type: "input_text", text: content }] : content;
      return { type: "message", ...said, content: Array.isArray(parts) ? parts.map(withoutData) : parts };
    }),
  );
}

function withoutData(part: Json): Json {
  if (typeof part !== "object" || part === null || Array.isArray(part)) return part;
  const { providerData: _data, ...said } = part as JsonObject;
  return said;
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
