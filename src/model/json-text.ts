/**
 * A string as JSON has it, letter for letter what `JSON.stringify` gives. That one looks at each letter by itself, which is most of
 * what saving a message costs. Prose has few letters to escape, always the same ones, and V8 looks for one letter many times as
 * fast: so those are replaced one after another. Each of them costs more than `JSON.stringify` takes for it, so where there
 * were many lately, as in code, and where there are others, that one writes. Half surrogate pairs are looked for apart, which
 * takes no time where letters are bytes.
 */
export function quote(text: string): string {
  if (text.length < LONG || text.length > HUGE) return JSON.stringify(text);
  const written = density > DENSE || !text.isWellFormed() ? JSON.stringify(text) : escaped(text);
  density += ((written.length - text.length - 2) / text.length - density) / 8;
  return written;
}

let latest: { readonly of: unknown; readonly text: string } | undefined;

/**
 * What `JSON.stringify` gives for a value that cannot change. Of the latest one the text is at hand: what a tool returned is written
 * into the log, and then read to the model.
 */
export function frozenText(value: unknown): string {
  if (typeof value === "string") return quote(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (latest !== undefined && latest.of === value) return latest.text;
  const text = JSON.stringify(value);
  if (text.length <= HUGE && Object.isFrozen(value)) latest = { of: value, text };
  return text;
}

/** Where one call of `JSON.stringify` takes less, and where a wrong guess would cost too much. */
const LONG = 64;
const HUGE = 64 * 1024;

/** How much longer texts have become lately, on average, and from where on replacing costs more. */
let density = 0;
const DENSE = 0.03;

const BACKSLASH = /\\/g;
const QUOTE = /"/g;
const LINE = /\n/g;
const TAB = /\t/g;
/** Nothing is left that JSON escapes. Said of the whole text, because V8 then takes half the time of a search for what is not so. */
const PLAIN = /^[ -\uffff]*$/;

function escaped(text: string): string {
  let result = text;
  // The backslash comes first, because the others bring new ones.
  if (result.includes("\\")) result = result.replace(BACKSLASH, "\\\\");
  result = result.replace(QUOTE, '\\"').replace(LINE, "\\n");
  if (result.includes("\t")) result = result.replace(TAB, "\\t");
  return PLAIN.test(result) ? `"${result}"` : JSON.stringify(text);
}
