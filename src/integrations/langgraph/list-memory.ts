/**
 * What a list held when it was last saved, by place, so that saving it again costs what was added to it.
 *
 * A message that is the same object as before counts as unchanged while
 *  - each of its fields holds the same value as before. That is looked at in the latest messages and in many of the others,
 *    in turn: all of a list of hundreds, and of a longer one all within a few saves;
 *  - and what lies deeper was not changed in place. That is looked at in fewer of them, in the same way.
 * The first change that is found late is said aloud, and from then on everything in the list is compared at every save. A
 * message that is another object than before is found at once, wherever it is. Whatever is no message is compared in full,
 * always: other data is often changed in place.
 *
 * How a list is written is an array that only ever grows (`ListParts`): whoever holds its first elements holds them for
 * good. A list in which anything but its end has changed gets a new one.
 */

import type { Json } from "../../model/json.ts";
import { isStill, isStillMessage } from "./exact-comparison.ts";
import { hasSameFields, type KnownMessage } from "./known-message.ts";
import { LookInTurn } from "./look-in-turn.ts";
import type { Part } from "./stored-part.ts";

/** What a node changes in place is most often what it has just got. */
const FIELDS_LOOK = { recent: 64, inTurn: 192 };
const DEEP_LOOK = { recent: 16, inTurn: 32 };
/** Another serializer has to write a message again before it can be compared. */
const OTHER_DEEP_LOOK = { recent: 4, inTurn: 4 };

/** Elements as they go into the log. `agreed`: the first so many of them are known to be those of that stored list. */
export interface ListParts {
  readonly parts: Part[];
  agreed: { readonly list: readonly Part[]; readonly length: number } | null;
}

/** A list is the first `length` of its parts: later versions may have added to them. */
export interface WrittenList {
  readonly written: ListParts;
  readonly length: number;
}

/** How a list gets at what is known of its elements, and writes out what is not. */
export interface ElementWriter {
  /** Whether parts are exact JSON, which a value can be compared with as it is. */
  readonly isExact: boolean;
  readonly comparesAll: boolean;
  known(element: unknown): KnownMessage | undefined;
  write(element: unknown, what: string): Part | Promise<Part>;
  changedInPlace(what: string): void;
}

export class ListMemory {
  private elements: unknown[] = [];
  private known: (KnownMessage | undefined)[] = [];
  private written = listParts([]);
  /** Places of what is neither a message nor text, in order. */
  private compared: number[] = [];
  private readonly fields = new LookInTurn(FIELDS_LOOK);
  private readonly deep: LookInTurn;
  private readonly writer: ElementWriter;
  private comparesAll: boolean;

  constructor(writer: ElementWriter) {
    this.writer = writer;
    this.comparesAll = writer.comparesAll;
    this.deep = new LookInTurn(writer.isExact ? DEEP_LOOK : OTHER_DEEP_LOOK);
  }

  takeDown(list: readonly unknown[], what: string): WrittenList | Promise<WrittenList> {
    const { isDeep, changed } = this.lookDeep(list, what);
    if (!changed && this.hasOnlyGrown(list, what)) return this.add(list, what);
    const parts: (Part | Promise<Part>)[] = [];
    let isLater = false;
    for (let index = 0; index < list.length; index++) {
      const element = list[index];
      const there = this.known[index];
      const isSame = there !== undefined && there.message === element && hasSameFields(there);
      const part = isSame ? there.part : this.write(element, index, isDeep(index), what);
      isLater ||= part instanceof Promise;
      parts.push(part);
    }
    this.forget();
    for (let index = 0; index < list.length; index++) this.keep(list[index], index, parts[index]);
    if (isLater) return Promise.all(parts).then((all) => ({ written: listParts(all), length: all.length }));
    this.written = listParts(parts as Part[]);
    return { written: this.written, length: list.length };
  }

