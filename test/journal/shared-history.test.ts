// Events of streams that share history, for every tree of forks: what a reader gets is what was said.

import fc from "fast-check";
import { expect, test } from "vitest";
import { Journal } from "../../src/journal/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { said, words } from "./words.ts";

/** Random numbers choose the stream and the position, so that every step fits the tree that is there. */
type Step =
  | { readonly does: "say"; readonly stream: number; readonly count: number }
  | { readonly does: "fork"; readonly stream: number; readonly at: number }
  | { readonly does: "hide"; readonly stream: number };

const anyNumber = fc.nat(1_000);
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      does: fc.constant("say"),
      stream: anyNumber,
      count: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ does: fc.constant("fork"), stream: anyNumber, at: anyNumber }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant("hide"), stream: anyNumber }) },
);

/** Plays the steps on a journal. Returns the words that each stream must have. */
async function play(journal: Journal, steps: readonly Step[]): Promise<Map<string, readonly string[]>> {
  const model = new Map<string, readonly string[]>();
  const parents = new Set<string>();
  const live: string[] = [];
  const say = async (id: string, count: number): Promise<void> => {
    const before = model.get(id) ?? [];
    const more = Array.from({ length: count }, (_, index) => `${id}.${before.length + index}`);
    await (await journal.open(words, id)).commit(() => said(...more));
    model.set(id, [...before, ...more]);
  };
  live.push("root");
  await say("root", 3);
  for (const [index, step] of steps.entries()) {
    const id = live[step.stream % live.length] as string;
    const known = model.get(id) ?? [];
    if (step.does === "say") await say(id, step.count);
    if (step.does === "fork") {
      const at = 1 + (step.at % known.length);
      const child = `fork-${index}`;
      const { log, fork } = await journal.fork(words, id, at, child);
      await log.commit(() => ({ ...said(`${child}.own`), fork }));
      model.set(child, [...known.slice(0, at), `${child}.own`]);
      parents.add(id);
      live.push(child);
    }
    // Nothing can be said in a hidden stream, and its forks still read it.
    if (step.does === "hide" && parents.has(id) && live.length > 1) {
      expect(await journal.remove(`words/${id}`)).toBe("hidden");
      live.splice(live.indexOf(id), 1);
      model.delete(id);
    }
  }
  return model;
}

const wordOf = ([seq, { data }]: readonly [number, { readonly data: unknown }]): string =>
  `${seq} ${(data as { word: string }).word}`;

test("any part of any stream has the words that were said there, and in what it was forked from", async () => {
  const property = fc.asyncProperty(
    fc.array(anyStep, { maxLength: 12 }),
    anyNumber,
    anyNumber,
    async (steps, from, to) => {
      const journal = new Journal({ store: openMemory() });
      for (const [id, list] of await play(journal, steps)) {
        const after = from % (list.length + 1);
        const upTo = to % (list.length + 2);
        const numbered = list.map((word, index) => `${index + 1} ${word}`);
        const all: string[] = [];
        for await (const each of journal.events(`words/${id}`)) all.push(wordOf(each));
        expect(all).toEqual(numbered);
        const part: string[] = [];
        for await (const each of journal.events(`words/${id}`, after, upTo)) part.push(wordOf(each));
        expect(part).toEqual(numbered.slice(after, upTo));
        const verified: string[] = [];
        for await (const write of journal.recorded(`words/${id}`, after, upTo))
          verified.push(...write.map(wordOf));
        expect(verified).toEqual(part);
        expect((await journal.load(words, id)).state.list).toEqual(list);
      }
      await journal.store.close();
    },
  );
  await fc.assert(property, { numRuns: 60 });
});
