/**
 * When two prompts are the same. A prompt is a list of items (messages, as the framework hands them to a model), and its
 * identity is a chain of hashes over them: one hash and a count are stored with each turn, however long the prompt is,
 * and the hashes of two turns still tell whether a difference lies in what both have seen or in what came after.
 *
 * Order of members, members that are undefined, and the difference between a URL and its text do not count. Bytes count
 * by their content.
 */

import { sha256 } from "../../model/digest.ts";
import { canonicalText, type Json } from "../../model/json.ts";

/** As it is stored with a turn. */
export interface PromptMark {
  readonly count: number;
  readonly digest: string;
}

/** Which question an assistant message answers: stored under its `meta.turn`. */
export interface TurnMark {
  readonly run: string;
  readonly position: number;
  readonly prompt: PromptMark;
}

export class PromptIdentity {
  readonly mark: PromptMark;
  private readonly chain: readonly string[];

  constructor(items: readonly unknown[]) {
    const chain = [sha256("prompt 1")];
    for (const item of items) chain.push(sha256(`${chain.at(-1)}${canonicalText(comparable(item))}`));
    this.chain = chain;
    this.mark = { count: items.length, digest: chain.at(-1) ?? "" };
  }

  is(mark: PromptMark): boolean {
    return this.mark.count === mark.count && this.mark.digest === mark.digest;
  }

  /** Whether this prompt begins with that whole prompt. */
  begins(mark: PromptMark): boolean {
    return this.chain[mark.count] === mark.digest;
  }
}

function comparable(value: unknown): Json {
  if (value === null || value === undefined) return null;
  if (value instanceof Uint8Array) return { bytes: sha256(value) };
  if (value instanceof ArrayBuffer) return { bytes: sha256(new Uint8Array(value)) };
  if (value instanceof URL) return value.href;
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value === "object") {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return Object.fromEntries(members.map(([name, member]) => [name, comparable(member)]));
  }
  if (typeof value === "bigint" || typeof value === "symbol" || typeof value === "function")
    return String(value);
  return value as Json;
}
