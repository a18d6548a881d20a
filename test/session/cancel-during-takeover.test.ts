/** A session is taken over at the moment it is cancelled from outside. */

import { expect, test } from "vitest";
import { Holdfast, Journal } from "../../src/index.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { altered } from "../journal/places.ts";
import { fatal } from "../ledger/bench.ts";

const LEASE_MS = 60_000;

test("calls of the new owner are left alone", async () => {
  const data = memoryData();
  let nowMs = 0;
  const open = () => openMemory({ data, clock: () => nowMs });
  const program = (store = open()) => new Holdfast(new Journal({ store, leaseMs: LEASE_MS }));
  const world = { effects: [] };
  const run = async (holdfast: Holdfast): Promise<void> => {
    const session = await holdfast.session("alpha", { ttlMs: null });
    const { tool, reached } = fatal(world, "pay", { idempotent: true });
    session.call({ tool, args: {}, callId: "x" }).catch(() => undefined);
    await reached;
  };
  const dead = program();
  await run(dead);
  dead.journal.leases.stop();
  nowMs += 10 * LEASE_MS;
  let isFirst = true;
  const store = altered(open(), {
    append: async (append, batch) => {
      if (isFirst) {
        isFirst = false;
        await run(program());
      }
      return append(batch);
    },
  });
  await program(store).sessions.cancel("alpha", { by: "ada" });
  expect((await program().sessions.get("alpha")).calls).toMatchObject([{ callId: "x", status: "issued" }]);
});
