/** A run that has not yet noticed that another process has taken over. */

import { expect, test } from "vitest";
import { Holdfast, Journal } from "../../src/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { Gate } from "../journal/gate.ts";
import { altered } from "../journal/places.ts";
import { callBlock, counting, fatal, script } from "../ledger/bench.ts";

/** The lease of the owner that loses it: the new owner waits for its end. */
const LEASE_MS = 150;
/** The lease of the new owner, which keeps it however slow the machine is. */
const LONG_LEASE_MS = 60_000;

/** It has finished its first turn, polls for external events, and stops before it has read them. */
async function standingStill(world: { readonly effects: string[] }) {
  const memory = openMemory();
  const reads = new Gate();
  const store = altered(memory, { read: (read, request) => reads.pass(() => read(request)) });
  const journal = new Journal({ store, leaseMs: LEASE_MS });
  const zombie = await new Holdfast(journal).session("alpha");
  journal.leases.stop();
  let stop = (): void => undefined;
  const stopped = new Promise<void>((resolve) => {
    stop = resolve;
  });
  const ended = zombie.run({
    model: script([callBlock("c1", "pay")]),
    tools: [counting(world, "pay")],
    prompt: "go",
    on: ({ type }) => {
      if (type !== "call.completed") return;
      reads.close();
      void zombie.refresh();
      stop();
    },
  });
  await stopped;
  const next = await new Holdfast(new Journal({ store: memory, leaseMs: LONG_LEASE_MS })).session("alpha");
  return { ended, next, goOn: () => reads.open() };
}

test("is not done if the new owner's last message has calls", async () => {
  const world = { effects: [] };
  const { ended, next, goOn } = await standingStill(world);
  const refund = fatal(world, "refund");
  void next.run({ model: script([callBlock("c2", "refund")]), tools: [refund.tool] });
  await refund.reached;
  goOn();
  await expect(ended).rejects.toMatchObject({ code: "LEASE_LOST" });
});

test("does not return the answer to the new owner's prompt", async () => {
  const { ended, next, goOn } = await standingStill({ effects: [] });
  await next.run({ model: script("to you") });
  await next.run({ model: script("to somebody else"), prompt: "hello" });
  goOn();
  await expect(ended).rejects.toMatchObject({ code: "LEASE_LOST" });
});

/** A handle whose process no longer renews its lease, and another process that takes over. */
async function takenOver() {
  const store = openMemory();
  const journal = new Journal({ store, leaseMs: LEASE_MS });
  const zombie = await new Holdfast(journal).session("alpha");
  journal.leases.stop();
  const next = () => new Holdfast(new Journal({ store, leaseMs: LONG_LEASE_MS })).session("alpha");
  return { zombie, next };
}

test("does not report calls as waiting that the new owner settles", async () => {
  const { zombie, next } = await takenOver();
  const asked = await zombie.append({ role: "assistant", blocks: [callBlock("c1", "pay")] });
  const broken = counting({ effects: [] }, "pay", { execute: () => Promise.reject(new Error("no answer")) });
  expect(await zombie.calls(asked, [broken])).toMatchObject({ done: false });
  await next();
  await expect(zombie.calls(asked, [broken])).rejects.toMatchObject({ code: "LEASE_LOST" });
});

test("does not report them as open", async () => {
  const world = { effects: [] };
  const { zombie, next } = await takenOver();
  const direct = counting(world, "send", { execute: () => Promise.reject(new Error("no answer")) });
  await zombie.call({ tool: direct, args: {}, callId: "d1" });
  await next();
  await expect(zombie.settle([direct])).rejects.toMatchObject({ code: "LEASE_LOST" });
});

test("does not report its own call as waiting", async () => {
  const world = { effects: [] };
  const { zombie, next } = await takenOver();
  const direct = counting(world, "send", { execute: () => Promise.reject(new Error("no answer")) });
  await zombie.call({ tool: direct, args: {}, callId: "d1" });
  await next();
  await expect(zombie.call({ tool: direct, args: {}, callId: "d1" })).rejects.toMatchObject({
    code: "LEASE_LOST",
  });
});

test("does not claim that its earlier write still stands", async () => {
  const world = { effects: [] };
  const { zombie, next } = await takenOver();
  const flag = counting(world, "flag", { effect: "write" });
  await zombie.call({ tool: flag, args: { on: true } });
  const other = await next();
  await other.call({ tool: flag, args: { on: false } });
  await expect(zombie.call({ tool: flag, args: { on: true } })).rejects.toMatchObject({ code: "LEASE_LOST" });
});

test("does not claim the new owner's call with the same id", async () => {
  const world = { effects: [] };
  const { zombie, next } = await takenOver();
  const pay = counting(world, "pay");
  const other = await next();
  await other.call({ tool: pay, args: { usd: 1 }, callId: "x" });
  const told = zombie.call({ tool: pay, args: { usd: 2 }, callId: "x" });
  await expect(told).rejects.toMatchObject({ code: "LEASE_LOST" });
});
