/** The SDK's items as messages of a session and back. The text is for people; the items are kept in meta. */

import type { AgentInputItem } from "@openai/agents";
import { canonicalText, copyJson, type Json } from "../../model/json.ts";
import type { JsonObject, Message } from "../../model/session/index.ts";
import type { MessageInput } from "../../session/index.ts";

export function textItem(text: string): AgentInputItem {
  return { type: "message", role: "user", content: text };
}

export function messageOf(items: readonly AgentInputItem[]): MessageInput {
  const [only] = items;
  const copies = items.map((item) => copyJson(item, "input item"));
  const isText = items.length === 1 && only && "content" in only && typeof only.content === "string";
  const text = items
    .map((item) => contentOf("content" in item ? item.content : ""))
    .filter((each) => each !== "")
    .join("\n");
  return { role: "user", text, ...(!isText && { meta: { items: copies as Json } }) };
}

export function itemsOf({ blocks, meta }: Pick<Message, "blocks" | "meta">): AgentInputItem[] {
  const items = meta?.["items"];
  if (Array.isArray(items)) return structuredClone(items) as unknown as AgentInputItem[];
  const [block] = blocks;
  return [textItem(block?.kind === "text" ? block.text : "")];
}

/** A text to compare inputs by, with images and files, without form, ids and provider data. */
export function comparableText(items: readonly AgentInputItem[]): string {
  return canonicalText(
    items.map((item) => {
      const { id: _id, providerData: _data, ...rest } = copyJson(item, "input item") as JsonObject;
      const { content } = rest;
      if (content === undefined) return rest;
      const parts = typeof content === "string" ? [{ type: "input_text", text: content }] : content;
      return {
        type: "message",
        ...rest,
        content: Array.isArray(parts) ? parts.map(withoutProviderData) : parts,
      };
    }),
  );
}

function withoutProviderData(part: Json): Json {
  if (typeof part !== "object" || part === null || Array.isArray(part)) return part;
  const { providerData: _data, ...rest } = part as JsonObject;
  return rest;
}

export function contentOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (Array.isArray(content)) return content.map(contentOf).join("");
  if (content === null || typeof content !== "object") return "";
  const { text, type } = content as { text?: unknown; type?: unknown };
  if (typeof text === "string") return text;
  return typeof type === "string" ? `[${type}]` : "";
}
