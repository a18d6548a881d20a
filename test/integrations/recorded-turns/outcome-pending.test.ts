// The hint for a call without an outcome: only some calls wait for a person.

import { expect, test, vi } from "vitest";
import { Holdfast, Journal } from "../../../src/index.ts";
import { outcomePending, RecordedTurns } from "../../../src/integrations/recorded-turns/index.ts";
import { openMemory } from "../../../src/stores/memory/index.ts";
import { callBlock, counting } from "../../ledger/bench.ts";

const prompt = [{ role: "user", content: "go" }] as never;

test("the hint depends on the call: waiting for a person, running, or never started here", async () => {
  const holdfast = new Holdfast(new Journal({ store: openMemory() }));
  const session = await holdfast.session("alpha");
  const turns = new RecordedTurns(session);
  await turns.ask({ prompt }, async () => ({
    blocks: [callBlock("waits", "pay"), callBlock("runs", "pay")],
  }));
  let answer = (): void => undefined;
  const execute = () =>
    new Promise((resolve) => {
      answer = () => resolve("paid");
    });
  const pay = counting({ effects: [] }, "pay", { execute });
  const waits = await turns.call({ tool: pay, callId: "waits", args: { n: 1 }, needsApproval: true });
  const running = turns.call({ tool: pay, callId: "runs", args: { n: 2 } });
  await vi.waitFor(() => expect(session.openCalls).toHaveLength(2));
  const hintOf = (callId: string) => outcomePending(session, callId, "pay", "no answer").hint;
  expect(waits.status).toBe("waiting");
  expect(hintOf("waits")).toMatch(/^Answer .*holdfast resolve.*holdfast calls/);
  expect(hintOf("runs")).toMatch(/^Run the same program again.*holdfast calls/);
  expect(hintOf("elsewhere")).toMatch(/^Another call does the same.*holdfast calls/);
  for (const callId of ["runs", "elsewhere"])
    expect(hintOf(callId), "resolve would reject it").not.toContain("resolve");
  answer();
  await running;
  await holdfast.close();
});
