/** A run whose session somebody else has taken over, and that has not noticed yet. */

import { expect, test } from "vitest";
import { Holdfast, Journal } from "../../src/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { Gate } from "../journal/gate.ts";
import { altered } from "../journal/places.ts";
import { callBlock, counting, fatal, script } from "../ledger/bench.ts";

const LEASE_MS = 150;

test("it does not say done when the last word of the other one asks for calls", async () => {
  const world = { effects: [] };
  const memory = openMemory();
  const reads = new Gate();
  const store = altered(memory, { read: (read, request) => reads.pass(() => read(request)) });
  const journal = new Journal({ store, leaseMs: LEASE_MS });
  const zombie = await new Holdfast(journal).session("alpha");

  // It has finished its first turn, looks for news from outside, and stands still before it has read them.
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
      journal.leases.stop();
      void zombie.refresh();
      stop();
    },
  });
  await stopped;
  const next = await new Holdfast(new Journal({ store: memory, leaseMs: LEASE_MS })).session("alpha");
  const refund = fatal(world, "refund");
  void next.run({ model: script([callBlock("c2", "refund")]), tools: [refund.tool] });
  await refund.reached;
  reads.open();
  await expect(ended).rejects.toMatchObject({ code: "LEASE_LOST" });
});
