/** Session ids may be the ids of users, as identity providers and mail systems make them. */

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { streamId, streamName } from "../../src/model/names.ts";
import { type Bench, counting, openBench } from "../ledger/bench.ts";
import { storeSubjects } from "../subjects.ts";

const IDS = [
  ..."auth0|abc ann@example.com user:42 +4930123 a+b=c,d jürgen 山田 ann%40example.com 100% a~7Cb a|b A|B".split(
    " ",
  ),
  ...["auth0~7Cabc", "~", "_x", "google-oauth2|1", "did:key:z6#1", "x".repeat(128), "|".repeat(128)],
];

const REFUSED = [
  ..."../x a/b a\\b . .. .a -a ?a a?b a\"b a'b a`b <a> {a}".split(" "),
  ...["", " ", "a b", "a\n", "a\u0000", "a\u202eb", "a\u200bb", "\ud800", "x".repeat(129), 7 as never],
];

const subjects = storeSubjects();
afterAll(() => Promise.all(subjects.map((subject) => subject.dispose())));

test("different ids have different stream names of the small alphabet, which give the ids back", () => {
  const names = IDS.map((id) => streamName("session", id));
  expect(new Set(names).size).toBe(IDS.length);
  for (const name of names) expect(name).toMatch(/^session\/[A-Za-z0-9~][A-Za-z0-9._~-]*$/);
  expect(names.map(streamId)).toEqual(IDS);
});

describe.each(subjects)("on '$name'", (subject) => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await openBench(subject);
  });
  afterEach(() => bench.dispose());

  test("sessions with the ids of users are kept apart, listed, forked, answered and erased", async () => {
    const { holdfast } = bench.first;
    const pay = counting({ effects: [] }, "pay", { needsApproval: true });
    for (const id of IDS) {
      const session = await holdfast.session(id);
      await session.append({ role: "user", text: id }, { checkpoint: true });
      await session.call({ tool: pay, args: {}, callId: "c1" });
      await session.close();
    }
    const other = (await bench.another()).holdfast;
    const { sessions } = await other.sessions.list({ limit: 100 });
    expect(sessions.map(({ id }) => id).sort()).toEqual([...IDS].sort());
    for (const id of IDS) {
      const { messages } = await other.sessions.get(id);
      expect(messages.map(({ blocks }) => blocks)).toEqual([[{ kind: "text", text: id }]]);
    }
    const { calls } = await other.calls.list({ limit: 100 });
    expect(calls.map(({ session }) => session).sort()).toEqual([...IDS].sort());
    await other.calls.deny({ session: "auth0|abc", callId: "c1" }, { by: "ann", why: "no" });
    await other.sessions.fork("auth0|abc", "fork:of|it");
    expect((await other.sessions.get("fork:of|it")).messages).toHaveLength(1);
    await other.sessions.erase("fork:of|it");
    await other.sessions.erase("auth0|abc");
    await expect(other.sessions.get("auth0|abc")).rejects.toMatchObject({ code: "STREAM_NOT_FOUND" });
    expect((await other.sessions.get("auth0~7Cabc")).messages).toHaveLength(1);
    expect(await other.check()).toEqual([]);
  });

  test("path traversal, quotes, spaces and control characters are refused", async () => {
    for (const id of REFUSED) {
      const opening = bench.first.holdfast.session(id);
      await expect(opening, JSON.stringify(id)).rejects.toMatchObject({ code: "NAME_INVALID" });
    }
    await expect(bench.first.holdfast.goal("a|b", { statement: "x" })).rejects.toMatchObject({
      code: "NAME_INVALID",
    });
  });
});
