/**
 * Messages as a provider's model expects them. The SDK does this for its own loop, and `fromAiSdk` for a
 * session's. Providers expect lists of parts, and files instead of images. The spec decides the rest:
 *
 *     file          v3: bytes, base64 or URL      v4: { type: "data", data } or { type: "url", url }, …
 *     tool's file   v3: file-data, file-url, …    v4: file, with its data tagged in the same way
 */

import { isTagged, type Part, type TaggedData } from "./messages.ts";
import type { CallOptions, LanguageModel, ModelMessage, ModelSpec } from "./sdk-types.ts";

type PromptMessage = CallOptions["prompt"][number];

export class PromptFormat {
  private readonly spec: ModelSpec;
  /** For ids of files that the provider stores. */
  private readonly provider: string;

  constructor({ specificationVersion, provider }: LanguageModel) {
    this.spec = specificationVersion as ModelSpec;
    this.provider = provider.split(".")[0] ?? provider;
  }

  message(message: ModelMessage): PromptMessage {
    const { role, content, ...rest } = message;
    if (role === "system") return message as PromptMessage;
    const parts =
      typeof content === "string" ? [{ type: "text", text: content }] : (content as unknown as Part[]);
    const converted = parts
      .filter((part) => part.type !== "tool-approval-request")
      .map((part) => this.part(part));
    return { role, content: converted, ...rest } as unknown as PromptMessage;
  }

  private part(part: Part): Part {
    if (part.type === "tool-result") return this.result(part);
    if (!["image", "file", "reasoning-file"].includes(part.type)) return part;
    const { type, image, data = image, mediaType = "image/*", ...rest } = part;
    const found = taggedData(data);
    return {
      type: type === "image" ? "file" : type,
      ...rest,
      mediaType: found.mediaType ?? mediaType,
      data: this.spec === "v4" ? found.data : plainData(found.data),
    };
  }

  private result(part: Part): Part {
    const output = part["output"] as { readonly type: string; readonly value?: unknown };
    if (output.type !== "content") return part;
    const value = (output.value as Part[]).map((each) =>
      this.spec === "v4" ? this.fileOfResult(each) : legacyFile(each),
    );
    return { ...part, output: { ...output, value } };
  }

  /** Spec v4 has one kind of file for all that earlier versions of the SDK had. */
  private fileOfResult(part: Part): Part {
    const { type, data, url, fileId, providerReference, mediaType, ...rest } = part;
    const general = type.startsWith("image") ? "image" : "application/octet-stream";
    const file = (tagged: TaggedData, ownType?: string): Part => {
      return { type: "file", mediaType: mediaType ?? ownType ?? general, data: tagged, ...rest };
    };
    if (type === "file" || type === "file-data" || type === "image-data" || type === "media") {
      const found = taggedData(data);
      return file(found.data, found.mediaType);
    }
    if (type === "file-url" || type === "image-url")
      return file({ type: "url", url: new URL(url as string) });
    if (type === "file-reference") return file({ type: "reference", reference: providerReference });
    if (type !== "file-id" && type !== "image-file-id") return part;
    const reference = typeof fileId === "string" ? { [this.provider]: fileId } : fileId;
    return file({ type: "reference", reference });
  }
}

/** A data URL has its own media type; other addresses become URLs. */
function taggedData(given: unknown): { readonly data: TaggedData; readonly mediaType?: string } {
  if (isTagged(given) && given.type !== "data") return { data: given };
  const data = isTagged(given) ? given["data"] : given;
  if (data instanceof URL) return { data: { type: "url", url: data } };
  if (data instanceof ArrayBuffer) return { data: { type: "data", data: new Uint8Array(data) } };
  if (typeof data !== "string") {
    const isReference = typeof data === "object" && data !== null && !(data instanceof Uint8Array);
    return { data: isReference ? { type: "reference", reference: data } : { type: "data", data } };
  }
  const url = /^data:([^;,]*);base64,(.*)$/s.exec(data);
  if (url) return { data: { type: "data", data: url[2] }, ...(url[1] && { mediaType: url[1] }) };
  const isAddress = /^[a-z][a-z0-9+.-]*:/i.test(data);
  return { data: isAddress ? { type: "url", url: new URL(data) } : { type: "data", data } };
}

function plainData(tagged: TaggedData): unknown {
  if (tagged.type === "data") return tagged["data"];
  if (tagged.type === "url") return tagged["url"];
  return tagged.type === "text" ? Buffer.from(tagged["text"] as string) : tagged["reference"];
}

/** A file of AI SDK 7 for a model of spec v3. */
function legacyFile(part: Part): Part {
  if (part.type !== "file") return part;
  const { type: _type, data, ...rest } = part;
  const found = taggedData(data).data;
  if (found.type === "url") return { type: "file-url", url: String(found["url"]), ...rest };
  if (found.type === "reference") return { type: "file-id", fileId: found["reference"], ...rest };
  const plain = plainData(found);
  const base64 = plain instanceof Uint8Array ? Buffer.from(plain).toString("base64") : plain;
  return { type: "file-data", data: base64, ...rest };
}
