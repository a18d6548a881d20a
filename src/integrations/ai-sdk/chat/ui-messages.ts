/**
 * A session as messages of the SDK's `useChat`, and such a message as the chunks of its stream.
 *
 * An assistant message of a page holds a whole answer: every step, with its calls and their results. So the
 * messages between two prompts become one. Its id is that of the first, which does not change when the answer
 * grows.
 *
 *     call without an outcome       `input-available`
 *     waits for approval            `approval-requested`; the approval's id is the call's
 *     outcome unknown, for a person `input-available`, and a part `data-waiting` with the reason
 *     completed, failed             `output-available`, `output-error`
 *
 * The outcome of a call that was set aside is a prompt for the model only. The answer to it is a message.
 */

import type { UIMessage } from "ai";
import type { Json } from "../../../model/json.ts";
import {
  type Block,
  type Call,
  isNotStarted,
  isProvisional,
  type JsonObject,
  type Message,
  type ToolCallBlock,
  type ToolResultBlock,
} from "../../../model/session/index.ts";
import { Session, type SessionDetail, sessionCore } from "../../../session/index.ts";
import { type Artifacts, noArtifacts } from "../../artifacts.ts";
import type { Chunk } from "../../chat-chunks.ts";
import { isOutcome, storedValue } from "../../recorded-turns/index.ts";
import { loadData, sdkExtra } from "../messages.ts";

/** A part of a message. Both releases of the SDK have these members. */
type UIPart = { readonly type: string; readonly [member: string]: unknown };

const NO_ARTIFACTS = noArtifacts("toUIMessages(session, holdfast)");

/**
 * Converts a session to the messages of `useChat`, with calls that wait for a person as parts. Takes an open
 * session, or one that was only read.
 * @example
 * const messages = await toUIMessages(await holdfast.sessions.get("chat-17"), holdfast);
 */
export async function toUIMessages(
  session: Session | SessionDetail,
  artifacts?: Artifacts,
): Promise<UIMessage[]> {
  const core = session instanceof Session ? sessionCore(session) : null;
  const calls = core
    ? core.state.calls
    : new Map((session as SessionDetail).calls.map((call) => [call.callId, call]));
  const found = new UIMessages(calls, artifacts ?? core?.journal ?? NO_ARTIFACTS);
  return found.of(session.messages, session.prompts);
}

class UIMessages {
  private readonly calls: ReadonlyMap<string, Call>;
  private readonly artifacts: Artifacts;
  private results = new Map<string, ToolResultBlock>();

  constructor(calls: ReadonlyMap<string, Call>, artifacts: Artifacts) {
    this.calls = calls;
    this.artifacts = artifacts;
  }

  async of(
    messages: readonly Message[],
    prompts: readonly Pick<Message, "id" | "blocks">[],
  ): Promise<UIMessage[]> {
    for (const block of messages.flatMap(({ blocks }) => blocks))
      if (block.kind === "tool_result") this.results.set(block.callId, block);
    const found: { id: string; role: "user" | "assistant"; parts: UIPart[] }[] = [];
    let isAnswered = false;
    for (const { id, role, blocks, meta } of messages) {
      // The loop writes such notes for the model.
      if (role === "system" || role === "tool" || meta?.["holdfast"] !== undefined) continue;
      if (isOutcome(id)) {
        isAnswered = true;
        continue;
      }
      const last = found.at(-1);
      const parts = await this.partsOf(blocks);
      if (role === "user") found.push({ id, role, parts });
      else if (last?.role === "assistant" && !isAnswered) last.parts.push({ type: "step-start" }, ...parts);
      else found.push({ id, role, parts: [{ type: "step-start" }, ...parts] });
      isAnswered = false;
    }
    for (const { id, blocks } of prompts)
      if (!isOutcome(id)) found.push({ id, role: "user", parts: await this.partsOf(blocks) });
    return found as unknown as UIMessage[];
  }

  private async partsOf(blocks: readonly Block[]): Promise<UIPart[]> {
    return (await Promise.all(blocks.map((block) => this.parts(block)))).flat();
  }

  private async parts(block: Block): Promise<UIPart[]> {
    const { providerOptions, part, spelling } = sdkExtra(block.meta) as { readonly [name: string]: Json };
    const extra = providerOptions === undefined ? {} : { providerMetadata: providerOptions };
    switch (block.kind) {
      case "text":
        if (part !== undefined) return specialPart(part as JsonObject);
        return [{ type: "text", text: block.text, state: "done", ...extra }];
      case "reasoning":
        return [{ type: "reasoning", text: block.text, state: "done", ...extra }];
      case "file": {
        const { mediaType, name } = block;
        const data = await loadData(block, "base64", this.artifacts);
        const isUrl = typeof spelling === "string" && spelling.startsWith("data:");
        const type = isUrl ? (spelling as string).slice("data:".length) : mediaType;
        const url = `data:${type};base64,${data as string}`;
        return [{ type: "file", mediaType, url, ...(name !== undefined && { filename: name }), ...extra }];
      }
      case "tool_call":
        return this.callParts(block, extra);
      case "tool_result":
        return [];
    }
  }

