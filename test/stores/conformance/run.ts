import { describe, test } from "vitest";
import { type StoreSubject, type StoreTopic, storeSuite } from "../../../src/testing/index.ts";

/**
 * Runs the whole suite on a store: a group per topic, a test per property. `together`: topics whose cases
 * mostly wait and may run concurrently.
 */
export function runStoreSuite(subject: StoreSubject, together: readonly StoreTopic[] = []): void {
  const cases = storeSuite(subject);
  describe(`the store contract: ${subject.name}`, () => {
    describe.each([...new Set(cases.map(({ topic }) => topic))])("%s", (topic) => {
      const define = together.includes(topic) ? test.concurrent : test;
      // A change must be noticed within seconds. A machine may pause that long, but not every time.
      const options = { retry: topic === "watch" ? 3 : 0 };
      for (const each of cases) if (each.topic === topic) define(each.name, options, each.run);
    });
  });
}
