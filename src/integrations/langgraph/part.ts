/**
 * Parts: the smallest pieces in which a channel's value is stored. A list is stored as one part per element and a plain
 * object as one per member, so that a value that grew costs what was added; everything else is one part.
 *
 * A message that was saved or loaded here before is recognised by its identity and not written out again: a conversation
 * of thousands of messages is saved by looking at each, not by serializing each. `list-memory.ts` says when it counts as
 * unchanged.
 */

import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { sameJson } from "../../model/json.ts";
import { reviveExact, reviveLoading } from "./exact-revival.ts";
import { ExactSerializer } from "./exact-serializer.ts";
import { isPlain, writeExact } from "./exact-value.ts";
import { type KnownMessage, knownMessage } from "./known-message.ts";
import { type ElementWriter, ListMemory, type WrittenList } from "./list-memory.ts";
import type { Part } from "./stored-part.ts";

/** A value on its way into the log. */
export type ValueParts =
  | ({ readonly kind: "list" } & WrittenList)
  | { readonly kind: "members"; readonly members: ReadonlyMap<string, Part> }
  | { readonly kind: "whole"; readonly part: Part };

export type Comparison = "recent" | "full";

export class Parts {
  private readonly serde: SerializerProtocol;
  /** Its values are kept as JSON, without the way through bytes. Somebody's subclass of it goes that way. */
  private readonly isExact: boolean;
  private readonly messages = new WeakMap<object, KnownMessage>();
  private readonly lists = new Map<string, ListMemory>();
  private readonly limit: number;
  private readonly elements: ElementWriter;

  /** `limit`: how many lists to have in mind. `changedInPlace` hears of what was changed before it was noticed. */
  constructor(
    serde: SerializerProtocol,
    comparison: Comparison,
    limit: number,
    changedInPlace: (what: string) => void,
  ) {
    this.serde = serde;
    this.isExact = serde.constructor === ExactSerializer;
    this.limit = limit;
    this.elements = {
      isExact: this.isExact,
      comparesAll: comparison === "full",
      known: (element) => this.known(element),
      write: (element, what) => this.writeElement(element, what),
      changedInPlace,
    };
  }

  /**
   * With the exact serializer it is taken down before this returns, whatever the caller changes afterwards. `list` names
   * the list that it may be a later version of.
   */
  takeDown(value: unknown, what: string, list: string): ValueParts | Promise<ValueParts> {
    if (Array.isArray(value)) return this.takeDownList(value, what, list);
    if (value !== null && typeof value === "object" && isPlain(value) && !hasSymbols(value)) {
      const names = Object.keys(value);
      const parts = names.map((name) => this.part(value[name as never], `${what}.${name}`));
      const members = (written: Part[]): ValueParts => ({
        kind: "members",
        members: new Map(names.map((name, index) => [name, written[index] as Part])),
      });
      return parts.some((part) => part instanceof Promise)
        ? Promise.all(parts).then(members)
        : members(parts as Part[]);
    }
    const part = this.part(value, what);
    return part instanceof Promise
      ? part.then((written) => ({ kind: "whole", part: written }))
      : { kind: "whole", part };
  }

  part(value: unknown, what: string): Part | Promise<Part> {
    if (this.isExact) {
      const { json: j, needsLoading } = writeExact(value, what);
      return needsLoading ? { j, l: 1 } : { j };
    }
    return this.serde.dumpsTyped(value).then(([t, bytes]) => storedBytes(t, bytes));
  }

  load(part: Part): unknown {
    if ("j" in part) return part.l ? reviveLoading(part.j) : reviveExact(part.j);
    return this.serde.loadsTyped(
      part.t,
      "u" in part ? part.u : new Uint8Array(Buffer.from(part.b, "base64")),
    );
  }

  /** Elements of a list; messages among them will be recognised when they are saved again. */
  loadElement(part: Part): unknown {
    const element = this.load(part);
    if (element instanceof Promise) return element.then((loaded) => this.remember(loaded, part));
    return this.remember(element, part);
  }

  private takeDownList(
    list: readonly unknown[],
    what: string,
    name: string,
  ): ValueParts | Promise<ValueParts> {
    const taken = this.listNamed(name).takeDown(list, what);
    if (!(taken instanceof Promise)) return { kind: "list", ...taken };
    return taken.then((written) => ({ kind: "list", ...written }));
  }

  private listNamed(name: string): ListMemory {
    const memory = this.lists.get(name) ?? new ListMemory(this.elements);
    this.lists.delete(name);
    this.lists.set(name, memory);
    for (const [oldest] of this.lists) {
      if (this.lists.size <= this.limit) break;
      this.lists.delete(oldest);
    }
    return memory;
  }

  private known(element: unknown): KnownMessage | undefined {
    return typeof element === "object" && element !== null ? this.messages.get(element) : undefined;
  }

  private writeElement(element: unknown, what: string): Part | Promise<Part> {
    const written = this.part(element, what);
    if (written instanceof Promise) return written.then((part) => this.keep(element, part));
    return this.keep(element, written);
  }

  /** The part that is stored already is the one to keep: comparing it with itself costs nothing. */
  private keep(element: unknown, written: Part): Part {
    const known = this.known(element);
    const part = known && sameJson(known.part, written) ? known.part : written;
    this.remember(element, part);
    return part;
  }

  private remember(element: unknown, part: Part): unknown {
    const known = knownMessage(element, part);
    if (known) this.messages.set(known.message, known);
    return element;
  }
}

/** They have no place among the members; the serializer says what becomes of them. */
function hasSymbols(value: object): boolean {
  return Object.getOwnPropertySymbols(value).length > 0;
}

/** Text stays text, so that a person can read it with any SQL shell. */
function storedBytes(t: string, bytes: Uint8Array): Part {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString("utf8");
  return Buffer.from(text, "utf8").equals(buffer) ? { t, u: text } : { t, b: buffer.toString("base64") };
}
