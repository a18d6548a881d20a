// How outcomes are recorded: the vendor's key after a failure, what verify rules out, a store that refuses.

import { expect, test } from "vitest";
import { z } from "zod";
import {
  DefiniteFailure,
  type Holdfast,
  HoldfastError,
  never,
  open,
  type Session,
  type Tool,
  type ToolSpec,
  tool,
} from "../../src/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { altered } from "../journal/places.ts";

const base = { description: "Charges.", effect: "mutate", input: z.object({ eur: z.number() }) } as const;
const charging = (spec: Partial<ToolSpec<{ eur: number }, unknown>>) =>
  tool({ name: "charge", ...base, execute: () => "paid", ...spec });

async function outcomesOf(holdfast: Holdfast, id: string, callId: string): Promise<object[]> {
  const found: object[] = [];
  for await (const [, { type, data }] of holdfast.journal.events(`session/${id}`)) {
    const about = data as { callId?: string };
    if (about.callId === callId && ["call.completed", "call.failed"].includes(type))
      found.push({ type, ...about });
  }
  return found;
}

/** The vendor's keys: of an attempt at 50 that fails for certain, and of what `act` does in another session. */
async function keysOf(
  act: (holdfast: Holdfast, session: Session, charge: Tool) => Promise<void>,
): Promise<string[]> {
  await using holdfast = await open("memory:");
  const keys: string[] = [];
  const charge = charging({
    dedupe: "global",
    needsApproval: ({ eur }) => eur > 60,
    execute: (_, { key }) => {
      keys.push(key);
      if (keys.length === 1) throw new DefiniteFailure("no such card");
      return "paid";
    },
  });
  await using first = await holdfast.session("first");
  await first.call({ tool: charge, args: { eur: 50 }, callId: "c1" });
  await using second = await holdfast.session("second");
  await act(holdfast, second, charge as Tool);
  return keys;
}

test("arguments that a person changed get the vendor's key that a new attempt at them gets", async () => {
  const again = await keysOf(async (_, session, charge) => {
    await session.call({ tool: charge, args: { eur: 50 }, callId: "c2" });
  });
  const changed = await keysOf(async (holdfast, session, charge) => {
    const call = { tool: charge, args: { eur: 70 }, callId: "c2" };
    expect(await session.call(call)).toMatchObject({ status: "waiting" });
    await holdfast.calls.approve("c2", { by: "ann", args: { eur: 50 } });
    expect(await session.call(call)).toMatchObject({ status: "completed" });
  });
  expect(changed).toEqual(again);
  expect(new Set(changed).size, "the vendor may remember its refusal").toBe(2);
});

test("a presumed failure that verify rules out is a failure by verify", async () => {
  await using holdfast = await open("memory:");
  await using session = await holdfast.session("s");
  const execute = () => {
    throw Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
  };
  const charge = charging({ execute, verify: () => never() });
  expect(await session.call({ tool: charge, args: { eur: 5 }, callId: "c1" })).toMatchObject({
    status: "failed",
  });
  expect(await outcomesOf(holdfast, "s", "c1")).toMatchObject([{ type: "call.failed", by: "verify" }]);
});

test("an outcome that the store refuses for good is sent once, and the call stays open", async () => {
  let refused = 0;
  let isRunning = false;
  const store = altered(openMemory(), {
    append: async (append, batch) => {
      if (!isRunning) return append(batch);
      refused += 1;
      throw new HoldfastError("STORE_CORRUPT", "a page is damaged", { hint: "Restore it." });
    },
  });
  const holdfast = await open(undefined, { store });
  const session = await holdfast.session("s");
  const execute = () => {
    isRunning = true;
    return "paid";
  };
  const calling = session.call({ tool: charging({ execute }), args: { eur: 5 }, callId: "c1" });
  await expect(calling).rejects.toMatchObject({ code: "STORE_CORRUPT" });
  expect(refused).toBe(1);
  isRunning = false;
  expect(session.openCalls).toMatchObject([{ callId: "c1" }]);
});

test("a call that only repeats a finished one under another id does not reopen a session", async () => {
  await using holdfast = await open("memory:");
  await using session = await holdfast.session("s");
  let runs = 0;
  const charge = charging({ execute: () => ++runs });
  await session.call({ tool: charge, args: { eur: 5 }, callId: "c1" });
  await session.complete();
  const again = await session.call({ tool: charge, args: { eur: 5 }, callId: "c2" });
  expect(again).toMatchObject({ status: "completed", value: 1, replayed: true });
  expect({ runs, status: session.status }).toEqual({ runs: 1, status: "completed" });
});
