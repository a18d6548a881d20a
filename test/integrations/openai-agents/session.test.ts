// The SDK's Session on every store: get, add, pop, clear, and the additions of 0.20.

import { Agent, type AgentInputItem, run, setTracingDisabled } from "@openai/agents";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { HoldfastSession } from "../../../src/integrations/openai-agents/index.ts";
import type { Opened } from "../../../src/testing/index.ts";
import { storeSubjects } from "../../subjects.ts";
import { ScriptedModel } from "./scripted-model.ts";

setTracingDisabled(true);

const said = (content: string): AgentInputItem => ({ type: "message", role: "user", content });
const call = (callId: string, args: string): Extract<AgentInputItem, { type: "function_call" }> => ({
  type: "function_call",
  callId,
  name: "charge",
  status: "completed",
  arguments: args,
});

describe.each(storeSubjects())("on $name", (subject) => {
  let made: Opened;
  let session: HoldfastSession;
  beforeEach(async () => {
    made = await subject.open();
    session = new HoldfastSession(await open(undefined, { store: made.store }), "chat");
  });
  afterEach(() => made.dispose());
  afterAll(() => subject.dispose());

  /** The view of another process. */
  const elsewhere = async () =>
    new HoldfastSession(await open(undefined, { store: await made.another() }), "chat");

  const texts = async (of: HoldfastSession, limit?: number) =>
    (await of.getItems(limit)).map((item) => (item as { content: unknown }).content);

  test("every process gets the items in order, or the latest of them", async () => {
    expect([await session.getItems(), await session.popItem()]).toEqual([[], undefined]);
    await session.clearSession();
    await session.addItems([said("1"), said("2")]);
    await session.addItems([said("3")]);
    const other = await elsewhere();
    expect([await texts(other), await texts(other, 2), await texts(other, 0)]).toEqual([
      ["1", "2", "3"],
      ["2", "3"],
      [],
    ]);
    expect([await session.popItem(), await other.popItem()]).toEqual([said("3"), said("2")]);
    await other.addItems([said("4")]);
    expect(await texts(session)).toEqual(["1", "4"]);
    await session.clearSession();
    expect([await texts(other), await other.getSessionId()]).toEqual([[], "chat"]);
  });

  test("two processes that add in parallel lose nothing", async () => {
    const other = await elsewhere();
    await Promise.all(
      Array.from({ length: 10 }, (_, n) => (n % 2 ? session : other).addItems([said(`${n}`)])),
    );
    expect((await texts(session)).sort()).toEqual(Array.from({ length: 10 }, (_, n) => `${n}`));
  });

  test("a history change is applied once, completely, and only where it fits", async () => {
    await session.addItems([said("1"), said("2")]);
    const append = { type: "append_items" as const, items: [said("3")] };
    await session.applyHistoryTransaction({ operationId: "a", transaction: append });
    const other = await elsewhere();
    await other.applyHistoryTransaction({ operationId: "a", transaction: append });
    expect(await texts(session)).toEqual(["1", "2", "3"]);
    const replace = {
      type: "replace_suffix" as const,
      expectedSuffix: [said("2"), said("3")],
      replacement: [said("4")],
    };
    await expect(
      session.applyHistoryTransaction({ operationId: "a", transaction: replace }),
    ).rejects.toMatchObject({ code: "STATE_STALE" });
    await session.applyHistoryTransaction({ operationId: "b", transaction: replace });
    await expect(
      session.applyHistoryTransaction({ operationId: "c", transaction: replace }),
    ).rejects.toMatchObject({ code: "STATE_STALE" });
    expect(await texts(other)).toEqual(["1", "4"]);
    await session.replaceHistoryWithCompaction([said("5")]);
    expect(await texts(other)).toEqual(["5"]);
  });

  test("a corrected call replaces the stored one", async () => {
    await session.addItems([said("1"), call("c1", "{}"), said("2")]);
    const replacement = call("c1", '{"order":"4711"}');
    await session.applyHistoryMutations({
      mutations: [{ type: "replace_function_call", callId: "c1", replacement }],
    });
    expect(await (await elsewhere()).getItems()).toEqual([said("1"), replacement, said("2")]);
  });

  test("a call that is stored twice is there once after its correction", async () => {
    await session.addItems([call("c1", "{}"), said("1"), call("c1", "{}"), call("c2", "{}")]);
    const replacement = call("c1", '{"order":"4711"}');
    await session.applyHistoryMutations({
      mutations: [{ type: "replace_function_call", callId: "c1", replacement }],
    });
    expect(await (await elsewhere()).getItems()).toEqual([replacement, said("1"), call("c2", "{}")]);
  });

  test("a cleared session applies a known transaction again", async () => {
    const append = { operationId: "a", transaction: { type: "append_items" as const, items: [said("1")] } };
    await session.applyHistoryTransaction(append);
    const other = await elsewhere();
    await other.popItem();
    await other.clearSession();
    await session.applyHistoryTransaction(append);
    await session.applyHistoryTransaction(append);
    expect([await texts(session), await texts(other)]).toEqual([["1"], ["1"]]);
  });

  test("an invalid transaction is refused, and its id stays free", async () => {
    const apply = (args: unknown) => session.applyHistoryTransaction(args as never);
    const append = { type: "append_items", items: [said("1")] };
    for (const args of [
      undefined,
      { operationId: " ", transaction: append },
      { operationId: "a" },
      { operationId: "a", transaction: null },
      { operationId: "a", transaction: { type: "other", items: [] } },
      { operationId: "a", transaction: { ...append, items: [42] } },
      { operationId: "a", transaction: { ...append, items: [{ type: "function_call", callId: 1 }] } },
      { operationId: "a", transaction: { ...append, more: 1 } },
      { operationId: "a", transaction: { type: "replace_suffix", expectedSuffix: [], replacement: {} } },
    ])
      await expect(apply(args), JSON.stringify(args)).rejects.toMatchObject({ code: "INPUT_INVALID" });
    const mutation = { type: "replace_function_call", callId: "c1", replacement: said("1") };
    for (const refused of [
      session.addItems([42 as never]),
      session.applyHistoryMutations({ mutations: [mutation as never] }),
    ])
      await expect(refused).rejects.toMatchObject({ code: "INPUT_INVALID" });
    expect(await session.getItems()).toEqual([]);
    await apply({ operationId: "a", transaction: append });
    expect(await texts(session)).toEqual(["1"]);
  });
});

test("the SDK's run() works with it, without durable", async () => {
  const holdfast = await open("memory:");
  const model = new ScriptedModel(() => [{ text: "hello" }]);
  const agent = new Agent({ name: "A", model });
  await run(agent, "one", { session: new HoldfastSession(holdfast, "chat") });
  await run(agent, "two", { session: new HoldfastSession(holdfast, "chat") });
  expect(model.asked[1]?.input).toHaveLength(3);
  await holdfast.close();
});
