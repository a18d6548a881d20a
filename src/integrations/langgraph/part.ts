/**
 * Parts: the smallest pieces in which a channel's value is stored. A list is stored as one part per element and a plain
 * object as one per member, so that a value that grew costs what was added; everything else is one part.
 *
 * A message that was saved or loaded here before is recognised by its identity and not written out again: a conversation
 * of thousands of messages is saved by looking at each, not by serializing each. Messages count as unchanged while every
 * field of theirs holds the same value as before; the latest of them are compared in full, and with `compare: "full"`
 * all are. Nothing but messages is recognised this way: other data is often changed in place, so it is always written
 * out and compared.
 */

import { isBaseMessage } from "@langchain/core/messages";
import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { type Json, sameJson } from "../../model/index.ts";
import { needsLoading, reviveExact, reviveLoading } from "./exact-revival.ts";
import { ExactSerializer } from "./exact-serializer.ts";
import { encodeExact, isPlain } from "./exact-value.ts";

/** `j`: exact JSON, `l` if LangChain has to load it. Otherwise what a `serde` wrote: its type, and text or base64. */
export type Part =
  | { readonly j: Json; readonly l?: 1 }
  | { readonly t: string; readonly u: string }
  | { readonly t: string; readonly b: string };

/** A value on its way into the log. */
export type ValueParts =
  | { readonly kind: "list"; readonly parts: readonly Part[] }
  | { readonly kind: "members"; readonly members: ReadonlyMap<string, Part> }
  | { readonly kind: "whole"; readonly part: Part };

export type Comparison = "recent" | "full";

/** A step rarely adds more messages than this, and what a node changes in place is most often what it has just got. */
const COMPARED_IN_FULL = 4;

/** Every field that any message has. Read by name, because there are thousands of messages to look at in every turn. */
interface Fields {
  readonly id?: unknown;
  readonly name?: unknown;
  readonly content?: unknown;
  readonly additional_kwargs?: unknown;
  readonly response_metadata?: unknown;
  readonly tool_calls?: unknown;
  readonly invalid_tool_calls?: unknown;
  readonly tool_call_chunks?: unknown;
  readonly usage_metadata?: unknown;
  readonly tool_call_id?: unknown;
  readonly status?: unknown;
  readonly artifact?: unknown;
  readonly metadata?: unknown;
  readonly role?: unknown;
}

interface Known extends Fields {
  readonly message: unknown;
  readonly part: Part;
}

export class Parts {
  private readonly serde: SerializerProtocol;
  /** Its values are kept as JSON, without the way through bytes. Somebody's subclass of it goes that way. */
  private readonly isExact: boolean;
  private readonly comparison: Comparison;
  private readonly known = new WeakMap<object, Known>();
  /** What each list held when it was last saved: looking at the same place is faster than looking a message up. */
  private readonly lists = new Map<string, (Known | undefined)[]>();
  private readonly limit: number;

  /** `limit`: how many lists to have in mind. */
  constructor(serde: SerializerProtocol, comparison: Comparison, limit: number) {
    this.serde = serde;
    this.isExact = serde.constructor === ExactSerializer;
    this.comparison = comparison;
    this.limit = limit;
  }

  /**
   * With the exact serializer it is taken down before this returns, whatever the caller changes afterwards. `list` names
   * the list that it may be a later version of.
   */
  takeDown(value: unknown, what: string, list: string): ValueParts | Promise<ValueParts> {
    if (Array.isArray(value)) return this.takeDownList(value, what, this.listNamed(list));
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
      const j = encodeExact(value, what);
      return needsLoading(j) ? { j, l: 1 } : { j };
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
    places: (Known | undefined)[],
  ): ValueParts | Promise<ValueParts> {
    const full = this.comparison === "full" ? 0 : list.length - COMPARED_IN_FULL;
    const parts: (Part | Promise<Part>)[] = new Array(list.length);
    let isLater = false;
    for (let index = 0; index < list.length; index++) {
      const element = list[index];
      const there = places[index];
      if (there?.message === element && there && index < full && isUnchanged(element as Fields, there)) {
        parts[index] = there.part;
        continue;
      }
      const part = this.element(element, index >= full, what, index);
      isLater ||= part instanceof Promise;
      parts[index] = part;
      places[index] = typeof element === "object" && element !== null ? this.known.get(element) : undefined;
    }
    places.length = list.length;
    if (!isLater) return { kind: "list", parts: parts as Part[] };
    return Promise.all(parts).then((written) => ({ kind: "list", parts: written }));
  }

  private listNamed(name: string): (Known | undefined)[] {
    const places = this.lists.get(name) ?? [];
    this.lists.delete(name);
    this.lists.set(name, places);
    for (const [oldest] of this.lists) {
      if (this.lists.size <= this.limit) break;
      this.lists.delete(oldest);
    }
    return places;
  }

  private element(element: unknown, inFull: boolean, what: string, index: number): Part | Promise<Part> {
    const known = typeof element === "object" && element !== null ? this.known.get(element) : undefined;
    if (known && !inFull && isUnchanged(element as Fields, known)) return known.part;
    const written = this.part(element, `${what}[${index}]`);
    if (written instanceof Promise) {
      return written.then((part) => {
        this.remember(element, part);
        return part;
      });
    }
    // The part that is stored already is the one to keep: comparing it with itself costs nothing.
    const part = known && sameJson(known.part, written) ? known.part : written;
    if (part !== known?.part || !isUnchanged(element as Fields, known)) this.remember(element, part);
    return part;
  }

  private remember(element: unknown, part: Part): unknown {
    if (typeof element === "object" && element !== null && isBaseMessage(element)) {
      this.known.set(element, knownAs(element as Fields, part));
    }
    return element;
  }
}

/** They have no place among the members; the serializer says what becomes of them. */
function hasSymbols(value: object): boolean {
  return Object.getOwnPropertySymbols(value).length > 0;
}

function knownAs(message: Fields, part: Part): Known {
  return {
    message,
    part,
    id: message.id,
    name: message.name,
    content: message.content,
    additional_kwargs: message.additional_kwargs,
    response_metadata: message.response_metadata,
    tool_calls: message.tool_calls,
    invalid_tool_calls: message.invalid_tool_calls,
    tool_call_chunks: message.tool_call_chunks,
    usage_metadata: message.usage_metadata,
    tool_call_id: message.tool_call_id,
    status: message.status,
    artifact: message.artifact,
    metadata: message.metadata,
    role: message.role,
  };
}

function isUnchanged(message: Fields, was: Fields): boolean {
  return (
    message.content === was.content &&
    message.id === was.id &&
    message.name === was.name &&
    message.additional_kwargs === was.additional_kwargs &&
    message.response_metadata === was.response_metadata &&
    message.tool_calls === was.tool_calls &&
    message.invalid_tool_calls === was.invalid_tool_calls &&
    message.tool_call_chunks === was.tool_call_chunks &&
    message.usage_metadata === was.usage_metadata &&
    message.tool_call_id === was.tool_call_id &&
    message.status === was.status &&
    message.artifact === was.artifact &&
    message.metadata === was.metadata &&
    message.role === was.role
  );
}

/** Text stays text, so that a person can read it with any SQL shell. */
function storedBytes(t: string, bytes: Uint8Array): Part {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString("utf8");
  return Buffer.from(text, "utf8").equals(buffer) ? { t, u: text } : { t, b: buffer.toString("base64") };
}