  private async callParts(block: ToolCallBlock, extra: object): Promise<UIPart[]> {
    const isDynamic = sdkExtra(block.meta)["dynamic"] === true;
    const type = isDynamic ? { type: "dynamic-tool", toolName: block.name } : { type: `tool-${block.name}` };
    const call = this.calls.get(block.id);
    const known = { ...type, toolCallId: block.id, input: call?.args ?? block.args };
    const metadata = "providerMetadata" in extra ? { callProviderMetadata: extra.providerMetadata } : {};
    const part = { ...known, ...metadata, ...(await this.outcome(block.id, call)) };
    const note = call ? waitingPart(call) : null;
    return note ? [part, note] : [part];
  }

  private async outcome(callId: string, call: Call | undefined): Promise<object> {
    const written = this.results.get(callId);
    const block = written && isProvisional(written) ? undefined : written;
    if (call?.status === "failed")
      return { state: "output-error", errorText: call.error?.message ?? "failed" };
    if (block?.isError) return { state: "output-error", errorText: contentText(block) };
    if (block || call?.result) {
      const bare = { kind: "tool_result", callId, content: "" } as const;
      return { state: "output-available", output: await storedValue(call, block ?? bare, this.artifacts) };
    }
    if (call && isNotStarted(call)) return { state: "approval-requested", approval: { id: callId } };
    return { state: "input-available" };
  }
}

/** The part for a call that waits for a person who knows what became of it. */
function waitingPart(call: Call): UIPart | null {
  return call.status === "waiting" && !isNotStarted(call) ? waitingData(call) : null;
}

function waitingData({ callId, tool, why }: Call): UIPart & { readonly id: string } {
  return { type: "data-waiting", id: callId, data: { callId, tool, why } };
}

/** The chunk by which a page learns that a call waits for a person. */
export function waitingChunk(call: Call): Chunk {
  const { callId } = call;
  if (!isNotStarted(call)) return waitingData(call);
  return { type: "tool-approval-request", approvalId: callId, toolCallId: callId };
}

/** The chunks for a call that was set aside and has been answered since. None while it has no outcome. */
export function outcomeChunks({ callId: toolCallId, error, result }: Call): Chunk[] {
  if (error) return [{ type: "tool-output-error", toolCallId, errorText: error.message }];
  if (!result) return [];
  const output = "value" in result ? result.value : null;
  return [{ type: "tool-output-available", toolCallId, output }];
}

/** Sources, and calls that the provider ran. */
function specialPart(part: JsonObject): UIPart[] {
  const { type, sourceType, id, url, title, mediaType, filename, providerMetadata } = part;
  const extra = providerMetadata === undefined ? {} : { providerMetadata };
  if (type !== "source") return [];
  const named = { sourceId: id, ...(title !== undefined && { title }), ...extra };
  if (sourceType === "url") return [{ type: "source-url", url, ...named }];
  return [{ type: "source-document", mediaType, ...(filename !== undefined && { filename }), ...named }];
}

function contentText({ content }: ToolResultBlock): string {
  if (typeof content === "string") return content;
  return content.map((block) => (block.kind === "text" ? block.text : "")).join("");
}

/** The chunks that make up a message, from `start` to `finish`. */
export function chunksOf({
  id,
  parts,
}: {
  readonly id: string;
  readonly parts: readonly unknown[];
}): Chunk[] {
  const chunks: Chunk[] = [{ type: "start", messageId: id }];
  let hasStep = false;
  (parts as readonly UIPart[]).forEach((part, index) => {
    if (part.type === "step-start") {
      if (hasStep) chunks.push({ type: "finish-step" });
      hasStep = true;
      chunks.push({ type: "start-step" });
    } else chunks.push(...partChunks(part, `part-${index}`));
  });
  if (hasStep) chunks.push({ type: "finish-step" });
  return [...chunks, { type: "finish" }];
}

function partChunks(part: UIPart, id: string): Chunk[] {
  const { type, toolCallId } = part;
  if (type === "text" || type === "reasoning") {
    const { providerMetadata } = part;
    const extra = providerMetadata === undefined ? {} : { providerMetadata };
    return [
      { type: `${type}-start`, id, ...extra },
      { type: `${type}-delta`, id, delta: part["text"] },
      { type: `${type}-end`, id, ...extra },
    ];
  }
  if (toolCallId === undefined) {
    const { state: _state, ...chunk } = part;
    return [chunk];
  }
  const isDynamic = type === "dynamic-tool";
  const toolName = isDynamic ? part["toolName"] : type.slice("tool-".length);
  const call = { toolCallId, toolName, input: part["input"], ...(isDynamic && { dynamic: true }) };
  const chunks: Chunk[] = [{ type: "tool-input-available", ...call }];
  const { state, output, errorText } = part;
  if (state === "output-available") chunks.push({ type: "tool-output-available", toolCallId, output });
  if (state === "output-error") chunks.push({ type: "tool-output-error", toolCallId, errorText });
  if (state === "approval-requested")
    chunks.push({ type: "tool-approval-request", approvalId: toolCallId, toolCallId });
  return chunks;
}
