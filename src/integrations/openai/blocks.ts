/** Parts of the conversion that both of OpenAI's formats share: meta, arguments, call ids and files. */

import { sha256 } from "../../model/digest.ts";
import type { Json } from "../../model/json.ts";
import type { FileBlock, JsonObject, ToolCallBlock } from "../../model/session/index.ts";
import type { Artifacts } from "../artifacts.ts";

/** A part or item of OpenAI's format. */
export type AnyPart = { readonly type?: string; readonly [member: string]: unknown };

const CALL_ID_LIMIT = 64;
const IMAGES: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);
const DATA_URL = /^data:([^;,]+);base64,([A-Za-z0-9+/]*={0,2})$/;

/** Meta of a block or message: members that only OpenAI's format has. */
export function openaiMeta(extra: object): { meta?: JsonObject } {
  const members = Object.entries(extra).filter(([, value]) => value !== undefined);
  if (members.length === 0) return {};
  return { meta: { openai: JSON.parse(JSON.stringify(Object.fromEntries(members))) as Json } };
}

export function openaiExtra(meta: JsonObject | undefined): JsonObject {
  return (meta?.["openai"] as JsonObject | undefined) ?? {};
}

/** Arguments that are no JSON stay text: the tool's input check refuses them, and the model reads why. */
export function callBlock(id: string, name: string, text: string, extra: object): ToolCallBlock {
  let args: Json = text;
  try {
    args = JSON.parse(text === "" ? "{}" : text) as Json;
  } catch {
    // Not JSON.
  }
  const spelling = JSON.stringify(args) === text ? undefined : text;
  return { kind: "tool_call", id, name, args, ...openaiMeta({ ...extra, arguments: spelling }) };
}

export function argumentsOf({ args, meta }: ToolCallBlock): string {
  const { arguments: spelling } = openaiExtra(meta);
  return typeof spelling === "string" ? spelling : JSON.stringify(args);
}

/** The API limits call ids, and a session's ids may come from other providers. */
export function wireId(id: string): string {
  return id.length <= CALL_ID_LIMIT ? id : `call_${sha256(id).slice(0, 32)}`;
}

/** A file of which the bytes are in the part itself; null for one that the API has, or a URL. */
export async function fileOfDataUrl(
  url: unknown,
  artifacts: Artifacts,
): Promise<Pick<FileBlock, "artifact" | "mediaType"> | null> {
  const [, mediaType, data] = (typeof url === "string" && DATA_URL.exec(url)) || [];
  if (mediaType === undefined || data === undefined) return null;
  const bytes = Buffer.from(data, "base64");
  // Convert only data that comes back exactly as it was.
  if (bytes.toString("base64") !== data) return null;
  return { artifact: await artifacts.putArtifact(bytes), mediaType };
}

/** A file as the API accepts it, or the text that stands for it. */
export type WireFile =
  | { readonly as: "image" | "file"; readonly url: string; readonly name: string }
  | { readonly as: "text"; readonly text: string };

/** A file that the API cannot read becomes a text: one refused part would end the whole conversation. */
export async function wireFile(block: FileBlock, artifacts: Artifacts): Promise<WireFile> {
  const { artifact, mediaType, name } = block;
  const { as: original } = openaiExtra(block.meta);
  const plain = (mediaType.split(";")[0] as string).trim().toLowerCase();
  const as = original ?? (IMAGES.has(plain) ? "image" : plain === "application/pdf" ? "file" : "text");
  if (as === "text" && !plain.startsWith("text/")) {
    const named = name === undefined ? "" : ` ${JSON.stringify(name)}`;
    return { as, text: `[file${named} of type ${mediaType}, not shown, stored as artifact ${artifact}]` };
  }
  const bytes = Buffer.from(await artifacts.getArtifact(artifact));
  if (as === "text") return { as, text: bytes.toString("utf8") };
  const url = `data:${original === undefined ? plain : mediaType};base64,${bytes.toString("base64")}`;
  return { as: as as "image" | "file", url, name: name ?? "file.pdf" };
}
