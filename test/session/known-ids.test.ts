import fc from "fast-check";
import { expect, test } from "vitest";
import { IdSet } from "../../src/model/id-set.ts";

/** Few of them, so that most are met again; in order and not, with a space, and the empty one. */
const id = fc.oneof(
  fc.integer({ min: 0, max: 30 }).map((number) => `m-${String(number).padStart(3, "0")}`),
  fc.constantFrom("", " ", "a b", "a", "b", "é", "\uffff", "😀", "m-", "z"),
);
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ act: fc.constant("add" as const), id }) },
  { weight: 4, arbitrary: fc.record({ act: fc.constant("has" as const), id }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("snapshot" as const), id }) },
);

test("a set of ids knows those that were added, in whatever order, also after a snapshot", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const model = new Set<string>();
      let ids = new IdSet();
      for (const { act, id } of steps) {
        if (act === "has") expect(ids.has(id)).toBe(model.has(id));
        if (act === "snapshot") ids = new IdSet(JSON.parse(JSON.stringify(ids.encode())));
        if (act !== "add") continue;
        ids.add(id);
        model.add(id);
      }
      const encoded = ids.encode();
      expect(typeof encoded === "string" && encoded !== "" ? encoded.split(" ") : [...encoded]).toEqual([
        ...model,
      ]);
    }),
    { numRuns: 500 },
  );
});
