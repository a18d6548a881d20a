/**
 * JSON text with sorted keys: equal values give equal text. Unlike `canonicalJson` it takes anything that a log
 * can hold, lone surrogates included; it compares and renders, it never becomes a key.
 */
export function canonicalText(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) => {
    if (member === null || typeof member !== "object" || Array.isArray(member)) return member;
    const sorted: [string, unknown][] = Object.keys(member)
      .sort()
      .map((key) => [key, (member as Record<string, unknown>)[key]]);
    return Object.fromEntries(sorted);
  });
}
