/** How a command ends, as scripts see it. `docs/cli.md` has the same table. */

import type { ErrorCode, HoldfastError } from "../model/errors.ts";

export const EXIT = {
  done: 0,
  failed: 1,
  misused: 2,
  notFound: 3,
  refused: 4,
  /** It worked, and found something that a person has to see to. */
  found: 5,
  interrupted: 130,
  closedPipe: 141,
} as const;

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
export function exitCodeOf({ code, data }: Pick<HoldfastError, "code" | "data">): number {
  if (code === "STORE_MOVED" || (code === "STORE_READONLY" && "moved" in data)) return EXIT.refused;
  if (MISUSED.includes(code)) return EXIT.misused;
  if (NOT_FOUND.includes(code)) return EXIT.notFound;
  return /^(STORE|EVENT|CODEC|ARTIFACT|BATCH)_/.test(code) ? EXIT.failed : EXIT.refused;
}
