/** What a look at a recorded file comes to. */

export type FileVerdict = "OK" | "DRIFTED" | "MISSING";

export interface FileCheck {
  readonly path: string;
  readonly verdict: FileVerdict;
  readonly expected: string | null;
  readonly actual: string | null;
  /** Why it drifted, when it is not simply another content. */
  readonly why: string | null;
}

export interface Recorded {
  readonly path: string;
  readonly hash: string | null;
}

export interface Look {
  /** Null: there is no such file. */
  readonly hash: string | null;
  /** Set when something is there that cannot be compared. */
  readonly why: string | null;
}

export const OUTSIDE = "its path leads outside the root";
export const LINKED_OUTSIDE = "a link leads outside the root";
export const IN_A_CIRCLE = "its links go in a circle";
export const NO_FILE = "it is not a file";
export const NOT_READABLE = "it may not be read";

export function judged({ path, hash: expected }: Recorded, found: Look): FileCheck {
  const actual = found.hash;
  const result = { path, expected, actual, why: found.why };
  if (found.why !== null) return { ...result, verdict: "DRIFTED" };
  if (actual === expected) return { ...result, verdict: "OK" };
  if (actual === null) return { ...result, verdict: "MISSING" };
  const why = expected === null ? "it was deleted and is there again" : null;
  return { ...result, verdict: "DRIFTED", why };
}

export function isAbsence(code: string | undefined): boolean {
  return ["ENOENT", "ENOTDIR", "ENAMETOOLONG"].includes(code ?? "");
}
