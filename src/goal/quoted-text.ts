/**
 * Stored text on its way into a prompt.
 *
 * Whatever an agent or a person once wrote may hold words that look like instructions. It enters a briefing only as a
 * JSON string on one line: it cannot end the line, the quotes or the element around it, and carries nothing invisible.
 */

/** Invisible or reordering characters, by which text can hide from a reader what a model sees. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

const PLAIN = /[A-Za-z0-9 ]+/g;
const ASCII = /[\0-\x7f]+/g;
/** Text that stands in quotes as it is. */
const SAFE = /^(?! )[ !#-;=?-[\]-~]*(?<! )$/;

/**
 * About four characters of English make a token. This counts on the safe side: letters, digits and spaces a quarter
 * each, other ASCII half, everything else (which most tokenizers split further) one per UTF-16 unit.
 */
export function estimateTokens(text: string): number {
  // Counted by expressions: a cold process runs them many times faster than a loop over characters.
  const marks = text.replace(PLAIN, "");
  const wide = marks.replace(ASCII, "").length;
  return Math.ceil((text.length + marks.length + 2 * wide) / 4);
}

function quartersOf(unit: number): number {
  const isPlain =
    unit === 32 || (unit >= 48 && unit <= 57) || (unit >= 65 && unit <= 90) || (unit >= 97 && unit <= 122);
  if (isPlain) return 1;
  return unit < 128 ? 2 : 4;
}

/** In quotes, cut to about `limit` tokens. */
export function quoted(text: string, limit: number): string {
  if (text.length <= 2 * limit && SAFE.test(text) && !text.includes("  ")) return `"${text}"`;
  const clean = text.replace(/\s+/gu, " ").replace(INVISIBLE, "").trim();
  let quarters = 0;
  let end = 0;
  for (const character of clean) {
    const safe = escaped(character);
    for (let index = 0; index < safe.length; index++) quarters += quartersOf(safe.charCodeAt(index));
    if (quarters > 4 * limit) break;
    end += character.length;
  }
  const kept = clean.slice(0, end);
  return `"${[...kept].map(escaped).join("")}${end < clean.length ? "…" : ""}"`;
}

function escaped(character: string): string {
  if (character === "<" || character === ">") return character === "<" ? "\\u003c" : "\\u003e";
  return JSON.stringify(character).slice(1, -1);
}

/** A name or path: bare when it is plainly that, else quoted. */
export function named(text: string, limit: number): string {
  return /^[A-Za-z0-9][A-Za-z0-9._/@-]{0,79}$/.test(text) ? text : quoted(text, limit);
}
