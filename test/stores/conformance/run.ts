import { describe, test } from "vitest";
import { type StoreSubject, type StoreTopic, storeSuite } from "../../../src/testing/index.ts";

/**
 * Runs the whole suite on a store: a group for each topic, a test for each property. `together`: topics whose cases mostly
 * wait, which they do at the same time where a store is made in no time.
 */
export function runStoreSuite(subject: StoreSubject, together: readonly StoreTopic[] = []): void {
  const cases = storeSuite(subject);
  describe(`the store contract: ${subject.name}`, () => {
    describe.each([...new Set(cases.map(({ topic }) => topic))])("%s", (topic) => {
      const define = together.includes(topic) ? test.concurrent : test;
      // What is not noticed within two seconds counts as never; a machine may stand still for as long, but not every time.
      const options = { retry: topic === "watch" ? 3 : 0 };
      for (const each of cases) if (each.topic === topic) define(each.name, options, each.run);
    });
  });
}
