// Messages that are plainly valid skip the schema. Nothing may skip it that the schema would refuse, and what agents
// usually say must skip it, or the shortcut is none.

import fc from "fast-check";
import { expect, test } from "vitest";
import { makeTurns } from "../../bench/turns.ts";
import { copyJson, isPlainMessage, messageSchema } from "../../src/model/index.ts";

/** Mostly right, now and then anything at all. */
const mostly = <Value>(...right: fc.Arbitrary<Value>[]) =>
  fc.oneof(...right.map((arbitrary) => ({ weight: 12, arbitrary: arbitrary as fc.Arbitrary<unknown> })), {
    weight: 1,
    arbitrary: fc.jsonValue(),
  });

const id = mostly(fc.constantFrom("call_1", "a", "", "x".repeat(256), "x".repeat(257), "new\nline", "é"));
const meta = mostly(fc.dictionary(fc.string(), fc.jsonValue()));
const text = mostly(fc.string({ unit: "binary" }));

const block: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  block: mostly(
    fc.record(
      { kind: fc.constantFrom("text", "reasoning", "image"), text, meta, extra: fc.constant(1) },
      { requiredKeys: ["kind", "text"] },
    ),
    fc.record(
      {
        kind: fc.constant("tool_call"),
        id,
        name: mostly(fc.constantFrom("charge", "")),
        args: fc.jsonValue(),
        meta,
      },
      { requiredKeys: ["kind", "id", "name"] },
    ),
    fc.record(
      {
        kind: fc.constant("tool_result"),
        callId: id,
        content: mostly(text, fc.array(tie("block"), { maxLength: 2 })),
        isError: mostly(fc.boolean()),
        meta,
      },
      { requiredKeys: ["kind", "callId", "content"] },
    ),
    fc.record({ kind: fc.constant("file"), artifact: fc.string(), mediaType: fc.string() }),
  ),
})).block;

const message = fc.record(
  {
    id,
    role: mostly(fc.constantFrom("system", "user", "assistant", "tool")),
    createdAt: mostly(
      fc.constantFrom("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123+02:00", "2026-02-30T12:00:00Z", "now"),
    ),
    blocks: mostly(fc.array(block, { maxLength: 3 })),
    meta,
    extra: fc.constant(null),
  },
  { requiredKeys: ["id", "role", "createdAt", "blocks"] },
);

test("nothing skips the schema that the schema would refuse", () => {
  let skipped = 0;
  fc.assert(
    fc.property(mostly(message), (value) => {
      const copied = copyJson(value, "message");
      if (!isPlainMessage(copied)) return;
      skipped += 1;
      expect(messageSchema.safeParse(copied).success).toBe(true);
    }),
    { numRuns: 5_000 },
  );
  expect(skipped).toBeGreaterThan(200);
});

test("what agents usually say skips the schema", () => {
  const usual = makeTurns(50).flatMap(({ messages }) => messages);
  expect(usual.filter((each) => !isPlainMessage(copyJson(each, "message")))).toEqual([]);
});
