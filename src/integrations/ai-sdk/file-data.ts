/**
 * Bytes of files and images, which become artifacts, and what has to be remembered to give them back as they were: the SDK
 * takes bytes, base64 and data URLs alike, and code may compare what it gets back with what it gave.
 */

import type { FileBlock, JsonObject } from "../../model/session/index.ts";

/** Where the bytes of files live: a `Holdfast` is one. */
export interface Artifacts {
  putArtifact(bytes: Uint8Array): Promise<string>;
  getArtifact(hash: string): Promise<Uint8Array>;
}

const DATA_URL = /^data:([^,]*);base64,(.*)$/s;

/** How the bytes were given: `bytes`, `buffer` (ArrayBuffer), `base64`, or the beginning of a data URL. */
type Spelling = "bytes" | "buffer" | "base64" | `data:${string}`;

/** The artifact's hash and the spelling, or null for what is no bytes at all: a URL, or text that is not base64. */
export async function storeData(
  data: unknown,
  artifacts: Artifacts,
): Promise<{ artifact: string; spelling: Spelling } | null> {
  const found = bytesOf(data);
  if (!found) return null;
  return { artifact: await artifacts.putArtifact(found.bytes), spelling: found.spelling };
}

function bytesOf(data: unknown): { bytes: Uint8Array; spelling: Spelling } | null {
  if (data instanceof Uint8Array) return { bytes: data, spelling: "bytes" };
  if (data instanceof ArrayBuffer) return { bytes: new Uint8Array(data), spelling: "buffer" };
  if (typeof data !== "string") return null;
  const url = DATA_URL.exec(data);
  const text = url?.[2] ?? data;
  const bytes = Buffer.from(text, "base64");
  // Only what comes out again exactly as it was.
  if (bytes.length === 0 || bytes.toString("base64") !== text) return null;
  return { bytes, spelling: url ? `data:${url[1]}` : "base64" };
}

export async function loadData(
  block: FileBlock,
  spelling: string | undefined,
  artifacts: Artifacts,
): Promise<Uint8Array | ArrayBuffer | string> {
  const bytes = await artifacts.getArtifact(block.artifact);
  if (spelling === "buffer")
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
  if (spelling === undefined || spelling === "bytes") return new Uint8Array(bytes);
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  return spelling === "base64" ? text : `${spelling};base64,${text}`;
}

/** Ours, in the meta of a block or message: what the SDK's part has beyond what the block says. */
export function sdkMeta(extra: JsonObject): { meta?: JsonObject } {
  return Object.keys(extra).length === 0 ? {} : { meta: { ai: extra } };
}

export function sdkExtra(meta: JsonObject | undefined): JsonObject {
  return (meta?.["ai"] as JsonObject | undefined) ?? {};
}
