/**
 * Reads text from people and other programs without trusting it: size, depth and expansion are bounded before
 * parsing. Any problem becomes an `UnreadableText` that says what is wrong and where. Every scan here is one
 * pass over the text: a hook must answer in time, whatever a pull has brought.
 */

import { isUtf8 } from "node:buffer";
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from "node:fs";

const YAML_CHARACTERS = 128 * 1024;
const ALIASES = 20;
const DEPTH = 100;
const JSON_DEPTH = 250;

/** Why a text could not be read. Reports quote its message; it is no error of the caller. */
export class UnreadableText extends Error {
  override readonly name = "UnreadableText";
}

/** The text exceeds a limit, so no other parser may try it. */
export class OversizedText extends UnreadableText {}

/** Errors of one file that say nothing about its neighbours. */
const UNREADABLE: ReadonlySet<string> = new Set(["EACCES", "EPERM", "EISDIR", "ENXIO", "EIO"]);

/**
 * Reads a regular UTF-8 file of at most `limit` bytes; null if there is none. Does not follow links. The
 * calls are synchronous: a folder of thousands of small files takes a fifth of the time. `onStat` gets the
 * file's stat from before it is read.
 */
export async function readBounded(
  path: string,
  limit: number,
  onStat: (stat: Stats) => void = () => undefined,
): Promise<string | null> {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return null;
    if (code === "ELOOP") throw new UnreadableText("it is a link, and links are not followed");
    if (UNREADABLE.has(code ?? "")) throw new UnreadableText(`it cannot be read (${code})`, { cause: error });
    throw error;
  }
  try {
    const stat = fstatSync(file);
    onStat(stat);
    if (!stat.isFile()) throw new UnreadableText("it is not a regular file");
    if (stat.size > limit) throw new UnreadableText(`it has ${stat.size} bytes, the limit is ${limit}`);
    const bytes = Buffer.allocUnsafe(limit < stat.size + 1 ? limit + 1 : stat.size + 1);
    const bytesRead = readSync(file, bytes, 0, bytes.length, 0);
    if (bytesRead > stat.size) throw new UnreadableText("it grew while it was read");
    return decodeText(bytes.subarray(0, bytesRead));
  } finally {
    closeSync(file);
  }
}

/** A byte order mark is kept. A `TextDecoder` takes longer than the whole read of a small file. */
function decodeText(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new UnreadableText("it is not UTF-8 text");
  const text = bytes.toString("utf8");
  if (text.includes("\0")) throw new UnreadableText("it holds a NUL character");
  return text;
}

/** True if the three markers of git stand in lines of their own, in order. */
export function hasConflictMarkers(text: string): boolean {
  const normal = `\n${text.replaceAll("\r\n", "\n")}\n`;
  const ours = normal.indexOf("\n<<<<<<< ");
  const between = ours < 0 ? -1 : normal.indexOf("\n=======\n", ours);
  return between >= 0 && normal.indexOf("\n>>>>>>> ", between) >= 0;
}

export async function parseYaml(text: string): Promise<Record<string, unknown>> {
  if (text.length > YAML_CHARACTERS) {
    throw new OversizedText(`its YAML has ${text.length} characters, the limit is ${YAML_CHARACTERS}`);
  }
  if (nesting(text) > DEPTH) throw new OversizedText(`its YAML is nested deeper than ${DEPTH} levels`);
  const { parseDocument } = await import("yaml");
  let value: unknown;
  let problem: Error | undefined;
  try {
    const document = parseDocument(text, { schema: "core", uniqueKeys: true, logLevel: "silent" });
    problem = document.errors[0];
    value = problem ? null : document.toJS({ maxAliasCount: ALIASES });
  } catch (error) {
    // Too many aliases, or nested beyond what the stack holds.
    throw new OversizedText(yamlProblem(error as Error), { cause: error });
  }
  if (problem) throw new UnreadableText(yamlProblem(problem), { cause: problem });
  if (value === null) return {};
  if (typeof value !== "object" || Array.isArray(value)) throw new UnreadableText("its YAML is no mapping");
  return value as Record<string, unknown>;
}

function yamlProblem({ message }: Error): string {
  return `its YAML cannot be read: ${(message.split("\n", 1)[0] ?? "").slice(0, 200)}`;
}

/** An upper bound of the nesting: brackets outside of quotes, or indentation by two columns. */
function nesting(text: string): number {
  let deepest = bracketDepth(text);
  for (const [indent] of text.matchAll(/^ +(?:- )*/gm)) deepest = Math.max(deepest, indent.length / 2);
  return deepest;
}

const [NEWLINE, QUOTE, BACKSLASH] = [0x0a, 0x22, 0x5c];
const [BRACKET, END_BRACKET, BRACE, END_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Brackets outside of quotes. In a string that does not end on its line, opening brackets count too. */
function bracketDepth(text: string): number {
  let depth = 0;
  let deepest = 0;
  let opened = 0;
  let isString = false;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (isString && code === BACKSLASH) index += 1;
    else if (code === QUOTE || (isString && code === NEWLINE)) {
      if (isString && code === NEWLINE) depth += opened;
      isString = !isString;
      opened = 0;
    } else if (code === BRACKET || code === BRACE) {
      if (isString) opened += 1;
      else depth += 1;
    } else if (!isString && (code === END_BRACKET || code === END_BRACE)) depth -= 1;
    if (depth > deepest) deepest = depth;
  }
  return Math.max(deepest, depth + opened);
}

export function parseJson(text: string): Record<string, unknown> {
  if (bracketDepth(text) > JSON_DEPTH) {
    throw new UnreadableText(`its JSON is nested deeper than ${JSON_DEPTH} levels`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UnreadableText(`its JSON cannot be read: ${(error as Error).message.slice(0, 200)}`, {
      cause: error,
    });
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new UnreadableText("its JSON is no object");
  }
  return value as Record<string, unknown>;
}
