// A suite that cannot fail protects nothing. Each store here has one planted bug; the suite must report it
// under the topic where a reader would look, as a failed assertion and not as a crash.

import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import { type StoreTopic, storeSuite } from "../../../src/testing/index.ts";
import { FAULTS, withFault } from "./faulty-stores.ts";
import { openMemoryForTest, type Wrap } from "./memory-subject.ts";

interface Failure {
  readonly topic: StoreTopic;
  readonly name: string;
  readonly error: unknown;
}

/**
 * The failed cases of one topic or all, without huge values: no planted bug needs them, and they take most
 * of the time.
 */
async function failuresOf(wrap: Wrap, only?: StoreTopic): Promise<Failure[]> {
  const subject = { name: "faulty", open: () => openMemoryForTest(wrap) };
  const cases = storeSuite(subject).filter(({ topic }) =>
    only === undefined ? topic !== "huge values" : topic === only,
  );
  const runs = cases.map(async ({ topic, name, run }): Promise<Failure[]> => {
    try {
      await run();
      return [];
    } catch (error) {
      return [{ topic, name, error }];
    }
  });
  return (await Promise.all(runs)).flat();
}

describe("the suite notices that", () => {
  test.each(Object.entries(FAULTS))("%s", async (_, { fault, foundIn }) => {
    const found = await failuresOf((store, data) => withFault(store, data, fault), foundIn);
    expect(found.map(({ name }) => name)).not.toEqual([]);
    for (const { error } of found) expect(error).toBeInstanceOf(AssertionError);
  });
});

// A change must be noticed within seconds. A machine may pause that long, but not every time.
test("the suite finds nothing in a store without a fault", { retry: 3 }, async () => {
  expect(await failuresOf((store, data) => withFault(store, data, () => ({})))).toEqual([]);
});
