/** Codecs and callers that reuse buffers, throw unexpectedly, or throw values that are not errors. */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Journal, type PayloadCodec } from "../../src/journal/index.ts";
import { open } from "../../src/open.ts";
import type { Store } from "../../src/store.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { PLACES, type Place } from "./places.ts";
import { said, words } from "./words.ts";

const LONG = "x".repeat(30_000);

/** A careless redaction: it assumes that every payload is a list of events. */
const listsOnly: PayloadCodec = {
  name: "lists-only",
  encode: (text) => JSON.stringify((JSON.parse(text) as unknown[]).map((each) => each)),
  decode: (payload) => payload as string,
};

/** Two logs of a journal whose codec hands out the same buffer every time. */
async function twoLogs(store: Store) {
  const scratch = Buffer.alloc(1 << 20);
  const codec: PayloadCodec = {
    name: "scratch",
    encode: (text) => scratch.subarray(0, scratch.write(text)),
    decode: (payload) => Buffer.from(payload as Uint8Array).toString(),
  };
  const journal = new Journal({ store, codecs: [codec] });
  return { journal, first: await journal.open(words, "a"), second: await journal.open(words, "b") };
}

describe.each(Object.entries(PLACES))("on %s", (_name, makePlace) => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });

  afterEach(() => place.dispose());

  test("a codec that cannot encode a snapshot fails neither a commit nor an open", async () => {
    const warnings: unknown[] = [];
    const warn = (error: unknown) => void warnings.push(error);
    const holdfast = await open(undefined, { store: place.store, codecs: [listsOnly], warn });
    const session = await holdfast.session("s");
    for (let count = 0; count < 3; count++) await session.append({ role: "user", text: LONG });
    const [last] = session.messages.slice(-1);
    await session.compact([{ ...last, blocks: [{ kind: "text", text: "in short" }] }]);
    expect(warnings).toHaveLength(1);
    await session.append({ id: "after", role: "user", text: "after" });
    await session.close();
    // Another program: this one still knows the session.
    const other = await open(undefined, { store: place.store, codecs: [listsOnly], warn });
    const again = await other.session("s");
    expect(again.messages.map(({ id }) => id)).toEqual([last?.id, "after"]);
    expect(warnings.length).toBeGreaterThan(1);
    await again.close();
  });

  test("a codec may reuse its buffer", async () => {
    const { journal, first, second } = await twoLogs(place.store);
    await Promise.all([first.commit(() => said("one")), second.commit(() => said("two"))]);
    expect((await journal.load(words, "a")).state.list).toEqual(["one"]);
    expect((await journal.load(words, "b")).state.list).toEqual(["two"]);
    expect(await place.store.check()).toEqual([]);
  });

  test("a codec may reuse its buffer for a snapshot", async () => {
    const { journal, first, second } = await twoLogs(place.store);
    for (let count = 0; count < 3; count++) await first.commit(() => said(LONG));
    await Promise.all([
      first.commit(() => ({ events: [{ type: "forgotten", data: {} }], result: null })),
      ...["one", "two", "three"].map((word) => second.commit(() => said(word))),
    ]);
    const { rows } = await journal.list<"snapshots">({ of: "snapshots", stream: "words/a" });
    expect(rows).toHaveLength(1);
    expect(await journal.check(words, "words/a")).toEqual([]);
    expect(await journal.check(words, "words/b")).toEqual([]);
  });

  test("the caller of putArtifact may reuse its buffer", async () => {
    const journal = new Journal({ store: place.store });
    const buffer = Buffer.alloc(5);
    const puts = ["first", "other"].map((text) => {
      buffer.write(text);
      return journal.putArtifact(buffer);
    });
    const read = (await Promise.all(puts)).map(async (hash) =>
      Buffer.from(await journal.getArtifact(hash)).toString(),
    );
    expect(await Promise.all(read)).toEqual(["first", "other"]);
  });
});

test.each([[{ status: 503 }], ["a text"], [undefined], [Object.create(null)], [new Error("an error")]])(
  "%o can be warned of",
  async (thrown) => {
    const journal = new Journal({ store: openMemory() });
    const told = new Promise((resolve) => process.once("warning", resolve));
    expect(() => journal.warn(thrown)).not.toThrow();
    expect(await told).toBeInstanceOf(Error);
  },
);
