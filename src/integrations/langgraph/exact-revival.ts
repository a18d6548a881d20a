/**
 * The way back from what `exact-value.ts` wrote. Every load makes new objects: what one caller changes, no other sees.
 * Only the listed records make objects; an unknown one is refused, because it was written by a later release.
 */

import { Document } from "@langchain/core/documents";
import { load } from "@langchain/core/load";
import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import { HoldfastError } from "../../model/errors.ts";
import type { Json } from "../../model/json.ts";
import { quoteValue } from "../../model/names.ts";
import { BYTES, type ExactRecord, type JsonMembers, MESSAGES, setMember } from "./exact-records.ts";

/** LangChain's loader is asynchronous, so what needs it is loaded first. */
type LoadedObjects = ReadonlyMap<Json, unknown>;

const NOTHING_LOADED: LoadedObjects = new Map();

/** Synchronous, as most values need; throws for those that have to be loaded. */
export function reviveExact(json: Json): unknown {
  return revive(json, NOTHING_LOADED);
}

export async function reviveLoading(json: Json): Promise<unknown> {
  const loaded = new Map<Json, unknown>();
  for (const each of langchainRecords(json)) loaded.set(each, await load(each.text));
  return revive(json, loaded);
}

function* langchainRecords(json: Json): Generator<Extract<ExactRecord, { type: "langchain" }>> {
  if (json === null || typeof json !== "object") return;
  if (isRecord(json) && json.type === "langchain") yield json;
  else for (const member of Object.values(json as JsonMembers)) yield* langchainRecords(member);
}

function isRecord(json: object): json is ExactRecord {
  return (json as { lc?: unknown }).lc === 2;
}

function revive(json: Json, loaded: LoadedObjects): unknown {
  if (json === null || typeof json !== "object") return json;
  if (Array.isArray(json)) {
    const list = new Array<unknown>(json.length);
    for (let index = 0; index < json.length; index++) list[index] = revive(json[index] as Json, loaded);
    return list;
  }
  return isRecord(json) ? reviveRecord(json, loaded) : reviveMembers(json as JsonMembers, loaded);
}

function reviveMembers(members: JsonMembers, loaded: LoadedObjects): Record<string, unknown> {
  const revived: Record<string, unknown> = {};
  for (const name of Object.keys(members)) setMember(revived, name, revive(members[name] as Json, loaded));
  return revived;
}

function reviveRecord(record: ExactRecord, loaded: LoadedObjects): unknown {
  switch (record.type) {
    case "undefined":
      return undefined;
    case "number":
      return Number(record.value);
    case "bigint":
      return BigInt(record.value);
    case "date":
      return new Date(record.value ?? Number.NaN);
    case "url":
      return new URL(record.value);
    case "regexp":
      return new RegExp(record.source, record.flags);
    case "error":
      return reviveError(record, loaded);
    case "map":
      return new Map(record.value.map(([key, value]) => [revive(key, loaded), revive(value, loaded)]));
    case "set":
      return new Set(record.value.map((each) => revive(each, loaded)));
    case "bytes":
      return reviveBytes(record.of, record.value);
    case "delta_snapshot":
      return new DeltaSnapshot(revive(record.value, loaded));
    case "message": {
      const Message = Object.hasOwn(MESSAGES, record.of) ? MESSAGES[record.of] : undefined;
      if (!Message) return unknownRecord(record);
      return new Message(reviveMembers(record.fields, loaded) as never);
    }
    case "document":
      return new Document(reviveMembers(record.fields, loaded) as never);
    case "langchain":
      return loaded.get(record);
    case "plain":
      return reviveMembers(record.value, loaded);
    default:
      return unknownRecord(record);
  }
}

function reviveError(record: Extract<ExactRecord, { type: "error" }>, loaded: LoadedObjects): Error {
  const { name, message, cause } = record;
  const error =
    cause === undefined ? new Error(message) : new Error(message, { cause: revive(cause, loaded) });
  if (name !== "Error") {
    Object.defineProperty(error, "name", { value: name, configurable: true, writable: true });
  }
  return error;
}

function reviveBytes(of: string, base64: string): unknown {
  const buffer = Buffer.from(base64, "base64");
  if (of === "Buffer") return buffer;
  // A copy: small buffers share one block of memory, in which a typed array may not begin where they do.
  const own = new Uint8Array(buffer).buffer;
  if (of === "ArrayBuffer") return own;
  const View = Object.hasOwn(BYTES, of) ? BYTES[of] : undefined;
  return View ? new View(own) : unknownRecord({ type: "bytes", of });
}

function unknownRecord(record: unknown): never {
  throw new HoldfastError(
    "EVENT_TOO_NEW",
    `a saved value is of a form that is not known here: ${quoteValue(record)}`,
    {
      hint: "Upgrade holdfast to the release that wrote it, or a later one. Nothing was changed.",
    },
  );
}
