import { type ErrorCode, HoldfastError } from "../model/errors.ts";

/** An error with its hint and the facts for programs, for messages of a whole line. */
export function refusal(
  code: ErrorCode,
  message: string,
  hint: string,
  data: Readonly<Record<string, unknown>> = {},
): HoldfastError {
  return new HoldfastError(code, message, { hint, data });
}
