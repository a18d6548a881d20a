/** Messages of the SDK and of a session, both ways. A message that went one way comes back as it was. */

import { canonicalText, type Json } from "../../model/json.ts";
import type {
  Block,
  JsonObject,
  Message,
  ToolCallBlock,
  ToolResultBlock,
} from "../../model/session/index.ts";
import type { MessageInput } from "../../session/index.ts";
import { type Artifacts, sdkExtra, sdkMeta } from "./file-data.ts";
import type { ModelMessage } from "./language-model.ts";
import { blockOf, type Part, partOf, plain } from "./parts.ts";

/** As `session.append` takes them. Files and images become artifacts, so their bytes are stored once. */
export function fromModelMessages(
  messages: readonly ModelMessage[],
  artifacts: Artifacts,
): Promise<MessageInput[]> {
  return Promise.all(messages.map((message) => fromModelMessage(message, artifacts)));
}

export async function fromModelMessage(message: ModelMessage, artifacts: Artifacts): Promise<MessageInput> {
  const { role, content, ...rest } = message;
  const extra = plain(rest);
  if (typeof content === "string") {
    return { role, blocks: [{ kind: "text", text: content }], ...sdkMeta({ ...extra, content: "text" }) };
  }
  const blocks = await Promise.all(content.map((part) => blockOf(part as unknown as Part, artifacts)));
  return { role, blocks, ...sdkMeta({ ...extra, content: "parts" }) };
}

/** What was said, whatever form and provider's options it was said with. */
export function wordsOf(blocks: readonly Block[] = []): string {
  const words = blocks.map((block) => {
    if (block.kind === "file") return block.artifact;
    const { providerOptions: _options, ...part } = (sdkExtra(block.meta)["part"] ?? {}) as JsonObject;
    return block.kind === "text" ? [block.text, part] : block.kind;
  });
  return canonicalText(words);
}

/** What a tool returned, where more is known of it than the text in the transcript. */
export type KnownResult = (block: ToolResultBlock) => Promise<{ readonly value: Json } | null>;

const NOTHING_KNOWN: KnownResult = () => Promise.resolve(null);

/** A session's messages as the SDK takes them: to show a conversation, or to hand it to a program that keeps the SDK's. */
export async function toModelMessages(
  messages: readonly Message[],
  artifacts: Artifacts,
  known: KnownResult = NOTHING_KNOWN,
): Promise<ModelMessage[]> {
  const calls: Calls = { asked: new Map(), failed: new Set() };
  for (const { blocks } of messages) {
    for (const block of blocks) {
      if (block.kind === "tool_call") calls.asked.set(block.id, block);
      if (block.kind === "tool_result" && block.isError) calls.failed.add(block.callId);
    }
  }
  const converted = await Promise.all(
    messages.map((message) => toModelMessage(message, artifacts, calls, known)),
  );
  return converted.filter((message) => message !== null);
}

/** The calls of a conversation: who asked for what, and which came to nothing. */
interface Calls {
  readonly asked: Map<string, ToolCallBlock>;
  readonly failed: Set<string>;
}

async function toModelMessage(
  { role, blocks, meta }: Message,
  artifacts: Artifacts,
  calls: Calls,
  known: KnownResult,
): Promise<ModelMessage | null> {
  const { content, ...rest } = sdkExtra(meta) as { readonly content?: Json };
  const [first] = blocks;
  const isText = blocks.length === 1 && first?.kind === "text" && first.meta === undefined;
  if (content === "text" || role === "system" || (content === undefined && isText && role !== "assistant")) {
    const text = blocks.map((block) => (block.kind === "text" ? block.text : "")).join("");
    return { role, content: text, ...rest } as ModelMessage;
  }
  const parts: Part[] = [];
  for (const block of blocks) {
    const part = block.kind === "tool_result" ? await knownPart(block, known) : null;
    const found = part ?? (await partOf(block, artifacts));
    const spoken = content === undefined ? responsePart(completed(found, block, calls)) : found;
    if (spoken) parts.push(spoken);
  }
  // An answer of nothing but sources, say. No provider takes an empty message.
  if (content === undefined && parts.length === 0) return null;
  return { role, content: parts, ...rest } as unknown as ModelMessage;
}

/** Results that the ledger has are read from there: as the value that the tool returned, not as text. */
async function knownPart(block: ToolResultBlock, known: KnownResult): Promise<Part | null> {
  if (block.isError || block.meta?.["ai"] !== undefined || block.meta?.["repeats"] !== undefined) return null;
  const found = await known(block);
  if (!found) return null;
  const { value } = found;
  return {
    type: "tool-result",
    toolCallId: block.callId,
    output: { type: typeof value === "string" ? "text" : "json", value },
  };
}

/** A call or a result as the SDK itself would tell it: a result has its tool's name, and the options of its call. */
function completed(part: Part, block: Block, { asked, failed }: Calls): Part {
  if (block.kind === "tool_call") return { ...part, input: inputOf(block, failed) };
  if (block.kind !== "tool_result") return part;
  const call = asked.get(block.callId);
  const { type, toolCallId, toolName = call?.name ?? "unknown", ...rest } = part;
  const { providerOptions } = sdkExtra(call?.meta);
  return {
    type,
    toolCallId,
    toolName,
    ...rest,
    ...(providerOptions !== undefined && rest["providerOptions"] === undefined && { providerOptions }),
  };
}

/**
 * Providers want an object and refuse the whole conversation over anything else, so arguments that were none, and not run
 * for it, are left out. Some tools do take plain text: what came to a result stays as it was.
 */
function inputOf({ id, args, meta }: ToolCallBlock, failed: ReadonlySet<string>): Json {
  if (typeof args === "object" && args !== null && !Array.isArray(args)) return args;
  const isJson = typeof args !== "string" || sdkExtra(meta)["input"] !== args;
  return isJson && !failed.has(id) ? args : {};
}

/** Content of a recorded answer, as the SDK itself would put it into the next prompt. */
function responsePart(part: Part): Part | null {
  if (part.type === "source" || (part.type === "text" && part["text"] === "" && !part["providerOptions"]))
    return null;
  if (!("providerMetadata" in part) && !("result" in part) && part.type !== "tool-call") return part;
  const { providerMetadata, result, dynamic: _dynamic, isError, preliminary, ...rest } = part;
  if (preliminary === true) return null;
  const providerOptions = providerMetadata === undefined ? {} : { providerOptions: providerMetadata };
  if (part.type === "tool-result" && result !== undefined) {
    const output = { type: isError ? "error-json" : "json", value: result };
    const { toolCallId, toolName } = rest;
    return { type: "tool-result", toolCallId, toolName, output, ...providerOptions };
  }
  if (part.type === "tool-call" && typeof rest["input"] === "string" && rest["providerExecuted"] === true)
    return { ...rest, input: parsed(rest["input"]), ...providerOptions };
  return { ...rest, ...providerOptions };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text === "" ? "{}" : text);
  } catch {
    // Providers may send what is no JSON, and take only an object back.
    return {};
  }
}
