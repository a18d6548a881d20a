/** `close` while work is in progress. */

import { expect, test } from "vitest";
import { z } from "zod";
import { Holdfast, Journal, type Session, tool } from "../../src/index.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";

async function reading(execute: (session: Session, signal: AbortSignal) => Promise<string>) {
  const session = await new Holdfast(new Journal({ store: openMemory() })).session("alpha");
  const look = tool({
    name: "look",
    description: "look",
    input: z.object({}),
    effect: "read",
    execute: (_args, { signal }) => execute(session, signal),
  });
  return { session, told: session.call({ tool: look, args: {} }) };
}

test("a read in progress is stopped, not awaited", async () => {
  const { session, told } = await reading(
    (_session, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
      }),
  );
  await Promise.all([expect(told).rejects.toMatchObject({ code: "SESSION_CLOSED" }), session.close()]);
});

test("a read that closes its own session does not wait for itself", async () => {
  const { told } = await reading((session) => session.close().then(() => "closed"));
  await expect(told).rejects.toMatchObject({ code: "SESSION_CLOSED" });
});

test("a call whose tool closes everything at once is recorded before the store closes", async () => {
  const data = memoryData();
  const holdfast = new Holdfast(new Journal({ store: openMemory({ data }) }));
  const session = await holdfast.session("alpha");
  let closing: Promise<void> | undefined;
  const charge = tool({
    name: "charge",
    description: "charge",
    input: z.object({}),
    effect: "mutate",
    execute: async () => {
      closing = holdfast.close();
      // Long enough for a store in memory to be closed under it, and still in this turn of the event loop.
      for (let ticks = 0; ticks < 100; ticks++) await null;
      return "receipt";
    },
  });
  const block = { kind: "tool_call", id: "c1", name: "charge", args: {} } as const;
  const asked = await session.append({ role: "assistant", blocks: [block] });
  await session.calls(asked, [charge]).catch((error: unknown) => {
    expect(error).toMatchObject({ code: "SESSION_CLOSED" });
  });
  await closing;
  const after = await new Holdfast(new Journal({ store: openMemory({ data }) })).sessions.get("alpha");
  expect(after?.openCalls).toBe(0);
});

test("a second close waits for the first", async () => {
  const holdfast = new Holdfast(new Journal({ store: openMemory() }));
  const session = await holdfast.session("alpha");
  let finish: (value: string) => void = () => undefined;
  const slow = tool({
    name: "slow",
    description: "slow",
    input: z.object({}),
    effect: "mutate",
    execute: () => new Promise<string>((resolve) => (finish = resolve)),
  });
  const calling = session.call({ tool: slow, args: {} }).catch(() => undefined);
  const order: string[] = [];
  const closes = ["first", "second"].map((which) => session.close().then(() => order.push(which)));
  finish("done");
  await Promise.all([calling, ...closes]);
  expect(order).toEqual(["first", "second"]);
});
