/**
 * Failpoints: named places at which a process can be killed, to prove what a crash there leaves behind.
 *
 * `HOLDFAST_FAILPOINT=call.executed` kills this process with SIGKILL when it first gets there,
 * `call.executed:3` at the third time. `HOLDFAST_FAILPOINT_LOG=file` logs every failpoint that is passed.
 * Unset, one costs a comparison.
 */

import { appendFileSync } from "node:fs";

/** All failpoints, in the order in which a run meets them. */
export const FAILPOINTS = [
  "session.taken",
  "session.opened",
  "prompt.appended",
  "settle.begins",
  "verify.asked",
  "verify.answered",
  "call.settled",
  "budget.reserved",
  "model.answered",
  "message.appended",
  "wave.planned",
  "wave.issued",
  "call.starts",
  "call.executed",
  "result.stored",
  "call.kept",
  "call.recorded",
  "results.appended",
  "checkpoint.saved",
  "run.done",
  "mcp.forwarded",
  "mcp.replied",
] as const;

/** The name of a failpoint. */
export type Failpoint = (typeof FAILPOINTS)[number];

const armed = parse(process.env["HOLDFAST_FAILPOINT"]);
const logFile = process.env["HOLDFAST_FAILPOINT_LOG"];
const passed = new Map<string, number>();

function parse(text: string | undefined): { name: string; count: number } | null {
  if (!text) return null;
  const [name = "", count = "1"] = text.split(":");
  return { name, count: Number(count) };
}

/**
 * Passes the failpoint, or kills the process there if it is armed.
 *
 * @example
 * failpoint("call.executed"); // HOLDFAST_FAILPOINT=call.executed dies here
 */
export function failpoint(name: Failpoint): void {
  if (!armed && !logFile) return;
  const count = (passed.get(name) ?? 0) + 1;
  passed.set(name, count);
  if (logFile) appendFileSync(logFile, `${name}:${count}\n`);
  if (armed?.name === name && armed.count === count) process.kill(process.pid, "SIGKILL");
}
