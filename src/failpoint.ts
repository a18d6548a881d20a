/**
 * Named places at which a process can be made to die, so that anyone can prove what a crash there leaves behind.
 *
 * `HOLDFAST_FAILPOINT=call.executed` kills this process with SIGKILL when it gets there for the first time;
 * `call.executed:3` at the third. `HOLDFAST_FAILPOINT_LOG=file` writes down every point that is passed. Unset,
 * which is the rule, a failpoint costs one comparison.
 */

import { appendFileSync } from "node:fs";

/** In the order in which a run meets them. */
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
  "call.recorded",
  "results.appended",
  "checkpoint.saved",
  "run.done",
  "mcp.forwarded",
  "mcp.replied",
] as const;

export type Failpoint = (typeof FAILPOINTS)[number];

const armed = parse(process.env["HOLDFAST_FAILPOINT"]);
const logFile = process.env["HOLDFAST_FAILPOINT_LOG"];
const passed = new Map<string, number>();

function parse(text: string | undefined): { name: string; count: number } | null {
  if (!text) return null;
  const [name = "", count = "1"] = text.split(":");
  return { name, count: Number(count) };
}

/** Passes the point, or dies there. */
export function failpoint(name: Failpoint): void {
  if (!armed && !logFile) return;
  const count = (passed.get(name) ?? 0) + 1;
  passed.set(name, count);
  if (logFile) appendFileSync(logFile, `${name}:${count}\n`);
  if (armed?.name === name && armed.count === count) process.kill(process.pid, "SIGKILL");
}
