/** Attempts of a removed session do not reach a new session of the same name. */

import { expect, test } from "vitest";
import { Holdfast, Journal, landed } from "../../src/index.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { fatal, type World } from "./bench.ts";

const LEASE_MS = 60_000;

test("an attempt of the removed session does not count for the new one", async () => {
  const data = memoryData();
  let nowMs = 0;
  const program = (): Holdfast => {
    const store = openMemory({ data, clock: () => nowMs });
    return new Holdfast(new Journal({ store, leaseMs: LEASE_MS }));
  };
  const world: World = { effects: [] };
  const settling = { ...fatal(world, "pay").tool, verify: () => landed("paid") };
  const die = async (holdfast: Holdfast): Promise<void> => {
    const session = await holdfast.session("alpha", { ttlMs: null });
    const { tool, reached } = fatal(world, "pay");
    session.call({ tool, args: {}, callId: "x" }).catch(() => undefined);
    await reached;
    holdfast.journal.leases.stop();
    nowMs += 10 * LEASE_MS;
  };
  // The program only seems dead: its attempt continues.
  const slow = program();
  await die(slow);
  const other = program();
  const second = await other.session("alpha", { ttlMs: null });
  await second.settle([settling]);
  await second.close();
  await other.sessions.erase("alpha");
  await die(other);
  const third = await slow.session("alpha", { ttlMs: null });
  expect(await third.settle([settling])).toEqual({ settled: ["x"], open: [] });
});
