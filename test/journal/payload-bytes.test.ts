import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { payloadSum } from "../../src/journal/index.ts";
import { JsonText } from "../../src/model/json-text.ts";
import { open } from "../../src/open.ts";
import type { Batch } from "../../src/store.ts";
import { PLACES, type Place } from "./places.ts";

/** Every number of bytes a letter can have, what JSON escapes, and a half pair, which it escapes as well. */
const LETTERS = ["a", "é", "€", "😀", "\n", '"', "\\", "\0", "\u001f", "\ud800"];

/** Texts of all lengths around those at which memory for their bytes begins anew, each unlike any other. */
const textOf = (number: number): string => {
  const letter = LETTERS[number % LETTERS.length] as string;
  return `${number}:${letter.repeat((number * 997) % 12_000)}:${number}`;
};

describe.each(Object.entries(PLACES))("payloads on %s", (_name, makePlace) => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });

  afterEach(() => place.dispose());

  test("what many sessions say at once is stored as each of them said it", async () => {
    const numbers = Array.from({ length: 160 }, (_, index) => index);
    const holdfast = await open(undefined, { store: place.store });
    const sessions = await Promise.all(numbers.map((number) => holdfast.session(`s-${number}`)));
    await Promise.all(
      sessions.map((session, number) => session.append({ role: "user", text: textOf(number) })),
    );
    // One more each: it may use the memory of the first ones, which must be out of their hands by then.
    await Promise.all(
      sessions.map((session, number) => session.append({ role: "user", text: textOf(number + 1) })),
    );
    expect(await place.store.check()).toEqual([]);
    for (const number of numbers) {
      const { messages } = await holdfast.sessions.get(`s-${number}`);
      expect(messages.map(({ blocks }) => blocks)).toEqual([
        [{ kind: "text", text: textOf(number) }],
        [{ kind: "text", text: textOf(number + 1) }],
      ]);
    }
    await Promise.all(sessions.map((session) => session.close()));
  });

  test("what a store in between changes is stored as it has changed it", async () => {
    const { store } = place;
    const redacting = {
      append: (batch: Batch) =>
        store.append({
          ...batch,
          writes: batch.writes.map((write) => {
            const payload = (write.payload as string).replaceAll("sk-1234", "sk-****");
            return { ...write, payload, sum: payloadSum(payload) };
          }),
        }),
    };
    const between = new Proxy(store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(name === "append" ? redacting : target, name);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    const holdfast = await open(undefined, { store: between });
    const session = await holdfast.session("s");
    await session.append({ role: "user", text: "the key is sk-1234" });
    // Long enough that a store which takes bytes would be given them.
    await session.append({ role: "user", text: `${"x".repeat(4_000)} the key is sk-1234` });
    await session.close();
    const { writes } = await store.read({ namespace: "default", stream: "session/s", after: 0 });
    const stored = writes.map(({ payload }) => payload).join();
    expect(stored).toContain("sk-****");
    expect(stored).not.toContain("sk-1234");
    expect(await store.check()).toEqual([]);
  });
});

test("bytes are those of what JSON.stringify makes of it, of texts of any letters", () => {
  const unit = fc.constantFrom(
    ...'aé→😀"\\\n\t\r\b\f\0\x7f\x80\u07ff\u0800\u2028\uffff\x1f',
    "\ud800",
    "\udc00",
  );
  const text = fc.oneof(
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
    fc.property(fc.array(fc.oneof(text, fc.string({ unit })), { minLength: 1, maxLength: 6 }), (texts) => {
      const made = new JsonText();
      for (const [index, each] of texts.entries()) {
        made.json(index === 0 ? "[" : ",");
        made.text(each);
      }
      made.json("]");
      const expected = JSON.stringify(texts);
      expect(made.toString()).toBe(expected);
      const bytes = made.toUtf8();
      if (!bytes) return;
      asBytes += 1;
      expect(Buffer.from(bytes).equals(Buffer.from(expected))).toBe(true);
    }),
    { numRuns: 1_000 },
  );
  expect(asBytes).toBeGreaterThan(300);
});

test("half a pair at the end of a text is not joined with what another text left behind it", () => {
  const long = new JsonText();
  long.text("\udc00".repeat(3_000));
  long.toUtf8();
  const short = new JsonText();
  short.text(`${"x".repeat(2_000)}\ud83d`);
  expect(Buffer.from(short.toUtf8() ?? []).toString()).toBe(`"${"x".repeat(2_000)}\\ud83d"`);
});
