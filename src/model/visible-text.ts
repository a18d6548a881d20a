/**
 * Characters that a reader does not see, or that change what is seen around them: controls, bidi marks, tags,
 * variation selectors, fillers, private and unassigned ones. A reviewer overlooks them and a model reads
 * them, so every rendered file and every page escapes them.
 *
 * Three uses stay, because people type them: U+FE0F right behind a pictograph (❤️), a joiner between two
 * pictographs, and joiners between letters of scripts that need them (Persian, Hindi). Each is at most one
 * character between two visible ones, so no text hides in them. Flags that are spelled in tags are escaped.
 */

const HIDDEN_CLASS = String.raw`[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]`;
const PICTOGRAPH = String.raw`\p{Extended_Pictographic}`;
const JOINED = "Arab Beng Deva Gujr Guru Khmr Knda Mlym Mymr Orya Sinh Taml Telu"
  .split(" ")
  .map((script) => String.raw`\p{Script=${script}}`)
  .join("");
const ALLOWED = [
  String.raw`(?<=${PICTOGRAPH})\uFE0F`,
  String.raw`(?<=${PICTOGRAPH}|[\uFE0F\u{1F3FB}-\u{1F3FF}])\u200D(?=${PICTOGRAPH})`,
  String.raw`(?<=[${JOINED}])[\u200C\u200D](?=[${JOINED}])`,
].join("|");

const SOURCE = `(?!${ALLOWED})${HIDDEN_CLASS}`;
export const HIDDEN = new RegExp(SOURCE, "u");
export const ALL_HIDDEN = new RegExp(SOURCE, "gu");
