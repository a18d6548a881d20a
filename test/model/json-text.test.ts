// `toUtf8` is the fast form of `toString`: both must give what JSON.stringify gives.

import fc from "fast-check";
import { expect, test } from "vitest";
import { JsonText } from "../../src/model/json-text.ts";

test("string and bytes equal JSON.stringify, for all kinds of letters", () => {
  const unit = fc.constantFrom(
    ...'aé→😀"\\\n\t\r\b\f\0\x7f\x80\u07ff\u0800\u2028\uffff\x1f',
    "\ud800",
    "\udc00",
  );
  const anyText = fc.oneof(
    fc.string({ unit, minLength: 64, maxLength: 2_000, size: "max" }),
    fc.string({
      unit: fc.constantFrom(..."abcdefgh \n\u00e9"),
      minLength: 64,
      maxLength: 2_000,
      size: "max",
    }),
  );
  let asBytes = 0;
  fc.assert(
    fc.property(fc.array(fc.oneof(anyText, fc.string({ unit })), { minLength: 1, maxLength: 6 }), (texts) => {
      const text = new JsonText();
      for (const [index, each] of texts.entries()) {
        text.json(index === 0 ? "[" : ",");
        text.text(each);
      }
      text.json("]");
      const expected = JSON.stringify(texts);
      expect(text.toString()).toBe(expected);
      const bytes = text.toUtf8();
      if (!bytes) return;
      asBytes += 1;
      expect(Buffer.from(bytes).equals(Buffer.from(expected))).toBe(true);
    }),
    { numRuns: 1_000 },
  );
  expect(asBytes).toBeGreaterThan(300);
});

test("half a surrogate pair at the end is not joined with the rest of an earlier text", () => {
  const long = new JsonText();
  long.text("\udc00".repeat(3_000));
  long.toUtf8();
  const short = new JsonText();
  short.text(`${"x".repeat(2_000)}\ud83d`);
  expect(Buffer.from(short.toUtf8() ?? []).toString()).toBe(`"${"x".repeat(2_000)}\\ud83d"`);
});
