// Long texts go to SQLite as UTF-8 bytes, in memory that many texts share. Each must be stored unchanged.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { payloadSum } from "../../src/journal/index.ts";
import { open } from "../../src/open.ts";
import type { Batch } from "../../src/store.ts";
import { PLACES, type Place } from "./places.ts";

/** Letters of one to four bytes, letters that JSON escapes, and half of a surrogate pair. */
const LETTERS = ["a", "é", "€", "😀", "\n", '"', "\\", "\0", "\u001f", "\ud800"];

/** Texts of many lengths, so that the shared memory is replaced at many places; all are different. */
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

  test("messages of many sessions at once are stored unchanged", async () => {
    const numbers = Array.from({ length: 160 }, (_, index) => index);
    const holdfast = await open(undefined, { store: place.store });
    const sessions = await Promise.all(numbers.map((number) => holdfast.session(`s-${number}`)));
    await Promise.all(
      sessions.map((session, number) => session.append({ role: "user", text: textOf(number) })),
    );
    // A second message may use the memory of the first, which must be stored by then.
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

  test("a wrapper around the store sees text, and its changes are stored", async () => {
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
    // Long enough that SQLite itself would get bytes.
    await session.append({ role: "user", text: `${"x".repeat(4_000)} the key is sk-1234` });
    await session.close();
    const { writes } = await store.read({ namespace: "default", stream: "session/s", after: 0 });
    const stored = writes.map(({ payload }) => payload).join();
    expect(stored).toContain("sk-****");
    expect(stored).not.toContain("sk-1234");
    expect(await store.check()).toEqual([]);
  });
});
