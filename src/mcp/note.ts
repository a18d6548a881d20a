import { isHoldfastError } from "../model/errors.ts";

export function noteOf(error: unknown): string {
  const said = error instanceof Error ? error.message : String(error);
  return `note: ${isHoldfastError(error) ? `${said}. ${error.hint}` : said}`;
}
