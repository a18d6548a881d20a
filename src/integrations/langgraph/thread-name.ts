import { sha256 } from "../../model/digest.ts";
import { HoldfastError } from "../../model/errors.ts";
import { quoteValue } from "../../model/names.ts";

const READABLE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
const HASHED = /^sha256\.[0-9a-f]{64}$/;

/**
 * The id of a thread's stream. Most thread ids are fit to be one and stay readable; all others (paths, spaces, other
 * alphabets, any length) are named by their hash, and so is an id that looks like such a name: two threads never meet.
 */
export function streamIdOf(thread: string): string {
  if (READABLE.test(thread) && !HASHED.test(thread)) return thread;
  // As JSON text, which keeps half surrogate pairs apart that UTF-8 would make alike.
  return `sha256.${sha256(JSON.stringify(thread))}`;
}

const SESSION_PREFIX = "langgraph.";

/** The session that keeps the calls of a thread's nodes. */
export function sessionIdOf(thread: string): string {
  return `${SESSION_PREFIX}${streamIdOf(thread)}`;
}

/** The id of the stream of the thread whose session has this id; null if it cannot be a thread's. */
export function servedBy(session: string): string | null {
  return session.startsWith(SESSION_PREFIX) ? session.slice(SESSION_PREFIX.length) : null;
}

export function checkThread(thread: unknown): string {
  if (typeof thread === "string" && thread !== "") return thread;
  throw new HoldfastError("INPUT_INVALID", `configurable.thread_id is ${quoteValue(thread)}`, {
    hint: 'Pass the thread as text: graph.invoke(input, { configurable: { thread_id: "order-4711" } }).',
  });
}
