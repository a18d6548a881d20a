import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Journal } from "../../src/journal/index.ts";
import { altered, PLACES, type Place } from "./places.ts";
import { said, words, wordsKind } from "./words.ts";

const KIB = 1024;

describe.each(Object.entries(PLACES))("snapshots on %s", (_, makePlace) => {
  let place: Place;
  let journal: Journal;

  beforeEach(async () => {
    place = await makePlace();
    journal = new Journal({ store: place.store });
  });

  afterEach(() => place.dispose());

  const list = async () => (await journal.list<"snapshots">({ of: "snapshots", stream: "words/w" })).rows;
  const big = "x".repeat(10 * KIB);
  const forget = () => ({ events: [{ type: "forgotten", data: {} }], result: null });

  test("none is saved while the log is about as large as the state", async () => {
    const log = await journal.open(words, "w");
    for (let count = 0; count < 20; count++) await log.commit(() => said(big));
    await journal.open(words, "w");
    expect(await list()).toEqual([]);
  });

  test("one is saved when the replay exceeds twice the state, and loading uses it", async () => {
    const log = await journal.open(words, "w");
    for (let count = 0; count < 20; count++) await log.commit(() => said(big));
    await log.commit(forget);
    await log.commit(() => said("after"));
    expect(await list()).toMatchObject([{ seq: 21, fold: "words@1" }]);
    const loaded = await journal.load(words, "w");
    expect(loaded.state.list).toEqual(["after"]);
    expect(loaded.replayedBytes).toBeLessThan(KIB);
    expect(await journal.check(words, "words/w")).toEqual([]);
  });

  test("a small log gets none, however small its state", async () => {
    const log = await journal.open(words, "w");
    for (let count = 0; count < 20; count++) await log.commit(() => said("x".repeat(100)));
    await log.commit(forget);
    expect(await list()).toEqual([]);
  });

  test("positions before it are folded from the events", async () => {
    const log = await journal.open(words, "w");
    for (let count = 0; count < 10; count++) await log.commit(() => said(`${count}${big}`));
    await log.commit(forget);
    expect(await list()).toHaveLength(1);
    const early = await journal.load(words, "w", 3);
    expect(early.state.list.map((word) => word[0])).toEqual(["0", "1", "2"]);
    expect(early.head.seq).toBe(3);
  });

  test("one of another fold version is ignored, and a new one saved", async () => {
    const log = await journal.open(words, "w");
    for (let count = 0; count < 20; count++) await log.commit(() => said(big));
    await log.commit(forget);
    const next = wordsKind(2);
    const loaded = await journal.load(next, "w");
    expect(loaded.replayedBytes).toBeGreaterThan(200 * KIB);
    expect(loaded.state.list).toEqual([]);
    await journal.open(next, "w");
    expect((await list()).map(({ fold }) => fold).sort()).toEqual(["words@1", "words@2"]);
    expect((await journal.load(next, "w")).replayedBytes).toBeLessThan(KIB);
  });

  test("check finds one that is not the fold of its events", async () => {
    const log = await journal.open(words, "w");
    await log.commit(() => said("a"));
    const fold = {
      of: "snapshot",
      namespace: "default",
      stream: "words/w",
      generation: 1,
      fold: "words@1",
    } as const;
    await place.store.put({ ...fold, seq: 1, payload: '{"list":["b"]}', codec: null });
    expect(await journal.check(words, "words/w")).toMatchObject([
      { invariant: "I10", where: "words/w at 1" },
    ]);
  });

  test("one that cannot be saved is a warning and does not fail the commit", async () => {
    const warned: unknown[] = [];
    const store = altered(place.store, { put: () => Promise.reject(new Error("no room")) });
    const log = await new Journal({ store, warn: (error) => warned.push(error) }).open(words, "w");
    for (let count = 0; count < 20; count++) await log.commit(() => said(big));
    await expect(log.commit(forget)).resolves.toMatchObject({ outcome: "ok" });
    expect(warned).toEqual([new Error("no room")]);
    expect(await list()).toEqual([]);
  });

  test("one of an earlier generation is never used for a later one", async () => {
    const log = await journal.open(words, "w");
    for (let count = 0; count < 20; count++) await log.commit(() => said(big));
    await log.commit(forget);
    for (let count = 0; count < 2; count++) await log.commit(() => said("after"));
    let isBetween = true;
    const store = altered(place.store, {
      read: async (read, request) => {
        // One write per page: the stream is created again between the page with the snapshot and the next.
        const page = await read({ ...request, limit: 1 });
        if (!isBetween) return page;
        isBetween = false;
        expect(page).toMatchObject({ more: true, snapshot: { generation: 1 } });
        await journal.remove("words/w");
        const second = await journal.open(words, "w");
        for (let count = 0; count < 30; count++) await second.commit(() => said(String(count)));
        return page;
      },
    });
    const { state, head } = await new Journal({ store }).load(words, "w");
    expect(isBetween).toBe(false);
    expect(head).toEqual({ generation: 2, seq: 30 });
    expect(state.list).toHaveLength(30);
  });

  test("none is saved of a hidden stream, and its next generation starts empty", async () => {
    const log = await journal.open(words, "w");
    for (let count = 0; count < 20; count++) await log.commit(() => said(big));
    await log.commit(forget);
    const { log: forked, fork } = await journal.fork(words, "w", 1, "f");
    await forked.commit(() => ({ ...said("own"), fork }));
    await journal.remove("words/w");
    let puts = 0;
    const store = altered(place.store, {
      put: (put, request) => {
        puts += 1;
        return put(request);
      },
    });
    await new Journal({ store }).open(words, "w");
    expect(puts).toBe(0);
    await journal.remove("words/f");
    const second = await journal.open(words, "w");
    await second.commit(() => said("new"));
    expect((await journal.load(words, "w")).state.list).toEqual(["new"]);
    expect(await list()).toEqual([]);
  });

  test("one beyond the end of its stream is ignored with a warning", async () => {
    const log = await journal.open(words, "w");
    await log.commit(() => said("a"));
    const { payload, codec } = journal.payloads.encodeSnapshot('{"list":["of the future"]}', {
      namespace: "default",
      stream: "words/w",
      seq: 2,
    });
    const future = { generation: 1, seq: 2, fold: "words@1", payload, codec };
    await place.store.put({ of: "snapshot", namespace: "default", stream: "words/w", ...future });
    const warned: unknown[] = [];
    const told = new Journal({ store: place.store, warn: (error) => warned.push(error) });
    const loaded = await told.load(words, "w");
    expect(loaded.state.list).toEqual(["a"]);
    expect(loaded.head).toEqual({ generation: 1, seq: 1 });
    expect(warned).toMatchObject([
      { code: "EVENT_CORRUPT", message: expect.stringContaining("snapshot at 2") },
    ]);
  });
});
