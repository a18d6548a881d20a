/**
 * Whatever agents wrote may hold what a terminal obeys: it clears the screen, names the window, turns the direction of what
 * follows. A page says such characters by their number, so that a reader sees that they are there. This is done to the
 * data, before a page is made of it: what a page paints itself is left as it is.
 */

/** Controls but for tabs and ends of lines, separators that only some take for one, and what turns the direction. */
const OBEYED =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
  /\r(?!\n)|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g;

export function harmless<Data>(data: Data): Data {
  return said(data) as Data;
}

function said(value: unknown): unknown {
  if (typeof value === "string") return value.replace(OBEYED, byNumber);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(said);
  if (value instanceof Error) return said(value.message);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [said(key), said(each)]));
}

function byNumber(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
