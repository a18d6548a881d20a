/**
 * What a list held when it was last saved, by place, so that saving it again costs what was added to it.
 *
 * A message that is the same object as before counts as unchanged while
 *  - each of its fields holds the same value as before: looked at for every message, at every save;
 *  - and what lies deeper was not changed in place. That is looked at in the latest messages and in some of the others, in
 *    turn: all of a short list, and of a long one all within a few saves. The first deep change that is found late is said
 *    aloud, and from then on everything in the list is compared at every save.
 * Whatever is no message is compared in full, always: other data is often changed in place.
 */

import type { Json } from "../../model/index.ts";
import { isStill, isStillMessage } from "./exact-comparison.ts";
import { hasSameFields, type KnownMessage } from "./known-message.ts";
import type { Part } from "./stored-part.ts";

/** What a node changes in place is most often what it has just got. */
const EXACT_LOOK = { recent: 16, inTurn: 32 };
/** Another serializer has to write a message again before it can be compared. */
const OTHER_LOOK = { recent: 4, inTurn: 4 };

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
  private readonly known: (KnownMessage | undefined)[] = [];
  private parts: readonly Part[] = [];
  private turn = 0;
  private comparesAll = false;

  takeDown(
    list: readonly unknown[],
    what: string,
    writer: ElementWriter,
  ): readonly Part[] | Promise<readonly Part[]> {
    const deep = this.compareDeep(list, what, writer);
    const parts: (Part | Promise<Part>)[] = new Array(list.length);
    let isLater = false;
    for (let index = 0; index < list.length; index++) {
      const element = list[index];
      const there = this.known[index];
      if (there !== undefined && there.message === element && hasSameFields(there)) {
        parts[index] = there.part;
        continue;
      }
      const part = this.element(element, index, deep(index), what, writer);
      isLater ||= part instanceof Promise;
      parts[index] = part;
      this.known[index] = writer.known(element);
    }
    this.known.length = list.length;
    if (isLater) return Promise.all(parts);
    this.parts = parts as Part[];
    return this.parts;
  }

  /** Forgets those whose depths have changed, and says which places have to be compared in full. */
  private compareDeep(
    list: readonly unknown[],
    what: string,
    writer: ElementWriter,
  ): (index: number) => boolean {
    const all = this.comparesAll || writer.comparesAll;
    const { recent, inTurn } = writer.isExact ? EXACT_LOOK : OTHER_LOOK;
    const older = Math.max(0, list.length - recent);
    const from = this.turn < older ? this.turn : 0;
    const until = Math.min(from + inTurn, older);
    const isDeep = (index: number) => all || index >= older || (index >= from && index < until);
    if (all) {
      for (let index = 0; index < list.length; index++) this.isAsItWas(list, index, writer);
      return isDeep;
    }
    for (let index = older; index < list.length; index++) this.isAsItWas(list, index, writer);
    let found = -1;
    for (let index = from; index < until; index++) {
      if (!this.isAsItWas(list, index, writer)) found = index;
    }
    this.turn = until;
    if (found < 0 || older <= inTurn) return isDeep;
    // Others may have been changed before; from now on none is taken on trust.
    this.comparesAll = true;
    writer.changedInPlace(`${what}[${found}]`);
    return this.compareDeep(list, what, writer);
  }

  private isAsItWas(list: readonly unknown[], index: number, writer: ElementWriter): boolean {
    const there = this.known[index];
    if (there === undefined || there.message !== list[index] || !hasSameFields(there)) return true;
    if (writer.isExact && isStillMessage(there.message, jsonOf(there.part))) return true;
    this.known[index] = undefined;
    // Another serializer's bytes say nothing until they are written again.
    return !writer.isExact;
  }

  private element(
    element: unknown,
    index: number,
    isDeep: boolean,
    what: string,
    writer: ElementWriter,
  ): Part | Promise<Part> {
    const known = writer.known(element);
    if (known && hasSameFields(known)) {
      if (!isDeep || (writer.isExact && isStillMessage(known.message, jsonOf(known.part)))) return known.part;
    }
    const before = this.parts[index];
    if (writer.isExact && !known && before && isStill(element, jsonOf(before))) return before;
    return writer.write(element, `${what}[${index}]`);
  }
}

function jsonOf(part: Part): Json {
  return "j" in part ? part.j : null;
}