  /** Nothing is taken over before all of it is written: one that cannot be is refused, and the others with it. */
  private add(list: readonly unknown[], what: string): WrittenList {
    const { written } = this;
    const from = this.elements.length;
    const added: Part[] = [];
    // The exact serializer, the only one that comes here, never has to be waited for.
    for (let index = from; index < list.length; index++)
      added.push(this.write(list[index], index, true, what) as Part);
    for (const part of added) {
      this.keep(list[this.elements.length], this.elements.length, part);
      written.parts.push(part);
    }
    return { written, length: list.length };
  }

  private forget(): void {
    this.elements = [];
    this.known = [];
    this.compared = [];
  }

  /** What is known of it must be how it was written here: another list may have met it in another state since. */
  private keep(element: unknown, index: number, part: Part | Promise<Part> | undefined): void {
    const known = this.writer.known(element);
    const isWritten = known !== undefined && known.part === part;
    this.elements.push(element);
    this.known.push(isWritten ? known : undefined);
    if (!isWritten && typeof element !== "string") this.compared.push(index);
  }

  /** Whether what was there is there still, as far as is looked at, and at most something was added at the end. */
  private hasOnlyGrown(list: readonly unknown[], what: string): boolean {
    const { elements } = this;
    const count = elements.length;
    if (!this.writer.isExact || this.comparesAll || count === 0 || list.length < count) return false;
    for (let index = 0; index < count; index++) if (list[index] !== elements[index]) return false;
    for (const index of this.compared)
      if (!isStill(list[index], jsonOf(this.written.parts[index]))) return false;
    const isAsItWas = (index: number) => {
      const there = this.known[index];
      return there === undefined || hasSameFields(there);
    };
    return !this.look(this.fields, count, what, isAsItWas);
  }

  /** Forgets those whose depths have changed. `isDeep`: which places have to be compared in full. */
  private lookDeep(
    list: readonly unknown[],
    what: string,
  ): { isDeep: (index: number) => boolean; changed: boolean } {
    const isAsItWas = (index: number) => this.isAsDeepAsItWas(list, index);
    if (!this.comparesAll) {
      const places = this.deep.places(list.length);
      const changed = this.look(this.deep, list.length, what, isAsItWas);
      if (!this.comparesAll) return { isDeep: (index) => this.deep.looksAt(index, places), changed };
    }
    for (let index = 0; index < list.length; index++) isAsItWas(index);
    return { isDeep: () => true, changed: true };
  }

  /** Whether anything is not as it was. What was found late may not be alone: from then on none is taken on trust. */
  private look(
    looking: LookInTurn,
    count: number,
    what: string,
    isAsItWas: (index: number) => boolean,
  ): boolean {
    const { changed, late } = looking.look(count, isAsItWas);
    if (late === null) return changed;
    this.comparesAll = true;
    this.writer.changedInPlace(`${what}[${late}]`);
    return true;
  }

  private isAsDeepAsItWas(list: readonly unknown[], index: number): boolean {
    const there = this.known[index];
    if (there === undefined || there.message !== list[index] || !hasSameFields(there)) return true;
    if (this.writer.isExact && isStillMessage(there.message, jsonOf(there.part))) return true;
    this.known[index] = undefined;
    // Another serializer's bytes say nothing until they are written again.
    return !this.writer.isExact;
  }

  private write(element: unknown, index: number, isDeep: boolean, what: string): Part | Promise<Part> {
    const { isExact } = this.writer;
    const known = this.writer.known(element);
    if (known && hasSameFields(known)) {
      if (!isDeep || (isExact && isStillMessage(known.message, jsonOf(known.part)))) return known.part;
    }
    const before = this.written.parts[index];
    if (isExact && !known && before && isStill(element, jsonOf(before))) return before;
    return this.writer.write(element, `${what}[${index}]`);
  }
}

function listParts(parts: Part[]): ListParts {
  return { parts, agreed: null };
}

function jsonOf(part: Part | undefined): Json {
  return part && "j" in part ? part.j : null;
}
