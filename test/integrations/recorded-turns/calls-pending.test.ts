// The hint of an error on open calls names the next step for each: only some calls wait for a person.

import { expect, test, vi } from "vitest";
import { Holdfast, Journal } from "../../../src/index.ts";
import { RecordedTurns } from "../../../src/integrations/recorded-turns/index.ts";
import { openMemory } from "../../../src/stores/memory/index.ts";
import { callBlock, counting } from "../../ledger/bench.ts";

/** The hint while these calls are open: `waits` for a person, `runs` right now. */
async function hintFor(...ids: ("waits" | "runs")[]): Promise<string> {
  const holdfast = new Holdfast(new Journal({ store: openMemory() }));
  const turns = new RecordedTurns(await holdfast.session("alpha"));
  const prompt = [{ role: "user", content: "go" }] as never;
  await turns.ask({ prompt }, async () => ({ blocks: ids.map((id) => callBlock(id, "pay")) }));
  let answer = (): void => undefined;
  const execute = () =>
    new Promise((resolve) => {
      answer = () => resolve("paid");
    });
  const tool = counting({ effects: [] }, "pay", { execute });
  const calls = ids.map((callId) =>
    turns.call({ tool, callId, args: { callId }, ...(callId === "waits" && { needsApproval: true }) }),
  );
  await Promise.all(calls.filter((_, index) => ids[index] === "waits"));
  await vi.waitFor(() => expect(turns.session.openCalls).toHaveLength(ids.length));
  const error = await turns.finish().catch((refused: unknown) => refused);
  expect(error).toMatchObject({ code: "SESSION_HAS_OPEN_CALLS" });
  answer();
  await Promise.all(calls);
  await holdfast.close();
  return (error as { hint: string }).hint;
}

test("the hint sends a person only to calls that wait for one", async () => {
  expect(await hintFor("waits")).toContain("holdfast resolve");
  const own = await hintFor("runs");
  expect(own, "resolve would reject it").not.toContain("resolve");
  expect(own).toMatch(/^Run the same program again/);
  expect(await hintFor("runs", "waits")).toMatch(/wait for a person.*holdfast resolve.*the others/);
});
