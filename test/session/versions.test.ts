import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Message } from "../../src/model/session/index.ts";
import { type Holdfast, open } from "../../src/open.ts";
import type { Session } from "../../src/session/index.ts";
import { PLACES, type Place, storedBytes } from "../journal/places.ts";

describe.each(Object.entries(PLACES))("versions on %s", (_, makePlace) => {
  let place: Place;
  let holdfast: Holdfast;
  let session: Session;

  beforeEach(async () => {
    place = await makePlace();
    holdfast = await open(undefined, { store: place.store });
    session = await holdfast.session("s");
  });

  afterEach(() => place.dispose());

  const say = (text: string, to: Session = session) =>
    to.append({ role: "user", text }, { checkpoint: true });
  const texts = (messages: readonly Message[]) =>
    messages.map(({ blocks }) => (blocks[0]?.kind === "text" ? blocks[0].text : ""));
  const at = async (id: string, version: number) => texts((await holdfast.sessions.at(id, version)).messages);

  test("any version can be loaded, also without the session and after a restart", async () => {
    for (const text of ["a", "b", "c"]) await say(text);
    for (const [version, expected] of [
      [1, ["a"]],
      [2, ["a", "b"]],
      [3, ["a", "b", "c"]],
    ] as const) {
      expect(texts((await session.at(version)).messages)).toEqual(expected);
      const elsewhere = await open(undefined, { store: await place.another() });
      expect(texts((await elsewhere.sessions.at("s", version)).messages)).toEqual(expected);
    }
    await expect(session.at(4)).rejects.toMatchObject({ code: "VERSION_NOT_FOUND" });
    await expect(holdfast.sessions.at("nobody", 1)).rejects.toMatchObject({ code: "STREAM_NOT_FOUND" });
  });

  test("a version shows plan and budget as they were", async () => {
    const step = (status: "pending" | "done") => ({
      steps: [{ id: "1", description: "pay", status, postconditions: ["paid"], evidence: [] }],
    });
    await session.setPlan(step("pending"));
    await session.spend({ usd: 0.1, tokens: 100 });
    await session.checkpoint("planned");
    await session.setPlan(step("done"));
    await session.spend({ usd: 0.2 });
    await session.checkpoint();
    const [before, after] = [await session.at(1), await session.at(2)];
    expect(before).toMatchObject({
      label: "planned",
      plan: step("pending"),
      budget: { spent: { usd: 0.1 } },
    });
    expect(after).toMatchObject({
      label: null,
      plan: step("done"),
      budget: { spent: { usd: 0.3, tokens: 100 } },
    });
    expect(await session.diff(1, 2)).toMatchObject({
      messages: { added: [], removed: [], changed: [], same: 0 },
      plan: { steps: [{ before: { status: "pending" }, after: { status: "done" } }] },
      budget: { spent: { before: { usd: 0.1 }, after: { usd: 0.3 } } },
    });
  });

  test("a deleted version is gone, and its number is not reused", async () => {
    for (const text of ["a", "b"]) await say(text);
    await session.deleteVersion(2);
    await expect(session.at(2)).rejects.toMatchObject({ code: "VERSION_NOT_FOUND" });
    await expect(session.deleteVersion(2)).rejects.toMatchObject({ code: "VERSION_NOT_FOUND" });
    expect(session.versions.map(({ version }) => version)).toEqual([1]);
    expect(await session.checkpoint()).toBe(3);
    expect(texts((await session.at(3)).messages)).toEqual(["a", "b"]);
    await session.close();
    session = await holdfast.session("s");
    expect(session.versions.map(({ version }) => version)).toEqual([1, 3]);
  });

  test("older versions can be loaded after a compaction", async () => {
    for (const text of ["a", "b", "c"]) await say(text);
    const summary = { role: "user", id: "summary", createdAt: "2026-01-01T00:00:00Z" } as const;
    const blocks = [{ kind: "text", text: "a to b" }];
    const before = await session.compact([{ ...summary, blocks }, session.messages[2]], "context is full");
    expect(texts(session.messages)).toEqual(["a to b", "c"]);
    expect(texts((await session.at(before)).messages)).toEqual(["a", "b", "c"]);
    expect(texts((await session.at(1)).messages)).toEqual(["a"]);
    await say("d");
    expect(texts((await session.at(before + 1)).messages)).toEqual(["a to b", "c", "d"]);
    const diff = await session.diff(before, before + 1);
    expect(texts(diff.messages.added)).toEqual(["a to b", "d"]);
    expect(texts(diff.messages.removed)).toEqual(["a", "b"]);
  });

  describe("a fork", () => {
    test("shares its history and copies none of it", async () => {
      for (let count = 0; count < 5; count++) await say(`${count} ${"x".repeat(20_000)}`);
      const before = await storedBytes(place.store, "session/s");
      expect(before).toBeGreaterThan(100_000);
      await holdfast.sessions.fork("s", "f", { version: 3 });
      expect(await storedBytes(place.store, "session/s")).toBe(before);
      expect(await storedBytes(place.store, "session/f")).toBeLessThan(300);
      const fork = await holdfast.session("f");
      expect(texts(fork.messages).map((text) => text[0])).toEqual(["0", "1", "2"]);
      await say("own", fork);
      expect(await storedBytes(place.store, "session/f")).toBeLessThan(1_200);
      expect(session.messages).toHaveLength(5);
      expect(fork.version).toBe(4);
    });

    test("and its parent change independently", async () => {
      await say("a");
      await session.fork("f");
      await say("parent");
      const fork = await holdfast.session("f");
      await say("fork", fork);
      expect(await at("s", 2)).toEqual(["a", "parent"]);
      expect(await at("f", 2)).toEqual(["a", "fork"]);
      expect(await at("f", 1)).toEqual(["a"]);
    });

    test("can be forked again, also from before its own fork", async () => {
      for (const text of ["a", "b"]) await say(text);
      await session.fork("f", { version: 2 });
      const fork = await holdfast.session("f");
      await say("c", fork);
      await fork.fork("late", { version: 3 });
      await fork.fork("early", { version: 1 });
      await holdfast.sessions.fork("late", "later", { version: 2 });
      const messages = async (id: string) => texts((await holdfast.sessions.get(id)).messages);
      expect(await messages("late")).toEqual(["a", "b", "c"]);
      expect(await messages("early")).toEqual(["a"]);
      expect(await messages("later")).toEqual(["a", "b"]);
      const early = await holdfast.session("early");
      await say("z", early);
      expect(await at("early", 2)).toEqual(["a", "z"]);
      expect(await holdfast.check()).toEqual([]);
    });

    test("from before a compaction sees the transcript as it was then", async () => {
      for (const text of ["a", "b"]) await say(text);
      const before = await session.compact([session.messages[1]]);
      await session.fork("f", { version: before });
      expect(texts((await holdfast.sessions.get("f")).messages)).toEqual(["a", "b"]);
      await session.fork("g");
      expect(texts((await holdfast.sessions.get("g")).messages)).toEqual(["b"]);
    });

    test("keeps its history and its parent's name taken when the parent is removed", async () => {
      for (const text of ["a", "b"]) await say(text);
      await session.fork("f");
      await session.close();
      expect((await holdfast.sessions.prune({ keep: 1 })).hidden).toEqual(["s"]);
      expect(texts((await holdfast.sessions.get("f")).messages)).toEqual(["a", "b"]);
      await expect(holdfast.sessions.get("s")).rejects.toMatchObject({ code: "STREAM_NOT_FOUND" });
      expect(await at("f", 1)).toEqual(["a"]);
      await holdfast.sessions.erase("f");
      expect((await holdfast.session("s")).messages).toEqual([]);
    });

    test("keeps the versions that its parent deletes later", async () => {
      for (const text of ["a", "b"]) await say(text);
      await session.fork("f");
      await session.deleteVersion(1);
      expect((await holdfast.sessions.get("f")).versions.map(({ version }) => version)).toEqual([1, 2]);
      expect(await at("f", 1)).toEqual(["a"]);
    });

    test("needs a free name and an existing position", async () => {
      await say("a");
      await session.fork("f");
      await expect(session.fork("f")).rejects.toMatchObject({ code: "STREAM_EXISTS" });
      await expect(session.fork("g", { version: 9 })).rejects.toMatchObject({ code: "VERSION_NOT_FOUND" });
      await expect(holdfast.sessions.fork("nobody", "g")).rejects.toMatchObject({ code: "STREAM_NOT_FOUND" });
    });
  });

  test("an empty transcript can be compacted", async () => {
    await session.compact([]);
    await session.compact([{ id: "1", role: "user", createdAt: "2026-01-01T00:00:00Z", blocks: [] }]);
    expect(session.messages).toHaveLength(1);
  });
});
