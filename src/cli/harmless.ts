/**
 * What agents wrote may hold what a terminal obeys. It is said by its number, in the data before a page is made of it: what
 * the page paints itself stays.
 */

/** Controls but for tabs and ends of lines, and what turns the direction of text. */
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
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [said(key), said(each)]));
}

function byNumber(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
