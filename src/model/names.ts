/** Names of namespaces, streams and leases. */

import { HoldfastError } from "./errors.ts";

/**
 * Names end up in file names, URLs, SQL and terminals: a small alphabet, bounded length, no leading dot or
 * dash.
 */
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

export function isId(value: unknown): value is string {
  return typeof value === "string" && ID.test(value);
}

/** Returns a valid id, or throws. `what` names it in the message: "session id", "namespace". */
export function checkId(value: unknown, what: string): string {
  if (isId(value)) return value;
  throw new HoldfastError("NAME_INVALID", `${what} ${quoteValue(value)} is not a valid name`, {
    hint: "Use 1 to 128 letters, digits, dots, dashes or underscores, beginning with a letter or digit.",
    data: { what },
  });
}

/**
 * Ids of sessions take what ids of users contain: `auth0|abc`, `ann@example.com`, `user:42`, `+4930123`.
 * Inside, a character that `ID` lacks is written as `~` and the hexadecimal digits of its UTF-8 bytes:
 * `auth0~7Cabc`. Thus stores, file names and leases see the small alphabet only, and different ids stay
 * different. Slashes, quotes, spaces and control characters are rejected.
 */
const WIDE_ID = /^[\p{L}\p{N}_:@|+=,~!#$%&*();^][\p{L}\p{N}\p{M}._:@|+=,~!#$%&*();^-]{0,127}$/u;

export function isSessionId(value: unknown): value is string {
  return typeof value === "string" && WIDE_ID.test(value);
}

/** `session/alpha`. Integrations bring kinds of their own. Goals become folders, so their ids are narrow. */
export function streamName(kind: string, id: string): string {
  checkId(kind, "stream kind");
  if (isId(id) || kind === "goal") return `${kind}/${checkId(id, `${kind} id`)}`;
  if (isSessionId(id)) return `${kind}/${escapeId(id)}`;
  throw new HoldfastError("NAME_INVALID", `${kind} id ${quoteValue(id)} is not a valid id`, {
    hint:
      "Use 1 to 128 letters, digits or . _ - : @ | + = , ~ ! # $ % & * ( ) ; ^, no leading dot or dash. " +
      "Spaces, slashes and quotes are not allowed.",
    data: { what: `${kind} id` },
  });
}

function escapeId(id: string): string {
  return id.replace(/^_|[^A-Za-z0-9._-]/gu, (character) =>
    Array.from(new TextEncoder().encode(character), (byte) => {
      return `~${byte.toString(16).toUpperCase().padStart(2, "0")}`;
    }).join(""),
  );
}

function unescapeId(escaped: string): string {
  const bytes = (run: string): Uint8Array =>
    Uint8Array.from(run.slice(1).split("~"), (byte) => Number.parseInt(byte, 16));
  return escaped.replace(/(?:~[0-9A-F]{2})+/g, (run) => new TextDecoder().decode(bytes(run)));
}

/**
 * The one stream and the one lease that stand for all erased ones of a namespace (decision 027). The
 * tombstone has the generation, and the lease the token, after which unused names begin. Once-ever keys of
 * erased streams belong to it.
 */
export const ERASED = "erased/names";

export function streamKind(stream: string): string {
  return stream.slice(0, stream.indexOf("/"));
}

export function streamId(stream: string): string {
  const id = stream.slice(stream.indexOf("/") + 1);
  return id.includes("~") ? unescapeId(id) : id;
}

/** `session/alpha` or `goal/checkout/T-001`: ids joined by slashes, each perhaps escaped. */
export function checkLeaseName(name: string): string {
  for (const part of name.split("/"))
    if (!/^[A-Za-z0-9~][A-Za-z0-9._~-]*$/.test(part)) checkId(part, "lease name part");
  return name;
}

/** A reference to an artifact: its hash, and in an encrypted store a secret from which its key is derived. */
export const ARTIFACT_REFERENCE = /^[0-9a-f]{64}([0-9a-f]{32})?$/;

/** The hash in a reference, by which the store knows the artifact. */
export function artifactHash(reference: string): string {
  return reference.slice(0, 64);
}

const SHOWN = 60;

/** A value for an error message: quoted, on one line, cut after 60 characters. */
export function quoteValue(value: unknown): string {
  if (value === undefined) return "(nothing)";
  const text = typeof value === "string" ? quoteText(value) : String(JSON.stringify(value) ?? typeof value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}

/** Quotes a text, if needed, so that a shell reads it as one word. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

const INVISIBLE = /[\u007f-\u009f\u2028\u2029\p{Cf}]/gu;

/** A JSON string in which controls and invisible characters are escaped: `"a\u202eb"`. */
export function quoteText(text: string): string {
  const escaped = (character: string): string =>
    Array.from(
      { length: character.length },
      (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`,
    ).join("");
  return JSON.stringify(text).replace(INVISIBLE, escaped);
}

/** A hook with this conversation does everything but record it: `init --check` runs hooks with it. */
export const REHEARSAL = "holdfast-rehearsal";
