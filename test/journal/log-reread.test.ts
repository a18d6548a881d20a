/** A log that others write to folds each event once, even if a reread fails half way. */

import { describe, expect, test } from "vitest";
import { z } from "zod";
import { Journal, type PayloadCodec } from "../../src/journal/index.ts";
import { HoldfastError } from "../../src/model/errors.ts";
import { event, type StreamKind } from "../../src/model/stream/index.ts";
import type { Store } from "../../src/store.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { altered } from "./places.ts";
import { said, type Words, words } from "./words.ts";

/** Fails once to decode a payload that contains `word`. */
function failingOnce(word: string): PayloadCodec & { arm(): void } {
  let isArmed = false;
  return {
    name: "kms",
    arm: () => {
      isArmed = true;
    },
    encode: (text) => text,
    decode(payload) {
      if (isArmed && String(payload).includes(word)) {
        isArmed = false;
        throw new Error("the key service timed out");
      }
      return String(payload);
    },
  };
}

describe("a reread that fails between two events", () => {
  test("keeps the events that it has folded, and folds none twice", async () => {
    const data = memoryData();
    const codec = failingOnce("third");
    const journal = new Journal({ store: openMemory({ data }), codecs: [codec] });
    const log = await journal.open(words, "w");
    const other = await new Journal({ store: openMemory({ data }), codecs: [codec] }).open(words, "w");
    await other.commit(() => said("first", "second"));
    await other.commit(() => said("third"));
    codec.arm();
    await expect(log.refresh()).rejects.toThrow("timed out");
    expect(log.head.seq).toBe(2);
    await log.refresh();
    expect(log.state.list).toEqual(["first", "second", "third"]);
    await log.commit(() => said("fourth"));
    expect((await journal.load(words, "w")).state.list).toEqual(log.state.list);
    expect(await journal.check(words, "words/w")).toEqual([]);
  });

  test("also if the second page cannot be read", async () => {
    const data = memoryData();
    let pages = 0;
    const store = altered(openMemory({ data }), {
      read: (read, request) => {
        pages += 1;
        if (pages === 2) throw new HoldfastError("STORE_IO", "a page cannot be read", { hint: "Try again." });
        return read(request);
      },
    });
    const log = await new Journal({ store }).open(words, "w");
    const other = await new Journal({ store: openMemory({ data }) }).open(words, "w");
    for (let count = 0; count < 1_001; count++) await other.commit(() => said(`word ${count}`));
    pages = 0;
    await expect(log.refresh()).rejects.toMatchObject({ code: "STORE_IO" });
    expect(log.state.list).toHaveLength(log.head.seq);
    await log.refresh();
    expect(log.state.list).toEqual(other.state.list);
  });
});

/** Adds a word and counts it; it may fail in between. */
function brittle(mayFail: () => boolean): StreamKind<Words & { count: number }> {
  return {
    kind: "words",
    foldVersion: 1,
    events: {
      said: event(1, z.strictObject({ word: z.string() }), (state: Words & { count: number }, { word }) => {
        state.list.push(word);
        if (mayFail()) throw new Error(`cannot count ${word}`);
        state.count += 1;
      }),
    },
    initial: () => ({ list: [], count: 0 }),
    encode: (state) => ({ ...state }),
    decode: (json) => structuredClone(json) as unknown as Words & { count: number },
  };
}

describe("an event that fails half way through changing the state", () => {
  test.each(["refresh", "commit"] as const)("is not left half done by the next %s", async (next) => {
    const data = memoryData();
    let fails = false;
    const kind = brittle(() => fails);
    const journal = new Journal({ store: openMemory({ data }) });
    const log = await journal.open(kind, "w");
    await log.commit(() => said("mine"));
    const other = await new Journal({ store: openMemory({ data }) }).open(words, "w");
    await other.commit(() => said("first", "second"));
    fails = true;
    await expect(log.refresh()).rejects.toThrow("cannot count first");
    fails = false;
    if (next === "refresh") await log.refresh();
    else await log.commit(() => said("third"));
    const list = ["mine", "first", "second", ...(next === "commit" ? ["third"] : [])];
    expect(log.state).toEqual({ list, count: list.length });
  });

  test("nor by the commit that made the event durable", async () => {
    let fails = false;
    const kind = brittle(() => fails);
    const journal = new Journal({ store: openMemory() });
    const log = await journal.open(kind, "w");
    fails = true;
    await expect(log.commit(() => said("first", "second"))).rejects.toThrow("cannot count first");
    fails = false;
    await log.commit(({ count }) => said(`after ${count}`));
    expect(log.state).toEqual({ list: ["first", "second", "after 2"], count: 3 });
  });
});

describe("a store that contradicts itself", () => {
  test("a stream whose last events are missing is not loaded as an older state", async () => {
    const store = openMemory();
    const log = await new Journal({ store }).open(words, "w");
    await log.commit(() => said("first"));
    const reader = await new Journal({ store: withoutWritesAfter(1, store) }).open(words, "w");
    await log.commit(() => said("second"));
    const corrupt = {
      code: "STORE_CORRUPT",
      message: "words/w: its events end at 1, but its head is at 2",
      hint: expect.stringContaining("holdfast check"),
    };
    const journal = new Journal({ store: withoutWritesAfter(1, store) });
    await expect(journal.load(words, "w")).rejects.toMatchObject(corrupt);
    await expect(journal.open(words, "w")).rejects.toMatchObject(corrupt);
    await expect(reader.refresh()).rejects.toMatchObject(corrupt);
    expect((await journal.load(words, "w", 1)).state.list).toEqual(["first"]);
  });

  test("a conflict whose events cannot be read ends the commit at once", async () => {
    const store = openMemory();
    const old = await store.read({ namespace: "default", stream: "words/w", after: 0 });
    const log = await new Journal({ store: altered(store, { read: () => old }) }).open(words, "w");
    await (await new Journal({ store }).open(words, "w")).commit(() => said("first"));
    let decisions = 0;
    const commit = log.commit(() => {
      decisions += 1;
      return said("second");
    });
    await expect(commit).rejects.toMatchObject({
      code: "STORE_CORRUPT",
      message: expect.stringContaining("refuses an append after 0 because its head is at 1"),
      hint: expect.stringContaining("holdfast check"),
    });
    expect(decisions).toBe(1);
  });

  test("another generation counts as news, even at the same seq", async () => {
    const store = openMemory();
    const journal = new Journal({ store });
    const log = await journal.open(words, "w");
    await log.commit(() => said("first"));
    const stream = { namespace: "default", stream: "words/w", expect: log.head };
    await store.remove({ of: "stream", ...stream });
    await (await journal.open(words, "w")).commit(() => said("anew"));
    await log.commit(() => said("second"));
    expect(log.state.list).toEqual(["anew", "second"]);
  });
});

/** The same store, but reads do not return the writes that end after `seq`. */
function withoutWritesAfter(seq: number, store: Store): Store {
  return altered(store, {
    read: async (read, request) => {
      const page = await read(request);
      return { ...page, writes: page.writes.filter(({ last }) => last <= seq) };
    },
  });
}
