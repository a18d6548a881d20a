/**
 * Two keys: one that decides which calls count as the same, and one that the vendor sees.
 *
 *     call key     hash of namespace, scope, tool and the raw canonical arguments
 *     vendor key   the call key, the session (unless the scope is global) and the number of definite failures
 *
 * The call key is taken before validation, so that a new default in the schema does not change it. It does
 * not contain the session, so that a fork finds the calls it inherited.
 *
 * The vendor key stays the same while an outcome is unknown, also after a failure that proved nothing, and
 * changes once the vendor may have remembered a refusal.
 */

import { sha256 } from "../model/digest.ts";
import { describeError, HoldfastError } from "../model/errors.ts";
import { canonicalOf, type Json } from "../model/json.ts";
import { quoteValue } from "../model/names.ts";
import type { DedupeScope } from "../model/session/index.ts";
import type { Tool } from "./tool.ts";

/** With the number of the algorithm. */
const PREFIX = "k1_";

export interface CallKey {
  readonly scope: DedupeScope;
  readonly key: string;
}

/** `isDoubted`: a call with that key failed without proof that nothing happened. */
export function callKey(
  namespace: string,
  tool: Tool,
  callId: string,
  raw: Json,
  input: unknown,
  isDoubted: (key: string) => boolean,
): CallKey {
  const dedupe = tool.dedupe ?? "session";
  if (dedupe !== "call") {
    const shared = sharedKey(namespace, tool.name, dedupe, withoutReason(tool, raw), input);
    // `againBecause` after a failure that proved nothing asks for that call to succeed, not for a second one.
    if (!wantsAgain(tool, raw) || isDoubted(shared.key)) return shared;
  }
  return { scope: "call", key: hash([namespace, "call", tool.name, callId]) };
}

function sharedKey(
  namespace: string,
  tool: string,
  dedupe: Exclude<Tool["dedupe"], "call" | undefined>,
  args: Json,
  input: unknown,
): CallKey {
  if (typeof dedupe !== "object") {
    return { scope: dedupe, key: hash([namespace, dedupe, tool, "args"], canonicalOf(args)) };
  }
  const own = ownKey(tool, () => dedupe.key(input as never));
  return { scope: dedupe.scope, key: hash([namespace, dedupe.scope, tool, "own", own]) };
}

/** Rejects an empty key, with which all calls of the tool would count as the same. */
function ownKey(tool: string, find: () => unknown): string {
  let found: unknown;
  try {
    found = find();
  } catch (error) {
    throw noKey(tool, `threw: ${describeError(error).message}`);
  }
  if (typeof found !== "string" || found === "")
    throw noKey(tool, `returned ${quoteValue(found)} (expected a non-empty string)`);
  return found;
}

function noKey(tool: string, problem: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `No key for this call of ${tool}: its dedupe.key ${problem}.`, {
    hint: "Return a non-empty string from dedupe.key for every input that the tool's schema accepts.",
    data: { tool },
  });
}

/** The suffix is the same for nearly all calls of the session, so it is hashed once. */
export class VendorKeys {
  private readonly incarnation: string;
  private readonly usualSuffix: string;

  constructor(incarnation: string) {
    this.incarnation = incarnation;
    this.usualSuffix = suffixOf(incarnation, 0, null);
  }

  /** `again`: the call that a `write` repeats after another one. v1, v2, v1 is three writes. */
  of({ scope, key }: CallKey, failures: number, again: string | null): string {
    const isUsual = scope !== "global" && failures === 0 && again === null;
    const suffix = isUsual
      ? this.usualSuffix
      : suffixOf(scope === "global" ? "" : this.incarnation, failures, again);
    // 96 bits of the call key, 64 of the suffix.
    return `hf_${key.slice(PREFIX.length, PREFIX.length + 24)}${suffix}`;
  }
}

function suffixOf(incarnation: string, failures: number, again: string | null): string {
  return sha256(JSON.stringify([incarnation, failures, again])).slice(0, 16);
}

/** Appends `json` unquoted: the bracket ends the list, and quoting a long text costs as much as the hash. */
function hash(parts: readonly string[], json = ""): string {
  let list = "";
  for (const part of parts) list += `${list === "" ? "[" : ","}${JSON.stringify(part)}`;
  return `${PREFIX}${sha256(`${list}]${json}`)}`;
}

function wantsAgain(tool: Tool, raw: Json): boolean {
  const { againBecause: why } = (tool.repeatable ? Object(raw) : {}) as { readonly againBecause?: Json };
  return typeof why === "string" && why.trim() !== "";
}

export function withoutReason(tool: Tool, raw: Json): Json {
  if (!tool.repeatable || raw === null || typeof raw !== "object" || Array.isArray(raw)) return raw;
  const { againBecause: _reason, ...args } = raw as { readonly [name: string]: Json };
  return args;
}
