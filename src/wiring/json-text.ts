/**
 * A JSON file as text with places: what is where, so that it can be changed in one place and stay as it is everywhere
 * else. Comments and trailing commas are read too, since some agents allow them; what none of them reads is refused with
 * its line and column.
 */

import { HoldfastError } from "../model/errors.ts";

interface Place {
  /** Where it begins and ends in the text. */
  readonly from: number;
  readonly to: number;
}

export interface JsonObjectNode extends Place {
  readonly kind: "object";
  readonly members: readonly Member[];
}

export interface JsonArrayNode extends Place {
  readonly kind: "array";
  readonly elements: readonly JsonNode[];
}

export interface JsonPlainNode extends Place {
  readonly kind: "plain";
  readonly value: string | number | boolean | null;
}

export type JsonNode = JsonObjectNode | JsonArrayNode | JsonPlainNode;

export interface Member {
  readonly key: string;
  readonly from: number;
  readonly value: JsonNode;
}

/** Null for a file that holds nothing but space and comments. */
export function readJsonText(text: string, file: string): JsonNode | null {
  return new Reader(text, file).document();
}

/** The plain value of a node, as `JSON.parse` would give it. */
export function plainValue(node: JsonNode): unknown {
  if (node.kind === "plain") return node.value;
  if (node.kind === "array") return node.elements.map(plainValue);
  return Object.fromEntries(node.members.map(({ key, value }) => [key, plainValue(value)]));
}

/** Of several members with one name the last counts, as it does for every reader of JSON. */
export function memberOf(node: JsonObjectNode, key: string): Member | undefined {
  return node.members.findLast((each) => each.key === key);
}

/** `file:line:column: what`, and what to do about it. */
export function malformed(text: string, at: number, file: string, what: string): HoldfastError {
  const before = text.slice(0, at).split("\n");
  const line = before.length;
  const column = (before.at(-1)?.length ?? 0) + 1;
  return new HoldfastError("INPUT_INVALID", `${file}:${line}:${column}: ${what}`, {
    hint: "Nothing was changed in any file. Correct that place, then run holdfast init again; or leave this agent out with --agent.",
    data: { file, line, column },
  });
}

const SPACE = /[\s\uFEFF]/;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\r\n]|\\.)*"/y;
const WORDS: readonly (readonly [word: string, value: boolean | null])[] = [
  ["true", true],
  ["false", false],
  ["null", null],
];
/** Deeper than any settings file, and far from what would overflow the stack. */
const DEEPEST = 200;

class Reader {
  private readonly text: string;
  private readonly file: string;
  private at = 0;
  private depth = 0;

  constructor(text: string, file: string) {
    this.text = text;
    this.file = file;
  }

  document(): JsonNode | null {
    this.skip();
    if (this.at >= this.text.length) return null;
    const node = this.value();
    this.skip();
    if (this.at < this.text.length) throw this.wrong("something follows the end of the JSON");
    return node;
  }

  private value(): JsonNode {
    const from = this.at;
    const next = this.text[from];
    if (next === "{" || next === "[") {
      if (++this.depth > DEEPEST) throw this.wrong("it is nested too deeply");
      const node = next === "{" ? this.object(from) : this.array(from);
      this.depth--;
      return node;
    }
    if (next === '"') return { kind: "plain", value: this.string(), from, to: this.at };
    for (const [word, value] of WORDS) {
      if (!this.text.startsWith(word, from)) continue;
      this.at += word.length;
      return { kind: "plain", value, from, to: this.at };
    }
    const number = this.match(NUMBER);
    if (number === null) throw this.wrong("a value is missing or is not JSON");
    return { kind: "plain", value: Number(number), from, to: this.at };
  }

  private object(from: number): JsonObjectNode {
    const members: Member[] = [];
    this.items("}", () => {
      const start = this.at;
      if (this.text[start] !== '"') throw this.wrong('a name in " is missing');
      const key = this.string();
      this.skip();
      this.take(":");
      this.skip();
      members.push({ key, from: start, value: this.value() });
    });
    return { kind: "object", members, from, to: this.at };
  }

  private array(from: number): JsonArrayNode {
    const elements: JsonNode[] = [];
    this.items("]", () => elements.push(this.value()));
    return { kind: "array", elements, from, to: this.at };
  }

  private items(close: string, item: () => void): void {
    this.at++;
    this.skip();
    while (this.text[this.at] !== close) {
      item();
      this.skip();
      if (this.text[this.at] === ",") {
        this.at++;
        this.skip();
      } else if (this.text[this.at] !== close) {
        throw this.wrong(`a comma or ${close} is missing`);
      }
    }
    this.at++;
  }

  private string(): string {
    const from = this.at;
    const found = this.match(STRING);
    if (found === null) throw this.wrong("a string is not closed, or holds what a string may not");
    try {
      return JSON.parse(found) as string;
    } catch (error) {
      this.at = from;
      throw this.wrong(`a string cannot be read (${(error as Error).message})`);
    }
  }

  private match(pattern: RegExp): string | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (found === undefined) return null;
    this.at += found.length;
    return found;
  }

  private take(mark: string): void {
    if (this.text[this.at] !== mark) throw this.wrong(`${mark} is missing`);
    this.at++;
  }

  private skip(): void {
    this.at = afterSpace(this.text, this.at, () => this.wrong("a comment is not closed"));
  }

  private wrong(what: string): HoldfastError {
    return malformed(this.text, this.at, this.file, what);
  }
}

/** The first place that is neither space nor comment. */
function afterSpace(text: string, from: number, unclosed: () => Error): number {
  let at = from;
  for (;;) {
    while (at < text.length && SPACE.test(text[at] as string)) at++;
    if (text.startsWith("//", at)) {
      const end = text.indexOf("\n", at);
      at = end < 0 ? text.length : end;
    } else if (text.startsWith("/*", at)) {
      const end = text.indexOf("*/", at + 2);
      if (end < 0) throw unclosed();
      at = end + 2;
    } else return at;
  }
}

/** Where the comments that stand on the same line end; `from` itself when there are none. */
export function afterLineComments(text: string, from: number): number {
  let end = from;
  for (let at = from; ; ) {
    while (text[at] === " " || text[at] === "\t") at++;
    if (text.startsWith("//", at)) {
      const line = /[\r\n]|$/g;
      line.lastIndex = at;
      return line.exec(text)?.index ?? text.length;
    }
    if (!text.startsWith("/*", at)) return end;
    const close = text.indexOf("*/", at + 2) + 2;
    if (text.slice(at, close).includes("\n")) return end;
    at = close;
    end = close;
  }
}

/** Where the last comment between two places ends; `from` when there is none. The places hold nothing but space and comments. */
export function afterLastComment(text: string, from: number, to: number): number {
  let end = from;
  for (let at = from; at < to; ) {
    if (text.startsWith("//", at)) {
      const line = /[\r\n]/g;
      line.lastIndex = at;
      end = line.exec(text)?.index ?? to;
      at = end;
    } else if (text.startsWith("/*", at)) {
      end = text.indexOf("*/", at + 2) + 2;
      at = end;
    } else at++;
  }
  return end;
}
