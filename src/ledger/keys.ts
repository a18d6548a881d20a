/**
 * What counts as the same call, and the key that a vendor sees.
 *
 * The call's key is a hash over namespace, scope, tool and the raw canonical arguments, taken before validation so
 * that a new default in the schema does not change it. It does not hold the session: within a session the fold
 * decides, and a fork finds the calls that it inherited. The vendor's key adds the session (unless the scope is
 * global) and the number of definite failures, so that it stays the same while an outcome is unknown and changes
 * once the vendor may have remembered a refusal. A failure that proved nothing leaves the vendor's key in doubt: until
 * somebody knows, the next call gets that very one (`wave.ts`).
 */

import { sha256 } from "../model/digest.ts";
import { describeError, HoldfastError } from "../model/errors.ts";
import { canonicalOf, type Json } from "../model/json.ts";
import { quoteValue } from "../model/names.ts";
import type { DedupeScope } from "../model/session/index.ts";
import type { Tool } from "./tool.ts";

const ALGORITHM = 1;
const PREFIX = `k${ALGORITHM}_`;

export interface CallKey {
  readonly scope: DedupeScope;
  readonly key: string;
}

/** Whether a call with that key failed without proof that nothing happened. */
type IsDoubted = (key: string) => boolean;

export function callKey(
  namespace: string,
  tool: Tool,
  callId: string,
  raw: Json,
  input: unknown,
  isDoubted: IsDoubted,
): CallKey {
  const dedupe = tool.dedupe ?? "session";
  if (dedupe !== "call") {
    const usual = usualKey(namespace, tool, dedupe, raw, input);
    // Who insists after a failure that proved nothing wants that call to succeed, not another one beside it.
    if (!wantsAgain(tool, raw) || isDoubted(usual.key)) return usual;
  }
  return { scope: "call", key: hash([namespace, "call", tool.name, callId]) };
}

function usualKey(
  namespace: string,
  tool: Tool,
  dedupe: Exclude<Tool["dedupe"], "call" | undefined>,
  raw: Json,
  input: unknown,
): CallKey {
  if (typeof dedupe === "object") {
    const own = ownKey(tool.name, () => dedupe.key(input as never));
    const key = hash([namespace, dedupe.scope, tool.name, "own", own]);
    return { scope: dedupe.scope, key };
  }
  const key = hash([namespace, dedupe, tool.name, "args"], canonicalOf(withoutReason(tool, raw)));
  return { scope: dedupe, key };
}

/** Without a text of its own a call would be the same as every other one: it is refused, not taken for done. */
function ownKey(tool: string, find: () => unknown): string {
  let found: unknown;
  try {
    found = find();
  } catch (error) {
    throw noKey(tool, `threw: ${describeError(error).message}`);
  }
  if (typeof found !== "string" || found === "") throw noKey(tool, `gave ${quoteValue(found)}, not a text`);
  return found;
}

function noKey(tool: string, problem: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `No key for this call of ${tool}: its dedupe.key ${problem}.`, {
    hint: "Let dedupe.key return a text that is not empty for every input that the tool's schema accepts.",
    data: { tool },
  });
}

/** How much of the two hashes a vendor's key shows: 96 and 64 bits. */
const KEY_DIGITS = 24;
const CASE_DIGITS = 16;

/**
 * The keys that vendors see from one session. `life` is the session's id, told apart from a removed one of the same name.
 * A key begins as the call's own does and ends with a hash of what else tells it apart, which for nearly all calls of a
 * session is the same.
 */
export class VendorKeys {
  private readonly life: string;
  private readonly usual: string;

  constructor(life: string) {
    this.life = life;
    this.usual = caseOf(life, 0, null);
  }

  /** `again` is the finished call that a `write` follows with the same arguments: v1, v2, v1 is three writes, also to a vendor that remembers keys. */
  of({ scope, key }: CallKey, failures: number, again: string | null): string {
    const isUsual = scope !== "global" && failures === 0 && again === null;
    const ending = isUsual ? this.usual : caseOf(scope === "global" ? "" : this.life, failures, again);
    return `hf_${key.slice(PREFIX.length, PREFIX.length + KEY_DIGITS)}${ending}`;
  }
}

function caseOf(life: string, failures: number, again: string | null): string {
  return sha256(JSON.stringify([life, failures, again])).slice(0, CASE_DIGITS);
}

/** `json` comes after the list, whose end is told by its bracket: quoting a long text once more would take as long as the hash. */
function hash(parts: readonly string[], json = ""): string {
  let list = "";
  for (const part of parts) list += `${list === "" ? "[" : ","}${JSON.stringify(part)}`;
  return `${PREFIX}${sha256(`${list}]${json}`)}`;
}

/** A repeatable tool's model may insist, with a reason. */
function wantsAgain(tool: Tool, raw: Json): boolean {
  if (!tool.repeatable || raw === null || typeof raw !== "object" || Array.isArray(raw)) return false;
  const why = (raw as { readonly againBecause?: Json }).againBecause;
  return typeof why === "string" && why.trim() !== "";
}

/** `againBecause` is for us; the tool's own schema and the key need not know it. */
export function withoutReason(tool: Tool, raw: Json): Json {
  if (!tool.repeatable || raw === null || typeof raw !== "object" || Array.isArray(raw)) return raw;
  const { againBecause: _reason, ...args } = raw as { readonly [name: string]: Json };
  return args;
}
