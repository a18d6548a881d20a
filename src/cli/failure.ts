/** Reports failures and warnings on stderr, and chooses the exit code. */

import { existsSync, statfsSync } from "node:fs";
import { dirname } from "node:path";
import { type ErrorCode, type HoldfastError, isHoldfastError } from "../model/errors.ts";
import { withTypedCommands } from "../wiring/index.ts";
import { addStoreOption, EXIT, envelope, escapeControls, escapeForAgent, isForAgent } from "./screen.ts";

export class Misuse extends Error {
  readonly hint: string;
  readonly exit: number;

  constructor(message: string, hint: string, exit: number = EXIT.misused) {
    super(message);
    this.hint = hint;
    this.exit = exit;
  }
}

export function reportFailure(error: unknown, asJson: boolean): void {
  const { code, message, hint, retryable, exit } = describe(error);
  process.exitCode = exit;
  if (asJson) process.stderr.write(envelope("error", { code, message, hint, retryable }));
  else process.stderr.write(forPeople(`holdfast: ${message}`, hint));
}

export function reportWarning(error: unknown, asJson: boolean): void {
  const { code, message, hint } = describe(error);
  if (asJson) process.stderr.write(envelope("warning", { code, message, hint }));
  else process.stderr.write(forPeople(`holdfast: note: ${message}`, hint));
}

function forPeople(what: string, hint: string): string {
  const [first, second] = isForAgent() ? escapeForAgent([what, hint]) : [what, hint];
  return withTypedCommands(escapeControls(`${first}\n  ${second}\n`));
}

function describe(error: unknown) {
  if (error instanceof Misuse) {
    const { message, hint, exit } = error;
    return { code: "MISUSED", message, hint, retryable: false, exit };
  }
  if (isHoldfastError(error)) {
    const { code, message, hint, retryable } = error;
    const full = code === "STORE_IO" ? fullDisk(error.data["path"]) : "";
    const more = sandboxHint(error);
    return { code, message, hint: full + addStoreOption(hint) + more, retryable, exit: exitCodeOf(error) };
  }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const hint = "This is a bug in Holdfast. Please report it with the lines above.";
  return { code: "INTERNAL", message, hint, retryable: false, exit: EXIT.failed };
}

const REFUSED: readonly ErrorCode[] = ["STORE_MOVED", "STORE_REWOUND", "STORE_UNTRUSTED"];
const MISUSED: readonly ErrorCode[] = ["NAME_INVALID", "ARGS_NOT_JSON", "VALUE_NOT_JSON", "INPUT_INVALID"];

/** Errors of the store or the disk are failures. All others are refusals, and so are those of `REFUSED`. */
function exitCodeOf({ code, data }: Pick<HoldfastError, "code" | "data">): number {
  if (REFUSED.includes(code) || (code === "STORE_READONLY" && "moved" in data)) return EXIT.refused;
  if (MISUSED.includes(code)) return EXIT.misused;
  if (code.endsWith("_NOT_FOUND")) return EXIT.notFound;
  return /^(STORE|EVENT|CODEC|ARTIFACT|BATCH)_/.test(code) ? EXIT.failed : EXIT.refused;
}

const CANNOT_OPEN = 14;
const NOT_CONNECTED = /^(ECONNREFUSED|ENETUNREACH|EHOSTUNREACH|EAI_AGAIN|ENOTFOUND)$/;
const NOT_ALLOWED = /^(EROFS|EACCES|EPERM)$/;

/** A sandbox refuses the commands of an agent, but not the MCP server that the agent itself has started. */
function sandboxHint({ code, data, cause }: HoldfastError): string {
  const system = String((cause as NodeJS.ErrnoException | undefined)?.code ?? "");
  const isLocal = code === "STORE_READONLY" && !("moved" in data);
  const isRefused = isLocal || NOT_ALLOWED.test(system) || data["sqlite"] === CANNOT_OPEN;
  if (!isRefused && !NOT_CONNECTED.test(system)) return "";
  const path = typeof data["path"] === "string" ? ` write ${dirname(data["path"])}` : " reach the store";
  return ` In a sandbox: use the MCP tools of the server holdfast, or allow commands to${path}.`;
}

/** Below this, SQLite cannot create the files that it needs even to read, and reports an I/O error. */
const MIN_FREE_BYTES = 1_000_000;

/** A hint if the disk is full, which is the most likely reason for an I/O error. */
export function fullDisk(
  path: unknown,
  inspect: (path: string) => { readonly bavail: number; readonly bsize: number } = (disk) => statfsSync(disk),
): string {
  if (typeof path !== "string") return "";
  try {
    const { bavail, bsize } = inspect(existsSync(path) ? path : dirname(path));
    const free = bavail * bsize;
    if (free >= MIN_FREE_BYTES) return "";
    return `The disk is full: ${(free / 1_000_000).toFixed(1)} MB are left. Free some space. `;
  } catch {
    // The disk cannot be inspected. The error itself is reported in any case.
    return "";
  }
}
