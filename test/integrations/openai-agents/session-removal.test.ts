// A conversation is removed with its session, and a new session of that name starts without it.

import { run, setTracingDisabled } from "@openai/agents";
import { afterEach, beforeEach, expect, test } from "vitest";
import { HoldfastSession } from "../../../src/integrations/openai-agents/index.ts";
import { Shop, short } from "./shop.ts";

setTracingDisabled(true);

let shop: Shop;
beforeEach(async () => {
  shop = await Shop.open();
});
afterEach(() => shop.holdfast.close());

const stateOf = async (id: string) => (await shop.holdfast.journal.row(`openai-agents/${id}`)).state;

const ANSWERED = ["user A", "call A", "result", "assistant paid A"];

test("an erased session's conversation is erased with it", async () => {
  await shop.ask("A");
  await shop.holdfast.sessions.erase("s");
  expect(await stateOf("s")).toBe("gone");
  await shop.ask("B");
  expect(await shop.items()).toEqual(["user B", "call B", "result", "assistant paid B"]);
});

test("a pruned session's conversation is deleted with it", async () => {
  await shop.ask("A");
  await shop.holdfast.sessions.prune({ keep: 0 });
  expect([await stateOf("s"), await shop.items()]).toEqual(["gone", []]);
});

test("leftovers of an interrupted removal are invisible to the next session, and can be erased", async () => {
  await shop.ask("A");
  // The state after a crash between removing the session and its conversation.
  await shop.holdfast.journal.remove("session/s");
  expect([await stateOf("s"), await shop.items()]).toEqual(["live", []]);
  expect(await new HoldfastSession(shop.holdfast, "s").getItems()).toEqual([]);
  await shop.holdfast.journal.remove("session/s");
  await shop.holdfast.sessions.erase("s");
  expect(await stateOf("s")).toBe("gone");
});

test("a conversation without a session is erased by its name", async () => {
  await new HoldfastSession(shop.holdfast, "chat").addItems([{ role: "user", content: "my card is 4711" }]);
  await shop.holdfast.sessions.erase("chat");
  expect(await stateOf("chat")).toBe("gone");
  await expect(shop.holdfast.sessions.erase("chat")).rejects.toMatchObject({ code: "STREAM_NOT_FOUND" });
});

test("a recreated session has its own conversation, with and without durable", async () => {
  await shop.ask("A");
  await shop.holdfast.sessions.erase("s");
  await shop.ask("A");
  await shop.ask("B");
  const seen = short(await new HoldfastSession(shop.holdfast, "s").getItems());
  expect(seen).toEqual([...ANSWERED, "user B", "call B", "result", "assistant paid B"]);
});

test("a fork without its parent's items is rejected until they are added", async () => {
  await shop.ask("A");
  await shop.holdfast.sessions.fork("s", "f", { effects: "live" });
  await expect(shop.ask("B", { sessionId: "f" })).rejects.toMatchObject({
    code: "INPUT_INVALID",
    message: expect.stringContaining("is a fork of s and lacks its conversation"),
  });
  // Neither does a fork of it.
  await shop.holdfast.sessions.fork("f", "g", { effects: "live" });
  await expect(shop.ask("B", { sessionId: "g" })).rejects.toMatchObject({ code: "INPUT_INVALID" });
  const sent = await shop.started({ sessionId: "f" }, async ({ d, agent, model }) => {
    await d.session.addItems(await new HoldfastSession(shop.holdfast, "s").getItems());
    await run(agent, await d.input("B"), { session: d.session });
    return short(model.asked[0]?.input as object[]);
  });
  expect(sent).toEqual([...ANSWERED, "user B"]);
});

test.each(["prune", "erase"])("a parent's conversation is deleted with its last fork: %s", async (how) => {
  await shop.ask("A");
  const { sessions, journal } = shop.holdfast;
  await sessions.fork("s", "f");
  await sessions.fork("f", "g");
  for (const hidden of ["session/s", "session/f"])
    expect(await journal.remove(hidden, { companions: (id) => [`openai-agents/${id}`] })).toBe("hidden");
  expect(await stateOf("s")).toBe("live");
  await (how === "prune" ? sessions.prune({ keep: 0 }) : sessions.erase("g"));
  expect(await stateOf("s")).toBe("gone");
});

test("erasing a session erases the conversations of its forks, also if only they keep it", async () => {
  await shop.ask("A");
  const { sessions, journal } = shop.holdfast;
  await sessions.fork("s", "f");
  await new HoldfastSession(shop.holdfast, "f").addItems([{ role: "user", content: "mine" }]);
  expect(await journal.remove("session/s", { companions: (id) => [`openai-agents/${id}`] })).toBe("hidden");
  await sessions.erase("s");
  expect([await stateOf("s"), await stateOf("f")]).toEqual(["gone", "gone"]);
});
