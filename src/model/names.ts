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

/** `session/alpha`. Integrations bring kinds of their own. */
export function streamName(kind: string, id: string): string {
  return `${checkId(kind, "stream kind")}/${checkId(id, `${kind} id`)}`;
}

export function streamKind(stream: string): string {
  return stream.slice(0, stream.indexOf("/"));
}

export function streamId(stream: string): string {
  return stream.slice(stream.indexOf("/") + 1);
}

/** `session/alpha` or `goal/checkout/T-001`: ids joined by slashes. */
export function checkLeaseName(name: string): string {
  for (const part of name.split("/")) checkId(part, "lease name part");
  return name;
}

const SHOWN = 60;

/** A value for an error message: quoted, on one line, cut after 60 characters. */
export function quoteValue(value: unknown): string {
  if (value === undefined) return "(nothing)";
  const text =
    typeof value === "string" ? JSON.stringify(value) : String(JSON.stringify(value) ?? typeof value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}

/** Quotes a text, if needed, so that a shell reads it as one word. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
