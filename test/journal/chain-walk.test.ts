// A stream is linked throughout, or not at all: any mix, wherever it begins, is named at its first write.

import { expect, test } from "vitest";
import { ChainWalk, Journal, walkChain } from "../../src/journal/index.ts";
import type { StoredWrite } from "../../src/store.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { said, words } from "./words.ts";

const COMMITS = 5;

async function linkedWrites(): Promise<readonly StoredWrite[]> {
  const journal = new Journal({ store: openMemory() });
  const log = await journal.open(words, "w");
  for (let index = 0; index < COMMITS; index++) await log.commit(() => said(`word ${index}`));
  expect(await walkChain(journal, "words/w")).toMatchObject({ problem: null, isLinked: true });
  const { writes } = await journal.store.read({
    namespace: journal.namespace,
    stream: "words/w",
    after: 0,
    limit: COMMITS,
  });
  expect(writes).toHaveLength(COMMITS);
  return writes;
}

function problemOf(writes: readonly StoredWrite[]): string | null {
  const walk = new ChainWalk("words/w");
  for (const write of writes) walk.add(write);
  return walk.problem;
}

const unlinked = (write: StoredWrite): StoredWrite => ({ ...write, batch: `other-${write.first}` });

test("every set of writes without a link is a problem, but for none and all of them", async () => {
  const writes = await linkedWrites();
  for (let chosen = 0; chosen < 2 ** COMMITS; chosen++) {
    const isChosen = (index: number): boolean => (chosen & (1 << index)) !== 0;
    const mixed = writes.map((write, index) => (isChosen(index) ? unlinked(write) : write));
    // The first write decides what all of them must be.
    const broken = mixed.findIndex((_, index) => isChosen(index) !== isChosen(0));
    const expected =
      broken < 0
        ? null
        : expect.stringContaining(`events ${writes[broken]?.first} to ${writes[broken]?.last} `);
    expect(problemOf(mixed), chosen.toString(2)).toEqual(expected);
  }
});

test("a write that was dropped, repeated or moved breaks the chain", async () => {
  const writes = await linkedWrites();
  for (let index = 0; index < COMMITS - 1; index++) {
    const [before, write, after] = [writes.slice(0, index), writes[index], writes.slice(index + 1)];
    if (!write) throw new Error("there are as many writes as commits");
    expect(problemOf([...before, ...after]), `without ${index}`).not.toBeNull();
    expect(problemOf([...before, write, write, ...after]), `${index} twice`).not.toBeNull();
    expect(problemOf([...before, ...after, write]), `${index} last`).not.toBeNull();
  }
});
