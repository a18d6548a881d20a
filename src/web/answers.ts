/** Answers of operations as the page gets them: cut to a size that a browser shows without a pause. */

import { isHoldfastError } from "../model/errors.ts";

/** Characters of one text. The log and the artifacts have the rest. */
const TEXT = 4_000;
const ENTRIES = 1_000;
const DEPTH = 24;
/** Values in one answer, however they are nested. */
const VALUES = 200_000;

/** A copy without long texts, long lists and deep nesting; each cut says how much is missing. */
export function cutToSize(value: unknown): unknown {
  let left = VALUES;
  const cut = (each: unknown, depth: number): unknown => {
    left -= 1;
    if (typeof each === "string") return cutText(each);
    if (typeof each !== "object" || each === null) return each;
    if (depth > DEPTH || left < 0) return "… (not shown: too deep or too much)";
    if (Array.isArray(each)) {
      const shown = each.slice(0, ENTRIES).map((item) => cut(item, depth + 1));
      return each.length > ENTRIES ? [...shown, `… (${each.length - ENTRIES} more)`] : shown;
    }
    const names = Object.keys(each);
    const shown = names.slice(0, ENTRIES).map((name) => {
      return [cutText(name), cut((each as Record<string, unknown>)[name], depth + 1)];
    });
    if (names.length > ENTRIES) shown.push(["…", `${names.length - ENTRIES} more`]);
    return Object.fromEntries(shown);
  };
  return cut(value, 0);
}

function cutText(text: string): string {
  if (text.length <= TEXT) return text;
  return `${text.slice(0, TEXT)}… (${text.length - TEXT} more characters)`;
}

const CONFLICTS = ["CALL_NOT_WAITING", "CALL_TRANSITION", "CALL_CHANGED", "STREAM_EXISTS", "SESSION_ENDED"];
const REFUSED = ["ROLE_REFUSED", "STORE_READONLY"];

/** The status and the body for an error. Errors that are not ours tell the page nothing. */
export function errorAnswer(error: unknown): { readonly status: number; readonly body: unknown } {
  if (!isHoldfastError(error)) {
    return {
      status: 500,
      body: { code: "INTERNAL", message: "the server failed", hint: "See its terminal." },
    };
  }
  const { code, message, hint } = error;
  const body = cutToSize({ code, message, hint });
  if (code.endsWith("_NOT_FOUND") || code === "ARTIFACT_MISSING") return { status: 404, body };
  if (CONFLICTS.includes(code)) return { status: 409, body };
  if (REFUSED.includes(code)) return { status: 403, body };
  if (code.endsWith("_INVALID")) return { status: 400, body };
  return { status: error.retryable ? 503 : 422, body };
}
