import fc from "fast-check";
import { expect, test } from "vitest";
import { sessionKind } from "../../src/model/session/index.ts";

/** Few ids, so that most repeat: in order and out of order, with a space, and empty. */
const id = fc.oneof(
  fc.integer({ min: 0, max: 30 }).map((number) => `m-${String(number).padStart(3, "0")}`),
  fc.constantFrom("", " ", "a b", "a", "b", "é", "\uffff", "😀", "m-", "z"),
);
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ act: fc.constant("add" as const), id }) },
  { weight: 4, arbitrary: fc.record({ act: fc.constant("has" as const), id }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("snapshot" as const), id }) },
);

test("message ids are recognised in any order, also after a snapshot", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const model = new Set<string>();
      let state = sessionKind.initial();
      for (const { act, id } of steps) {
        if (act === "has") expect(state.messageIds.has(id)).toBe(model.has(id));
        if (act === "snapshot")
          state = sessionKind.decode(JSON.parse(JSON.stringify(sessionKind.encode(state))));
        if (act !== "add") continue;
        state.messageIds.add(id);
        model.add(id);
      }
      const encoded = state.messageIds.encode();
      const ids = typeof encoded === "string" ? encoded.split(" ").filter((each) => each !== "") : encoded;
      expect(ids).toEqual([...model]);
    }),
    { numRuns: 500 },
  );
});
