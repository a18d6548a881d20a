import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Journal } from "../../src/journal/index.ts";
import { HoldfastError } from "../../src/model/errors.ts";
import type { AppendOutcome, Batch } from "../../src/store.ts";
import { altered, PLACES, type Place } from "./places.ts";
import { said, words } from "./words.ts";

const lostReply = () =>
  new HoldfastError("STORE_IO", "the reply was lost", { hint: "Send it again.", unknown: true });
const refusal = () => new HoldfastError("STORE_FULL", "no room", { hint: "Make some." });

describe.each(Object.entries(PLACES))("commits on %s", (_, makePlace) => {
  let place: Place;
  let journal: Journal;

  beforeEach(async () => {
    place = await makePlace();
    journal = new Journal({ store: place.store });
  });

  afterEach(() => place.dispose());

  const stored = async () => (await journal.load(words, "w")).state.list;

  test("a commit appends at the position that the log expects", async () => {
    const expected: number[] = [];
    const store = altered(place.store, {
      append: (append, batch) => {
        expected.push(batch.writes[0]?.expect.seq ?? -1);
        return append(batch);
      },
    });
    const log = await new Journal({ store }).open(words, "w");
    await log.commit(() => said("a", "b"));
    const second = await log.commit((state) => said(String(state.list.length)));
    expect(second).toMatchObject({ outcome: "ok", head: { generation: 1, seq: 3 } });
    expect(expected).toEqual([0, 2]);
    expect(await stored()).toEqual(["a", "b", "2"]);
  });

  test("a decision without events writes nothing", async () => {
    const log = await journal.open(words, "w");
    expect(await log.commit(() => ({ events: [], result: 7 }))).toMatchObject({ outcome: "ok", result: 7 });
    expect((await journal.row("words/w")).state).toBe("gone");
  });

  test("commits of one log run one after another", async () => {
    const log = await journal.open(words, "w");
    await Promise.all(["a", "b", "c"].map((word) => log.commit((state) => said(word + state.list.length))));
    expect(await stored()).toEqual(["a0", "b1", "c2"]);
  });

  test("memory is not ahead of the store while an append is in flight", async () => {
    const seen: number[] = [];
    const store = altered(place.store, {
      append: async (append, batch) => {
        seen.push(log.state.list.length);
        const outcome = await append(batch);
        seen.push(log.state.list.length);
        return outcome;
      },
    });
    const log = await new Journal({ store }).open(words, "w");
    await log.commit(() => said("a"));
    expect(seen).toEqual([0, 0]);
    expect(log.state.list).toEqual(["a"]);
  });

  test("a failed commit leaves state and position unchanged", async () => {
    let fails = false;
    const store = altered(place.store, {
      append: (append, batch) => (fails ? Promise.reject(refusal()) : append(batch)),
    });
    const log = await new Journal({ store }).open(words, "w");
    await log.commit(() => said("a"));
    fails = true;
    await expect(log.commit(() => said("b"))).rejects.toMatchObject({ code: "STORE_FULL" });
    expect(log.state.list).toEqual(["a"]);
    expect(log.head.seq).toBe(1);
    fails = false;
    await log.commit(() => said("c"));
    expect(log.state.list).toEqual(["a", "c"]);
    expect(await stored()).toEqual(["a", "c"]);
  });

  test("an event that its schema rejects is never sent", async () => {
    const log = await journal.open(words, "w");
    const bad = () => ({ events: [{ type: "said", data: { word: 1 } }], result: null });
    await expect(log.commit(bad)).rejects.toMatchObject({ code: "INPUT_INVALID", data: { path: "$.word" } });
    expect(log.head.seq).toBe(0);
    expect((await journal.row("words/w")).state).toBe("gone");
  });

  test("a lost reply is resolved by sending the same batch again", async () => {
    const ids: string[] = [];
    const outcomes: AppendOutcome[] = [];
    const store = altered(place.store, {
      append: async (append, batch: Batch) => {
        ids.push(batch.id);
        outcomes.push(await append(batch));
        if (ids.length === 1) throw lostReply();
        return outcomes.at(-1);
      },
    });
    const log = await new Journal({ store }).open(words, "w");
    await log.commit(() => said("once"));
    expect(new Set(ids).size).toBe(1);
    expect(outcomes.map((each) => each.outcome === "ok" && each.resent)).toEqual([false, true]);
    expect(log.state.list).toEqual(["once"]);
    expect(await stored()).toEqual(["once"]);
  });

  test("a resend is recognised even if others have written meanwhile", async () => {
    const other = await journal.open(words, "w");
    let sent = 0;
    const store = altered(place.store, {
      append: async (append, batch) => {
        const outcome = await append(batch);
        if (++sent > 1) return outcome;
        await other.commit(() => said("theirs"));
        throw lostReply();
      },
    });
    const log = await new Journal({ store }).open(words, "w");
    await log.commit(() => said("ours"));
    await log.commit(() => said("next"));
    expect(await stored()).toEqual(["ours", "theirs", "next"]);
    expect(log.state.list).toEqual(["ours", "theirs", "next"]);
  });

  test("if no reply ever comes the commit fails, and the next one rereads first", async () => {
    let isCut = true;
    let sent = 0;
    const store = altered(place.store, {
      append: async (append, batch) => {
        const outcome = await append(batch);
        sent += 1;
        if (isCut) throw lostReply();
        return outcome;
      },
    });
    const log = await new Journal({ store }).open(words, "w");
    await expect(log.commit(() => said("a"))).rejects.toMatchObject({ code: "STORE_IO", unknown: true });
    expect(sent).toBe(3);
    expect(log.state.list).toEqual([]);
    isCut = false;
    await log.commit((state) => (state.list.includes("a") ? said("b") : said("a")));
    expect(await stored()).toEqual(["a", "b"]);
  });

  test("a decision after an unanswered append sees whether that landed, also if it writes nothing", async () => {
    for (const lands of [true, false]) {
      let isCut = true;
      const store = altered(place.store, {
        append: async (append, batch) => {
          const outcome = lands || !isCut ? await append(batch) : null;
          if (isCut || outcome === null) throw lostReply();
          return outcome;
        },
      });
      const stream = `landed-${lands}`;
      const log = await new Journal({ store }).open(words, stream);
      await expect(log.commit(() => said("a"))).rejects.toMatchObject({ unknown: true });
      isCut = false;
      const seen = await log.commit(({ list }) => ({ events: [], result: [...list] }));
      expect(seen).toMatchObject({ outcome: "ok", result: lands ? ["a"] : [] });
    }
  });

  test("two logs on one stream decide again on conflict and lose nothing", async () => {
    const logs = await Promise.all([journal.open(words, "w"), journal.open(words, "w")]);
    let decided = 0;
    const count = (state: { list: string[] }) => {
      decided += 1;
      return said(String(state.list.length));
    };
    await Promise.all(Array.from({ length: 40 }, (_, index) => logs[index % 2]?.commit(count)));
    expect(await stored()).toEqual(Array.from({ length: 40 }, (_, index) => String(index)));
    expect(decided).toBeGreaterThan(40);
  });

  test("fenced, taken and missing are values, and nothing was written", async () => {
    const log = await journal.open(words, "w");
    const guards = [{ lease: "words/w", token: 1 }];
    expect(await log.commit(() => ({ ...said("a"), guards }))).toMatchObject({
      outcome: "fenced",
      now: null,
    });
    const missing = `artifact:${"0".repeat(64)}`;
    expect(await log.commit(() => said("a", missing))).toMatchObject({ outcome: "missing" });
    expect(await log.commit(() => said("key:k"))).toMatchObject({ outcome: "ok" });
    const taken = { outcome: "taken", key: "k", by: { stream: "words/w", seq: 1 } };
    expect(await log.commit(() => said("a", "key:k"))).toMatchObject(taken);
    expect(log.state.list).toEqual(["key:k"]);
    expect(await stored()).toEqual(["key:k"]);
  });

  test("a stream that was removed and created again is loaded from its new beginning", async () => {
    const log = await journal.open(words, "w");
    await log.commit(() => said("old"));
    expect(await journal.remove("words/w")).toBe("removed");
    const other = await journal.open(words, "w");
    await other.commit(() => said("new"));
    await log.commit((state) => said(...state.list.map((word) => `after ${word}`)));
    expect(log.state.list).toEqual(["new", "after new"]);
    expect(log.head).toEqual({ generation: 2, seq: 2 });
  });

  test("a commit to a hidden stream fails instead of retrying for ever", async () => {
    const log = await journal.open(words, "w");
    await log.commit(() => said("shared"));
    const { log: forked, fork } = await journal.fork(words, "w", 1, "f");
    await forked.commit(() => ({ ...said("own"), fork }));
    expect(await journal.remove("words/w")).toBe("hidden");
    await expect(log.commit(() => said("more"))).rejects.toMatchObject({ code: "STREAM_NOT_FOUND" });
    expect((await journal.load(words, "f")).state.list).toEqual(["shared", "own"]);
  });

  test("a log does not write to a store that lost acknowledged events", async () => {
    const older = await makePlace();
    try {
      let store = place.store;
      const moving = altered(place.store, {
        append: (_, batch) => store.append(batch),
        read: (_, request) => store.read(request),
      });
      const log = await new Journal({ store: moving }).open(words, "w");
      const copy = await new Journal({ store: older.store }).open(words, "w");
      for (const each of [log, copy]) await each.commit(() => said("a"));
      await log.commit(() => said("b"));
      store = older.store;
      await expect(log.commit(() => said("c"))).rejects.toMatchObject({ code: "STORE_REPLACED" });
      expect((await new Journal({ store }).load(words, "w")).state.list).toEqual(["a"]);
    } finally {
      await older.dispose();
    }
  });

  test("an older copy with an earlier generation of the stream is noticed too", async () => {
    const older = await makePlace();
    try {
      let store = place.store;
      const moving = altered(place.store, {
        append: (_, batch) => store.append(batch),
        read: (_, request) => store.read(request),
      });
      for (const each of [place.store, older.store]) {
        await (await new Journal({ store: each }).open(words, "w")).commit(() => said("first life"));
      }
      await journal.remove("words/w");
      const log = await new Journal({ store: moving }).open(words, "w");
      await log.commit(() => said("second life"));
      store = older.store;
      await expect(log.commit(() => said("more"))).rejects.toMatchObject({ code: "STORE_REPLACED" });
      expect((await new Journal({ store }).load(words, "w")).state.list).toEqual(["first life"]);
    } finally {
      await older.dispose();
    }
  });
});
