/** What a command says on stderr when it does not work: what happened, what to do about it, and the exit code. */

import { existsSync, statfsSync } from "node:fs";
import { dirname } from "node:path";
import { type ErrorCode, type HoldfastError, isHoldfastError } from "../model/errors.ts";
import { withTypedCommands } from "../wiring/index.ts";
import { addStoreOption, EXIT, envelope, escapeControls } from "./screen.ts";

const MISUSED: readonly ErrorCode[] = ["NAME_INVALID", "ARGS_NOT_JSON", "VALUE_NOT_JSON", "INPUT_INVALID"];
const NOT_FOUND: readonly ErrorCode[] = [
  "STORE_NOT_FOUND",
  "STREAM_NOT_FOUND",
  "VERSION_NOT_FOUND",
  "CALL_NOT_FOUND",
  "GOAL_NOT_FOUND",
  "GOAL_ITEM_NOT_FOUND",
];

/** What is wrong with the store or the disk has failed; any other error of ours is a refusal, also that of a copied store. */
function exitCodeOf({ code, data }: Pick<HoldfastError, "code" | "data">): number {
  if (code === "STORE_MOVED" || (code === "STORE_READONLY" && "moved" in data)) return EXIT.refused;
  if (MISUSED.includes(code)) return EXIT.misused;
  if (NOT_FOUND.includes(code)) return EXIT.notFound;
  return /^(STORE|EVENT|CODEC|ARTIFACT|BATCH)_/.test(code) ? EXIT.failed : EXIT.refused;
}

/** A command that was typed in a way that cannot be meant. */
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
  const { code, message, hint, retryable, exit } = described(error);
  process.exitCode = exit;
  if (asJson) process.stderr.write(envelope("error", { code, message, hint, retryable }));
  else process.stderr.write(forPeople(`holdfast: ${message}`, hint));
}

/** What went wrong beside what the command was for, which is done all the same. */
export function reportWarning(error: unknown, asJson: boolean): void {
  const { code, message, hint } = described(error);
  if (asJson) process.stderr.write(envelope("warning", { code, message, hint }));
  else process.stderr.write(forPeople(`holdfast: note: ${message}`, hint));
}

function forPeople(what: string, hint: string | null): string {
  return withTypedCommands(escapeControls(`${what}\n${hint === null ? "" : `  ${hint}\n`}`));
}

/** Below that, SQLite cannot make the files that it needs even to read, and calls it an I/O error. */
const NO_SPACE = 1_000_000;

/** What is the most likely reason for what a disk refused, if it is so. */
export function fullDisk(path: unknown, look: (path: string) => Space = (disk) => statfsSync(disk)): string {
  if (typeof path !== "string") return "";
  try {
    const { bavail, bsize } = look(existsSync(path) ? path : dirname(path));
    const free = (bavail * bsize) / 1_000_000;
    return bavail * bsize < NO_SPACE
      ? `The disk is full: ${free.toFixed(1)} MB are left. Free some space. `
      : "";
  } catch {
    // Nothing can be said of that disk; what happened is told all the same.
    return "";
  }
}

interface Space {
  readonly bavail: number;
  readonly bsize: number;
}

function described(error: unknown): {
  code: string;
  message: string;
  hint: string | null;
  retryable: boolean;
  exit: number;
} {
  if (error instanceof Misuse) {
    const { message, hint, exit } = error;
    return { code: "MISUSED", message, hint, retryable: false, exit };
  }
  if (isHoldfastError(error)) {
    const { code, message, hint, retryable } = error;
    const full = code === "STORE_IO" ? fullDisk(error.data["path"]) : "";
    return { code, message, hint: full + addStoreOption(hint), retryable, exit: exitCodeOf(error) };
  }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const hint = "This is a fault in Holdfast. Please report it with the lines above.";
  return { code: "INTERNAL", message, hint, retryable: false, exit: EXIT.failed };
}
