/**
 * The errors of Holdfast. Expected outcomes (a conflict, a lost race for a key) are values, not errors. Every
 * error has a stable code, a message that says what happened to which thing, and a hint that says what to do.
 */

/** Every code, and whether a retry can help. Callers switch on codes, so they never change. */
const ERROR_CODES = {
  NAME_INVALID: { retryable: false },
  ARGS_NOT_JSON: { retryable: false },
  VALUE_NOT_JSON: { retryable: false },
  INPUT_INVALID: { retryable: false },
  CONFIG_UNTRUSTED: { retryable: false },
  SIGNING_FAILED: { retryable: false },
  SIGNERS_IGNORED: { retryable: false },
  APPROVER_REQUIRED: { retryable: false },
  BLOCK_UNKNOWN: { retryable: false },
  EVENT_UNKNOWN: { retryable: false },
  EVENT_TOO_NEW: { retryable: false },
  EVENT_CORRUPT: { retryable: false },
  CODEC_UNKNOWN: { retryable: false },
  CODEC_FAILED: { retryable: false },
  BATCH_INVALID: { retryable: false },
  STREAM_NOT_FOUND: { retryable: false },
  STREAM_EXISTS: { retryable: false },
  STREAM_BUSY: { retryable: true },
  VERSION_NOT_FOUND: { retryable: false },
  ARTIFACT_MISSING: { retryable: false },
  ARTIFACT_CORRUPT: { retryable: false },
  KEY_TAKEN: { retryable: false },
  CALL_TRANSITION: { retryable: false },
  CALL_NOT_FOUND: { retryable: false },
  CALL_NOT_WAITING: { retryable: false },
  CALL_CHANGED: { retryable: false },
  STATE_STALE: { retryable: false },
  SESSION_HELD: { retryable: true },
  SESSION_ENDED: { retryable: false },
  SESSION_CLOSED: { retryable: false },
  MESSAGE_UNFINISHED: { retryable: false },
  SESSION_HAS_OPEN_CALLS: { retryable: false },
  PROMPT_DIVERGED: { retryable: false },
  BUDGET_EXCEEDED: { retryable: false },
  BUDGET_UNIT_UNKNOWN: { retryable: false },
  LEASE_LOST: { retryable: false },
  GOAL_NOT_FOUND: { retryable: false },
  GOAL_ITEM_NOT_FOUND: { retryable: false },
  ROLE_REFUSED: { retryable: false },
  TASK_TRANSITION: { retryable: false },
  TASK_NOT_READY: { retryable: true },
  TASK_HELD: { retryable: true },
  BLOCKER_TRANSITION: { retryable: false },
  PHASE_UNFINISHED: { retryable: false },
  HUMAN_EDITING: { retryable: true },
  FOLDER_BUSY: { retryable: true },
  FOLDER_TAKEN: { retryable: false },
  FOLDER_UNSAFE: { retryable: false },
  FILE_LOCKED: { retryable: true },
  EDIT_APPLIED: { retryable: false },
  EDIT_LEFT: { retryable: false },
  EVENT_FILE_REFUSED: { retryable: false },
  STORE_CLOSED: { retryable: false },
  STORE_BUSY: { retryable: true },
  STORE_IO: { retryable: true },
  STORE_FULL: { retryable: true },
  STORE_READONLY: { retryable: false },
  STORE_CORRUPT: { retryable: false },
  STORE_FOREIGN: { retryable: false },
  STORE_UNTRUSTED: { retryable: false },
  STORE_TOO_NEW: { retryable: false },
  STORE_REPLACED: { retryable: false },
  STORE_REWOUND: { retryable: false },
  STORE_MOVED: { retryable: false },
  STORE_NOT_FOUND: { retryable: false },
  STORE_DRIVER_MISSING: { retryable: false },
  STORE_ON_NETWORK_DISK: { retryable: false },
  STORE_NOT_DURABLE: { retryable: false },
} as const satisfies Record<string, { retryable: boolean }>;

/** The `code` of a HoldfastError. */
export type ErrorCode = keyof typeof ERROR_CODES;

/** Whether a retry can help against this error. */
export function isRetryable(code: ErrorCode): boolean {
  return ERROR_CODES[code].retryable;
}

export interface ErrorDetail {
  /** The way out, as an imperative or a command. */
  hint: string;
  cause?: unknown;
  /** The act may have happened. Resend the same batch, or reread, before you decide. */
  unknown?: boolean;
  /** Facts for programs: ids, ages, positions. */
  data?: Readonly<Record<string, unknown>>;
}

/**
 * An error of Holdfast. `code` is stable, `hint` says what to do, `retryable` means that a retry may help,
 * and `unknown` that the act may have happened, so reread first. Errors of your tools and models are not
 * wrapped.
 *
 * @example
 * try {
 *   await holdfast.session("order-4711", { ifHeld: "throw" });
 * } catch (error) {
 *   if (isHoldfastError(error, "SESSION_HELD")) console.log(error.hint);
 *   else throw error;
 * }
 */
export class HoldfastError extends Error {
  override readonly name = "HoldfastError";
  /** Stable name of the error: `SESSION_HELD`. `holdfast explain SESSION_HELD` says more. */
  readonly code: ErrorCode;
  /** The way out, as an imperative or a command to paste. */
  readonly hint: string;
  /** True if the same act may succeed later. */
  readonly retryable: boolean;
  /** True if the act may have happened: reread before you decide. */
  readonly unknown: boolean;
  /** Facts for programs, such as `{ session: "order-4711" }`. */
  readonly data: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, message: string, detail: ErrorDetail) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause });
    this.code = code;
    this.hint = detail.hint;
    this.retryable = isRetryable(code);
    this.unknown = detail.unknown ?? false;
    this.data = detail.data ?? {};
  }
}

/**
 * True for a HoldfastError (with this code), even one from another copy of the package.
 *
 * @example
 * if (isHoldfastError(error, "LEASE_LOST")) return; // another process continues
 */
export function isHoldfastError<Code extends ErrorCode = ErrorCode>(
  error: unknown,
  code?: Code,
): error is HoldfastError & { readonly code: Code } {
  if (!(error instanceof Error) || error.name !== "HoldfastError") return false;
  return code === undefined || (error as HoldfastError).code === code;
}

/**
 * Makes an error without a stack, for one that is caught nearby and read by its message. Recording the stack
 * costs more than most checks, and one pull may bring thousands of bad events.
 */
export function withoutStack<Failure extends Error>(make: () => Failure): Failure {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return make();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** Describes anything that was thrown. Never throws: an effect may have to be recorded after it. */
export function describeError(error: unknown): { message: string; name?: string } {
  try {
    if (!(error instanceof Error)) return { message: thrownText(error) };
    const cause = error.cause instanceof Error ? ` (${error.cause.message})` : "";
    const { name } = error as { name?: unknown };
    return { message: `${error.message}${cause}`, ...(typeof name === "string" && { name }) };
  } catch {
    return { message: "something that has no words" };
  }
}

/** A thrown object such as `{ code: "declined" }` shows its fields instead of "[object Object]". */
function thrownText(thrown: unknown): string {
  const text = String(thrown);
  return text === "[object Object]" ? (JSON.stringify(thrown) ?? text) : text;
}
