/** How goals name things: the numbers they give, the paths they keep. */

/** `T-007`: at least three digits, so that names sort as they count. */
export function formatId(prefix: "T" | "D" | "B" | "Q", number: number): string {
  return `${prefix}-${String(number).padStart(3, "0")}`;
}

export function idNumber(id: string): number {
  return Number(id.slice(2));
}

const PATH_LIMIT = 1_024;

/**
 * A path as goals keep it: relative to the root, `/` between names, nothing that could lead out of it or fake
 * another line. Backslashes are refused because one system reads them as a name and another as a way out.
 */
export function isRelativePath(path: string): boolean {
  if (path.length === 0 || path.length > PATH_LIMIT || !path.isWellFormed()) return false;
  if (/[\\\p{Cc}\u2028\u2029]/u.test(path) || /^[A-Za-z]:/.test(path)) return false;
  return path.split("/").every((name) => name !== "" && name !== "." && name !== "..");
}
