/** Never throws: whatever was thrown, the effect may have happened, and that has to be written down. */
export function describeError(error: unknown): { message: string; name?: string } {
  try {
    if (!(error instanceof Error)) return { message: wordsOf(error) };
    const cause = error.cause instanceof Error ? ` (${error.cause.message})` : "";
    const { name } = error as { name?: unknown };
    return { message: `${error.message}${cause}`, ...(typeof name === "string" && { name }) };
  } catch {
    return { message: "something that has no words" };
  }
}

/** A plain object that was thrown, `{ code: "declined" }`, says what happened in its fields and nowhere else. */
function wordsOf(thrown: unknown): string {
  const words = String(thrown);
  return words === "[object Object]" ? (JSON.stringify(thrown) ?? words) : words;
}
