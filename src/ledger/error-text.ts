/** Never throws: whatever was thrown, the effect may have happened, and that has to be written down. */
export function describeError(error: unknown): { message: string; name?: string } {
  try {
    if (!(error instanceof Error)) return { message: String(error) };
    const cause = error.cause instanceof Error ? ` (${error.cause.message})` : "";
    const { name } = error as { name?: unknown };
    return { message: `${error.message}${cause}`, ...(typeof name === "string" && { name }) };
  } catch {
    return { message: "something that has no words" };
  }
}
