import { z } from "zod";
import type { Json } from "../../src/model/json.ts";
import { type Event, event, type StreamKind } from "../../src/model/stream/index.ts";

/** The plainest kind there is: a list of words. `key:…` claims a key, `artifact:…` refers to one,
 * `call:…` is a call that stays open. */
export interface Words {
  list: string[];
}

export function wordsKind(foldVersion = 1): StreamKind<Words> {
  return {
    kind: "words",
    foldVersion,
    events: {
      said: event(1, z.strictObject({ word: z.string() }), (state: Words, { word }) => {
        state.list.push(word);
      }),
      forgotten: event(1, z.strictObject({}), (state: Words) => {
        state.list = [];
      }),
    },
    shrinking: ["forgotten"],
    initial: () => ({ list: [] }),
    encode: ({ list }) => ({ list: [...list] }) as Json,
    decode: (json) => structuredClone(json) as unknown as Words,
    facets: (state, events, firstSeq) => ({
      claims: named(events, "key:").map(({ name, index }) => ({ key: name, event: index })),
      artifacts: named(events, "artifact:").map(({ name }) => name),
      items: named(events, "call:").map(({ name, index }) => ({
        kind: "call",
        id: name,
        seq: firstSeq + index,
        status: "issued",
      })),
      facets: { openCalls: openCalls(state) + named(events, "call:").length },
    }),
  };
}

function openCalls({ list }: Words): number {
  return list.filter((word) => word.startsWith("call:")).length;
}

function named(events: readonly Event[], prefix: string): { name: string; index: number }[] {
  return events.flatMap(({ data }, index) => {
    const { word = "" } = data as { word?: string };
    return word.startsWith(prefix) ? [{ name: word.slice(prefix.length), index }] : [];
  });
}

export const words = wordsKind();

export function said(...list: string[]): {
  events: { type: string; data: { word: string } }[];
  result: null;
} {
  return { events: list.map((word) => ({ type: "said", data: { word } })), result: null };
}
