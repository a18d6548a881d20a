/**
 * JSON in the making. Its long texts are not quoted yet: a store that keeps bytes has them written there at once, where a string of
 * every step on the way would cost more than the commit's own work. Whoever needs a string joins it.
 */
export class JsonText {
  /** JSON, and after each piece of it a text that is yet to be quoted. What follows the last of those is `rest`. */
  readonly pieces: string[] = [];
  rest = "";
  /** Of all that is to be quoted; and so about how long the whole will be, where that matters. */
  textLength = 0;

  /** What is JSON already. */
  json(text: string): void {
    this.rest += text;
  }

  /** A string, as a value. */
  text(value: string): void {
    if (value.length < LONG) {
      this.rest += JSON.stringify(value);
      return;
    }
    this.pieces.push(this.rest, value);
    this.rest = "";
    this.textLength += value.length;
  }

  add({ pieces, rest }: JsonText): void {
    for (let index = 0; index < pieces.length; index += 2) {
      this.json(pieces[index] as string);
      this.text(pieces[index + 1] as string);
    }
    this.rest += rest;
  }

  toString(): string {
    const { pieces, rest } = this;
    let joined = "";
    for (let index = 0; index < pieces.length; index += 2) {
      joined += pieces[index];
      joined += JSON.stringify(pieces[index + 1]);
    }
    return joined + rest;
  }
}

/** Where one call of `JSON.stringify` takes less than anything else. */
const LONG = 64;

let latest: { readonly of: unknown; readonly text: string } | undefined;

/**
 * What `JSON.stringify` gives for a value that cannot change. Of the latest one the text is at hand: what a tool returned is written
 * into the log, and then read to the model.
 */
export function frozenText(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (latest !== undefined && latest.of === value) return latest.text;
  const text = JSON.stringify(value);
  if (text.length <= HUGE && Object.isFrozen(value)) latest = { of: value, text };
  return text;
}

/** What is not worth keeping. */
const HUGE = 64 * 1024;
