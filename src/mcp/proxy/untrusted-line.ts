/**
 * Checks lines of the client and the server before anything else reads them. Both may be hostile.
 *
 *     a line above 32 MB                 is not kept in memory (`readLines`)
 *     one key twice, also `Name`/`name`  the ledger would read one value and the server the other
 *     an answer nested too deep          becomes text, exactly as the server wrote it
 *     a client's message of that kind    is refused
 *     words or fields in our name        are renamed: only the proxy speaks as `[holdfast]`
 *
 * Every scan is linear in the length of the line.
 */

import { exactText, type Id, isId, type Line, MAX_DEPTH, type Message } from "./json-rpc.ts";

interface Member {
  readonly key: string;
  readonly from: number;
  readonly to: number;
}

interface Shape {
  readonly members: readonly Member[];
  readonly depth: number;
}

/** The members of a JSON object with the places of their values, and how deep it is nested. */
function shapeOf(raw: string): Shape {
  const members: Member[] = [];
  const isObject = /^\s*\{/.test(raw);
  let depth = 0;
  let deepest = 0;
  let key: string | null = null;
  let from = 0;
  const end = (at: number): void => {
    if (depth === 1 && key !== null) members.push({ key, from, to: at });
    if (depth === 1) key = null;
  };
  for (let at = 0; at < raw.length; at++) {
    const char = raw[at];
    if (char === '"') {
      const after = endOfString(raw, at);
      if (isObject && depth === 1 && key === null) {
        key = JSON.parse(raw.slice(at, after)) as string;
        from = after;
      }
      at = after - 1;
    } else if (char === "{" || char === "[") deepest = Math.max(deepest, ++depth);
    else if (char === "," || char === "}" || char === "]") {
      end(at);
      if (char !== ",") depth -= 1;
    }
  }
  return { members, depth: deepest };
}

/** `from` is behind the key: blanks and the colon may come first. */
function valueText(raw: string, { from, to }: Member): string {
  let at = from;
  while (at < to && " \t\r\n:".includes(raw[at] ?? "")) at++;
  return raw.slice(at, to).trimEnd();
}

function endOfString(raw: string, from: number): number {
  for (let at = from + 1; at < raw.length; at++) {
    if (raw[at] === "\\") at++;
    else if (raw[at] === '"') return at + 1;
  }
  return raw.length;
}

/** A key that stands twice in a message or its `params`. Some servers ignore case, so it is ignored here. */
export function repeatedKey(raw: string): string | null {
  const { members } = shapeOf(raw);
  const params = members.find(({ key }) => key === "params");
  return repeated(members) ?? (params ? repeated(shapeOf(valueText(raw, params)).members) : null);
}

function repeated(members: readonly Member[]): string | null {
  const known = new Set<string>();
  for (const { key } of members) {
    const folded = key.toLowerCase();
    if (known.has(folded)) return key;
    known.add(folded);
  }
  return null;
}

/** A message nested too deep to be kept as JSON: its answer as text. Null: it is not that deep. */
export function flattened(raw: string): Line | "unusable" | null {
  try {
    const shape = shapeOf(raw);
    return shape.depth <= MAX_DEPTH ? null : asText(raw, shape);
  } catch (error) {
    // Servers print other text too: the parser says that it is no message.
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** The request of a client that is nested too deep. `id` is null for a message that gets no answer. */
export function tooDeep(raw: string): { readonly id: Id | null } | null {
  try {
    const shape = shapeOf(raw);
    if (shape.depth <= MAX_DEPTH) return null;
    return { id: textAt(raw, shape, "method") === undefined ? null : idIn(raw, shape) };
  } catch (error) {
    // The parser says that the line is no message.
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function textAt(raw: string, { members }: Shape, name: string): string | undefined {
  const member = members.find(({ key }) => key === name);
  return member && valueText(raw, member);
}

function idIn(raw: string, shape: Shape): Id | null {
  const text = textAt(raw, shape, "id");
  const id = text === undefined || text.length > 200 ? null : (JSON.parse(text) as unknown);
  return isId(id) ? id : null;
}

function asText(raw: string, shape: Shape): Line | "unusable" {
  const [id, result] = [idIn(raw, shape), textAt(raw, shape, "result")];
  if (id === null || textAt(raw, shape, "method") !== undefined) return "unusable";
  const answer = { content: [{ type: "text", text: result }] };
  const error = { code: -32_000, message: `the server's error is nested deeper than ${MAX_DEPTH} levels` };
  const message: Message = { id, ...(result === undefined ? { error } : { result: answer }) };
  return { raw: JSON.stringify({ jsonrpc: "2.0", ...message }), message, inexact: [] };
}

const GAP = String.raw`[\s\p{Default_Ignorable_Code_Point}]*`;
const NAME = [..."holdfast"].join(GAP);
/** Our prefix, also with invisible characters in it. */
const PREFIX = new RegExp(String.raw`\[${GAP}(?=${NAME}${GAP}\])`, "giu");
const SUSPECT = new RegExp(`${NAME}|\\\\u`, "iu");
const OUR_FIELD = /^holdfast\//i;

/** The line without words and fields that look like ours: `[holdfast]` becomes `[server: holdfast]`. */
export function withoutOurVoice(line: Line): Line {
  if (!SUSPECT.test(line.raw)) return line;
  const { message, inexact } = line;
  const clean = cleaned(message, false) as Message;
  if (clean === message) return line;
  // An id beyond 2^53 is written as it came, like every other such number.
  const plain = typeof clean.id === "bigint" ? { ...clean, id: Number(clean.id) } : clean;
  return { raw: exactText(plain, inexact), message: clean, inexact };
}

/** The same value if nothing has to change. */
function cleaned(value: unknown, isMeta: boolean): unknown {
  if (typeof value === "string") return value.replace(PREFIX, "[server: ");
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    const items = value.map((each) => cleaned(each, false));
    return items.some((each, index) => each !== value[index]) ? items : value;
  }
  const entries = Object.entries(value);
  const left = entries
    .filter(([key]) => !(isMeta && OUR_FIELD.test(key)))
    .map(([key, each]) => [key, cleaned(each, key === "_meta")] as const);
  const isSame = left.length === entries.length && left.every(([, each], at) => each === entries[at]?.[1]);
  return isSame ? value : Object.fromEntries(left);
}
