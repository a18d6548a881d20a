import { describe, test } from "vitest";
import { type StoreSubject, storeSuite } from "../../src/testing/index.ts";

/** Runs the whole suite on a store: a group for each topic, a test for each property. */
export function runStoreSuite(subject: StoreSubject): void {
  const cases = storeSuite(subject);
  describe(`the store contract: ${subject.name}`, () => {
    describe.each([...new Set(cases.map(({ topic }) => topic))])("%s", (topic) => {
      for (const each of cases) if (each.topic === topic) test(each.name, each.run);
    });
  });
}
