import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Journal, Lease } from "../../src/journal/index.ts";
import { type Holdfast, open } from "../../src/open.ts";
import { PLACES, type Place } from "./places.ts";
import { said, words } from "./words.ts";

const HOUR_MS = 3_600_000;

describe.each(Object.entries(PLACES))("retention on %s", (_, makePlace) => {
  let place: Place;
  let holdfast: Holdfast;
  let journal: Journal;
  let nowMs: number;

  beforeEach(async () => {
    place = await makePlace();
    nowMs = 1_000 * HOUR_MS;
    holdfast = await open(undefined, { store: place.store, now: () => nowMs });
    journal = holdfast.journal;
  });

  afterEach(() => place.dispose());

  const session = async (id: string, text = "hello") => {
    const made = await holdfast.session(id);
    await made.append({ role: "user", text });
    return made;
  };
  const sessions = async () => (await holdfast.sessions.list()).sessions.map(({ id }) => id).sort();

  describe("a session that is older than its time to live", () => {
    test("is rejected, and the error tells its age", async () => {
      await (await session("s")).close();
      nowMs += 100 * HOUR_MS;
      await expect(holdfast.session("s")).rejects.toMatchObject({
        code: "STATE_STALE",
        message: expect.stringContaining("4 d ago"),
        data: { session: "s", ageMs: 100 * HOUR_MS, ttlMs: 72 * HOUR_MS },
      });
      expect((await holdfast.sessions.list()).sessions).toMatchObject([{ id: "s", stale: true }]);
      // The rejection did not hold it: it can be taken at once.
      const used = await holdfast.session("s", { stale: "use", ifHeld: "throw" });
      expect(used.messages).toHaveLength(1);
    });

    test("is opened as usual one moment before", async () => {
      await (await session("s")).close();
      nowMs += 72 * HOUR_MS;
      expect((await holdfast.session("s")).messages).toHaveLength(1);
    });

    test("uses the time to live that it was given, or none", async () => {
      await (await holdfast.session("short", { ttlMs: 60_000 })).close();
      await (await holdfast.session("long", { ttlMs: null })).close();
      nowMs += 5 * 60_000;
      const stale = { code: "STATE_STALE", message: expect.stringContaining("5 min ago") };
      await expect(holdfast.session("short")).rejects.toMatchObject(stale);
      nowMs += 10_000 * HOUR_MS;
      await expect(holdfast.session("long")).resolves.toBeDefined();
    });
  });

  describe("pruning", () => {
    test("needs a condition", async () => {
      await expect(holdfast.sessions.prune({})).rejects.toMatchObject({ code: "INPUT_INVALID" });
    });

    test("by age removes older sessions and no others", async () => {
      await (await session("old")).close();
      nowMs += 10 * HOUR_MS;
      await (await session("new")).close();
      const report = await holdfast.sessions.prune({ olderThanMs: 5 * HOUR_MS });
      expect(report).toEqual({ removed: ["old"], hidden: [], spared: [] });
      expect(await sessions()).toEqual(["new"]);
    });

    test("by status and count keeps the latest that match", async () => {
      for (const id of ["a", "b", "c", "d"]) {
        nowMs += HOUR_MS;
        const each = await session(id);
        if (id !== "d") await each.complete();
        await each.close();
      }
      const report = await holdfast.sessions.prune({ status: "completed", keep: 1 });
      expect([...report.removed].sort()).toEqual(["a", "b"]);
      expect(await sessions()).toEqual(["c", "d"]);
    });

    test("spares held sessions and those with open calls; a dry run reports the same", async () => {
      for (const id of ["free", "held", "open", "parent"]) {
        const log = await journal.open(words, id);
        await log.commit(() => said(id === "open" ? "call:c1" : "x"));
      }
      const { log: forked, fork } = await journal.fork(words, "parent", 1, "fork");
      nowMs += HOUR_MS;
      await forked.commit(() => ({ ...said("own"), fork }));
      const held = await journal.leases.take("words/held", "me", { label: "me", waitMs: 0 });
      expect(held).toBeInstanceOf(Lease);
      const options = { kind: "words", updatedBefore: nowMs };
      const sort = <Report extends { spared: readonly { id: string }[] }>(report: Report) => ({
        ...report,
        spared: [...report.spared].sort((left, right) => left.id.localeCompare(right.id)),
      });
      const expected = {
        removed: ["free"],
        hidden: ["parent"],
        spared: [
          { id: "held", why: "held" },
          { id: "open", why: "open" },
        ],
      };
      expect(sort(await journal.prune({ ...options, dryRun: true }))).toEqual(expected);
      expect((await journal.row("words/free")).state).toBe("live");
      expect(sort(await journal.prune(options))).toEqual(expected);
      expect((await journal.row("words/free")).state).toBe("gone");
      expect((await journal.row("words/held")).state).toBe("live");
      expect((await journal.row("words/open")).state).toBe("live");
      expect((await journal.load(words, "fork")).state.list).toEqual(["x", "own"]);
    });

    test("ignores an expired lease", async () => {
      const log = await journal.open(words, "w");
      await log.commit(() => said("x"));
      await journal.leases.take("words/w", "me", { label: "me", waitMs: 0 });
      expect(await journal.remove("words/w")).toBe("held");
      journal.leases.stop();
      place.advanceMs(journal.leases.ttlMs);
      expect(await journal.remove("words/w")).toBe("removed");
    });
  });

  describe("erasing", () => {
    test("removes forks, their forks, and the bytes", async () => {
      const parent = await session("parent", "please forget marmalade");
      await parent.fork("child");
      await parent.close();
      await holdfast.sessions.fork("child", "grandchild");
      await (await session("other", "keep apricot")).close();
      await holdfast.sessions.erase("parent");
      expect(await sessions()).toEqual(["other"]);
      expect(await place.store.check()).toEqual([]);
      const bytes = await place.bytes();
      expect(bytes).not.toContain("marmalade");
    });

    test("stops at a fork that is held, and names it", async () => {
      await (await session("parent")).close();
      await holdfast.sessions.fork("parent", "child");
      const child = await holdfast.session("child");
      await expect(holdfast.sessions.erase("parent")).rejects.toMatchObject({
        code: "STREAM_BUSY",
        data: { fork: "session/child", why: "held" },
      });
      await child.close();
      await holdfast.sessions.erase("parent");
      expect(await sessions()).toEqual([]);
    });

    test("leaves a tombstone: the next session of that name starts empty", async () => {
      await (await session("s", "first life")).close();
      await holdfast.sessions.erase("s");
      await expect(holdfast.sessions.get("s")).rejects.toMatchObject({ code: "STREAM_NOT_FOUND" });
      const next = await session("s", "second life");
      expect(next.resumed).toBeNull();
      expect(next.messages.map(({ blocks }) => blocks)).toEqual([[{ kind: "text", text: "second life" }]]);
      expect((await journal.row("session/s")).head.generation).toBe(2);
    });
  });
});
